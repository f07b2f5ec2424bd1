package main

import (
	"fmt"
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
	row := fmt.Sprintf("produce %d, c=%d", each, producers)
	return b.produceInto(s, b.sheet.row(row, s.store, "items/s"), name, producers, each)
}

// produceInto measures producers on a queue for a short time.
func (b *bench) produceInto(s *server, row *Row, name string, producers, each int) error {
	m, err := newMeter(s.sources)
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
	return m.rate(row, items.Load())
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
	row := fmt.Sprintf("lease+complete %d, c=%d", each, consumers)
	return b.drainOf(s, b.sheet.row(row, s.store, "items/s"), name, consumers, each, b.plan.short)
}

// drainOf measures consumers on a queue until it is empty or the time is over.
func (b *bench) drainOf(s *server, row *Row, name string, consumers, each int, within time.Duration) error {
	m, err := newMeter(s.sources)
	if err != nil {
		return err
	}
	var items atomic.Int64
	stop := time.Now().Add(within)
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
	return m.rate(row, items.Load())
}
