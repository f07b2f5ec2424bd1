package dispatcher

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// running is the set of pushes whose leases are renewed.
type running struct {
	mu  sync.Mutex
	all map[*push]struct{}
}

func (r *running) add(p *push) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[*push]struct{}{}
	}
	r.all[p] = struct{}{}
}

func (r *running) remove(p *push) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, p)
}

func (r *running) has(p *push) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.all[p]
	return ok
}

// holding is an item of a running push.
type holding struct {
	push *push
	item *queue.Item
}

// byNamespace returns what they hold in batches for Extend.
func (r *running) byNamespace() map[queue.Namespace][]holding {
	r.mu.Lock()
	defer r.mu.Unlock()
	batches := map[queue.Namespace][]holding{}
	for p := range r.all {
		for _, it := range p.items {
			batches[p.sub.Namespace] = append(batches[p.sub.Namespace], holding{p, it})
		}
	}
	return batches
}

// renew extends the leases of all running pushes, in one call for all of them.
// After an error it tries again each second: there are fifteen of them until the
// first request has to be cancelled.
func (d *Dispatcher) renew(ctx context.Context) {
	timer := time.NewTimer(renewEvery)
	defer timer.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		err := d.renewAll(ctx)
		switch {
		case err != nil && !failing:
			d.log.Warn("leases of running pushes cannot be renewed", "error", err)
		case err == nil && failing:
			d.log.Info("leases are renewed again")
		}
		failing = err != nil
		if failing {
			timer.Reset(renewAgain)
		} else {
			timer.Reset(renewEvery)
		}
	}
}

func (d *Dispatcher) renewAll(ctx context.Context) error {
	var firstErr error
	for ns, held := range d.running.byNamespace() {
		for len(held) > 0 {
			n := min(len(held), maxLease)
			if err := d.renewBatch(ctx, ns, held[:n]); err != nil && firstErr == nil {
				firstErr = err
			}
			held = held[n:]
		}
	}
	return firstErr
}

func (d *Dispatcher) renewBatch(ctx context.Context, ns queue.Namespace, held []holding) error {
	// A store that hangs must not keep us from asking again.
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	entries := make([]queue.ExtendEntry, len(held))
	for i, h := range held {
		entries[i] = queue.ExtendEntry{Receipt: h.item.Receipt(), TTL: leaseTTL}
	}
	// Taken before the call: the lease ends leaseTTL after the store looked at its
	// clock, which was later.
	asked := time.Now()
	extended, err := d.broker.Extend(ctx, ns, "", entries)
	if err != nil {
		return fmt.Errorf("extend: %w", err)
	}
	for i, h := range held {
		p := h.push
		switch {
		case extended[i].Status == queue.Applied:
			p.hold(asked.Add(leaseTTL))
		case extended[i].Status == queue.Gone && p.sub.Defer.Allowed:
			// The endpoint has finished before it answers, as it may.
		case d.running.has(p) && len(p.items) == 1:
			// One that has ended meanwhile was settled by ourselves. A batch goes on for
			// the sake of its other items.
			p.abort(errLeaseLost)
		}
	}
	return nil
}
