package queue_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/memory"
)

// ledger is who holds which item, by what the callers were told.
type ledger struct {
	mu        sync.Mutex
	held      map[queue.ID]queue.Token
	counters  map[queue.ID]uint64
	completed map[queue.ID]bool
}

func (l *ledger) leased(t *testing.T, it queue.Item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, held := l.held[it.ID]; held {
		t.Errorf("%s was leased while it was held", it.ID)
	}
	if l.completed[it.ID] {
		t.Errorf("%s was leased after it was completed", it.ID)
	}
	if it.Token.Counter <= l.counters[it.ID] {
		t.Errorf("%s: the token's counter went from %d to %d", it.ID, l.counters[it.ID], it.Token.Counter)
	}
	l.held[it.ID] = it.Token
	l.counters[it.ID] = it.Token.Counter
}

// settling comes before the call: its answer may be overtaken by the next lease.
func (l *ledger) settling(it queue.Item, outcome queue.Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, it.ID)
	if outcome == queue.Complete {
		l.completed[it.ID] = true
	}
}

// Producers, consumers that complete, retry, release and give up waiting, and two
// queues; real time and threads. Every item that was acknowledged is completed
// once, and no two hold it at one time.
func TestINV01_INV03_NoItemIsLostOrHeldTwiceUnderLoad(t *testing.T) {
	t.Parallel()
	const producers, consumers, perProducer = 8, 8, 200
	store := memory.New(memory.Options{})
	b := newBroker(store, queue.Options{MaxWaiting: 6})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	names := []string{"a", "b"}
	for _, name := range names {
		if _, err := b.CreateQueue(ctx, queue.Settings{Namespace: ns, Name: name, MaxAttempts: -1}); err != nil {
			t.Fatal(err)
		}
	}
	book := &ledger{held: map[queue.ID]queue.Token{}, counters: map[queue.ID]uint64{}, completed: map[queue.ID]bool{}}
	var acked, shed atomic.Int64
	acked.Store(0)
	total := int64(producers * perProducer)
	finished := make(chan struct{})
	var finish sync.Once

	var wg sync.WaitGroup
	for i := range producers {
		wg.Go(func() {
			for range perProducer {
				call := queue.ProduceCall{Namespace: ns, Queue: names[i%2], Items: items(1)}
				for {
					_, err := b.Produce(t.Context(), call)
					if err == nil {
						break
					}
					if _, overloaded := errors.AsType[*queue.OverloadedError](err); !overloaded {
						t.Errorf("produce: %v", err)
						return
					}
					shed.Add(1)
				}
				acked.Add(1)
			}
		})
	}
	for i := range consumers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			for {
				select {
				case <-finished:
					return
				default:
				}
				wait, cancel := context.WithTimeout(t.Context(), time.Duration(rnd.IntN(3000))*time.Microsecond)
				reply, err := b.Lease(wait, queue.LeaseParams{Namespace: ns, Queue: names[i%2], Limit: 1 + rnd.IntN(20), Wait: time.Minute})
				cancel()
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("lease: %v", err)
					return
				}
				for _, it := range reply.Items {
					book.leased(t, it)
				}
				for _, it := range reply.Items {
					outcome := []queue.Outcome{queue.Complete, queue.Complete, queue.Retry, queue.Release}[rnd.IntN(4)]
					book.settling(it, outcome)
					for {
						_, err := b.Settle(t.Context(), settleCall(entry(it, outcome)))
						if _, overloaded := errors.AsType[*queue.OverloadedError](err); overloaded {
							continue
						}
						if err != nil {
							t.Errorf("%s: %v", outcome, err)
						}
						break
					}
				}
				book.mu.Lock()
				if int64(len(book.completed)) == total {
					finish.Do(func() { close(finished) })
				}
				book.mu.Unlock()
			}
		})
	}
	wg.Wait()
	if acked.Load() != total || int64(len(book.completed)) != total || len(book.held) != 0 {
		t.Errorf("%d acknowledged, %d completed, %d held, want %d, %d and none", acked.Load(), len(book.completed), len(book.held), total, total)
	}
	stats, err := store.Stats(t.Context(), nil)
	if err != nil || len(stats) != 0 {
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
