package dispatcher

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
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
	cancel context.CancelFunc
	// done is closed when the lane ends.
	done <-chan struct{}
	// kick holds one: look again.
	kick   chan struct{}
	holder holder
	// drains is replaced where the queue gets another name, since a topic was made of it.
	drains atomic.Pointer[drained]

	mu sync.Mutex
	// sub is replaced, never changed: pushes hold it.
	sub *revision
	// most is this node's part of the requests that may run at one time, nodes how many
	// have one.
	most, nodes int
	// main is the flow to the subscription's URL, hosts has those to the targets of items,
	// too.
	main  *flow
	hosts hosts
	// running counts the requests of all flows.
	running int
	ahead   ahead
	// turned are items on their way back, since their hosts have no room.
	turned []turned
	// expiry gives back what is ahead for too long, whatever the loop waits for. It is nil
	// when it has fired and nothing is left.
	expiry *time.Timer
	// gone closes the gate while an answer of 410 is on its way to the store.
	gone bool
	// deferred is how many items the endpoint keeps, as it was counted at countedAt and
	// with keptSince, which came since.
	deferred, keptSince int
	countedAt           time.Time
	// failing is since when nothing but failures came to this process, zero if the newest
	// attempt went well; clearing says that this is being written down.
	failing time.Time
	// failedAt is the newest of these failures.
	failedAt time.Time
	clearing bool
	// interrupt ends the wait for a slot or an item, nil while there is none.
	interrupt context.CancelFunc

	// Only the loop uses these: errors of Lease in a row.
	troubles int
}

// drained is the queue of a lane.
type drained struct {
	name string
	log  *slog.Logger
}

func (l *lane) queueName() string { return l.drains.Load().name }

func (l *lane) logger() *slog.Logger { return l.drains.Load().log }

// drain takes the name of a subscription's queue.
func (l *lane) drain(sub *subscriptions.Subscription) {
	l.drains.Store(&drained{sub.Queue, l.d.log.With("subscription", sub.Name, "queue", sub.Queue)})
}

func newLane(d *Dispatcher, sub *subscriptions.Subscription, done <-chan struct{}, cancel context.CancelFunc) *lane {
	l := &lane{
		d: d, key: sub.Key(), done: done, cancel: cancel,
		kick: make(chan struct{}, 1),
		sub:  d.newRevision(sub, nil),
	}
	l.drain(sub)
	l.hosts.main = &hostFlow{flow: newFlow(sub.Rate, 1, time.Now())}
	l.main = l.hosts.main.flow
	l.share()
	return l
}

// share takes this node's part of the limits. l.mu is held, or nobody else has the lane.
func (l *lane) share() {
	l.nodes = l.d.peers.nodes(l.sub.MaxInFlight)
	l.most = l.d.peers.share(l.sub.MaxInFlight, l.key.Name)
	l.hosts.limit(l.sub.Rate, l.nodes)
}

// reshare takes this node's part anew, since nodes came or went.
func (l *lane) reshare() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.share()
	l.look()
}

// host returns the flow to where an item goes. l.mu is held.
func (l *lane) host(it *queue.Item, now time.Time) *hostFlow {
	if it.Target == nil || !l.sub.AllowTarget {
		return l.hosts.main
	}
	return l.hosts.of(it.Target.Host(), l.sub.Rate, l.nodes, now)
}

// isOf says whether the lane is that of a subscription: one of the name that was not made
// anew for another queue. That of a queue of which a topic was made goes on: its items are
// the same, under the queue's other name, and what runs counts for what may run. What was
// read of it before is of the same subscription, and too old to count.
func (l *lane) isOf(sub *subscriptions.Subscription) bool {
	name := l.queueName()
	if name == sub.Queue {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return sub.CreatedAt.Equal(l.sub.CreatedAt) && (sub.Topic == name || sub.Revision <= l.sub.Revision)
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
		now := time.Now()
		l.clearHosts()
		l.main.reset(revived && sub.URL == l.sub.URL, now)
		l.hosts.reset(revived, now)
		l.failing = time.Time{}
	}
	if sub.FailingSince.IsZero() && !l.sub.FailingSince.IsZero() {
		l.failing = time.Time{} // it goes well for some node
	}
	if sub.Queue != l.sub.Queue {
		l.drain(sub)
	}
	l.sub = l.d.newRevision(sub, l.sub)
	l.share()
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
		l.countDeferred(ctx)
		wait, want, until := l.open(ctx)
		if want.none() {
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
	l.clearHosts()
	if l.expiry != nil {
		l.expiry.Stop()
	}
}

// clearHosts gives back what waits for its hosts. l.mu is held.
func (l *lane) clearHosts() {
	for f := range l.hosts.all() {
		l.giveBack(l.hosts.takeAll(f))
	}
}

// demand is what a lane leases: items whose requests start at once, and others that
// wait for those to end; or what one request of several items is filled with.
type demand struct {
	start, ahead int
	batch        subscriptions.Batch
}

func (d demand) none() bool { return d.start == 0 && d.ahead == 0 }

// maxLaneRequests bounds the requests of a lane whose items bring their own targets: all
// hosts together, beside what each may have.
const maxLaneRequests = 1000

// gate says how many requests may start now, and if none, when to ask again; zero
// is when something changes. healthy says that nothing but the number of requests
// keeps more from starting. l.mu is held.
func (l *lane) gate(now time.Time) (want int, healthy bool, until time.Time) {
	select {
	case <-l.done:
		return 0, false, time.Time{}
	default:
	}
	if l.gone || !l.sub.Pushes() {
		return 0, false, time.Time{}
	}
	if full, until := l.deferralsFull(); full {
		return 0, false, until
	}
	if l.sub.AllowTarget {
		// Which host an item is for shows when it is leased; nothing is leased ahead.
		if l.most == 0 {
			return 0, false, time.Time{}
		}
		want = max(0, maxLaneRequests-l.running)
	} else {
		want, healthy, until = l.main.gate(l.most, now)
	}
	if l.sub.Defer.Allowed {
		want = min(want, l.deferralRoom())
	}
	return want, healthy && !l.sub.Defer.Allowed, until
}

// demand says what to lease now, and if nothing, when to ask again. l.mu is held.
func (l *lane) demand(now time.Time) (want demand, until time.Time) {
	start, healthy, until := l.gate(now)
	switch {
	case l.sub.Batch.On():
		return demand{start: min(start, 1), batch: l.sub.Batch}, until
	case !healthy:
		return demand{start: start}, until
	default:
		return demand{start: start, ahead: l.ahead.shortfall(l.main.window.limit(l.most, now))}, until
	}
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
	if !want.none() {
		wait, l.interrupt = context.WithCancel(ctx)
	}
	return wait, want, until
}

// advance starts what was leased ahead, as far as the gate allows. l.mu is held.
func (l *lane) advance(now time.Time) {
	defer l.giveBackTurned()
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

// watchAhead has what is ahead, and what waits for its hosts, given back when it is too
// old. l.mu is held.
func (l *lane) watchAhead() {
	if l.expiry == nil && !l.oldestAhead().IsZero() {
		l.expiry = time.AfterFunc(aheadStay, l.expireAhead)
	}
}

// oldestAhead is since when the oldest item waits for its request, zero if none does.
func (l *lane) oldestAhead() time.Time {
	oldest := l.hosts.oldest()
	if len(l.ahead.items) > 0 && (oldest.IsZero() || l.ahead.items[0].received.Before(oldest)) {
		oldest = l.ahead.items[0].received
	}
	return oldest
}

func (l *lane) expireAhead() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.giveBack(l.ahead.takeStale(now))
	for f := range l.hosts.all() {
		for _, it := range l.hosts.takeStale(f, now) {
			l.turnAway(f, it, time.Time{}, now)
		}
	}
	l.giveBackTurned()
	l.expiry = nil
	if oldest := l.oldestAhead(); !oldest.IsZero() {
		l.expiry = time.AfterFunc(oldest.Add(aheadStay).Sub(now), l.expireAhead)
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
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	now := time.Now()
	l.ahead.pushTook(now.Sub(p.started), res.Verdict == webhooks.Delivered)
	// What an endpoint that was replaced meanwhile did says nothing about the new one.
	if p.own() || p.sub.URL == l.sub.URL {
		p.flow.ended(p, res, dec.pause, l.most, now)
	} else {
		p.flow.inFlight--
	}
	if l.sub.AllowTarget {
		f := l.host(p.item, now)
		blend(&f.took, now.Sub(p.started))
		l.advanceHost(f, now)
		l.giveBackTurned()
	}
	l.judged(p, res, now)
	if dec.keep {
		l.deferred++ // at once, so that the place is not given away again
		l.keptSince++
	}
	l.gone = l.gone || dec.disable
	if want, _, _ := l.gate(now); want == 0 {
		l.look()
		return
	}
	l.advance(now)
	if want, _ := l.demand(now); !want.none() {
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

// renamed says whether the lane has another queue now than the one that it asked for, which
// is a topic. It reads the subscription again unless it was told of that meanwhile.
func (l *lane) renamed(ctx context.Context, topic string) bool {
	return l.queueName() != topic || l.d.refresh(ctx, l.key) == nil && l.queueName() != topic
}

// heed waits after an error of Lease, longer after each further one. The log hears
// of the first and of the end.
func (l *lane) heed(ctx context.Context, err error) {
	switch {
	case err == nil:
		if l.troubles > 0 {
			l.logger().Info("lane leases again", "refused", l.troubles)
			l.troubles = 0
		}
		return
	case errors.Is(err, context.Canceled):
		return // interrupted by ourselves
	case errors.Is(err, queue.ErrShuttingDown):
		<-ctx.Done() // there is nothing to lease any more
		return
	}
	if topic, ok := errors.AsType[*queue.TopicError](err); ok && l.renamed(ctx, topic.Topic) {
		return
	}
	wait := min(leaseRetryMin<<min(l.troubles, 10), leaseRetryMax)
	if overloaded, ok := errors.AsType[*queue.OverloadedError](err); ok {
		wait = max(wait, min(overloaded.RetryAfter, leaseRetryMax))
	}
	if l.troubles == 0 {
		l.logger().Warn("lane cannot lease", "error", err)
	}
	l.troubles++
	timer := time.NewTimer(wait/2 + portion(wait/2, l.d.rnd()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
