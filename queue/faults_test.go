package queue_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

// verbCalls are the broker's verbs, each with an item that is leased and one that
// is not, and what tells that it was done.
var verbCalls = map[storagetest.Verb]struct {
	call func(ctx context.Context, f *fixture, leased queue.Item) error
	done func(t *testing.T, f *fixture, leased queue.Item) bool
}{
	storagetest.Produce: {
		func(ctx context.Context, f *fixture, _ queue.Item) error {
			_, err := f.Produce(ctx, queue.ProduceCall{Namespace: ns, Queue: "orders", Items: items(1)})
			return err
		},
		func(t *testing.T, f *fixture, _ queue.Item) bool { return f.total(t, "orders") == 3 },
	},
	storagetest.Lease: {
		func(ctx context.Context, f *fixture, _ queue.Item) error {
			_, err := f.Lease(ctx, waitFor(1, time.Second))
			return err
		},
		func(t *testing.T, f *fixture, _ queue.Item) bool {
			stats, err := f.model.Stats(t.Context(), nil)
			return err == nil && stats[0].Held == 2
		},
	},
	storagetest.Settle: {
		func(ctx context.Context, f *fixture, leased queue.Item) error {
			_, err := f.Settle(ctx, settleCall(entry(leased, queue.Complete)))
			return err
		},
		func(t *testing.T, f *fixture, _ queue.Item) bool { return f.total(t, "orders") == 1 },
	},
	storagetest.Extend: {
		func(ctx context.Context, f *fixture, leased queue.Item) error {
			_, err := f.Extend(ctx, ns, "", []queue.ExtendEntry{{Receipt: leased.Receipt(), TTL: time.Hour}})
			return err
		},
		func(t *testing.T, f *fixture, leased queue.Item) bool {
			return f.find(t, leased.ID).AvailableAt.After(leased.AvailableAt)
		},
	},
}

// An answer without an error is the only one that says done, and whatever the store
// answered is passed on: nothing acknowledges a write that was lost.
func TestINV01_EveryVerbPassesOnWhatTheStoreAnswers(t *testing.T) {
	t.Parallel()
	type fault struct {
		name  string
		order func(f *fixture, verb storagetest.Verb)
		want  error
		done  bool
	}
	for verb, v := range verbCalls {
		for _, fault := range []fault{
			{"no fault", func(*fixture, storagetest.Verb) {}, nil, true},
			{"unavailable", func(f *fixture, verb storagetest.Verb) { f.store.FailBefore(verb, 1, queue.ErrUnavailable) }, queue.ErrUnavailable, false},
			{"disk full", func(f *fixture, verb storagetest.Verb) { f.store.FailBefore(verb, 1, queue.ErrDiskFull) }, queue.ErrDiskFull, false},
			{"unforeseen", func(f *fixture, verb storagetest.Verb) { f.store.FailBefore(verb, 1, errTest) }, errTest, false},
			{"lost answer", func(f *fixture, verb storagetest.Verb) { f.store.FailAfter(verb, 1, queue.ErrUnknownOutcome) }, queue.ErrUnknownOutcome, true},
		} {
			t.Run(string(verb)+", "+fault.name, func(t *testing.T) {
				t.Parallel()
				bubble(t, func(t *testing.T, f *fixture) {
					f.produce(t, "orders", items(2)...)
					leased := f.leaseOne(t, "orders")
					fault.order(f, verb)
					if err := v.call(t.Context(), f, leased); !errors.Is(err, fault.want) {
						t.Errorf("got %v, want %v", err, fault.want)
					}
					if got := v.done(t, f, leased); got != fault.done {
						t.Errorf("done is %v, want %v", got, fault.done)
					}
				})
			})
		}
	}
}

func TestBroker_WorksAgainOnceTheStoreDoes(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.produce(t, "orders", items(2)...)
		leased := f.leaseOne(t, "orders")
		f.store.Down()
		for verb, v := range verbCalls {
			if err := v.call(t.Context(), f, leased); !errors.Is(err, queue.ErrUnavailable) {
				t.Errorf("%s while the store is down: got %v, want ErrUnavailable", verb, err)
			}
		}
		f.store.Up()
		for _, verb := range []storagetest.Verb{storagetest.Extend, storagetest.Lease, storagetest.Produce, storagetest.Settle} {
			if err := verbCalls[verb].call(t.Context(), f, leased); err != nil {
				t.Errorf("%s afterwards: %v", verb, err)
			}
		}
	})
}

// An error of one look must not leave those behind waiting for a look that never comes.
func TestLease_FailedLookLeavesNobodyBehind(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		open := f.store.Block(storagetest.Lease)
		first := f.startLease(t.Context(), params(1))
		var others []<-chan answer[queue.LeaseReply]
		for range 100 { // More than one look takes.
			others = append(others, f.startLease(t.Context(), params(1)))
		}
		f.store.FailBefore(storagetest.Lease, 1, queue.ErrUnavailable)
		open()
		<-first
		failed := 0
		for _, c := range others {
			if a := <-c; a.err != nil {
				failed++
			}
		}
		if failed == 0 || failed == len(others) {
			t.Errorf("%d of %d calls failed, want those of the failed look and no others", failed, len(others))
		}
	})
}

func TestSettle_DeadLetterQueueThatCannotBeMadeFailsTheCall(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]int{"counter": 1, "number": 2, "settings": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, f *fixture) {
				f.produce(t, "orders", items(1)...)
				it := f.leaseOne(t, "orders")
				f.store.FailBefore(storagetest.PutDocument, n, queue.ErrUnavailable)
				_, err := f.Settle(t.Context(), settleCall(entry(it, queue.Bury)))
				if !errors.Is(err, queue.ErrUnavailable) {
					t.Errorf("got %v, want ErrUnavailable", err)
				}
				f.settle(t, entry(it, queue.Bury))
				if got := f.total(t, "orders~dead"); got != 1 {
					t.Errorf("got %d items in orders~dead, want 1", got)
				}
				// However often it is tried, it takes one number.
				if got, want := f.settings(t, "orders~dead").Number, queue.NewNumber(ns, 2); got != want {
					t.Errorf("orders~dead has the number %d, want %d", got.Own(), want.Own())
				}
			})
		})
	}
}

func TestRun_AnswersAllBeforeItReturns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(queue.Options{})
		f.create(t, queue.Settings{Name: "orders"})
		f.create(t, queue.Settings{Name: "busy"})
		f.produce(t, "busy", items(1)...)
		ctx, stop := context.WithCancel(t.Context())
		ended := start(func() (struct{}, error) { return struct{}{}, f.Run(ctx) })

		waiting := f.startLease(t.Context(), waitFor(1, time.Minute))
		openProduce, openLease := f.store.Block(storagetest.Produce), f.store.Block(storagetest.Lease)
		busy := params(1)
		busy.Queue = "busy"
		looking := f.startLease(t.Context(), busy)
		first := f.startProduce(t.Context(), items(1)...)
		second := f.startProduce(t.Context(), items(1)...)

		stop()
		if a := <-waiting; !errors.Is(a.err, queue.ErrShuttingDown) {
			t.Errorf("lease that waits: got %v, want ErrShuttingDown", a.err)
		}
		if _, err := f.Lease(t.Context(), params(1)); !errors.Is(err, queue.ErrShuttingDown) {
			t.Errorf("new lease: got %v, want ErrShuttingDown", err)
		}
		if !isPending(ended) {
			t.Fatal("Run returned while the store was at work")
		}
		openLease()
		if a := <-looking; a.err != nil || len(a.value.Items) != 1 {
			t.Errorf("lease that the store had: got %+v, want the item", a)
		}
		synctest.Wait()
		if _, err := f.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "orders", Items: items(1)}); !errors.Is(err, queue.ErrShuttingDown) {
			t.Errorf("new produce: got %v, want ErrShuttingDown", err)
		}
		openProduce()
		for i, c := range []<-chan answer[[]queue.Produced]{first, second} {
			if a := <-c; a.err != nil {
				t.Errorf("produce %d that was under way: %v", i, a.err)
			}
		}
		if a := <-ended; a.err != nil {
			t.Errorf("Run: %v", a.err)
		}
		if got := f.total(t, "orders"); got != 2 {
			t.Errorf("got %d items, want the two that were acknowledged", got)
		}
	})
}

func TestRun_WaitsForTheStoresLastLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(queue.Options{})
		f.create(t, queue.Settings{Name: "orders"})
		ctx, stop := context.WithCancel(t.Context())
		ended := start(func() (struct{}, error) { return struct{}{}, f.Run(ctx) })
		open := f.store.Block(storagetest.Lease)
		looking := f.startLease(t.Context(), params(1))
		stop()
		synctest.Wait()
		select {
		case <-ended:
			t.Error("Run returned while the store was at work")
		default:
		}
		open()
		if a := <-looking; !errors.Is(a.err, queue.ErrShuttingDown) {
			t.Errorf("lease that found nothing: got %v, want ErrShuttingDown", a.err)
		}
	})
}

func TestDrain_EndsWaitsAndNothingElse(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.produce(t, "orders", items(1)...)
		it := f.leaseOne(t, "orders")
		waiting := f.startLease(t.Context(), waitFor(1, time.Minute))
		f.Drain()
		if a := <-waiting; !errors.Is(a.err, queue.ErrShuttingDown) {
			t.Errorf("got %v, want ErrShuttingDown", a.err)
		}
		f.settle(t, entry(it, queue.Release))
		f.produce(t, "orders", items(1)...)
	})
}
