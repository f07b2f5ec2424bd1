package scheduler_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/scheduler"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

// With the real broker: a lease that waits gets each delayed item when it is due,
// those too that lay in the store before this process began.
func TestScheduler_DelayedItemsAreLeasedOnTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := storagetest.NewModel(time.Now)
		before := newQueueBroker(store)
		settings := queue.Settings{Namespace: queue.DefaultNamespace, Name: "orders"}
		if _, err := before.CreateQueue(t.Context(), settings); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		produce(t, before, 4700*time.Millisecond, 700*time.Millisecond)

		b := newQueueBroker(store)
		s := scheduler.New(scheduler.Options{Broker: b})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		produce(t, b, 2345*time.Millisecond, 300*time.Millisecond)

		for _, want := range []time.Duration{300, 700, 2345, 4700} {
			reply, err := b.Lease(t.Context(), queue.LeaseParams{
				Namespace: queue.DefaultNamespace, Queue: "orders", Limit: 10, Wait: time.Minute,
			})
			if err != nil || len(reply.Items) != 1 {
				t.Fatalf("%d items, %v", len(reply.Items), err)
			}
			if late := time.Since(start) - want*time.Millisecond; late < 0 || late > 2*time.Millisecond {
				t.Errorf("the item that is due after %d ms came %v late", want, late)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

func newQueueBroker(store storage.Backend) *queue.Broker {
	return queue.New(store, queue.Options{
		Queues:   storage.NewCollection[queue.Settings](store, "queue"),
		Counters: storage.NewCollection[queue.Counter](store, "counter"),
		Numbers:  storage.NewCollection[queue.NumberEntry](store, "queue-number"),
	})
}

func produce(t *testing.T, b *queue.Broker, delays ...time.Duration) {
	t.Helper()
	call := queue.ProduceCall{Namespace: queue.DefaultNamespace, Queue: "orders"}
	for _, delay := range delays {
		call.Items = append(call.Items, queue.ProduceItem{Delay: delay})
	}
	if _, err := b.Produce(t.Context(), call); err != nil {
		t.Fatal(err)
	}
}
