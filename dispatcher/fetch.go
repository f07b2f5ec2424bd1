package dispatcher

import (
	"context"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// fetch leases what is wanted and starts it. wait ends when the gate closes,
// ctx when the lane does.
//
// Where the process is full, the lane stands in line for slots and looks at once
// for items to put into them. Otherwise it waits for items without holding slots,
// and takes them when it sees how many came: in the rare case that others were
// quicker, what cannot start goes back to its place. After a look that found nothing
// the lane waits even if the process is full, for else it would stand in line again and again.
//
// What is leased ahead is there at once or not at all, so for it the slots are taken
// before.
func (l *lane) fetch(ctx, wait context.Context, want demand) error {
	s := l.d.slots
	if want.batch.On() {
		return l.fetchBatch(ctx, wait, want.batch)
	}
	if want.ahead > 0 {
		if granted := s.grab(&l.holder, want.start+want.ahead); granted.n > 0 {
			_, err := l.fill(ctx, wait, granted)
			return err
		}
	}
	if want.start == 0 {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.giveBack(l.ahead.takeAll())
		return nil
	}
	room := s.room(&l.holder, want.start)
	if room.n == 0 {
		granted := s.wait(wait, &l.holder, want.start)
		if granted.n == 0 {
			return wait.Err()
		}
		if found, err := l.fill(ctx, wait, granted); found || err != nil {
			return err
		}
		room = grant{n: 1, bytes: 1}
	}
	items, err := l.lease(wait, room, leaseWait)
	for i, it := range items {
		if !s.take(&l.holder, it.item.Size()) {
			l.release(items[i:])
			items = items[:i]
			break
		}
	}
	l.admit(ctx, items)
	return err
}

func (l *lane) lease(ctx context.Context, g grant, wait time.Duration) ([]leased, error) {
	l.mu.Lock()
	limitInForce := l.sub.Retry.MaxAttempts
	l.mu.Unlock()
	limit := min(g.n, maxLease)
	asked := time.Now()
	reply, err := l.d.broker.Lease(ctx, queue.LeaseParams{
		Namespace: l.key.Namespace, Queue: l.queueName(),
		Limit: limit, MaxBytes: g.bytes, TTL: leaseTTL, Wait: wait,
		Owner: l.d.owner, Push: true, MaxAttempts: limitInForce,
	})
	received := time.Now()
	l.mu.Lock()
	l.ahead.leaseTook(limit, len(reply.Items), received.Sub(asked))
	l.mu.Unlock()
	items := make([]leased, len(reply.Items))
	for i := range reply.Items {
		items[i] = leased{item: &reply.Items[i], at: reply.Now, received: received}
	}
	return items, err
}

// fill leases what is there now into slots that were taken, and gives back the rest
// of them.
func (l *lane) fill(ctx, wait context.Context, granted grant) (found bool, err error) {
	items, err := l.lease(wait, granted, 0)
	spare := granted
	for _, it := range items {
		spare.n--
		spare.bytes -= it.item.Size()
	}
	l.d.slots.put(&l.holder, spare.n, spare.bytes)
	l.admit(ctx, items)
	return len(items) > 0, err
}

// admit starts items for which slots were taken, or has them wait for a request to
// end. If the gate closed or ctx ended since the lease was asked for, they go back.
func (l *lane) admit(ctx context.Context, items []leased) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil {
		l.giveBack(items)
		return
	}
	for _, it := range items {
		l.ahead.add(it)
	}
	now := time.Now()
	l.advance(now)
	if _, healthy, _ := l.gate(now); !healthy {
		l.giveBack(l.ahead.takeAll())
	}
	l.watchAhead()
}

// begin runs a push, finds a place for its item where items may bring their own targets, or
// says that the gate has closed. l.mu is held.
func (l *lane) begin(it leased, now time.Time) bool {
	if !l.sub.AllowTarget {
		return l.start(it, l.main, now)
	}
	f := l.host(it.item, now)
	f.away = max(0, f.away-1)
	want, _, until := f.gate(l.most, now)
	switch {
	case want > 0 && len(f.waiting) == 0 && l.start(it, f.flow, now):
		f.away -= f.away / 8 // some may have been cancelled and never come back
	case until.IsZero() && f.inFlight > 0 && f.takes(l.most, now):
		l.hosts.wait(f, it)
	default:
		l.turnAway(f, it, until, now)
	}
	return true
}

// turnAway sends an item back until its host should have room. l.mu is held.
func (l *lane) turnAway(f *hostFlow, it leased, until, now time.Time) {
	l.turned = append(l.turned, turned{it, f.turnAway(until, l.most, l.d.rnd(), now)})
}

// advanceHost starts what waits for a host, as far as its flow allows, and turns it away
// if that has closed. l.mu is held.
func (l *lane) advanceHost(f *hostFlow, now time.Time) {
	for len(f.waiting) > 0 {
		want, _, until := f.gate(l.most, now)
		if open, _, _ := l.gate(now); open == 0 {
			l.giveBack(l.hosts.takeAll(f))
			return
		}
		if want == 0 && until.IsZero() && f.inFlight > 0 {
			return // the next that ends makes room
		}
		if it := l.hosts.next(f); want == 0 || !l.start(it, f.flow, now) {
			l.turnAway(f, it, until, now)
		}
	}
}

// start runs a push in a flow, unless its breaker says no. l.mu is held.
func (l *lane) start(it leased, f *flow, now time.Time) bool {
	report, ok := f.begin(now)
	if !ok {
		return false
	}
	l.running++
	p := &push{
		lane: l, sub: l.sub, flow: f, item: it.item, report: report,
		leasedAt: it.at, received: it.received, started: now,
	}
	p.one[0] = it.item
	p.items = p.one[:]
	l.d.start(p)
	return true
}

// turned is an item that was turned away, and for how long.
type turned struct {
	leased
	wait time.Duration
}

// giveBackTurned releases what was turned away. l.mu is held.
func (l *lane) giveBackTurned() {
	if len(l.turned) == 0 {
		return
	}
	entries := make([]queue.SettleEntry, len(l.turned))
	size := 0
	for i := range l.turned {
		t := &l.turned[i]
		entries[i] = queue.SettleEntry{Receipt: t.item.Receipt(), Outcome: queue.Release, Delay: t.wait}
		size += t.item.Size()
	}
	l.turned = nil
	l.d.slots.put(&l.holder, len(entries), size)
	l.releaseEntries(entries)
}

// giveBack frees the slots of items that will not start, and releases them.
func (l *lane) giveBack(items []leased) {
	size := 0
	for _, it := range items {
		size += it.item.Size()
	}
	if len(items) > 0 {
		l.d.slots.put(&l.holder, len(items), size)
	}
	l.release(items)
}

// release gives items back, to their places and uncounted.
func (l *lane) release(items []leased) {
	if len(items) == 0 {
		return
	}
	entries := make([]queue.SettleEntry, len(items))
	for i, it := range items {
		entries[i] = queue.SettleEntry{Receipt: it.item.Receipt(), Outcome: queue.Release}
	}
	l.releaseEntries(entries)
}

func (l *lane) releaseEntries(entries []queue.SettleEntry) {
	l.d.background(func(ctx context.Context) {
		if err := l.d.release(ctx, l.key.Namespace, entries); err != nil {
			l.logger().Warn("items not given back; their leases lapse", "items", len(entries), "error", err)
		}
	})
}
