package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/postgres"
)

// embedded is a broker and its store on PostgreSQL in this process, without a server.
type embedded struct {
	store  *postgres.Store
	broker *queue.Broker
	cancel context.CancelFunc
	ended  chan error
}

func (b *bench) openEmbedded(ctx context.Context) (*embedded, error) {
	s, err := postgres.Open(ctx, postgres.Options{URL: b.postgres, Schema: b.freshSchema(), Migrate: true})
	if err != nil {
		return nil, err
	}
	e := &embedded{store: s, ended: make(chan error, 1)}
	e.broker = queue.New(s, queue.Options{
		Queues:   storage.NewCollection[queue.Settings](s, "queue"),
		Counters: storage.NewCollection[queue.Counter](s, "counter"),
		Numbers:  storage.NewCollection[queue.NumberEntry](s, "number"),
	})
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	e.cancel = cancel
	go func() { e.ended <- e.broker.Run(running) }()
	return e, nil
}

func (e *embedded) close() error {
	e.broker.Drain()
	e.cancel()
	return errors.Join(<-e.ended, e.store.Close())
}

// embeddedRows takes one round: single items by many callers, then a backlog worked.
func (b *bench) embeddedRows(ctx context.Context, e *embedded) error {
	b.queues++
	name := fmt.Sprint("inserted", b.queues)
	if _, err := e.broker.CreateQueue(ctx, queue.Settings{Namespace: queue.DefaultNamespace, Name: name}); err != nil {
		return err
	}
	on := storeNamed("postgres")
	one := queue.ProduceItem{Content: queue.Content{Kind: "bench", Payload: payloadJSON}}
	err := b.callers(ctx, b.sheet.row(insertInside, on, "items/s"), func(ctx context.Context) error {
		_, err := e.broker.Produce(ctx, queue.ProduceCall{Namespace: queue.DefaultNamespace, Queue: name, Items: []queue.ProduceItem{one}})
		return err
	})
	if err != nil {
		return err
	}
	return b.embeddedWork(ctx, e, one)
}

// callers has many of them do the same for a short time, and adds their rate to a row.
func (b *bench) callers(ctx context.Context, row *Row, call func(ctx context.Context) error) error {
	m, err := newMeter(append([]source{thisProcess}, b.database...))
	if err != nil {
		return err
	}
	var calls atomic.Int64
	stop := time.Now().Add(b.plan.short)
	err = together(beside, func(int) error {
		for time.Now().Before(stop) {
			if err := call(ctx); err != nil {
				return err
			}
			calls.Add(1)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return m.rate(row, calls.Load())
}

// together runs n of them and returns all errors.
func together(n int, work func(i int) error) error {
	var group sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		group.Go(func() { errs[i] = work(i) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// embeddedWork leases and completes a backlog, a hundred items at a time.
func (b *bench) embeddedWork(ctx context.Context, e *embedded, one queue.ProduceItem) error {
	b.queues++
	name := fmt.Sprint("worked", b.queues)
	if _, err := e.broker.CreateQueue(ctx, queue.Settings{Namespace: queue.DefaultNamespace, Name: name}); err != nil {
		return err
	}
	const batch = 100
	items := make([]queue.ProduceItem, batch)
	for i := range items {
		items[i] = one
	}
	for left := b.plan.jobs; left > 0; left -= batch {
		_, err := e.broker.Produce(ctx, queue.ProduceCall{
			Namespace: queue.DefaultNamespace, Queue: name, Items: items[:min(left, batch)],
		})
		if err != nil {
			return err
		}
	}
	m, err := newMeter(append([]source{thisProcess}, b.database...))
	if err != nil {
		return err
	}
	var done atomic.Int64
	err = together(beside, func(i int) error {
		for done.Load() < int64(b.plan.jobs) {
			n, err := e.work(ctx, name, fmt.Sprint("c", i), batch)
			if err != nil {
				return err
			}
			done.Add(int64(n))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return m.rate(b.sheet.row(b.plan.workRow("in process"), storeNamed("postgres"), "items/s"), done.Load())
}

// work leases and completes once.
func (e *embedded) work(ctx context.Context, name, owner string, batch int) (int, error) {
	reply, err := e.broker.Lease(ctx, queue.LeaseParams{
		Namespace: queue.DefaultNamespace, Queue: name, Limit: batch, TTL: time.Minute, Wait: 10 * time.Millisecond, Owner: owner,
	})
	if err != nil || len(reply.Items) == 0 {
		return 0, err
	}
	entries := make([]queue.SettleEntry, len(reply.Items))
	for i := range reply.Items {
		entries[i] = queue.SettleEntry{Receipt: reply.Items[i].Receipt(), Outcome: queue.Complete}
	}
	_, err = e.broker.Settle(ctx, queue.SettleCall{Namespace: queue.DefaultNamespace, Entries: entries})
	return len(entries), err
}
