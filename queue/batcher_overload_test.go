package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

// longestWait is how long a produce may wait for its batch.
const longestWait = 5 * time.Second

// slowStore takes its time for every produce, and notes which queues each one is for.
type slowStore struct {
	storage.Backend
	takes time.Duration

	mu      sync.Mutex
	batches [][]queue.Number
}

func (s *slowStore) Produce(ctx context.Context, groups []queue.ProduceGroup) (queue.ProduceAnswer, error) {
	var queues []queue.Number
	for _, g := range groups {
		queues = append(queues, g.Items[0].Queue)
	}
	s.mu.Lock()
	s.batches = append(s.batches, queues)
	s.mu.Unlock()
	<-time.After(s.takes)
	return s.Backend.Produce(ctx, groups)
}

// slowly runs a test against a broker whose store takes its time, with two queues.
func slowly(t *testing.T, takes time.Duration, test func(t *testing.T, b *queue.Broker, s *slowStore, orders, mails queue.Number)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{Backend: storagetest.NewModel(time.Now), takes: takes}
		b := newBroker(s, queue.Options{})
		var made []queue.Number
		for _, name := range []string{"orders", "mails"} {
			settings, err := b.CreateQueue(t.Context(), queue.Settings{Namespace: ns, Name: name})
			if err != nil {
				t.Fatal(err)
			}
			made = append(made, settings.Number)
		}
		test(t, b, s, made[0], made[1])
	})
}

// offer begins a produce and returns once everybody waits.
func offer(b *queue.Broker, name string, n int) <-chan answer[[]queue.Produced] {
	return start(func() ([]queue.Produced, error) {
		return b.Produce(context.Background(), queue.ProduceCall{Namespace: ns, Queue: name, Items: items(n)})
	})
}

func wantOverloaded(t *testing.T, err error) (retryAfter time.Duration) {
	t.Helper()
	overloaded, ok := errors.AsType[*queue.OverloadedError](err)
	if !ok || overloaded.RetryAfter <= 0 {
		t.Fatalf("got %v, want an OverloadedError that says when to come back", err)
	}
	return overloaded.RetryAfter
}

func TestC16_AFloodedQueueLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	const size = 1000
	for name, o := range map[string]queue.Options{
		"calls": {MaxWaiting: 12},
		"bytes": {MaxBytesWaiting: 12 * size},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbleWith(t, o, func(t *testing.T, f *fixture) {
				open := f.store.Block(storagetest.Produce)
				var waiting []<-chan answer[[]queue.Produced]
				// flood produces to a queue until it is refused, and says how much waits.
				flood := func(name string) (n int) {
					for {
						c := start(func() ([]queue.Produced, error) {
							item := queue.ProduceItem{Content: queue.Content{Payload: make([]byte, size)}}
							return f.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: name, Items: []queue.ProduceItem{item}})
						})
						select {
						case a := <-c:
							wantOverloaded(t, a.err)
							return n
						default:
							waiting = append(waiting, c)
							n++
						}
					}
				}
				f.startProduce(t.Context(), items(1)...) // the store has it
				for i, want := range []int{6, 3, 2, 1, 0} {
					name := fmt.Sprint("flooded-", i)
					f.create(t, queue.Settings{Name: name})
					if got := flood(name); got != want {
						t.Errorf("queue %d: %d calls wait, want %d, which is what was free, or half of it", i, got, want)
					}
				}
				open()
				for _, c := range waiting {
					if a := <-c; a.err != nil {
						t.Error(a.err)
					}
				}
			})
		})
	}
}

func TestC16_QueuesTakeTurnsInABatch(t *testing.T) {
	t.Parallel()
	slowly(t, time.Millisecond, func(t *testing.T, b *queue.Broker, s *slowStore, orders, mails queue.Number) {
		calls := []<-chan answer[[]queue.Produced]{offer(b, "orders", 1)}
		for range 25 { // two batches and a half
			calls = append(calls, offer(b, "orders", queue.DefaultMaxItems))
		}
		calls = append(calls, offer(b, "mails", 1), offer(b, "mails", 1))
		for _, c := range calls {
			if a := <-c; a.err != nil {
				t.Fatal(a.err)
			}
		}
		if got := s.batches[1]; len(got) < 4 || !slices.Equal(got[:4], []queue.Number{orders, mails, orders, mails}) {
			t.Errorf("batch after the flood: got %v, want %v and %v in turn while both wait", got, orders, mails)
		}
		if got := len(s.batches); got != 4 {
			t.Errorf("got %d batches, want one, two that are full, and the rest", got)
		}
	})
}

func TestC16_WhatWouldComeTooLateIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	const takes = 2 * time.Second
	slowly(t, takes, func(t *testing.T, b *queue.Broker, _ *slowStore, _, _ queue.Number) {
		for range 50 { // so that the pace is known
			if a := <-offer(b, "orders", 1); a.err != nil {
				t.Fatal(a.err)
			}
		}
		calls := []<-chan answer[[]queue.Produced]{offer(b, "orders", 1)}
		for range 20 { // two full batches
			calls = append(calls, offer(b, "orders", queue.DefaultMaxItems))
		}
		select {
		case a := <-offer(b, "orders", 1):
			if again := wantOverloaded(t, a.err); again < 5*time.Second || again > 6*time.Second {
				t.Errorf("told to come back after %s, want some 6 s, which three batches take", again)
			}
		default:
			t.Error("a call with two batches of 2 s before it, and one that runs, waits")
		}
		// Where nobody waits it is the next one's turn, and it may leave again.
		ctx, cancel := context.WithCancel(t.Context())
		other := start(func() ([]queue.Produced, error) {
			return b.Produce(ctx, queue.ProduceCall{Namespace: ns, Queue: "mails", Items: items(1)})
		})
		cancel()
		if a := <-other; !errors.Is(a.err, context.Canceled) {
			t.Errorf("a call on another queue: got %v, want that it had waited", a.err)
		}
		for i, c := range calls {
			if a := <-c; a.err != nil {
				t.Errorf("call %d was let in: %v", i, a.err)
			}
		}
	})
}

func TestC16_WhatHasWaitedTooLongIsRefused(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		open := f.store.Block(storagetest.Produce)
		began := time.Now()
		first := f.startProduce(t.Context(), items(1)...)
		early := f.startProduce(t.Context(), items(1)...)
		<-time.After(longestWait - time.Second)
		late := f.startProduce(t.Context(), items(1)...)

		wantOverloaded(t, (<-early).err)
		if took := time.Since(began); took < longestWait || took > longestWait+100*time.Millisecond {
			t.Errorf("refused after %s, want %s", took, longestWait)
		}
		if !isPending(first) || !isPending(late) {
			t.Error("what the store has, or what came later, was refused as well")
		}
		open()
		for _, c := range []<-chan answer[[]queue.Produced]{first, late} {
			if a := <-c; a.err != nil {
				t.Error(a.err)
			}
		}
		if got := f.total(t, "orders"); got != 2 {
			t.Errorf("got %d items, want the two that were not refused", got)
		}
	})
}

func TestC16_WhatEndsLeasesMayWaitLonger(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.produce(t, "orders", items(2)...)
		leased := f.lease(t, "orders", 2)
		open := f.store.Block(storagetest.Settle)
		var calls []<-chan answer[[]queue.Settled]
		for _, it := range leased {
			calls = append(calls, start(func() ([]queue.Settled, error) {
				return f.Settle(context.Background(), settleCall(entry(it, queue.Complete)))
			}))
		}
		<-time.After(2 * longestWait)
		// While it waits, and produce is refused, all else goes on.
		open()
		for _, c := range calls {
			if a := <-c; a.err != nil {
				t.Error(a.err)
			}
		}
	})
}

func TestC16_SettlingGoesOnWhileProduceIsRefused(t *testing.T) {
	t.Parallel()
	bubbleWith(t, queue.Options{MaxWaiting: 1}, func(t *testing.T, f *fixture) {
		f.produce(t, "orders", items(3)...)
		leased := f.lease(t, "orders", 3)
		open := f.store.Block(storagetest.Produce)
		defer open()
		f.startProduce(t.Context(), items(1)...)
		f.startProduce(t.Context(), items(1)...)
		wantOverloaded(t, (<-f.startProduce(t.Context(), items(1)...)).err)

		f.settle(t, entry(leased[0], queue.Complete))
		f.settle(t, entry(leased[1], queue.Release))
		extended, err := f.Extend(t.Context(), ns, "", []queue.ExtendEntry{{Receipt: leased[2].Receipt()}})
		if err != nil || extended[0].Status != queue.Applied {
			t.Errorf("extend: got %+v, %v", extended, err)
		}
		f.leaseOne(t, "orders")
	})
}

// Five times as much as the store can do, for twenty seconds: what is accepted is as much as
// it can do, none of it late, and all else is told at once.
func TestC16_OverloadCostsNoThroughput(t *testing.T) {
	t.Parallel()
	const takes = time.Second // for ten calls of a thousand items
	slowly(t, takes, func(t *testing.T, b *queue.Broker, _ *slowStore, _, _ queue.Number) {
		type outcome struct {
			took time.Duration
			err  error
		}
		const calls = 20 * 50
		outcomes := make(chan outcome, calls)
		for range calls {
			go func() {
				began := time.Now()
				_, err := b.Produce(context.Background(), queue.ProduceCall{Namespace: ns, Queue: "orders", Items: items(queue.DefaultMaxItems)})
				outcomes <- outcome{time.Since(began), err}
			}()
			<-time.After(time.Second / 50)
		}
		accepted := 0
		for range calls {
			o := <-outcomes
			if o.err != nil {
				wantOverloaded(t, o.err)
			} else if accepted++; o.took > longestWait+2*takes {
				t.Errorf("accepted after %s, want %s and two batches at most", o.took, longestWait)
			}
		}
		if want := 200; accepted < want*95/100 {
			t.Errorf("%d calls were accepted, want the %d that the store can do", accepted, want)
		}
	})
}
