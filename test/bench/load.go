package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// crew runs n workers with a connection each, and returns the first error.
func crew(host string, n int, work func(i int, c *client) error) error {
	clients := make([]*client, n)
	for i := range clients {
		c, err := newClient(host)
		if err != nil {
			return err
		}
		defer c.close()
		clients[i] = c
	}
	var group sync.WaitGroup
	errs := make(chan error, n)
	for i, c := range clients {
		group.Go(func() { errs <- work(i, c) })
	}
	group.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// meter takes time and the server's processor time.
type meter struct {
	server *server
	began  time.Time
	cpu    time.Duration
}

func (s *server) meter() (meter, error) {
	cpu, err := s.cpu()
	return meter{server: s, began: time.Now(), cpu: cpu}, err
}

// rate adds items a second to a row, and the server's processor time per item.
func (m meter) rate(r *Row, items int64) error {
	seconds := time.Since(m.began).Seconds()
	cpu, err := m.server.cpu()
	if err != nil {
		return err
	}
	r.add(float64(items) / seconds)
	if items > 0 {
		r.also("server_us_per_item", float64((cpu-m.cpu).Microseconds())/float64(items))
	}
	return nil
}

// freshQueue makes a queue that no row has used.
func (b *bench) freshQueue(s *server) (string, error) {
	b.queues++
	name := "q" + strconv.Itoa(b.queues)
	c, err := newClient(s.host)
	if err != nil {
		return "", err
	}
	defer c.close()
	return name, c.call("queues.create", `{"queue_name":"`+name+`"}`)
}

// fill puts n items on a queue, in calls of 500 by four producers.
func fill(host, queueName string, n int) error {
	var taken atomic.Int64
	return crew(host, 4, func(_ int, c *client) error {
		for {
			const each = 500
			at := int(taken.Add(each)) - each
			if at >= n {
				return nil
			}
			if err := c.produce(queueName, min(each, n-at)); err != nil {
				return err
			}
		}
	})
}

// produceRow measures producers alone.
func (b *bench) produceRow(s *server, producers, each int) error {
	name, err := b.freshQueue(s)
	if err != nil {
		return err
	}
	m, err := s.meter()
	if err != nil {
		return err
	}
	var items atomic.Int64
	stop := time.Now().Add(b.plan.short)
	err = crew(s.host, producers, func(_ int, c *client) error {
		for time.Now().Before(stop) {
			if err := c.produce(name, each); err != nil {
				return err
			}
			items.Add(int64(each))
		}
		return nil
	})
	if err != nil {
		return err
	}
	row := fmt.Sprintf("produce %d, c=%d", each, producers)
	return m.rate(b.sheet.row(row, s.store, "items/s"), items.Load())
}

// drainRow measures consumers alone: lease, then complete.
func (b *bench) drainRow(s *server, consumers, each, queued int) error {
	name, err := b.freshQueue(s)
	if err != nil {
		return err
	}
	if err := fill(s.host, name, queued); err != nil {
		return err
	}
	m, err := s.meter()
	if err != nil {
		return err
	}
	var items atomic.Int64
	stop := time.Now().Add(b.plan.short)
	err = crew(s.host, consumers, func(i int, c *client) error {
		for time.Now().Before(stop) {
			if err := c.lease(name, "c"+strconv.Itoa(i), each, 10, "60s"); err != nil {
				return err
			}
			if len(c.receipts) == 0 {
				return nil
			}
			n := len(c.receipts)
			if err := c.complete(name); err != nil {
				return err
			}
			items.Add(int64(n))
		}
		return nil
	})
	if err != nil {
		return err
	}
	row := fmt.Sprintf("lease+complete %d, c=%d", each, consumers)
	return m.rate(b.sheet.row(row, s.store, "items/s"), items.Load())
}

// The free run: so many producers of single items and consumers of ten at a
// time, with a bounded number of items between them.
const (
	e2eProducers = 16
	e2eConsumers = 16
	e2eLease     = 10
	e2eWindow    = 1000
)

// e2eRow measures the whole way of an item, from before its produce to after
// its completion.
func (b *bench) e2eRow(ctx context.Context, s *server) error {
	name, err := b.freshQueue(s)
	if err != nil {
		return err
	}
	wait := func() error { return nil }
	if b.profiles != "" {
		wait = s.profile(ctx, filepath.Join(b.profiles, "e2e-"+s.store.name+".pprof"), b.plan.long)
	}
	m, err := s.meter()
	if err != nil {
		return err
	}
	var (
		done   atomic.Int64
		leases atomic.Int64
		mu     sync.Mutex
		took   []float64
		window = make(chan struct{}, e2eWindow)
		stop   = time.Now().Add(b.plan.long)
	)
	err = crew(s.host, e2eProducers+e2eConsumers, func(i int, c *client) error {
		if i < e2eProducers {
			for time.Now().Before(stop) {
				select {
				case window <- struct{}{}:
				case <-time.After(time.Until(stop)):
					return nil
				}
				if err := c.produce(name, 1); err != nil {
					return err
				}
			}
			return nil
		}
		mine, calls, err := consume(name, c, i, stop, window)
		leases.Add(calls)
		mu.Lock()
		defer mu.Unlock()
		took = append(took, mine...)
		done.Add(int64(len(mine)))
		return err
	})
	if err != nil {
		return err
	}
	row := b.sheet.row("e2e A", s.store, "items/s")
	if err := m.rate(row, done.Load()); err != nil {
		return err
	}
	row.also("done_p50_ms", quantile(took, 0.5))
	row.also("done_p99_ms", quantile(took, 0.99))
	row.also("items_per_lease", float64(done.Load())/float64(max(1, leases.Load())))
	return wait()
}

// consume works until the time is over and returns how long each item took, in
// milliseconds, and how many leases answered them.
func consume(name string, c *client, i int, stop time.Time, window <-chan struct{}) (took []float64, leases int64, err error) {
	took = make([]float64, 0, 1<<16)
	id := "c" + strconv.Itoa(i)
	for time.Now().Before(stop) {
		if err := c.lease(name, id, e2eLease, 100, "60s"); err != nil {
			return took, leases, err
		}
		if len(c.receipts) == 0 {
			continue
		}
		leases++
		if err := c.complete(name); err != nil {
			return took, leases, err
		}
		now := time.Now().UnixNano()
		for _, stamp := range c.stamps {
			took = append(took, float64(now-stamp)/1e6)
			<-window
		}
	}
	return took, leases, nil
}
