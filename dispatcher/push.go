package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/webhooks"
)

// Why we cancel a request ourselves.
var (
	errStopping    = errors.New("shutting down")
	errLeaseEnding = errors.New("lease could not be renewed")
	errLeaseLost   = errors.New("lease is held by somebody else")
)

// classPanic is the class of an attempt that panicked in our code.
const classPanic = "panic"

// push is one request, from the lease of its items to their settlement.
type push struct {
	lane *lane
	sub  *revision
	flow *flow
	// items are what the request brings: item alone, unless the subscription has batches.
	item  *queue.Item
	items []*queue.Item
	one   [1]*queue.Item
	// trial is a request that is settled nowhere.
	trial  bool
	report func(health)
	// leasedAt is the store's time of the lease, received ours of its answer, and
	// started when its place was taken.
	leasedAt time.Time
	received time.Time
	started  time.Time

	mu sync.Mutex
	// cancel is the worker's, nil before and after the push.
	cancel context.CancelCauseFunc
	// deadline is when the lease ends, by our clock and not later than the store's.
	deadline time.Time
	alarm    *time.Timer
}

// begin sets the alarm that cancels the request before its lease ends.
func (p *push) begin(cancel context.CancelCauseFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancel = cancel
	p.deadline = p.received.Add(leaseTTL)
	p.alarm = time.AfterFunc(untilAlarm(p.deadline), func() { p.abort(errLeaseEnding) })
}

// hold sets a later end of the lease.
func (p *push) hold(deadline time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cancel == nil {
		return
	}
	p.deadline = deadline
	p.alarm.Reset(untilAlarm(deadline))
}

func untilAlarm(deadline time.Time) time.Duration {
	return time.Until(deadline.Add(-leaseMargin))
}

// abort ends the request. It leaves alone what its worker may do next.
func (p *push) abort(cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cancel != nil {
		p.cancel(cause)
	}
}

func (p *push) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancel = nil
	p.alarm.Stop()
}

// lapsed says that the lease is over as far as we know.
func (p *push) lapsed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !time.Now().Before(p.deadline)
}

// push sends, decides, and settles.
func (d *Dispatcher) push(ctx context.Context, p *push) {
	sp := d.beginSpan(ctx, p)
	res := d.send(sp.context(ctx), p, sp.parent())
	cause := context.Cause(ctx)
	if cause != nil && res.Status == 0 {
		// Whatever the broken connection looked like to the sender, it was us.
		res.Verdict = webhooks.Aborted
	}
	stopping := errors.Is(cause, errStopping)
	dec := decide(&res, p.facts(p.item, stopping), &p.sub.Retry, d.rnd())
	p.lane.ended(p, &res, dec)
	if dec.disable {
		d.disable(p)
	}
	if p.sub.Batch.On() {
		d.settleBatch(p, &res, stopping, sp)
		return
	}
	if dec.keep {
		err := d.handOver(p, &res)
		d.tell(p, p.item, &res, dec, stepKeep, sp, err)
		sp.end(&res, stepKeep, err)
		d.count(p, p.item, &res, stepKeep, err)
		return
	}
	result := d.settle(p, []queue.SettleEntry{p.settlement(p.item, &res, dec, d.owner)})[0]
	next := result.next(dec)
	d.tell(p, p.item, &res, dec, next, sp, result.err)
	sp.end(&res, next, result.err)
	d.count(p, p.item, &res, next, result.err)
}

// stepKeep is what becomes of an item that its endpoint keeps.
const stepKeep = "hold"

// stepPark is what becomes of an item whose failure parked its ordering key.
const stepPark = "park"

// settleBatch settles each item of a request with its own result.
func (d *Dispatcher) settleBatch(p *push, res *webhooks.Result, stopping bool, sp pushSpan) {
	results := perItem(res, p.items)
	decisions := make([]decision, len(results))
	entries := make([]queue.SettleEntry, len(results))
	for i, it := range p.items {
		decisions[i] = decide(&results[i], p.facts(it, stopping), &p.sub.Retry, d.rnd())
		entries[i] = p.settlement(it, &results[i], decisions[i], d.owner)
	}
	var unsettled error
	for i, result := range d.settle(p, entries) {
		next := result.next(decisions[i])
		if result.err != nil {
			unsettled = result.err
		}
		d.tell(p, p.items[i], &results[i], decisions[i], next, sp, result.err)
		d.count(p, p.items[i], &results[i], next, result.err)
	}
	sp.end(res, "batch", unsettled)
}

// finished says that the item is not ours any more because the endpoint has settled it
// before it answered, as one may that is allowed to finish later.
func (p *push) finished(err error) bool { return p.sub.Defer.Allowed && isStale(err) }

// count tells who counts attempts.
func (d *Dispatcher) count(p *push, it *queue.Item, res *webhooks.Result, next string, err error) {
	if d.observe == nil {
		return
	}
	d.observe(Attempt{
		Subscription: p.lane.key, Queue: p.lane.queueName(), Delivery: it.Deliveries,
		Verdict: res.Verdict.String(), Status: res.Status, Duration: res.Duration,
		Next: next, Unsettled: err != nil && !p.finished(err),
	})
}

// send makes the request. A panic in it is a failed attempt: the process lives on,
// and the item meets its limit instead of the next worker.
func (d *Dispatcher) send(ctx context.Context, p *push, traceparent string) (res webhooks.Result) {
	started := time.Now()
	defer func() {
		if v := recover(); v != nil {
			d.log.Error("push panicked", "subscription", p.sub.Name, "item_id", p.item.ID.String(),
				"panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			res = webhooks.Result{
				Verdict: webhooks.Retryable, Class: classPanic,
				Error:     classPanic + ": a fault of the server; its log tells more",
				StartedAt: started, Duration: time.Since(started),
			}
		}
	}()
	if why := p.unfit(); why != "" {
		return webhooks.Result{
			Verdict: webhooks.Rejected, Class: webhooks.ClassInvalidRequest,
			Error: webhooks.ClassInvalidRequest + ": " + why, StartedAt: started,
		}
	}
	req := p.request(started)
	req.Info.Span = traceparent
	return d.sender.Send(ctx, req)
}

func (p *push) facts(it *queue.Item, stopping bool) facts {
	// The store's clock at the lease, and how long ago that was by ours: the two
	// clocks are never compared.
	age := p.leasedAt.Sub(it.FirstDueAt) + time.Since(p.received)
	return facts{
		attempts: it.Attempts, failed: it.Last != (queue.Last{}),
		age: age, dead: it.Dead != nil, stopping: stopping, own: it.Target != nil,
	}
}

// settlement is the decision as the broker takes it, with the attempt's record.
func (p *push) settlement(it *queue.Item, res *webhooks.Result, dec decision, node string) queue.SettleEntry {
	entry := queue.SettleEntry{
		Receipt: it.Receipt(), Outcome: dec.outcome,
		Delay: dec.delay, Reason: dec.reason, Counts: dec.outcome == queue.Bury,
		MaxAttempts: p.sub.Retry.MaxAttempts,
		Record:      p.record(res, node), Unlogged: !p.sub.logs(res.Verdict),
		Item: it, OnDone: p.sub.OnDone,
	}
	// What we broke off ourselves tells nothing about the endpoint.
	if res.Verdict != webhooks.Aborted && dec.outcome != queue.Complete {
		entry.Last = queue.Last{Status: int32(res.Status), Error: res.Error}
	}
	return entry
}

// record is the attempt as the journal keeps it.
func (p *push) record(res *webhooks.Result, node string) *queue.Record {
	return &queue.Record{
		Type:         queue.AttemptRecord,
		Subscription: p.sub.Name,
		StartedAt:    res.StartedAt, Duration: res.Duration,
		Verdict: res.Verdict.String(), Status: int32(res.Status),
		Error: res.Error, Response: res.Response,
		Node: node,
	}
}

// tell writes the one line that a push leaves in the log.
func (d *Dispatcher) tell(p *push, it *queue.Item, res *webhooks.Result, dec decision, next string, sp pushSpan, err error) {
	level := slog.LevelInfo
	if err != nil && !p.finished(err) {
		level = slog.LevelWarn
	}
	ctx := context.Background()
	if !p.lane.logger().Enabled(ctx, level) {
		return
	}
	attrs := append(make([]slog.Attr, 0, 11),
		slog.String("item_id", it.ID.String()),
		slog.Int("attempt", int(it.Deliveries)),
		slog.Int("status", res.Status),
		slog.String("verdict", res.Verdict.String()),
		slog.String("duration", res.Duration.Round(time.Microsecond).String()),
		slog.String("next", next),
	)
	if next == queue.Retry.String() || next == queue.Release.String() {
		attrs = append(attrs, slog.String("retry_in", dec.delay.String()))
	}
	if res.Error != "" {
		attrs = append(attrs, slog.String("error", res.Error))
	}
	if err != nil {
		attrs = append(attrs, slog.String("unsettled", err.Error()))
	}
	attrs = sp.log(attrs)
	// Not by the logger, which would find out the line of code first: it is always this one.
	line := slog.NewRecord(time.Now(), level, "item pushed", 0)
	line.AddAttrs(attrs...)
	_ = p.lane.logger().Handler().Handle(ctx, line) // a logger ignores it, too
}
