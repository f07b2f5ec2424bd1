package dispatcher

import (
	"context"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
)

// batchStart is how long after its lease a request of several items may begin: leases are
// renewed every renewEvery, and a request whose leases were not is cancelled leaseMargin
// before their end.
const batchStart = leaseTTL - leaseMargin - renewEvery - 2*time.Second

// fetchBatch leases the items of one request and starts it. wait ends when the gate
// closes, ctx when the lane does.
//
// The items wait for others no longer than the batch says; leases are long enough for
// that. An item that brings its own target does not go along with others: it is refused by
// itself.
func (l *lane) fetchBatch(ctx, wait context.Context, b subscriptions.Batch) error {
	items, err := l.lease(wait, grant{n: min(b.MaxItems, maxLease), bytes: b.MaxBytes}, leaseWait)
	if len(items) == 0 {
		return err
	}
	items = l.fillBatch(wait, items, b)
	// Only now, so that a lane which waits for items keeps no slot from others. With none
	// free the items wait, but their request begins while there is time to renew its leases.
	granted, cancel := context.WithDeadline(wait, items[0].received.Add(batchStart))
	defer cancel()
	together := items[:0:0]
	for _, it := range items {
		if it.item.Target == nil {
			together = append(together, it)
		} else {
			l.startTogether(ctx, granted, []leased{it})
		}
	}
	if len(together) > 0 {
		l.startTogether(ctx, granted, together)
	}
	return wait.Err()
}

// startTogether runs one request with all of the items, as soon as there is a slot for it,
// or gives them back. granted ends the wait, ctx the lane.
func (l *lane) startTogether(ctx, granted context.Context, items []leased) {
	slot := l.d.slots.wait(granted, &l.holder, 1)
	if slot.n == 0 {
		l.release(items)
		return
	}
	size := sizeOf(items)
	l.d.slots.put(&l.holder, 0, slot.bytes-size)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if want, _, _ := l.gate(now); ctx.Err() != nil || want == 0 || !l.startBatch(items, now) {
		l.d.slots.put(&l.holder, 1, size)
		l.release(items)
	}
}

// fillBatch leases more until the batch is full or its time is up.
func (l *lane) fillBatch(wait context.Context, items []leased, b subscriptions.Batch) []leased {
	until := items[0].received.Add(b.MaxWait)
	for b.MaxWait > 0 && len(items) < b.MaxItems {
		bytes := b.MaxBytes - sizeOf(items)
		rest := time.Until(until)
		if bytes <= 0 || rest <= 0 || wait.Err() != nil {
			break
		}
		more, err := l.lease(wait, grant{n: min(b.MaxItems-len(items), maxLease), bytes: bytes}, rest)
		// The first item of a lease comes whatever its size.
		if len(more) > 0 && more[0].item.Size() > bytes {
			l.release(more)
			break
		}
		items = append(items, more...)
		if len(more) == 0 || err != nil {
			break
		}
	}
	return items
}

func sizeOf(items []leased) (n int) {
	for _, it := range items {
		n += it.item.Size()
	}
	return n
}

// startBatch runs a push of several items, unless the breaker says no. l.mu is held.
func (l *lane) startBatch(items []leased, now time.Time) bool {
	report, ok := l.main.begin(now)
	if !ok {
		return false
	}
	l.running++
	first := items[0] // the others were leased with it or after it
	p := &push{
		lane: l, sub: l.sub, flow: l.main, item: first.item, report: report,
		leasedAt: first.at, received: first.received, started: now,
		items: make([]*queue.Item, len(items)),
	}
	for i, it := range items {
		p.items[i] = it.item
	}
	l.d.start(p)
	return true
}
