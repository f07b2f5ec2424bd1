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
	// done is closed when the lane ends.
	done <-chan struct{}
	// kick holds one: look again.
	kick   chan struct{}
	holder holder

	mu sync.Mutex
	// sub is replaced, never changed: pushes hold it.
	sub      *revision
	inFlight int
	ahead    ahead
	// expiry gives back what is ahead for too long, whatever the loop waits for. It is nil
	// when it has fired and nothing is left.
	expiry      *time.Timer
	breaker     *breaker
	pausedUntil time.Time
	// gone closes the gate while an answer of 410 is on its way to the store.
	gone        bool
	lastError   string
	lastErrorAt time.Time
	// interrupt ends the wait for a slot or an item, nil while there is none.
	interrupt context.CancelFunc

	// Only the loop uses these: errors of Lease in a row.
	troubles int
}

func newLane(d *Dispatcher, sub *subscriptions.Subscription, done <-chan struct{}, cancel context.CancelFunc) *lane {
	return &lane{
		d: d, key: sub.Key(), queue: sub.Queue, done: done, cancel: cancel,
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
		if want == (demand{}) {
			l.sleep(ctx, until)
			continue
		}
		err := l.fetch(ctx, wait, want)
		l.shut()
		l.heed(ctx, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.giveBack(l.ahead.takeAll())
	if l.expiry != nil {
		l.expiry.Stop()
	}
}

// demand is what a lane leases: items whose requests start at once, and others that
// wait for those to end.
type demand struct{ start, ahead int }

// gate says how many requests may start now, and if none, when to ask again; zero
// is when something changes. healthy says that nothing but the number of requests
// keeps more from starting. l.mu is held.
func (l *lane) gate(now time.Time) (want int, healthy bool, until time.Time) {
	select {
	case <-l.done:
		return 0, false, time.Time{}
	default:
	}
	switch {
	case l.gone, l.sub.State() != subscriptions.Active:
		return 0, false, time.Time{}
	case now.Before(l.pausedUntil):
		return 0, false, l.pausedUntil
	}
	room, until := l.breaker.room(now)
	return max(0, min(room, l.sub.MaxInFlight-l.inFlight)), room == unlimitedRoom, until
}

// demand says what to lease now, and if nothing, when to ask again. l.mu is held.
func (l *lane) demand(now time.Time) (want demand, until time.Time) {
	start, healthy, until := l.gate(now)
	if !healthy {
		return demand{start: start}, until
	}
	return demand{start, l.ahead.shortfall(l.sub.MaxInFlight)}, until
}

// open gives back what was leased ahead if the gate closed, asks what
// to lease, and makes the context that ends when the gate closes.
func (l *lane) open(ctx context.Context) (wait context.Context, want demand, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.advance(now)
	if _, healthy, _ := l.gate(now); !healthy {
		l.giveBack(l.ahead.takeAll())
	}
	want, until = l.demand(now)
	if want != (demand{}) {
		wait, l.interrupt = context.WithCancel(ctx)
	}
	return wait, want, until
}

// advance starts what was leased ahead, as far as the gate allows. l.mu is held.
func (l *lane) advance(now time.Time) {
	l.giveBack(l.ahead.takeStale(now))
	for {
		if want, _, _ := l.gate(now); want == 0 {
			return
		}
		it, ok := l.ahead.next()
		if !ok {
			return
		}
		if !l.begin(it, now) {
			l.giveBack([]leased{it})
		}
	}
}

// watchAhead has what is ahead given back when it is too old. l.mu is held.
func (l *lane) watchAhead() {
	if l.expiry == nil && len(l.ahead.items) > 0 {
		l.expiry = time.AfterFunc(aheadStay, l.expireAhead)
	}
}

func (l *lane) expireAhead() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.giveBack(l.ahead.takeStale(now))
	l.expiry = nil
	if len(l.ahead.items) > 0 {
		l.expiry = time.AfterFunc(l.ahead.items[0].received.Add(aheadStay).Sub(now), l.expireAhead)
	}
}

// shut forgets the context.
func (l *lane) shut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.interrupt()
	l.interrupt = nil
}

// ended takes note of a push that has its result: the place is free before the
// result is settled, since the endpoint does not care about our store.
func (l *lane) ended(p *push, res *webhooks.Result, dec decision) {
	p.report(healthOf(res))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
	now := time.Now()
	l.ahead.pushTook(now.Sub(p.started), res.Verdict == webhooks.Delivered)
	if res.Verdict != webhooks.Delivered && res.Verdict != webhooks.Aborted {
		l.lastError, l.lastErrorAt = res.Error, now
	}
	// What an endpoint that was replaced meanwhile asked for is not for the new one.
	if until := now.Add(dec.pause); dec.pause > 0 && until.After(l.pausedUntil) && p.sub.URL == l.sub.URL {
		l.pausedUntil = until
	}
	l.gone = l.gone || dec.disable
	if want, _, _ := l.gate(now); want == 0 {
		l.look()
		return
	}
	l.advance(now)
	if want, _ := l.demand(now); want != (demand{}) {
		l.nudge()
	}
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
