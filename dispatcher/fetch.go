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
		Namespace: l.key.Namespace, Queue: l.queue,
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

// begin runs a push, unless the breaker says no. l.mu is held.
func (l *lane) begin(it leased, now time.Time) bool {
	report, ok := l.breaker.begin(now)
	if !ok {
		return false
	}
	l.inFlight++
	l.d.start(&push{
		lane: l, sub: l.sub, item: it.item, report: report,
		leasedAt: it.at, received: it.received, started: now,
	})
	return true
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
	receipts := make([]queue.Receipt, len(items))
	for i, it := range items {
		receipts[i] = it.item.Receipt()
	}
	l.d.background(func(ctx context.Context) {
		if err := l.d.release(ctx, l.key.Namespace, receipts); err != nil {
			l.log.Warn("items not given back; their leases lapse", "items", len(receipts), "error", err)
		}
	})
}
