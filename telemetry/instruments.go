package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/metric"

	"github.com/posthaste-io/posthaste/queue"
)

// instruments makes all instruments of the definitions, but for histograms, which
// [producer] has.
func (t *Telemetry) instruments(meter metric.Meter) error {
	observed := make(observables)
	var all []metric.Observable
	for _, d := range definitions {
		if d.kind == histogram {
			continue
		}
		i, err := observableOf(meter, d)
		if err != nil {
			return err
		}
		observed[d], all = i, append(all, i)
	}
	_, err := meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		t.observe(ctx, reading{o, observed})
		return nil
	}, all...)
	return err
}

// observables are the instruments whose values are read when metrics are.
type observables map[*definition]metric.Observable

func observableOf(meter metric.Meter, d *definition) (metric.Observable, error) {
	unit, help := metric.WithUnit(d.unit), metric.WithDescription(d.help)
	switch {
	case d.kind == counter:
		return meter.Int64ObservableCounter(d.name, unit, help)
	case d.unit == "s":
		return meter.Float64ObservableGauge(d.name, unit, help)
	default:
		return meter.Int64ObservableGauge(d.name, unit, help)
	}
}

// reading is one collection of values.
type reading struct {
	to metric.Observer
	of observables
}

// value writes a value, which is in microseconds where the unit is seconds. Labels are
// those of the definition, in its order.
func (r reading) value(d *definition, n int64, labels ...string) {
	with := metric.WithAttributeSet(d.attributes(labels))
	switch i := r.of[d].(type) {
	case metric.Int64Observable:
		r.to.ObserveInt64(i, n, with)
	case metric.Float64Observable:
		r.to.ObserveFloat64(i, float64(n)/1e6, with)
	}
}

// observe reads everything that is not recorded as it happens. Several may read at a
// time, whoever scrapes and whoever sends; they take turns.
func (t *Telemetry) observe(ctx context.Context, r reading) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.observeRequests(r)
	ctx, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	w := &t.watched
	if w.Lanes != nil {
		t.pushes.look(w.Lanes)
		running, stale := w.Lanes.Running()
		r.value(pushHeld, int64(running))
		r.value(pushStale, stale)
	}
	t.observePushes(r)
	t.observeSchedules(ctx, r)
	if w.Connections != nil {
		r.value(httpConnections, int64(w.Connections()))
	}
	if w.Broker != nil {
		t.observeLoad(r)
		t.observeQueues(ctx, r)
	}
}

func (t *Telemetry) observeRequests(r reading) {
	t.requests.ended.each(func(k byAnswer, n int64) { r.value(httpRequests, n, k.labels()...) })
	t.requests.inFlight.each(func(k byName, n int64) { r.value(httpInFlight, n, k.name) })
	t.requests.shed.each(func(k byName, n int64) { r.value(httpShed, n, k.name) })
}

func (t *Telemetry) observePushes(r reading) {
	p := t.pushes
	p.attempts.each(func(k byName, n int64) { r.value(pushAttempts, n, k.name, k.label) })
	for d, values := range map[*definition]*counts[byName]{
		pushRetries: p.retries, pushUnsettled: p.unsettled, filterFailures: p.unjudged,
		pushWindow: p.window, pushInFlight: p.inFlight, pushBreaker: p.breaker, pushPaused: p.paused,
	} {
		values.each(func(k byName, n int64) { r.value(d, n, k.name) })
	}
}

func (t *Telemetry) observeLoad(r reading) {
	load := t.watched.Broker.Load()
	for verb, of := range map[string]queue.VerbLoad{
		"produce": load.Produces, "lease": load.Leases, "settle": load.Settles, "extend": load.Extends,
	} {
		r.value(callsWaiting, int64(of.Waiting), verb)
		r.value(callsInFlight, int64(of.InFlight), verb)
	}
}

func (t *Telemetry) observeQueues(ctx context.Context, r reading) {
	t.queues.look(ctx, t.watched.Broker, t.store)
	gone := make(map[queue.Number]bool)
	for d, values := range t.queueTables() {
		values.each(func(k byQueue, n int64) {
			label, deleted := t.queues.name(ctx, t.watched.Broker, k.queue)
			switch {
			case deleted:
				gone[k.queue] = true
			case label == "": // who it is cannot be known now; the value is there the next time
			case len(d.labels) == 1:
				r.value(d, n, label)
			default:
				r.value(d, n, label, k.label)
			}
		})
	}
	if len(gone) > 0 {
		for _, values := range t.queueTables() {
			values.forget(func(k byQueue) bool { return gone[k.queue] })
		}
	}
}

// queueTables are the tables whose keys are queues.
func (t *Telemetry) queueTables() map[*definition]*counts[byQueue] {
	m := t.items
	tables := map[*definition]*counts[byQueue]{
		itemsProduced: m.produced, itemsDuplicate: m.duplicate, itemsUnmatched: m.unmatched, itemsLeased: m.leased, itemsSettled: m.settled,
		itemsBuried: m.buried, itemsCancelled: m.cancelled, itemsRedriven: m.redriven, itemsCorrupt: m.corrupt,
		leasesExtended: m.extended, leasesLapsed: m.lapsed, receiptsRefused: m.refused,
	}
	if t.queues.known {
		tables[queueItems], tables[queueOldest] = t.queues.items, t.queues.oldest
	}
	return tables
}
