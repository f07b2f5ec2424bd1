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

// burst is the name of the row that takes a rate instead.
func (s shape) burst() string { return "lease+complete 100, c=1, " + thousands(s.queued) + " queued" }

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

// standing is a server that is kept full while others are looked at.
type standing struct {
	shape
	server *server
	queue  string
	// drained is a second queue, through which much went before; empty for none.
	drained string
}

// flatRows takes the price of one lease, one client, on servers of every shape, and the
// rate of the emptiest and of the fullest. They are all up together and take turns, so
// that a slow moment of the machine meets each of them; the others are idle meanwhile.
func (b *bench) flatRows(ctx context.Context, on store) (err error) {
	var all []*standing
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
		one := &standing{shape: shape, server: s}
		all = append(all, one)
		if err := b.prepare(one); err != nil {
			return fmt.Errorf("%s, %s: %w", on.name, shape.name(), err)
		}
	}
	for range b.plan.rounds {
		for _, s := range all {
			if err := b.lookAt(s); err != nil {
				return fmt.Errorf("%s, %s: %w", on.name, s.name(), err)
			}
		}
	}
	if on.name != "badger" {
		return nil
	}
	for _, s := range all {
		if s.held == 0 && s.queued == b.plan.mostQueued {
			return b.restartRow(ctx, s)
		}
	}
	return nil
}

// lookAt takes one round of one shape.
func (b *bench) lookAt(s *standing) error {
	if err := b.probe(s); err != nil {
		return err
	}
	if s.held == 0 && (s.queued == b.plan.mostQueued || s.queued == b.plan.shapes[0].queued) {
		if err := b.burst(s.server, s.queue, s.shape.burst()); err != nil {
			return err
		}
	}
	if s.drained != "" {
		return b.burst(s.server, s.drained, b.plan.drainedRow())
	}
	return nil
}

// prepare fills a server to its shape.
func (b *bench) prepare(to *standing) (err error) {
	s := to.server
	if to.queue, err = b.freshQueue(s); err != nil {
		return err
	}
	if err := fill(s.host, to.queue, to.queued+to.held); err != nil {
		return err
	}
	if err := hold(s.host, to.queue, to.held); err != nil {
		return err
	}
	if to.held == 0 && to.queued == b.plan.mostQueued {
		mib, err := s.resident()
		if err != nil {
			return err
		}
		b.sheet.row(b.plan.residentRow(), s.store, "MiB").add(mib)
	}
	if s.store.name == "badger" && to.shape == b.plan.shapes[0] {
		if to.drained, err = b.freshQueue(s); err != nil {
			return err
		}
		if err := fill(s.host, to.drained, to.queued+b.plan.drained); err != nil {
			return err
		}
		return drain(s.host, to.drained, b.plan.drained)
	}
	return nil
}

// hold leases n items and keeps them.
func hold(host, queueName string, n int) error {
	return eachLease(host, queueName, n, 1000, "15m", func(*client) error { return nil })
}

// drain leases n items and completes them.
func drain(host, queueName string, n int) error {
	return eachLease(host, queueName, n, 1000, "60s", func(c *client) error { return c.complete(queueName) })
}

func eachLease(host, queueName string, n, batch int, ttl string, then func(c *client) error) error {
	c, err := newClient(host)
	if err != nil {
		return err
	}
	defer c.close()
	for got := 0; got < n; got += len(c.receipts) {
		if err := c.lease(queueName, "holder", min(batch, n-got), 1000, ttl); err != nil {
			return err
		}
		if len(c.receipts) == 0 {
			return fmt.Errorf("nothing to lease after %d", got)
		}
		if err := then(c); err != nil {
			return err
		}
	}
	return nil
}

// probe leases and completes one item at a time and puts back as many.
func (b *bench) probe(s *standing) error {
	c, err := newClient(s.server.host)
	if err != nil {
		return err
	}
	defer c.close()
	const warmUp = 20
	leases := make([]float64, 0, b.plan.probes)
	completes := make([]float64, 0, b.plan.probes)
	for i := range b.plan.probes + warmUp {
		began := time.Now()
		if err := c.lease(s.queue, "probe", 1, 1000, "60s"); err != nil {
			return err
		}
		leased := time.Now()
		if len(c.receipts) != 1 {
			return fmt.Errorf("leased %d items, want 1", len(c.receipts))
		}
		if err := c.complete(s.queue); err != nil {
			return err
		}
		if i >= warmUp {
			leases = append(leases, leased.Sub(began).Seconds()*1e3)
			completes = append(completes, time.Since(leased).Seconds()*1e3)
		}
	}
	row := b.sheet.row(s.name(), s.server.store, "ms")
	row.add(median(leases))
	row.also("complete_p50_ms", median(completes))
	return c.produce(s.queue, b.plan.probes+warmUp)
}

// bursts is how often a burst is repeated in a round: one alone is over in no time.
const bursts = 4

// burst leases and completes a hundred items at a time, by one client. What was taken is
// put back, beside the clock.
func (b *bench) burst(s *server, queueName, row string) error {
	var took time.Duration
	for range bursts {
		began := time.Now()
		err := eachLease(s.host, queueName, b.plan.burst, 100, "60s", func(c *client) error { return c.complete(queueName) })
		if err != nil {
			return err
		}
		took += time.Since(began)
		if err := fill(s.host, queueName, b.plan.burst); err != nil {
			return err
		}
	}
	b.sheet.row(row, s.store, "items/s").add(float64(bursts*b.plan.burst) / took.Seconds())
	return nil
}

// restartRow stops a full server in order, starts it on what it left, and takes the time
// from the start of the process to an item in hand.
func (b *bench) restartRow(ctx context.Context, s *standing) error {
	for range b.plan.rounds {
		if err := s.server.halt(); err != nil {
			return err
		}
		began := time.Now()
		if err := s.server.launch(ctx); err != nil {
			return err
		}
		ready := time.Since(began)
		if err := eachLease(s.server.host, s.queue, 1, 1, "60s", func(c *client) error { return c.complete(s.queue) }); err != nil {
			return err
		}
		row := b.sheet.row(b.plan.restartRow(), s.server.store, "s")
		row.add(time.Since(began).Seconds())
		row.also("ready_s", ready.Seconds())
		if err := fill(s.server.host, s.queue, 1); err != nil {
			return err
		}
	}
	return nil
}
