package dispatcher

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
	"github.com/posthaste-io/posthaste/webhooks"
)

// lane is the loop of one subscription. It lives as long as the subscription does,
// and stands still while that is paused or disabled, so that requests which still
// run then are counted when it goes on.
type lane struct {
	d      *Dispatcher
	key    subscriptions.Key
	queue  string
	log    *slog.Logger
	cancel context.CancelFunc
	// kick holds one: look again.
	kick   chan struct{}
	holder holder

	mu sync.Mutex
	// sub is replaced, never changed: pushes hold it.
	sub         *revision
	inFlight    int
	breaker     *breaker
	pausedUntil time.Time
	lastError   string
	lastErrorAt time.Time
	// interrupt ends the wait for a slot or an item, nil while there is none.
	interrupt context.CancelFunc

	// Only the loop uses these: errors of Lease in a row.
	troubles int
}

func newLane(d *Dispatcher, sub *subscriptions.Subscription, cancel context.CancelFunc) *lane {
	return &lane{
		d: d, key: sub.Key(), queue: sub.Queue, cancel: cancel,
		log:     d.log.With("subscription", sub.Name, "queue", sub.Queue),
		kick:    make(chan struct{}, 1),
		sub:     newRevision(sub),
		breaker: newBreaker(),
	}
}

// update takes a changed subscription over. What waits is interrupted, what runs is
// not. An endpoint that is new, or was taken back into service, starts with a clean slate.
func (l *lane) update(sub *subscriptions.Subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sub.Revision <= l.sub.Revision {
		return
	}
	revived := sub.State() == subscriptions.Active && l.sub.State() != subscriptions.Active
	if revived || sub.URL != l.sub.URL {
		l.breaker = newBreaker()
		l.pausedUntil = time.Time{}
	}
	l.sub = newRevision(sub)
	l.look()
}

// look makes the loop decide anew. l.mu is held.
func (l *lane) look() {
	if l.interrupt != nil {
		l.interrupt()
	}
	l.nudge()
}

// nudge ends a sleep.
func (l *lane) nudge() {
	select {
	case l.kick <- struct{}{}:
	default: // it will look anyway
	}
}

// run leases and starts pushes until ctx ends.
func (l *lane) run(ctx context.Context) {
	for ctx.Err() == nil {
		wait, want, until := l.open(ctx)
		if want == 0 {
			l.sleep(ctx, until)
			continue
		}
		err := l.fetch(ctx, wait, want)
		l.shut()
		l.heed(ctx, err)
	}
}

// gate says how many requests may start now, and if none, when to ask again; zero
// is when something changes. l.mu is held.
func (l *lane) gate(now time.Time) (want int, until time.Time) {
	switch {
	case l.sub.State() != subscriptions.Active:
		return 0, time.Time{}
	case now.Before(l.pausedUntil):
		return 0, l.pausedUntil
	}
	room, until := l.breaker.room(now)
	return max(0, min(room, l.sub.MaxInFlight-l.inFlight)), until
}

// open asks the gate, and makes the context that ends when the gate closes.
func (l *lane) open(ctx context.Context) (wait context.Context, want int, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	want, until = l.gate(time.Now())
	if want > 0 {
		wait, l.interrupt = context.WithCancel(ctx)
	}
	return wait, want, until
}

func (l *lane) shut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.interrupt()
	l.interrupt = nil
}

// fetch leases up to want items and starts them. wait ends when the gate closes,
// ctx when the lane does.
//
// Where the process is full, the lane stands in line for slots and looks at once
// for items to put into them. Otherwise it waits for items without holding slots,
// and takes them when it sees how many came: in the rare case that others were
// quicker, what cannot start goes back to its place. After a look that found nothing
// the lane waits even if the process is full, for else it would stand in line again and again.
func (l *lane) fetch(ctx, wait context.Context, want int) error {
	s := l.d.slots
	room := s.room(&l.holder, want)
	if room.n == 0 {
		granted := s.wait(wait, &l.holder, want)
		if granted.n == 0 {
			return wait.Err()
		}
		reply, received, err := l.lease(wait, granted, 0)
		spare := granted
		for _, it := range reply.Items {
			spare.n--
			spare.bytes -= it.Size()
		}
		s.put(&l.holder, spare.n, spare.bytes)
		var refused []queue.Receipt
		for _, it := range reply.Items {
			if !l.start(ctx, &it, reply.Now, received) {
				refused = append(refused, it.Receipt())
			}
		}
		l.giveBack(refused)
		if err != nil || len(reply.Items) > 0 {
			return err
		}
		room = grant{n: 1, bytes: 1}
	}
	reply, received, err := l.lease(wait, room, leaseWait)
	var refused []queue.Receipt
	for _, it := range reply.Items {
		if !s.take(&l.holder, it.Size()) || !l.start(ctx, &it, reply.Now, received) {
			refused = append(refused, it.Receipt())
		}
	}
	l.giveBack(refused)
	return err
}

func (l *lane) lease(ctx context.Context, g grant, wait time.Duration) (queue.LeaseReply, time.Time, error) {
	l.mu.Lock()
	limitInForce := l.sub.Retry.MaxAttempts
	l.mu.Unlock()
	reply, err := l.d.broker.Lease(ctx, queue.LeaseParams{
		Namespace: l.key.Namespace, Queue: l.queue,
		Limit: min(g.n, maxLease), MaxBytes: g.bytes, TTL: leaseTTL, Wait: wait,
		Owner: l.d.owner, Push: true, MaxAttempts: limitInForce,
	})
	return reply, time.Now(), err
}

// start runs a push of an item for which a slot was taken. If the gate closed or ctx
// ended since the lease was asked for, it gives the slot back and says no.
func (l *lane) start(ctx context.Context, it *queue.Item, now, received time.Time) bool {
	l.mu.Lock()
	want, _ := l.gate(time.Now())
	var report func(health)
	ok := want > 0 && ctx.Err() == nil
	if ok {
		report, ok = l.breaker.begin(time.Now())
	}
	if ok {
		l.inFlight++
	}
	sub := l.sub
	l.mu.Unlock()
	if !ok {
		l.d.slots.put(&l.holder, 1, it.Size())
		return false
	}
	l.d.start(&push{
		lane: l, sub: sub, item: it, report: report,
		leasedAt: now, received: received,
	})
	return true
}

// giveBack releases items that could not start, to their places and uncounted.
func (l *lane) giveBack(receipts []queue.Receipt) {
	if len(receipts) == 0 {
		return
	}
	l.d.background(func(ctx context.Context) {
		if err := l.d.release(ctx, l.key.Namespace, receipts); err != nil {
			l.log.Warn("items not given back; their leases lapse", "items", len(receipts), "error", err)
		}
	})
}

// ended takes note of a push that has its result: the place is free before the
// result is settled, since the endpoint does not care about our store.
func (l *lane) ended(p *push, res *webhooks.Result, dec decision) {
	p.report(healthOf(res))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
	now := time.Now()
	if res.Verdict != webhooks.Delivered && res.Verdict != webhooks.Aborted {
		l.lastError, l.lastErrorAt = res.Error, now
	}
	// What an endpoint that was replaced meanwhile asked for is not for the new one.
	if until := now.Add(dec.pause); dec.pause > 0 && until.After(l.pausedUntil) && p.sub.URL == l.sub.URL {
		l.pausedUntil = until
	}
	if want, _ := l.gate(now); want == 0 {
		l.look()
		return
	}
	l.nudge()
}

// sleep waits for a change, or until then.
func (l *lane) sleep(ctx context.Context, until time.Time) {
	var alarm <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-ctx.Done():
	case <-l.kick:
	case <-alarm:
	}
}

// heed waits after an error of Lease, longer after each further one. The log hears
// of the first and of the end.
func (l *lane) heed(ctx context.Context, err error) {
	switch {
	case err == nil:
		if l.troubles > 0 {
			l.log.Info("lane leases again", "refused", l.troubles)
			l.troubles = 0
		}
		return
	case errors.Is(err, context.Canceled):
		return // interrupted by ourselves
	case errors.Is(err, queue.ErrShuttingDown):
		<-ctx.Done() // there is nothing to lease any more
		return
	}
	wait := min(leaseRetryMin<<min(l.troubles, 10), leaseRetryMax)
	if overloaded, ok := errors.AsType[*queue.OverloadedError](err); ok {
		wait = max(wait, min(overloaded.RetryAfter, leaseRetryMax))
	}
	if l.troubles == 0 {
		l.log.Warn("lane cannot lease", "error", err)
	}
	l.troubles++
	timer := time.NewTimer(wait/2 + portion(wait/2, l.d.rnd()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
