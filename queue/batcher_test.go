package queue_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

func TestBatcher_JoinsCallsWhileTheStoreIsBusy(t *testing.T) {
	t.Parallel()
	const callers = 64
	for verb, call := range map[storagetest.Verb]func(f *fixture, it queue.Item) error{
		storagetest.Produce: func(f *fixture, it queue.Item) error {
			_, err := f.Produce(context.Background(), queue.ProduceCall{Namespace: ns, Queue: "orders", Items: items(1)})
			return err
		},
		storagetest.Settle: func(f *fixture, it queue.Item) error {
			_, err := f.Settle(context.Background(), settleCall(entry(it, queue.Complete)))
			return err
		},
		storagetest.Extend: func(f *fixture, it queue.Item) error {
			_, err := f.Extend(context.Background(), ns, "", []queue.ExtendEntry{{Receipt: it.Receipt()}})
			return err
		},
	} {
		t.Run(string(verb), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, f *fixture) {
				f.produce(t, "orders", items(callers)...)
				leased := f.lease(t, "orders", callers)
				before := f.store.Calls(verb)
				open := f.store.Block(verb)
				errs := make(chan error, callers) // One for each call.
				for _, it := range leased {
					go func() { errs <- call(f, it) }()
				}
				synctest.Wait()
				open()
				for range callers {
					if err := <-errs; err != nil {
						t.Fatal(err)
					}
				}
				// The first may go alone; the others gather behind it.
				if got := f.store.Calls(verb) - before; got > 2 {
					t.Errorf("%d callers: got %d calls of the store, want 2 at most", callers, got)
				}
			})
		})
	}
}

func TestBatcher_BoundsABatch(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		before := f.store.Calls(storagetest.Produce)
		open := f.store.Block(storagetest.Produce)
		var calls []<-chan answer[[]queue.Produced]
		for range 1 + 2*queue.MaxBatchEntries/queue.DefaultMaxItems {
			calls = append(calls, f.startProduce(t.Context(), items(queue.DefaultMaxItems)...))
		}
		open()
		for _, c := range calls {
			if a := <-c; a.err != nil {
				t.Fatal(a.err)
			}
		}
		if got := f.store.Calls(storagetest.Produce) - before; got != 3 {
			t.Errorf("got %d calls of the store, want 3: one, and two that are full", got)
		}
	})
}

func TestBatcher_ShedsOverload(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options queue.Options
		payload int
	}{
		"calls": {queue.Options{MaxWaiting: 3}, 1},
		"bytes": {queue.Options{MaxBytesWaiting: 3000}, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbleWith(t, test.options, func(t *testing.T, f *fixture) {
				open := f.store.Block(storagetest.Produce)
				var calls []<-chan answer[[]queue.Produced]
				for range 4 { // One that the store has, two that wait, and one more.
					calls = append(calls, f.startProduce(t.Context(), queue.ProduceItem{Content: queue.Content{Payload: make([]byte, test.payload)}}))
				}
				a := <-calls[3]
				overloaded, ok := errors.AsType[*queue.OverloadedError](a.err)
				if !ok || overloaded.RetryAfter <= 0 {
					t.Errorf("call over the bound: got %v, want an OverloadedError that says when to come back", a.err)
				}
				open()
				for _, c := range calls[:3] {
					if a := <-c; a.err != nil {
						t.Error(a.err)
					}
				}
				if got := f.total(t, "orders"); got != 3 {
					t.Errorf("got %d items, want 3: what was refused was not kept", got)
				}
				f.produce(t, "orders", items(1)...) // There is room again.
			})
		})
	}
}

func TestBatcher_CallThatLeavesBeforeItsBatchDidNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		open := f.store.Block(storagetest.Produce)
		first := f.startProduce(t.Context(), items(1)...)
		ctx, cancel := context.WithCancel(t.Context())
		second := f.startProduce(ctx, items(1)...)
		cancel()
		if a := <-second; !errors.Is(a.err, context.Canceled) || errors.Is(a.err, queue.ErrUnknownOutcome) {
			t.Errorf("got %v, want context.Canceled", a.err)
		}
		open()
		<-first
		synctest.Wait()
		if got := f.total(t, "orders"); got != 1 {
			t.Errorf("got %d items, want only the first one's", got)
		}
	})
}

func TestBatcher_CallThatLeavesMakesRoom(t *testing.T) {
	t.Parallel()
	bubbleWith(t, queue.Options{MaxBytesWaiting: 1500}, func(t *testing.T, f *fixture) {
		item := queue.ProduceItem{Content: queue.Content{Payload: make([]byte, 500)}}
		open := f.store.Block(storagetest.Produce)
		calls := []<-chan answer[[]queue.Produced]{f.startProduce(t.Context(), item), f.startProduce(t.Context(), item)}
		ctx, cancel := context.WithCancel(t.Context())
		f.startProduce(ctx, item)
		cancel()
		synctest.Wait()
		calls = append(calls, f.startProduce(t.Context(), item))
		open()
		for i, c := range calls {
			if a := <-c; a.err != nil {
				t.Errorf("call %d: %v", i, a.err)
			}
		}
	})
}

func TestBatcher_CallThatLeavesAfterwardsKnowsNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		p := params(1)
		p.Wait = time.Minute
		waiting := f.startLease(t.Context(), p)
		open := f.store.Block(storagetest.Produce)
		ctx, cancel := context.WithCancel(t.Context())
		left := f.startProduce(ctx, items(1)...)
		cancel()
		if a := <-left; !errors.Is(a.err, queue.ErrUnknownOutcome) {
			t.Errorf("got %v, want ErrUnknownOutcome", a.err)
		}
		open()
		// The item is there, and wakes who waits for it.
		if a := <-waiting; a.err != nil || len(a.value.Items) != 1 {
			t.Errorf("lease: got %+v, want the item", a)
		}
	})
}

func TestBatcher_StoreThatDoesNotAnswerLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		open := f.store.Block(storagetest.Produce)
		defer open()
		began := time.Now()
		a := <-f.startProduce(t.Context(), items(1)...)
		if took := time.Since(began); !errors.Is(a.err, queue.ErrUnknownOutcome) || took != queue.DefaultStoreTimeout {
			t.Errorf("got %v after %s, want ErrUnknownOutcome after %s", a.err, took, queue.DefaultStoreTimeout)
		}
	})
}

// pickyStore chokes on one payload, with an error that the contract does not name.
type pickyStore struct {
	storage.Backend
	bad string
}

func (s pickyStore) Produce(ctx context.Context, groups []queue.ProduceGroup) (queue.ProduceAnswer, error) {
	for _, g := range groups {
		for i := range g.Items {
			if string(g.Items[i].Payload) == s.bad {
				return queue.ProduceAnswer{}, errTest
			}
		}
	}
	return s.Backend.Produce(ctx, groups)
}

func TestD16_OneBadItemDoesNotFailItsBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		faulty := storagetest.NewFaulty(storagetest.NewModel(time.Now))
		b := newBroker(pickyStore{faulty, "c"}, queue.Options{})
		if _, err := b.CreateQueue(t.Context(), queue.Settings{Namespace: ns, Name: "orders"}); err != nil {
			t.Fatal(err)
		}
		open := faulty.Block(storagetest.Produce)
		var calls []<-chan answer[[]queue.Produced]
		for _, it := range items(7) {
			calls = append(calls, start(func() ([]queue.Produced, error) {
				return b.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "orders", Items: []queue.ProduceItem{it}})
			}))
		}
		open()
		for i, c := range calls {
			a := <-c
			if want := map[bool]error{true: errTest}[i == 2]; !errors.Is(a.err, want) {
				t.Errorf("call %d: got %v, want %v", i, a.err, want)
			}
		}
	})
}

func TestBatcher_KnownTroubleIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	for _, trouble := range []error{queue.ErrUnavailable, queue.ErrUnknownOutcome, queue.ErrDiskFull} {
		t.Run(fmt.Sprint(trouble), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, f *fixture) {
				open := f.store.Block(storagetest.Produce)
				first := f.startProduce(t.Context(), items(1)...)
				second, third := f.startProduce(t.Context(), items(1)...), f.startProduce(t.Context(), items(1)...)
				f.store.FailBefore(storagetest.Produce, 1, trouble)
				open()
				if a := <-first; a.err != nil {
					t.Error(a.err)
				}
				for _, c := range []<-chan answer[[]queue.Produced]{second, third} {
					if a := <-c; !errors.Is(a.err, trouble) {
						t.Errorf("got %v, want %v", a.err, trouble)
					}
				}
				if got := f.store.Calls(storagetest.Produce); got != 2 {
					t.Errorf("got %d calls of the store, want 2", got)
				}
			})
		})
	}
}
