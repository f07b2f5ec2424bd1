package schedules_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/scheduler"
)

// later items are due next month. With a million the others are leased as soon; it takes a
// minute to make them.
const later = 100_000

// soon is how long what is due may take to be leased.
const soon = slower * time.Second

// Not in parallel: it measures.
func TestC07_ItemsOfNextMonthHoldNothingUp(t *testing.T) {
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			store, err := s.open(t)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			})
			broker := newBroker(store)
			runScheduler(t, scheduler.New(scheduler.Options{Broker: broker}))
			if _, err := broker.CreateQueue(t.Context(), queue.Settings{Namespace: ns, Name: "orders"}); err != nil {
				t.Fatal(err)
			}
			const batch, ten = 1000, 10
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for range later / batch / 4 {
						produceLater(t, broker, batch, 30*24*time.Hour)
					}
				})
			}
			wg.Wait()

			for _, delay := range []time.Duration{0, 2 * time.Second} {
				due := time.Now().Add(delay)
				produceLater(t, broker, ten, delay)
				for left := ten; left > 0; {
					reply, err := broker.Lease(t.Context(), queue.LeaseParams{Namespace: ns, Queue: "orders", Limit: ten, Wait: time.Minute})
					if err != nil || len(reply.Items) == 0 {
						t.Fatalf("leased %d, %v; want what is due", len(reply.Items), err)
					}
					left -= len(reply.Items)
				}
				late := time.Since(due)
				t.Logf("%d items with a delay of %v were leased %v late, beside %d", ten, delay, late.Round(time.Millisecond), later)
				if late < 0 || late > soon {
					t.Errorf("leased %v after they were due, want %v at most", late, soon)
				}
			}
		})
	}
}

func produceLater(t *testing.T, broker *queue.Broker, n int, delay time.Duration) {
	t.Helper()
	items := make([]queue.ProduceItem, n)
	for i := range items {
		items[i].Delay = delay
	}
	if _, err := broker.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "orders", Items: items}); err != nil {
		t.Errorf("produce: %v", err)
	}
}

// runScheduler runs until the test ends, before its store is closed.
func runScheduler(t *testing.T, s *scheduler.Scheduler) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}
