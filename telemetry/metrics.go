package telemetry

import "strings"

// kind is what a metric's values mean.
type kind int

const (
	counter kind = iota + 1
	gauge
	histogram
)

// String returns Prometheus's word.
func (k kind) String() string {
	switch k {
	case counter:
		return "counter"
	case gauge:
		return "gauge"
	case histogram:
		return "histogram"
	default:
		return "invalid"
	}
}

// definition is one metric as it is documented. Instruments are made from it, so that
// none is without a line in the documentation.
type definition struct {
	// name is OpenTelemetry's; see prometheus.
	name string
	kind kind
	// unit is a unit of UCUM: s for seconds, or {item}.
	unit   string
	labels []string
	help   string
	bounds *bounds
}

// prometheus is the name as Prometheus has it.
func (d *definition) prometheus() string {
	name := strings.ReplaceAll(d.name, ".", "_")
	if d.unit == "s" {
		name += "_seconds"
	}
	if d.kind == counter {
		name += "_total"
	}
	return name
}

// Bounds of histograms.
var (
	storeBounds   = &bounds{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .1, .25, 1, 5}
	requestBounds = &bounds{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 30}
	pushBounds    = &bounds{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15, 60}
	sizeBounds    = &bounds{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000}
)

// The metrics, in the order in which they are documented.
var definitions []*definition

func define(name string, k kind, unit, help string, labels ...string) *definition {
	d := &definition{name: name, kind: k, unit: unit, help: help, labels: labels}
	definitions = append(definitions, d)
	return d
}

func (d *definition) within(b *bounds) *definition {
	d.bounds = b
	return d
}

var (
	itemsProduced = define("posthaste.items.produced", counter, "{item}",
		"Items that were put into a queue, whoever produced them.", "queue")
	itemsDuplicate = define("posthaste.items.duplicate", counter, "{item}",
		"Items that were left out because of their idempotency key, or because they are there already.", "queue")
	itemsUnmatched = define("posthaste.items.unmatched", counter, "{item}",
		"Items that were produced to a topic of which no subscription wanted them. The label has the topic's name.", "queue")
	itemsLeased = define("posthaste.items.leased", counter, "{item}",
		"Items that were leased, by consumers and for pushes.", "queue")
	itemsSettled = define("posthaste.items.settled", counter, "{item}",
		"Leases that ended with an outcome: complete, retry, release or bury. A retry that reached the limit of attempts is a bury.", "queue", "outcome")
	itemsBuried = define("posthaste.items.buried", counter, "{item}",
		"Items that went to the dead-letter queue, by the queue that they came from: max_attempts, poison, expired, rejected, gave_up, or consumer for reasons that consumers word themselves.", "queue", "reason")
	itemsCancelled = define("posthaste.items.cancelled", counter, "{item}",
		"Items that were ended without delivery: cancelled, cleared, or deleted with their queue.", "queue")
	itemsRedriven = define("posthaste.items.redriven", counter, "{item}",
		"Items that were taken back out of a dead-letter queue.", "queue")
	itemsCorrupt = define("posthaste.items.corrupt", counter, "{item}",
		"Items that could not be read back when they were to be leased. Any is a reason to look at the disk.", "queue")
	leasesExtended = define("posthaste.leases.extended", counter, "{lease}",
		"Leases that were extended, by consumers and by running pushes.", "queue")
	leasesLapsed = define("posthaste.leases.lapsed", counter, "{lease}",
		"Leases that ended without an outcome, counted when the item is leased again: consumers that died or were too slow.", "queue")
	receiptsRefused = define("posthaste.receipts.refused", counter, "{receipt}",
		"Receipts that came too late: stale if the item was settled or leased again, gone if it is there no more.", "queue", "reason")

	queueItems = define("posthaste.queue.items", gauge, "{item}",
		"Items in a queue: ready, scheduled (due later; counted up to 10,000), behind (another of their ordering key; likewise), leased; and dead, which are those of a dead-letter queue that nobody has leased. At most some seconds old.", "queue", "state")
	queueOldest = define("posthaste.queue.oldest_ready.age", gauge, "s",
		"How long the oldest item that could be leased has been due; 0 if nothing waits.", "queue")

	storeDuration = define("posthaste.store.call.duration", histogram, "s",
		"Calls of the store by verb and result: ok, unknown (whether it was written is not known) or error. Each serves many callers.", "verb", "result").within(storeBounds)
	storeEntries = define("posthaste.store.batch.entries", histogram, "{entry}",
		"Items or receipts in one call of the store: the size of a commit.", "verb").within(sizeBounds)
	storeGroups = define("posthaste.store.batch.groups", histogram, "{call}",
		"Callers whose calls were joined in one call of the store; for leases, queues.", "verb").within(sizeBounds)
	callsWaiting = define("posthaste.calls.waiting", gauge, "{call}",
		"Calls that wait for the store; leases that wait for items.", "verb")
	callsInFlight = define("posthaste.calls.in_flight", gauge, "{call}",
		"Calls that the store has at this moment.", "verb")

	httpRequests = define("posthaste.http.requests", counter, "{request}",
		"Requests by call, code_text and class of the status. A client that left before its answer is client_gone.", "method", "code_text", "status_class")
	httpDuration = define("posthaste.http.request.duration", histogram, "s",
		"Time from a request's headers to its answer; for queue.lease, with the wait for items.", "method").within(requestBounds)
	httpInFlight = define("posthaste.http.requests.in_flight", gauge, "{request}",
		"Requests that have no answer yet.", "method")
	httpShed = define("posthaste.http.requests.shed", counter, "{request}",
		"Requests that were refused with 429, by what there was too much of.", "reason")
	httpConnections = define("posthaste.http.connections", gauge, "{connection}",
		"Open connections to the API.")

	pushAttempts = define("posthaste.push.attempts", counter, "{attempt}",
		"Requests to endpoints by verdict: delivered, retryable, throttled, rejected, gone, blocked (by the guard) or aborted (by this server).", "subscription", "verdict")
	pushRetries = define("posthaste.push.retries", counter, "{attempt}",
		"Requests to endpoints for items that were leased before.", "subscription")
	pushUnsettled = define("posthaste.push.unsettled", counter, "{attempt}",
		"Requests whose outcome could not be written, so that the item is pushed again.", "subscription")
	pushDuration = define("posthaste.push.duration", histogram, "s",
		"Time of a request to an endpoint, until its verdict was known. The first 63 subscriptions have series of their own.", "subscription").within(pushBounds)
	pushWindow = define("posthaste.push.window", gauge, "{request}",
		"Requests that may run to an endpoint at one time.", "subscription")
	pushInFlight = define("posthaste.push.in_flight", gauge, "{request}",
		"Requests that run to an endpoint.", "subscription")
	pushBreaker = define("posthaste.push.breaker", gauge, "{state}",
		"The circuit breaker of an endpoint: 0 closed, 1 half-open, 2 open.", "subscription")
	pushPaused = define("posthaste.push.paused", gauge, "{state}",
		"1 while an endpoint has asked for a pause with Retry-After.", "subscription")
	filterFailures = define("posthaste.filter.failures", counter, "{item}",
		"Items of topics that the filter of a subscription could not judge: its expression has no value for them. They were delivered or left out, as the filter says.", "subscription")
	pushHeld = define("posthaste.push.held", gauge, "{item}",
		"Items that this server holds for pushes that run.")
	pushStale = define("posthaste.push.stale", counter, "{attempt}",
		"Outcomes of pushes that came after their lease was lost.")

	scheduleItems = define("posthaste.schedule.items", counter, "{item}",
		"Items that schedules produced at this server.", "schedule")
	scheduleMissed = define("posthaste.schedule.missed", counter, "{fire}",
		"Times of schedules for which no item was produced, since no server ran or the queue did not take it.", "schedule")
	scheduleSkipped = define("posthaste.schedule.skipped", counter, "{fire}",
		"Times of schedules for which no item was produced, since the one before was not done.", "schedule")
	scheduleLag = define("posthaste.schedule.lag", gauge, "s",
		"How late the last fire of a schedule at this server was.", "schedule")
	scheduleOverdue = define("posthaste.schedule.overdue", gauge, "s",
		"For how long the schedule that waits longest has been due and has not fired, on any server.")
)
