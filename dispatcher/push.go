package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
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

// push is one attempt of one item, from its lease to its settlement.
type push struct {
	lane   *lane
	sub    *revision
	item   *queue.Item
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
	dec := decide(&res, p.facts(errors.Is(cause, errStopping)), &p.sub.Retry, d.rnd())
	p.lane.ended(p, &res, dec)
	if dec.disable {
		d.disable(p)
	}
	settled, err := d.settle(p, p.settlement(&res, dec, d.owner))
	next := dec.outcome
	if settled.Buried {
		next = queue.Bury
	}
	d.tell(p, &res, dec, next, sp, err)
	sp.end(&res, next, err)
	if d.observe != nil {
		d.observe(Attempt{
			Subscription: p.lane.key, Queue: p.lane.queue, Delivery: p.item.Deliveries,
			Verdict: res.Verdict.String(), Status: res.Status, Duration: res.Duration,
			Next: next, Unsettled: err != nil,
		})
	}
}

// send makes the request. A panic in it is a failed attempt: the process lives on,
// and the item meets its limit instead of the next worker.
func (d *Dispatcher) send(ctx context.Context, p *push, traceparent string) (res webhooks.Result) {
	started := time.Now()
	defer func() {
		if v := recover(); v != nil {
			p.lane.log.Error("push panicked", "item_id", p.item.ID.String(), "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			res = webhooks.Result{
				Verdict: webhooks.Retryable, Class: classPanic,
				Error:     classPanic + ": a fault of the server; its log tells more",
				StartedAt: started, Duration: time.Since(started),
			}
		}
	}()
	req := p.request()
	req.Info.Span = traceparent
	return d.sender.Send(ctx, req)
}

func (p *push) request() webhooks.Request {
	it, sub := p.item, p.sub
	req := webhooks.Request{
		ID:  it.ID.String(),
		URL: sub.URL, Method: sub.Method,
		Headers:     layOver(sub.headers, it.Headers),
		ContentType: it.Encoding,
		Secrets:     sub.secrets,
		Timeout:     sub.Timeout,
		Body:        it.Payload,
		Info: webhooks.Info{
			Queue: sub.Queue, Subscription: sub.Name,
			Kind: it.Kind, Reference: it.Reference,
			Attempt: it.Deliveries, MaxAttempts: p.maxAttempts(),
			EnqueuedAt: it.CreatedAt,
			Hop:        it.Hop, Traceparent: it.Trace,
		},
	}
	if it.Deliveries > 1 {
		// The class opens the text of the error.
		req.Info.RetryReason, _, _ = strings.Cut(it.Last.Error, ":")
		req.Info.PreviousStatus = it.Last.Status
	}
	return req
}

// maxAttempts is the limit that the endpoint is told, 0 for none.
func (p *push) maxAttempts() int32 {
	switch {
	case p.item.Dead != nil:
		return 0
	case p.item.MaxAttempts != 0:
		return max(p.item.MaxAttempts, 0)
	default:
		return max(p.sub.Retry.MaxAttempts, 0)
	}
}

func (p *push) facts(stopping bool) facts {
	// The store's clock at the lease, and how long ago that was by ours: the two
	// clocks are never compared.
	age := p.leasedAt.Sub(p.item.FirstDueAt) + time.Since(p.received)
	return facts{
		attempts: p.item.Attempts, deliveries: p.item.Deliveries,
		age: age, dead: p.item.Dead != nil, stopping: stopping,
	}
}

// settlement is the decision as the broker takes it, with the attempt's record.
func (p *push) settlement(res *webhooks.Result, dec decision, node string) queue.SettleEntry {
	status := int32(res.Status)
	entry := queue.SettleEntry{
		Receipt: p.item.Receipt(), Outcome: dec.outcome,
		Delay: dec.delay, Reason: dec.reason,
		MaxAttempts: p.sub.Retry.MaxAttempts,
		Record: &queue.Record{
			Type:         queue.AttemptRecord,
			Subscription: p.sub.Name,
			StartedAt:    res.StartedAt, Duration: res.Duration,
			Verdict: res.Verdict.String(), Status: status,
			Error: res.Error, Response: res.Response,
			Node: node,
		},
	}
	// What we broke off ourselves tells nothing about the endpoint.
	if res.Verdict != webhooks.Aborted && dec.outcome != queue.Complete {
		entry.Last = queue.Last{Status: status, Error: res.Error}
	}
	return entry
}

// tell writes the one line that a push leaves in the log.
func (d *Dispatcher) tell(p *push, res *webhooks.Result, dec decision, next queue.Outcome, sp pushSpan, err error) {
	level := slog.LevelInfo
	if err != nil {
		level = slog.LevelWarn
	}
	ctx := context.Background()
	if !p.lane.log.Enabled(ctx, level) {
		return
	}
	attrs := append(make([]slog.Attr, 0, 11),
		slog.String("item_id", p.item.ID.String()),
		slog.Int("attempt", int(p.item.Deliveries)),
		slog.Int("status", res.Status),
		slog.String("verdict", res.Verdict.String()),
		slog.String("duration", res.Duration.Round(time.Microsecond).String()),
		slog.String("next", next.String()),
	)
	if dec.outcome != queue.Complete && next != queue.Bury {
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
	_ = p.lane.log.Handler().Handle(ctx, line) // a logger ignores it, too
}
