package main

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// flow is producers and consumers at once.
type flow struct {
	name            string
	producers, each int
	consumers       int
	// lease is how many items a consumer asks for, wait how long, in milliseconds.
	lease, wait int
	// window bounds the items between produce and completion, in a run that is as fast
	// as it can. Otherwise rate says how many are produced in a second altogether.
	window, rate int
}

var (
	freeA = flow{name: "e2e A", producers: 16, each: 1, consumers: 16, lease: 10, wait: 100, window: 1000}
	freeB = flow{name: "e2e B", producers: 4, each: 100, consumers: 4, lease: 100, wait: 100, window: 5000}
	paced = flow{name: "paced 300/s, done p50", producers: 4, each: 1, consumers: 4, lease: 10, wait: 500, rate: 300}
)

// flown is what a flow measured. Times are in milliseconds.
type flown struct {
	mu sync.Mutex
	// produced is how long produces took, done how long items took from before their
	// produce to after their completion.
	produced, done []float64
	leases         atomic.Int64
}

// flowRow measures the whole way of an item.
func (b *bench) flowRow(ctx context.Context, s *server, f flow) error {
	name, err := b.freshQueue(s)
	if err != nil {
		return err
	}
	wait := func() error { return nil }
	if b.profiles != "" && f.name == freeA.name {
		wait = s.profile(ctx, filepath.Join(b.profiles, "e2e-"+s.store.name+".pprof"), b.plan.long)
	}
	m, err := newMeter(s.sources)
	if err != nil {
		return err
	}
	got := new(flown)
	if err := b.fly(ctx, s, name, f, got); err != nil {
		return err
	}
	items := int64(len(got.done))
	slices.Sort(got.done)
	slices.Sort(got.produced)
	row := b.sheet.row(f.name, s.store, "items/s")
	if f.rate > 0 {
		row.Unit = "ms"
		row.add(quantile(got.done, 0.5))
		err = m.perItem(row, items)
	} else {
		row.also("done_p50_ms", quantile(got.done, 0.5))
		row.also("items_per_lease", float64(items)/float64(max(1, got.leases.Load())))
		err = m.rate(row, items)
	}
	if err != nil {
		return err
	}
	row.also("done_p99_ms", quantile(got.done, 0.99))
	row.also("produce_p50_ms", quantile(got.produced, 0.5))
	return wait()
}

// fly runs a flow for a long time.
func (b *bench) fly(ctx context.Context, s *server, name string, f flow, got *flown) error {
	ctx, cancel := context.WithTimeout(ctx, b.plan.long)
	defer cancel()
	window := semaphore.NewWeighted(int64(max(f.window, 1)))
	return crew(s.host, f.producers+f.consumers, func(i int, c *client) error {
		if i < f.producers {
			took, err := f.produce(ctx, c, name, window, i)
			got.mu.Lock()
			defer got.mu.Unlock()
			got.produced = append(got.produced, took...)
			return err
		}
		took, err := f.consume(ctx, c, name, window, got, "c"+strconv.Itoa(i))
		got.mu.Lock()
		defer got.mu.Unlock()
		got.done = append(got.done, took...)
		return err
	})
}

// produce works until the time is over and returns how long each call took.
func (f *flow) produce(ctx context.Context, c *client, name string, window *semaphore.Weighted, i int) (took []float64, err error) {
	took = make([]float64, 0, 1<<14)
	var gap time.Duration
	if f.rate > 0 {
		gap = time.Second * time.Duration(f.producers*f.each) / time.Duration(f.rate)
	}
	// Each begins at another part of the first gap.
	next := time.Now().Add(gap * time.Duration(i) / time.Duration(f.producers))
	for ctx.Err() == nil {
		if f.rate > 0 {
			if !until(ctx, next) {
				return took, nil
			}
			next = next.Add(gap)
		} else if window.Acquire(ctx, int64(f.each)) != nil {
			return took, nil // the time is over
		}
		began := time.Now()
		if err := c.produce(name, f.each); err != nil {
			return took, err
		}
		took = append(took, time.Since(began).Seconds()*1e3)
	}
	return took, nil
}

// until waits for an instant, and says whether it came before the end.
func until(ctx context.Context, at time.Time) bool {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// consume works until the time is over and returns how long each item took.
func (f *flow) consume(ctx context.Context, c *client, name string, window *semaphore.Weighted, got *flown, id string) (took []float64, err error) {
	took = make([]float64, 0, 1<<16)
	for ctx.Err() == nil {
		if err := c.lease(name, id, f.lease, f.wait, "60s"); err != nil {
			return took, err
		}
		if len(c.receipts) == 0 {
			continue
		}
		got.leases.Add(1)
		if err := c.complete(name); err != nil {
			return took, err
		}
		now := time.Now().UnixNano()
		for _, stamp := range c.stamps {
			took = append(took, float64(now-stamp)/1e6)
		}
		if f.window > 0 {
			window.Release(int64(len(c.stamps)))
		}
	}
	return took, nil
}
