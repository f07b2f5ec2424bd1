package queue_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

// parts makes the queue "parts" with n partitions.
func (f *fixture) parts(t *testing.T, n int32) queue.Settings {
	t.Helper()
	return f.create(t, queue.Settings{Name: "parts", Partitions: n})
}

func (f *fixture) repart(t *testing.T, n int32) queue.Settings {
	t.Helper()
	s, err := f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "parts", Partitions: &n})
	if err != nil {
		t.Fatalf("update to %d partitions: %v", n, err)
	}
	return s
}

// putAt puts items into a partition as another node might: this one does not know of them.
func (f *fixture) putAt(t *testing.T, q queue.Number, partition int32, n int) {
	t.Helper()
	group := queue.ProduceGroup{}
	for range n {
		group.Items = append(group.Items, queue.NewItem{
			ID: queue.NewID(), Queue: q, Partition: partition, Content: queue.Content{Payload: []byte("x")},
		})
	}
	if _, err := f.model.Produce(t.Context(), []queue.ProduceGroup{group}); err != nil {
		t.Fatal(err)
	}
}

// totals are how many items lie in each partition that Stats tells of.
func (f *fixture) totals(t *testing.T, name string) map[int32]int {
	t.Helper()
	stats, err := f.Stats(t.Context(), ns, name)
	if err != nil {
		t.Fatal(err)
	}
	totals := map[int32]int{}
	for _, st := range stats.Stats {
		totals[st.Partition] = st.Total
	}
	return totals
}

// keyPartition is where items of a key belong among n partitions.
func keyPartition(key string, n int32) int32 {
	sum := sha256.Sum256([]byte(key))
	return int32(binary.BigEndian.Uint64(sum[:8]) % uint64(n))
}

func keyed(key string, n int) []queue.ProduceItem {
	made := items(n)
	for i := range made {
		made[i].OrderingKey = key
	}
	return made
}

func TestPartitions_CallsGoWholeToTheEmptiest(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		q := f.parts(t, 8)
		f.putAt(t, q.Number, 3, 50)
		f.produce(t, "parts", items(1)...) // From here on the partitions are counted.
		<-time.After(2 * time.Second)
		f.produce(t, "parts", items(1)...)
		<-time.After(2 * time.Second)
		for range 70 {
			before := f.totals(t, "parts")
			f.produce(t, "parts", items(5)...)
			grown := 0
			for p, n := range f.totals(t, "parts") {
				if n != before[p] {
					grown++
				}
			}
			if grown != 1 {
				t.Fatalf("one call went to %d partitions", grown)
			}
		}
		for p, n := range f.totals(t, "parts") {
			if n < 45 || n > 56 {
				t.Errorf("partition %d has %d of 402 items, want about 50", p, n)
			}
		}
	})
}

// slowCounts is a store that takes a moment to tell what it counted.
type slowCounts struct{ storage.Backend }

func (s slowCounts) Stats(ctx context.Context, queues []queue.Number) ([]queue.Stats, error) {
	stats, err := s.Backend.Stats(ctx, queues)
	<-time.After(100 * time.Millisecond)
	return stats, err
}

func TestPartitions_WhatComesWhileTheyAreCountedIsNotForgotten(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.parts(t, 2)
		b := newBroker(slowCounts{f.store}, queue.Options{})
		put := func(made ...queue.ProduceItem) {
			if _, err := b.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "parts", Items: made}); err != nil {
				t.Error(err)
			}
		}
		for range 2 { // Of two, the key's partition is 1.
			put(keyed("d", 1)...)
			<-time.After(2 * time.Second)
		}
		stored := f.store.Block(storagetest.Produce)
		var call sync.WaitGroup
		call.Go(func() { put(items(5)...) })
		synctest.Wait() // The partitions are counted, but it is not told, and the items are not stored.
		stored()
		call.Wait()
		<-time.After(500 * time.Millisecond)
		put(items(1)...)
		if got, want := f.totals(t, "parts"), (map[int32]int{0: 5, 1: 3}); !maps.Equal(got, want) {
			t.Errorf("got %v items in the partitions, want %v: the call after the one of 5 goes to the other", got, want)
		}
	})
}

func TestPartitions_QueuesOfOneCostNothingMore(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.produce(t, "orders", items(20)...)
		for range 20 {
			f.leaseOne(t, "orders")
			<-time.After(time.Second)
		}
		if n := f.store.Calls(storagetest.Stats); n != 0 {
			t.Errorf("the store was asked to count %d times", n)
		}
	})
}

func TestPartitions_AreCountedOnceASecondAtMost(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.parts(t, 4)
		for range 100 {
			f.produce(t, "parts", items(1)...)
			f.leaseOne(t, "parts")
			<-time.After(50 * time.Millisecond)
		}
		if n := f.store.Calls(storagetest.Stats); n < 4 || n > 6 {
			t.Errorf("the store was asked to count %d times in 5 s", n)
		}
	})
}

func TestPartitions_ALeaseIsOfOneAndAllAreDrained(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.parts(t, 8)
		for range 50 {
			f.produce(t, "parts", items(4)...)
		}
		p := params(7)
		p.Queue = "parts"
		seen := map[queue.ID]bool{}
		used := map[int32]bool{}
		for {
			reply, err := f.Lease(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			if len(reply.Items) == 0 {
				break
			}
			call := queue.SettleCall{Namespace: ns, Queue: "parts", Partition: &reply.Partition}
			for _, it := range reply.Items {
				if it.Partition != reply.Partition {
					t.Fatalf("an item of partition %d in an answer of %d", it.Partition, reply.Partition)
				}
				if seen[it.ID] {
					t.Fatalf("%s was leased twice", it.ID)
				}
				seen[it.ID] = true
				call.Entries = append(call.Entries, entry(it, queue.Complete))
			}
			used[reply.Partition] = true
			if _, err := f.Settle(t.Context(), call); err != nil {
				t.Fatal(err)
			}
		}
		if len(seen) != 200 || len(used) != 8 || f.total(t, "parts") != 0 {
			t.Errorf("got %d items of %d partitions, %d left, want 200, 8 and none", len(seen), len(used), f.total(t, "parts"))
		}
	})
}

func TestPartitions_EmptyIsHonest(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		q := f.parts(t, 16)
		for p := range int32(16) {
			f.putAt(t, q.Number, p, 1)
			it := f.leaseOne(t, "parts")
			if it.Partition != p {
				t.Errorf("got an item of partition %d, want %d", it.Partition, p)
			}
		}
		before := f.store.Calls(storagetest.Lease)
		if leased := f.lease(t, "parts", 1); len(leased) != 0 {
			t.Errorf("got %d items, want none", len(leased))
		}
		if looks := f.store.Calls(storagetest.Lease) - before; looks != 16 {
			t.Errorf("an empty answer took %d looks, want one at each partition", looks)
		}
	})
}

// What comes to a partition behind the round of looks is found by who came after it.
func TestPartitions_EmptyIsHonestToWhoComesInBetween(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		q := f.parts(t, 4)
		p := params(1)
		p.Queue = "parts"
		open := f.store.Block(storagetest.Lease)
		first := f.startLease(t.Context(), p)
		for part := range int32(4) { // One of them is the one that is being looked at.
			f.putAt(t, q.Number, part, 1)
		}
		second := f.startLease(t.Context(), p)
		open()
		if a := <-second; a.err != nil || len(a.value.Items) != 1 {
			t.Errorf("got %+v, want an item: they were there before the call", a)
		}
		<-first
	})
}

func TestPartitions_NoneIsStarved(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		q := f.parts(t, 6)
		for p := range int32(6) {
			if p != 2 {
				f.putAt(t, q.Number, p, 300)
			}
		}
		f.leaseOne(t, "parts")
		<-time.After(2 * time.Second)
		f.leaseOne(t, "parts") // Counts.
		<-time.After(2 * time.Second)
		f.putAt(t, q.Number, 2, 1)
		for n := 1; ; n++ {
			if it := f.leaseOne(t, "parts"); it.Partition == 2 {
				break
			}
			if n > 8*6 {
				t.Fatalf("the only item of a partition was not leased within %d leases", n)
			}
		}
	})
}

func TestPartitions_KeysArePinnedAndStrictWhateverTheirNumber(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.parts(t, 5)
		want := map[string][]queue.ID{}
		for round, n := range []int32{5, 12, 2, 7} {
			f.repart(t, n)
			for k := range 9 {
				key := fmt.Sprint("customer-", k)
				pinned := keyPartition(key, n)
				mixed := append(keyed(key, 2), items(1)...)
				for i, p := range f.produce(t, "parts", mixed...) {
					it := f.find(t, p.ID)
					if i == 2 {
						continue
					}
					if it.Partition != pinned {
						t.Errorf("round %d: %s went to partition %d, want %d", round, key, it.Partition, pinned)
					}
					want[key] = append(want[key], p.ID)
				}
			}
		}
		got := map[string][]queue.ID{}
		for {
			leased := f.lease(t, "parts", 20)
			if len(leased) == 0 {
				break
			}
			for _, it := range leased {
				if it.OrderingKey != "" {
					got[it.OrderingKey] = append(got[it.OrderingKey], it.ID)
				}
				f.settle(t, entry(it, queue.Complete))
			}
		}
		for key, ids := range want {
			if !slices.Equal(got[key], ids) {
				t.Errorf("%s: got %v, want %v", key, got[key], ids)
			}
		}
	})
}

func TestPartitions_LoweringDrainsAndForgets(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.parts(t, 6)
		for range 12 {
			f.produce(t, "parts", items(2)...)
		}
		s := f.repart(t, 2)
		if s.Partitions != 2 || s.Extent != 6 || !s.Drains() {
			t.Fatalf("got %+v, want 2 partitions, and 6 that may hold items", s)
		}
		left, err := f.Draining(t.Context(), []queue.Settings{s, f.settings(t, "orders")})
		if err != nil || len(left) != 1 || len(left[s.Number]) != 4 || left[s.Number][0].Partition != 2 || left[s.Number][0].Total == 0 {
			t.Fatalf("got %+v, %v, want the partitions 2 to 5", left, err)
		}
		before := f.totals(t, "parts")
		for range 10 {
			f.produce(t, "parts", items(1)...)
		}
		for p, n := range f.totals(t, "parts") {
			if p >= 2 && n != before[p] {
				t.Errorf("partition %d is read-only and has %d items instead of %d", p, n, before[p])
			}
		}
		f.tidyLater(t)
		if s := f.settings(t, "parts"); s.Extent != 6 {
			t.Errorf("partitions that hold items were forgotten: %+v", s)
		}
		n := 0
		for leased := f.lease(t, "parts", 100); len(leased) > 0; leased = f.lease(t, "parts", 100) {
			for _, it := range leased {
				f.settle(t, entry(it, queue.Complete))
				n++
			}
		}
		if n != 34 {
			t.Errorf("got %d items, want all 34", n)
		}
		s = f.settings(t, "parts")
		if left, err := f.Draining(t.Context(), []queue.Settings{s}); err != nil || len(left) != 0 {
			t.Errorf("got %+v, %v, want nothing left", left, err)
		}
		f.tidyLater(t)
		if s := f.settings(t, "parts"); s.Extent != 0 || s.Partitions != 2 || s.Drains() {
			t.Errorf("got %+v, want 2 partitions and no others", s)
		}
	})
}

// A node that did not know of the change yet may put items where nobody puts any.
func TestPartitions_LateItemsAreFoundAgain(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		q := f.settings(t, "orders")
		p := params(1)
		p.Wait = time.Minute
		waiting := f.startLease(t.Context(), p)
		f.putAt(t, q.Number, 5, 1)
		if _, err := f.NextDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.Wake(q.Number)
		a := <-waiting
		if a.err != nil || len(a.value.Items) != 1 || a.value.Partition != 5 {
			t.Fatalf("got %+v, want the item of partition 5", a)
		}
		f.settle(t, entry(a.value.Items[0], queue.Complete))
	})
}

// The receipt of a partition that this node does not know of yet is judged by the item.
func TestPartitions_ReceiptsOfUnknownOnesAreGood(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		q := f.settings(t, "orders")
		f.putAt(t, q.Number, 5, 1)
		leased, err := f.model.Lease(t.Context(), []queue.LeaseCall{{
			Queue: q.Number, Partition: 5, Takers: []queue.Taker{{Limit: 1, TTL: time.Minute}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		it := leased.Calls[0].Takers[0][0]
		twice := it
		twice.Partition = 0
		_, err = f.Settle(t.Context(), settleCall(entry(it, queue.Complete), entry(twice, queue.Complete)))
		wantInvalid(t, err, "receipts[1]")
		wrong := int32(4)
		call := settleCall(entry(it, queue.Complete))
		call.Partition = &wrong
		_, err = f.Settle(t.Context(), call)
		wantInvalid(t, err, "partition")
		f.settle(t, entry(it, queue.Complete))
		it.Partition = queue.MaxPartitions
		if _, err := f.Settle(t.Context(), settleCall(entry(it, queue.Complete))); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("a partition that no queue has: got %v, want %v", err, queue.ErrNotFound)
		}
	})
}
