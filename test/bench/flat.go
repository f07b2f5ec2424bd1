package main

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// shape is how full a server is while the cost of one lease is taken.
type shape struct {
	queued, held int
}

// name is the row's; the first of the two series varies what is queued, the
// second what is held.
func (s shape) name() string {
	if s.held > 0 {
		return "lease 1, " + thousands(s.held) + " held"
	}
	return "lease 1, " + thousands(s.queued) + " queued"
}

func thousands(n int) string {
	switch {
	case n >= 1_000_000:
		return strconv.Itoa(n/1_000_000) + "M"
	case n >= 1000:
		return strconv.Itoa(n/1000) + "k"
	default:
		return strconv.Itoa(n)
	}
}

// flatness is how much more a lease may cost on a full server than on a nearly
// empty one.
const flatness = 1.5

// flatRows takes the price of one lease, one client, on servers of every shape.
// They are all up together and take turns, so that a slow moment of the machine
// meets each of them; the others are idle meanwhile.
func (b *bench) flatRows(ctx context.Context, on store) (err error) {
	type standing struct {
		shape
		server *server
		queue  string
	}
	var all []standing
	defer func() {
		for _, s := range all {
			if stopErr := s.server.stop(); err == nil {
				err = stopErr
			}
		}
	}()
	for _, shape := range b.plan.shapes {
		s, err := b.start(ctx, on)
		if err != nil {
			return err
		}
		all = append(all, standing{shape: shape, server: s})
		name, err := b.freshQueue(s)
		if err != nil {
			return err
		}
		all[len(all)-1].queue = name
		if err := b.prepare(s, name, shape); err != nil {
			return fmt.Errorf("%s, %s: %w", on.name, shape.name(), err)
		}
	}
	for range b.plan.rounds {
		for _, s := range all {
			if err := b.probe(s.server, s.queue, s.shape); err != nil {
				return fmt.Errorf("%s, %s: %w", on.name, s.name(), err)
			}
		}
	}
	base := all[0]
	for _, s := range all {
		if s.held == 0 && s.queued == b.plan.baseQueued {
			// What the held series is compared with: as much queued, nothing held.
			base = s
		}
	}
	for _, s := range all[1:] {
		than := all[0].shape
		if s.held > 0 {
			than = base.shape
		}
		value := b.sheet.row(than.name(), on, "ms").Median
		b.sheet.row(s.name(), on, "ms").against(value, than.name(), atMost, flatness)
	}
	return nil
}

// prepare fills a server to its shape.
func (b *bench) prepare(s *server, name string, to shape) error {
	if err := fill(s.host, name, to.queued+to.held); err != nil {
		return err
	}
	c, err := newClient(s.host)
	if err != nil {
		return err
	}
	defer c.close()
	for held := 0; held < to.held; {
		if err := c.lease(name, "holder", min(1000, to.held-held), 1000, "15m"); err != nil {
			return err
		}
		if len(c.receipts) == 0 {
			return fmt.Errorf("nothing to lease with %d held", held)
		}
		held += len(c.receipts)
	}
	if to.held == 0 && to.queued == b.plan.mostQueued {
		mib, err := s.resident()
		if err != nil {
			return err
		}
		b.sheet.row("resident, "+thousands(to.queued)+" × 200 B", s.store, "MiB").add(mib)
	}
	return nil
}

// probe leases and completes one item at a time and puts back as many.
func (b *bench) probe(s *server, name string, at shape) error {
	c, err := newClient(s.host)
	if err != nil {
		return err
	}
	defer c.close()
	const warmUp = 20
	leases := make([]float64, 0, b.plan.probes)
	completes := make([]float64, 0, b.plan.probes)
	for i := range b.plan.probes + warmUp {
		began := time.Now()
		if err := c.lease(name, "probe", 1, 1000, "60s"); err != nil {
			return err
		}
		leased := time.Now()
		if len(c.receipts) != 1 {
			return fmt.Errorf("leased %d items, want 1", len(c.receipts))
		}
		if err := c.complete(name); err != nil {
			return err
		}
		if i >= warmUp {
			leases = append(leases, leased.Sub(began).Seconds()*1e3)
			completes = append(completes, time.Since(leased).Seconds()*1e3)
		}
	}
	row := b.sheet.row(at.name(), s.store, "ms")
	row.add(median(leases))
	row.also("complete_p50_ms", median(completes))
	return c.produce(name, b.plan.probes+warmUp)
}
