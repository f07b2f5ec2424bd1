package queue_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// lowered makes the queue "parts" with 60 items in 6 partitions, of which 4 are read-only.
func (f *fixture) lowered(t *testing.T) queue.Settings {
	t.Helper()
	f.parts(t, 6)
	for i := range 30 {
		made := items(2)
		made[0].Kind = fmt.Sprint("kind-", i%2)
		made[1].Delay = time.Hour
		f.produce(t, "parts", made...)
	}
	return f.repart(t, 2)
}

func TestPartitions_EveryCallCoversReadOnlyOnes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		do   func(t *testing.T, f *fixture) (int, error)
		want int
	}{
		"clear what is ready": {func(t *testing.T, f *fixture) (int, error) {
			done, err := f.Clear(t.Context(), queue.ClearCall{Namespace: ns, Queue: "parts", Ready: true})
			return done.Count, err
		}, 30},
		"clear what is scheduled": {func(t *testing.T, f *fixture) (int, error) {
			done, err := f.Clear(t.Context(), queue.ClearCall{Namespace: ns, Queue: "parts", Scheduled: true})
			return done.Count, err
		}, 30},
		"cancel by kind": {func(t *testing.T, f *fixture) (int, error) {
			done, err := f.Cancel(t.Context(), queue.CancelCall{Namespace: ns, Queue: "parts", Kind: "kind-1"})
			return done.Count, err
		}, 15},
		"cancel by state": {func(t *testing.T, f *fixture) (int, error) {
			done, err := f.Cancel(t.Context(), queue.CancelCall{Namespace: ns, Queue: "parts", State: queue.Ready})
			return done.Count, err
		}, 30},
		"delete by force": {func(t *testing.T, f *fixture) (int, error) {
			return 60, f.DeleteQueue(t.Context(), ns, "parts", true)
		}, 60},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, f *fixture) {
				q := f.lowered(t)
				got, err := test.do(t, f)
				if err != nil || got != test.want {
					t.Errorf("got %d, %v, want %d", got, err, test.want)
				}
				stats, err := f.model.Stats(t.Context(), []queue.Number{q.Number})
				if err != nil {
					t.Fatal(err)
				}
				left := 0
				for _, st := range stats {
					left += st.Total
				}
				if left != 60-test.want {
					t.Errorf("%d items are left, want %d", left, 60-test.want)
				}
			})
		})
	}
}

func TestPartitions_DeleteSeesReadOnlyOnes(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.lowered(t)
		for p := range int32(2) {
			page, err := f.Items(t.Context(), queue.ItemsQuery{Namespace: ns, Queue: "parts", Partition: p, Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			var ids []queue.ID
			for i := range page.Items {
				ids = append(ids, page.Items[i].ID)
			}
			if _, err := f.Cancel(t.Context(), queue.CancelCall{Namespace: ns, Queue: "parts", IDs: ids}); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.DeleteQueue(t.Context(), ns, "parts", false); !errors.Is(err, queue.ErrNotEmpty) {
			t.Errorf("got %v, want %v", err, queue.ErrNotEmpty)
		}
	})
}

func TestPartitions_ListsAreOfOne(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.lowered(t)
		seen := 0
		for p := range int32(6) {
			page, err := f.Items(t.Context(), queue.ItemsQuery{Namespace: ns, Queue: "parts", Partition: p, Limit: 100})
			if err != nil || len(page.Items) == 0 {
				t.Fatalf("partition %d: got %d items, %v", p, len(page.Items), err)
			}
			seen += len(page.Items)
		}
		if seen != 60 {
			t.Errorf("the partitions list %d items, want 60", seen)
		}
		for _, p := range []int32{-1, 6, 64} {
			_, err := f.Items(t.Context(), queue.ItemsQuery{Namespace: ns, Queue: "parts", Partition: p, Limit: 1})
			wantInvalid(t, err, "partition")
			_, err = f.Cancel(t.Context(), queue.CancelCall{Namespace: ns, Queue: "parts", Partition: p, IDs: []queue.ID{queue.NewID()}})
			wantInvalid(t, err, "partition")
		}
	})
}

func TestPartitions_ImportGoesWhereItIsTold(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.lowered(t)
		call := queue.ImportCall{Namespace: ns, Queue: "parts", Partition: 1, Items: []queue.ImportItem{{}}}
		call.Items[0].SourceID = "a"
		kept, err := f.Import(t.Context(), call)
		if err != nil || kept[0].Partition != 1 {
			t.Errorf("got %+v, %v, want partition 1", kept, err)
		}
		for _, p := range []int32{2, 6} {
			call.Partition = p
			_, err := f.Import(t.Context(), call)
			wantInvalid(t, err, "partition")
		}
		call.Partition = 0
		for i := range 40 {
			call.Items[0].SourceID = fmt.Sprint(i)
			if _, err := f.Import(t.Context(), call); err != nil {
				t.Fatal(err)
			}
		}
		if got := f.totals(t, "parts"); got[0] < 20 || got[1] < 20 {
			t.Errorf("got %v, want the 40 items in both of the partitions 0 and 1", got)
		}
	})
}

func TestPartitions_RedriveCoversAllAndSpreads(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "graves", Partitions: 3})
		s := f.create(t, queue.Settings{Name: "parts", Partitions: 4, DeadQueue: "graves"})
		f.produce(t, "parts", keyed("k", 1)...)
		for range 8 {
			f.produce(t, "parts", items(1)...)
		}
		for leased := f.lease(t, "parts", 9); len(leased) > 0; leased = f.lease(t, "parts", 9) {
			for _, it := range leased {
				f.settle(t, entry(it, queue.Bury))
			}
		}
		graves := f.settings(t, "graves")
		f.putAt(t, graves.Number, 2, 3) // Produced there, before it was a dead-letter queue.
		done, err := f.Redrive(t.Context(), queue.RedriveCall{Namespace: ns, Queue: "graves", Target: "parts", Limit: 100})
		if err != nil || done.Moved != 12 || f.total(t, "graves") != 0 {
			t.Fatalf("got %+v, %v, %d left, want all 12 moved", done, err, f.total(t, "graves"))
		}
		n := 0
		for leased := f.lease(t, "parts", 20); len(leased) > 0; leased = f.lease(t, "parts", 20) {
			n += len(leased)
		}
		if n != 12 {
			t.Errorf("got %d items from %s, want 12", n, s.Name)
		}
	})
}

// Schedules and ends that are told are spread as what is produced.
func TestPartitions_OtherWaysInAreSpread(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.parts(t, 4)
		for i := range 16 {
			prepared, err := f.Prepare(t.Context(), ns, "parts", []queue.ScheduledItem{{Key: fmt.Sprint(i)}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.model.Produce(t.Context(), []queue.ProduceGroup{{Items: prepared.Items}}); err != nil {
				t.Fatal(err)
			}
			prepared.Release(true)
		}
		for range 16 {
			made := items(1)
			made[0].OnDone = "parts"
			f.produce(t, "orders", made...)
			f.settle(t, entry(f.leaseOne(t, "orders"), queue.Complete))
		}
		for p, n := range f.totals(t, "parts") {
			if n < 6 || n > 10 {
				t.Errorf("partition %d has %d of 32 items, want about 8", p, n)
			}
		}
	})
}

// A topic's copies go to the partitions of the queues that have several, as all items do;
// those in other queues are where they were.
func TestPartitions_OfASubscriptionGetTheCopiesOfATopic(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "events", "one", "many")
		n := int32(4)
		if _, err := f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "events~many", Partitions: &n}); err != nil {
			t.Fatal(err)
		}
		for range 8 {
			f.produce(t, "events", items(3)...)
			<-time.After(2 * time.Second) // The partitions are counted meanwhile.
		}
		before := f.totals(t, "events~many")
		for p, total := range before {
			if total != 6 {
				t.Errorf("8 calls of 3 items: partition %d of 4 has %d, want 6", p, total)
			}
		}
		for range 4 {
			f.produce(t, "events", keyed("k", 3)...)
		}
		var grown []int
		for p, total := range f.totals(t, "events~many") {
			if total > before[p] {
				grown = append(grown, total-before[p])
			}
		}
		if !slices.Equal(grown, []int{12}) {
			t.Errorf("the 12 items of a key went to partitions %v, want all to one", grown)
		}
		if got, want := f.totals(t, "events~one"), (map[int32]int{0: 36}); !maps.Equal(got, want) {
			t.Errorf("the queue of one partition holds %v, want %v", got, want)
		}
	})
}

// What comes to a queue after it was deleted goes to the one that has its name now, and is
// spread there: pages whole, but for each key to its own partition.
func TestPartitions_OfTheQueueOfItsNameGetWhatCameToADeletedOne(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		other, _ := f.late(t)
		for _, key := range []string{"a", "b", "c", "a", "b", "c"} {
			f.produce(t, "orders", keyed(key, 2)...)
		}
		if _, err := other.CreateQueue(t.Context(), queue.Settings{Namespace: ns, Name: "orders", Partitions: 8}); err != nil {
			t.Fatal(err)
		}
		f.tidyLater(t)
		want := map[int32]int{}
		for _, key := range []string{"a", "b", "c"} {
			want[keyPartition(key, 8)] += 4
		}
		got, free := f.totals(t, "orders"), 0
		for p, total := range got {
			if free += total - want[p]; total < want[p] {
				t.Errorf("partition %d holds %d items, want the %d of its keys at least", p, total, want[p])
			}
		}
		if free != 1 {
			t.Errorf("%d items are elsewhere than where their keys belong, want the one without a key: %v", free, got)
		}
	})
}

// Two nodes that know of different numbers put items of one key into a queue that is gone.
func TestINV12_WhatCameToADeletedQueueKeepsTheOrderOfItsKeys(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		one, eight := newBroker(f.store, queue.Options{}), newBroker(f.store, queue.Options{})
		f.parts(t, 1)
		putBy := func(b *queue.Broker, made ...queue.ProduceItem) queue.ID {
			t.Helper()
			p, err := b.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "parts", Items: made})
			if err != nil {
				t.Fatal(err)
			}
			return p[0].ID
		}
		putBy(one, items(1)...)
		f.repart(t, 8)
		putBy(eight, items(1)...)
		for range 2 {
			f.settle(t, entry(f.leaseOne(t, "parts"), queue.Complete))
		}
		if err := f.DeleteQueue(t.Context(), ns, "parts", false); err != nil {
			t.Fatal(err)
		}
		if keyPartition("k3", 8) == 0 {
			t.Fatal("the key belongs into the same partition for both")
		}
		var want []queue.ID
		for _, b := range []*queue.Broker{eight, one, eight, one} {
			want = append(want, putBy(b, keyed("k3", 1)...))
		}
		f.create(t, queue.Settings{Name: "parts", Partitions: 3})
		f.tidyLater(t)
		for i, id := range want {
			it := f.leaseOne(t, "parts")
			if it.ID != id {
				t.Fatalf("leased %s as the %d. of the key, want %s", it.ID, i+1, id)
			}
			f.settle(t, entry(it, queue.Complete))
		}
	})
}

func TestPartitions_OfADeletedQueueThatIsThereAgainAreForgotten(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		late := newBroker(f.store, queue.Options{})
		f.parts(t, 8)
		put := func() {
			t.Helper()
			if _, err := late.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "parts", Items: items(1)}); err != nil {
				t.Fatal(err)
			}
		}
		put()
		f.settle(t, entry(f.leaseOne(t, "parts"), queue.Complete))
		f.repart(t, 1)
		if err := f.DeleteQueue(t.Context(), ns, "parts", false); err != nil {
			t.Fatal(err)
		}
		put()
		f.tidyLater(t)
		f.settle(t, entry(f.leaseOne(t, "parts"), queue.Complete))
		f.tidyLater(t)
		f.tidyLater(t)
		if s := f.settings(t, "parts"); s.Partitions != 1 || s.Drains() {
			t.Errorf("the queue has %d partitions, and up to %d are looked at, want 1", s.Partitions, s.Extent)
		}
	})
}
