package queue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

// subscribers is a set of queues that are pushed to.
type subscribers map[string]bool

func (s subscribers) Subscribed(_ context.Context, _ queue.Namespace, name string) (bool, error) {
	return s[name], nil
}

func (s subscribers) Unsubscribe(_ context.Context, _ queue.Namespace, name string) error {
	delete(s, name)
	return nil
}

func (s subscribers) Turn(context.Context, queue.Namespace, string, queue.Number) (queue.SubscriptionTurn, error) {
	return queue.SubscriptionTurn{}, nil
}

func TestDelete_RefusesWhatIsInUse(t *testing.T) {
	t.Parallel()
	pushed := subscribers{"pushed": true}
	bubbleWith(t, queue.Options{Subscribers: pushed}, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "pushed"})
		f.create(t, queue.Settings{Name: "graveyard"})
		f.create(t, queue.Settings{Name: "quick", DeadQueue: "graveyard"})
		if _, err := f.EnsureQueue(t.Context(), ns, "quick~dead"); err != nil {
			t.Fatal(err)
		}
		f.create(t, queue.Settings{Name: "full"})
		f.produce(t, "full", items(1)...)
		f.create(t, queue.Settings{Name: "held"})
		f.produce(t, "held", items(1)...)
		f.leaseOne(t, "held")
		if _, err := f.EnsureQueue(t.Context(), ns, "orders~dead"); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"pushed", "graveyard", "full", "held", "orders~dead"} {
			if err := f.DeleteQueue(t.Context(), ns, name, false); !errors.Is(err, queue.ErrNotEmpty) {
				t.Errorf("%s: got %v, want ErrNotEmpty", name, err)
			}
			f.produce(t, name, items(1)...) // It goes on as before.
		}
		if !pushed["pushed"] {
			t.Error("the subscription is gone")
		}
		for _, name := range []string{"quick~dead", "quick"} { // The former is nobody's.
			if err := f.DeleteQueue(t.Context(), ns, name, false); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := f.DeleteQueue(t.Context(), ns, "quick", false); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("second time: got %v, want ErrNotFound", err)
		}
		if f.settings(t, "graveyard").DeadLetter {
			t.Error("graveyard is still a dead-letter queue, though nobody names it")
		}
	})
}

func TestDelete_ForceCancelsEverything(t *testing.T) {
	t.Parallel()
	pushed := subscribers{"orders": true}
	bubbleWith(t, queue.Options{Subscribers: pushed}, func(t *testing.T, f *fixture) {
		for range 3 {
			f.produce(t, "orders", items(1000)...)
		}
		it := f.leaseOne(t, "orders")
		number := f.settings(t, "orders").Number
		if err := f.DeleteQueue(t.Context(), ns, "orders", true); err != nil {
			t.Fatal(err)
		}
		if pushed["orders"] {
			t.Error("the subscription is still there")
		}
		if stats, err := f.model.Stats(t.Context(), nil); err != nil || len(stats) != 0 {
			t.Errorf("got %+v, %v, want no items", stats, err)
		}
		if got := ending(t, f, it.ID); got != "queue_deleted" {
			t.Errorf("ending record: got %q, want queue_deleted", got)
		}
		_, err := f.Settle(t.Context(), settleCall(entry(it, queue.Complete)))
		wantRefused(t, err, map[int]error{0: queue.ErrNotFound})
		if again := f.create(t, queue.Settings{Name: "orders"}); again.Number == number {
			t.Error("the number was used again")
		}
		if got := f.lease(t, "orders", 1); len(got) != 0 {
			t.Errorf("got %d items, want none", len(got))
		}
	})
}

func TestDelete_ForcedDeadLetterQueueLeavesOthersWithTheirOwn(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "graveyard"})
		f.create(t, queue.Settings{Name: "quick", DeadQueue: "graveyard"})
		f.produce(t, "quick", items(2)...)
		f.settle(t, entry(f.leaseOne(t, "quick"), queue.Bury))
		if err := f.DeleteQueue(t.Context(), ns, "graveyard", true); err != nil {
			t.Fatal(err)
		}
		if got := f.settings(t, "quick").DeadQueue; got != "" {
			t.Errorf("dead queue: got %q, want none", got)
		}
		f.settle(t, entry(f.leaseOne(t, "quick"), queue.Bury))
		if got := f.total(t, "quick~dead"); got != 1 {
			t.Errorf("got %d items in quick~dead, want 1", got)
		}
	})
}

func TestDelete_AnswersWhoWaits(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		waiting := f.startLease(t.Context(), waitFor(1, time.Minute))
		if err := f.DeleteQueue(t.Context(), ns, "orders", false); err != nil {
			t.Fatal(err)
		}
		if a := <-waiting; !errors.Is(a.err, queue.ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", a.err)
		}
	})
}

// A produce that is on its way when the queue is deleted is either counted, and then
// the queue stays, or it is told that there is no such queue.
func TestINV01_DeletionWaitsForProducesOnTheirWay(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		openFirst := f.store.Block(storagetest.Produce)
		first := f.startProduce(t.Context(), items(1)...)
		second := f.startProduce(t.Context(), items(1)...)
		openSecond := f.store.Block(storagetest.Produce)
		deletion := start(func() (struct{}, error) {
			return struct{}{}, f.DeleteQueue(t.Context(), ns, "orders", false)
		})
		late := f.startProduce(t.Context(), items(1)...)
		openFirst()
		if a := <-first; a.err != nil {
			t.Errorf("first produce: %v", a.err)
		}
		stats := f.store.Calls(storagetest.Stats)
		if !isPending(deletion) || stats != 0 {
			t.Fatal("the deletion went on under a produce")
		}
		openSecond()
		if a := <-second; a.err != nil {
			t.Errorf("second produce: %v", a.err)
		}
		if a := <-deletion; !errors.Is(a.err, queue.ErrNotEmpty) {
			t.Errorf("deletion: got %v, want ErrNotEmpty", a.err)
		}
		if a := <-late; a.err != nil {
			t.Errorf("produce that waited for the deletion: %v", a.err)
		}
		if got := f.total(t, "orders"); got != 3 {
			t.Errorf("got %d items, want 3", got)
		}
	})
}

func TestDelete_ProduceThatWaitedForItFindsNoQueue(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		open := f.store.Block(storagetest.Stats)
		deletion := start(func() (struct{}, error) {
			return struct{}{}, f.DeleteQueue(t.Context(), ns, "orders", false)
		})
		late := f.startProduce(t.Context(), items(1)...)
		ctx, cancel := context.WithCancel(t.Context())
		leaving := f.startProduce(ctx, items(1)...)
		cancel()
		if a := <-leaving; !errors.Is(a.err, context.Canceled) {
			t.Errorf("produce that left: got %v, want context.Canceled", a.err)
		}
		open()
		if a := <-deletion; a.err != nil {
			t.Errorf("deletion: %v", a.err)
		}
		if a := <-late; !errors.Is(a.err, queue.ErrNotFound) {
			t.Errorf("produce: got %v, want ErrNotFound", a.err)
		}
	})
}

func TestDelete_ThatIsGivenUpLeavesTheQueueOpen(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		open := f.store.Block(storagetest.Produce)
		onItsWay := f.startProduce(t.Context(), items(1)...)
		ctx, cancel := context.WithCancel(t.Context())
		deletion := start(func() (struct{}, error) { return struct{}{}, f.DeleteQueue(ctx, ns, "orders", true) })
		cancel()
		if a := <-deletion; !errors.Is(a.err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", a.err)
		}
		open()
		<-onItsWay
		f.produce(t, "orders", items(1)...)
	})
}

// Whatever of a deletion the store did or did not do, the next look-up sees it.
func TestDelete_OutcomeThatIsNotKnownIsReadAgain(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.store.FailBefore(storagetest.DeleteDocument, 1, queue.ErrUnknownOutcome)
		if err := f.DeleteQueue(t.Context(), ns, "orders", true); !errors.Is(err, queue.ErrUnknownOutcome) {
			t.Errorf("got %v, want ErrUnknownOutcome", err)
		}
		f.produce(t, "orders", items(1)...) // It was not done.
		f.store.FailAfter(storagetest.DeleteDocument, 1, queue.ErrUnknownOutcome)
		if err := f.DeleteQueue(t.Context(), ns, "orders", true); !errors.Is(err, queue.ErrUnknownOutcome) {
			t.Errorf("got %v, want ErrUnknownOutcome", err)
		}
		_, err := f.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "orders", Items: items(1)})
		if !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("produce: got %v, want ErrNotFound", err)
		}
		// What was left is found by the tidying, once nothing can be on its way.
		f.tidyLater(t)
		if stats, err := f.model.Stats(t.Context(), nil); err != nil || len(stats) != 0 {
			t.Errorf("got %+v, %v, want no items", stats, err)
		}
	})
}

func TestTidy_CancelsWhatADeletionLeft(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "kept"})
		f.produce(t, "kept", items(1)...)
		f.produce(t, "orders", queue.ProduceItem{ExpireTTL: time.Second})
		f.store.FailBefore(storagetest.DeleteDocument, 1, queue.ErrUnavailable)
		if err := f.DeleteQueue(t.Context(), ns, "kept", true); !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("got %v, want ErrUnavailable", err)
		}
		f.store.FailBefore(storagetest.Purge, 1, queue.ErrUnavailable)
		if err := f.DeleteQueue(t.Context(), ns, "orders", true); err != nil {
			t.Fatal(err) // The queue is gone all the same.
		}
		// A queue of the same name has nothing to do with what is left.
		f.create(t, queue.Settings{Name: "orders"})
		<-time.After(time.Second)
		if n, err := f.Sweep(t.Context()); err != nil || n != 0 {
			t.Errorf("sweep: got %d buried, %v, want none", n, err)
		}
		<-time.After(2 * time.Minute)
		for range 2 {
			if err := f.Tidy(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		stats, err := f.model.Stats(t.Context(), nil)
		if err != nil || len(stats) != 1 || stats[0].Queue != f.settings(t, "kept").Number {
			t.Errorf("got %+v, %v, want only the item of the queue that was not deleted", stats, err)
		}
		f.settle(t, entry(f.leaseOne(t, "kept"), queue.Complete))
	})
}

func TestDelete_DeadLetterQueueOfTheSystemStaysOne(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.produce(t, "orders", items(1)...)
		f.settle(t, entry(f.leaseOne(t, "orders"), queue.Bury))
		f.create(t, queue.Settings{Name: "quick", DeadQueue: "orders~dead"})
		for _, name := range []string{"orders", "quick"} {
			if err := f.DeleteQueue(t.Context(), ns, name, false); err != nil {
				t.Fatal(err)
			}
		}
		if !f.settings(t, "orders~dead").DeadLetter {
			t.Error("orders~dead is an ordinary queue, though what it holds was buried")
		}
	})
}
