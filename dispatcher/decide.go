package dispatcher

import (
	"slices"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
	"github.com/posthaste-io/posthaste/webhooks"
)

// Reasons with which items are buried, beside the broker's own.
const (
	// ReasonRejected: the endpoint wants the item never again, or the policy buries
	// on its status.
	ReasonRejected = "rejected"
	// ReasonGaveUp: the item failed when it was older than the policy tries.
	ReasonGaveUp = "gave_up"
	// ReasonGone: the item's own target answered 410.
	ReasonGone = "gone"
)

const (
	// maxPause bounds what one throttled answer does to all items of its lane.
	maxPause = 5 * time.Minute
	// maxDelay bounds what an endpoint may ask for.
	maxDelay = 24 * time.Hour
	// gonePause keeps a lane still until the subscription is disabled.
	gonePause = 5 * time.Second
	// An item that we gave back for a fault of ours rests between these, so that a
	// store in trouble is not asked for the same items at once.
	minRest, maxRest = time.Second, 5 * time.Second
)

// facts are what decide knows of an item.
type facts struct {
	// attempts are those counted before this one.
	attempts int32
	// age is the time since the item was first due, by the store's clock.
	age time.Duration
	// failed: an attempt before this one went wrong, counted or not.
	failed bool
	// dead: the item is in a dead-letter queue.
	dead bool
	// stopping: this process is going away, so that another one may try at once.
	stopping bool
	// own: the item went to its own target, whose end is not the subscription's.
	own bool
}

// decision is what follows from an attempt.
type decision struct {
	outcome queue.Outcome
	// delay is how long a retry or release waits; 0 is at once, and for a release
	// its old place.
	delay time.Duration
	// reason goes with what is buried: now, or by a retry that reaches the limit.
	reason string
	// pause keeps the whole lane from leasing.
	pause time.Duration
	// disable takes the subscription out of service.
	disable bool
	// keep leaves the item with the endpoint, and nothing else is set.
	keep bool
}

// decide says what an attempt's result does to its item and lane. It is pure; rnd
// is in [0, 1). Whether a retry reaches the limit of attempts is left to the store, which
// sees the item's own limit and counts in the same transaction.
func decide(res *webhooks.Result, it facts, p *subscriptions.Policy, rnd float64) decision {
	switch res.Verdict {
	case webhooks.Delivered:
		return decision{outcome: queue.Complete}
	case webhooks.Deferred:
		return decision{keep: true}
	case webhooks.Aborted:
		if it.stopping {
			return decision{outcome: queue.Release}
		}
		return decision{outcome: queue.Release, delay: minRest + portion(maxRest-minRest, rnd)}
	}

	buriesOn := slices.Contains(p.BuryOn, int32(res.Status))
	if res.Verdict == webhooks.Gone && !buriesOn && !it.own {
		return decision{outcome: queue.Release, pause: gonePause, disable: true}
	}

	d := retry(res, it, p, rnd)
	if res.Verdict == webhooks.Throttled {
		d.pause = min(d.delay, maxPause)
		if res.RetryAfter > 0 {
			// A little later than asked, so that all who were asked do not come at once.
			d.delay = min(res.RetryAfter+portion(res.RetryAfter/10, rnd), maxDelay)
			d.pause = min(res.RetryAfter, maxPause)
			d.outcome = queue.Release
		}
	}
	if it.dead {
		return d
	}
	switch {
	case res.Never, buriesOn:
		return decision{outcome: queue.Bury, reason: ReasonRejected, pause: d.pause}
	case res.Verdict == webhooks.Gone:
		return decision{outcome: queue.Bury, reason: ReasonGone}
	case gaveUp(res, it, p):
		return decision{outcome: queue.Bury, reason: ReasonGaveUp, pause: d.pause}
	}
	return d
}

// retry is what happens to a failure that nothing else is known about.
func retry(res *webhooks.Result, it facts, p *subscriptions.Policy, rnd float64) decision {
	d := decision{outcome: queue.Retry, reason: queue.ReasonMaxAttempts}
	if it.dead {
		d.delay = longest(p, rnd)
	} else {
		d.delay = backoff(p, it.attempts+1, rnd)
	}
	// A failing endpoint may ask for more time on any status, never for less.
	d.delay = max(d.delay, min(res.RetryAfter, maxDelay))
	return d
}

// gaveUp says that the item's time is over. Its age includes a pause of the
// subscription and waiting behind others, so the first failure is never the last.
func gaveUp(res *webhooks.Result, it facts, p *subscriptions.Policy) bool {
	if p.GiveUpAfter == 0 || it.age <= p.GiveUpAfter {
		return false
	}
	return it.attempts > 0 || res.Verdict == webhooks.Throttled && it.failed
}

func portion(d time.Duration, rnd float64) time.Duration {
	return time.Duration(float64(d) * rnd)
}

// health is what an attempt tells a breaker about the endpoint.
type health int

const (
	// silent: nothing. The request was ours to lose, or the endpoint is up and has
	// its own way of asking for less.
	silent health = iota + 1
	// well: it answered as one that works. A rejected item is no illness: poison
	// must not stop the items behind it.
	well
	// ill: it failed to answer, or said that it cannot.
	ill
)

func healthOf(res *webhooks.Result) health {
	switch res.Verdict {
	case webhooks.Delivered, webhooks.Deferred:
		return well
	case webhooks.Rejected:
		if res.Class == webhooks.ClassInvalidRequest {
			return silent
		}
		return well
	case webhooks.Retryable, webhooks.Blocked:
		if res.Class == classPanic {
			return silent
		}
		return ill
	default:
		return silent
	}
}
