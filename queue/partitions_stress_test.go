package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/memory"
)

// Producers with keys and without, consumers, and somebody who changes the number of
// partitions all the time; real time and threads. Every item is completed once, those of a
// key in order.
func TestINV01_INV12_PartitionsThatChangeLoseNothingUnderLoad(t *testing.T) {
	t.Parallel()
	const producers, consumers, perProducer = 6, 6, 150
	store := memory.New(memory.Options{})
	b := newBroker(store, queue.Options{})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	if _, err := b.CreateQueue(ctx, queue.Settings{Namespace: ns, Name: "parts", MaxAttempts: -1, Partitions: 8}); err != nil {
		t.Fatal(err)
	}

	book := &ledger{held: map[queue.ID]queue.Token{}, counters: map[queue.ID]uint64{}, completed: map[queue.ID]bool{}}
	orders := &keyOrder{next: map[string]int{}}
	const total = producers * perProducer
	var producing, working sync.WaitGroup
	var changes atomic.Int64
	finished := make(chan struct{})
	var finish sync.Once
	for i := range producers {
		producing.Go(func() {
			for n := range perProducer {
				item := queue.ProduceItem{}
				if i%2 == 0 {
					item.OrderingKey = fmt.Sprint("key-", i)
					item.Reference = fmt.Sprint(n)
				}
				call := queue.ProduceCall{Namespace: ns, Queue: "parts", Items: []queue.ProduceItem{item}}
				if _, err := b.Produce(t.Context(), call); err != nil {
					t.Errorf("produce: %v", err)
				}
			}
		})
	}
	for i := range consumers {
		working.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 2))
			for {
				select {
				case <-finished:
					return
				default:
				}
				wait, cancel := t.Context(), context.CancelFunc(func() {})
				p := queue.LeaseParams{Namespace: ns, Queue: "parts", Limit: 1 + rnd.IntN(20)}
				if rnd.IntN(2) == 0 { // the others are answered at once, or never
					p.Wait = time.Minute
					wait, cancel = context.WithTimeout(wait, time.Duration(1+rnd.IntN(3000))*time.Microsecond)
				}
				reply, err := b.Lease(wait, p)
				cancel()
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("lease: %v", err)
					return
				}
				for _, it := range reply.Items {
					book.leased(t, it)
				}
				for _, it := range reply.Items {
					outcome := []queue.Outcome{queue.Complete, queue.Complete, queue.Release}[rnd.IntN(3)]
					if outcome == queue.Complete {
						orders.done(t, it)
					}
					book.settling(it, outcome)
					if _, err := b.Settle(t.Context(), settleCall(entry(it, outcome))); err != nil {
						t.Errorf("%s: %v", outcome, err)
					}
				}
				book.mu.Lock()
				if len(book.completed) == total {
					finish.Do(func() { close(finished) })
				}
				book.mu.Unlock()
			}
		})
	}
	working.Go(func() {
		rnd := rand.New(rand.NewPCG(7, 2))
		for {
			select {
			case <-finished:
				return
			default:
			}
			n := 1 + rnd.Int32N(queue.MaxPartitions)
			if _, err := b.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "parts", Partitions: &n}); err != nil {
				t.Errorf("update: %v", err)
			}
			changes.Add(1)
		}
	})
	producing.Wait()
	working.Wait()
	if len(book.completed) != total || len(book.held) != 0 || changes.Load() == 0 {
		t.Errorf("%d completed, %d held, %d changes, want %d, none and some", len(book.completed), len(book.held), changes.Load(), total)
	}
	if stats, err := store.Stats(t.Context(), nil); err != nil || len(stats) != 0 {
		t.Errorf("got %+v, %v, want nothing left", stats, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

// keyOrder is how far each key has come.
type keyOrder struct {
	mu   sync.Mutex
	next map[string]int
}

// done is told of an item before it is completed: only then may another of its key go.
func (o *keyOrder) done(t *testing.T, it queue.Item) {
	if it.OrderingKey == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if want := fmt.Sprint(o.next[it.OrderingKey]); it.Reference != want {
		t.Errorf("%s: item %s was leased when %s was next", it.OrderingKey, it.Reference, want)
	}
	o.next[it.OrderingKey]++
}
