package queue_test

import (
	"testing"

	"github.com/posthaste-io/posthaste/queue"
)

// Another node takes over a change late, and misses nothing that the change brought.
func TestPartitions_ChangedByAnotherNode(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		other := newBroker(f.store, queue.Options{})
		f.parts(t, 1)
		call := queue.ProduceCall{Namespace: ns, Queue: "parts", Items: items(1)}
		if _, err := other.Produce(t.Context(), call); err != nil { // Knows of one partition now.
			t.Fatal(err)
		}
		s := f.repart(t, 9)
		f.putAt(t, s.Number, 7, 4)
		f.putAt(t, s.Number, 5, 4)

		page, err := other.Items(t.Context(), queue.ItemsQuery{Namespace: ns, Queue: "parts", Partition: 7, Limit: 10})
		if err != nil || len(page.Items) != 4 {
			t.Errorf("list: got %d items, %v, want 4", len(page.Items), err)
		}
		done, err := other.Clear(t.Context(), queue.ClearCall{Namespace: ns, Queue: "parts", Ready: true})
		if err != nil || done.Count != 9 {
			t.Errorf("clear: got %+v, %v, want all nine", done, err)
		}
	})
}

// A node that is late puts items where the others do not put any more: they wait for the
// partition to be forgotten until that is over.
func TestPartitions_AreRememberedUntilAllNodesKnow(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		late := newBroker(f.store, queue.Options{})
		s := f.parts(t, 8)
		call := queue.ProduceCall{Namespace: ns, Queue: "parts", Items: items(1)}
		if _, err := late.Produce(t.Context(), call); err != nil { // Knows of eight.
			t.Fatal(err)
		}
		f.lease(t, "parts", 1)
		f.repart(t, 1)
		if err := f.Tidy(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 30 {
			if _, err := late.Produce(t.Context(), call); err != nil {
				t.Fatal(err)
			}
		}
		left, err := f.Draining(t.Context(), []queue.Settings{f.settings(t, "parts")})
		if err != nil || len(left[s.Number]) < 6 {
			t.Fatalf("got %+v, %v, want what the late node put into read-only partitions", left, err)
		}
		n := 0
		for leased := f.lease(t, "parts", 50); len(leased) > 0; leased = f.lease(t, "parts", 50) {
			n += len(leased)
		}
		if n != 30 {
			t.Errorf("got %d items, want all 30", n)
		}
	})
}
