package storagetest

import (
	"slices"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// sweep walks the whole store.
func (f *fixture) sweep(limit int) []queue.Item {
	f.Helper()
	items, _, err := sweepAll(f.Context(), f.store, limit)
	if err != nil {
		f.Fatal(err)
	}
	return items
}

// wantSwept checks what a walk returned, in any order and each once.
func (f *fixture) wantSwept(got []queue.Item, want ...queue.ID) {
	f.Helper()
	ids := idsOf(got)
	byBytes := func(a, b queue.ID) int { return slices.Compare(a[:], b[:]) }
	slices.SortFunc(ids, byBytes)
	slices.SortFunc(want, byBytes)
	if !slices.Equal(ids, want) {
		f.Errorf("Sweep: got %v, want %v", ids, want)
	}
}

var sweepCases = []testCase{
	{"Sweep_ReturnsLapsedAndExpiredItems", func(f *fixture) {
		q, other := f.queue(), f.queue()
		made := func(q queue.Number, delay, ttl time.Duration) queue.NewItem {
			item := f.item(q)
			item.Delay, item.ExpireTTL = delay, ttl
			f.produce(item)
			return item
		}
		lapsed := f.produceAndLease(q, pull(1))
		live := made(q, 0, time.Second)
		f.leaseOne(q, queue.Taker{TTL: time.Hour})
		expired := made(q, 0, time.Second)
		retrying := made(other, 0, time.Second)
		f.apply(retry(f.leaseOne(other, pull(1)), time.Hour))
		made(other, 0, 0)
		made(other, 0, time.Hour)
		made(other, time.Hour, time.Second)

		f.clock.Advance(2 * leaseTTL)
		f.wantSwept(f.sweep(100), lapsed.ID, expired.ID, retrying.ID)
		f.wantSwept(f.sweep(1), lapsed.ID, expired.ID, retrying.ID)
		// What expired under a live lease shows itself when that has lapsed.
		f.clock.Advance(time.Hour)
		if !slices.Contains(idsOf(f.sweep(100)), live.ID) {
			f.Error("the expired item whose lease lapsed is missing")
		}
	}},
	{"Sweep_ChangesNothing", func(f *fixture) {
		q := f.queue()
		pulled, pushed := f.produceAndLease(q, pull(1)), f.produceAndLease(q, push(1))
		f.clock.Advance(2 * leaseTTL)
		before := []string{describe(f.get(pulled.Key)), describe(f.get(pushed.Key))}
		for range 2 {
			for _, it := range f.sweep(10) {
				want := counters{1, 1, 0}
				if it.ID == pushed.ID {
					want = counters{1, 0, 1}
				}
				f.wantCounters("as the next lease would see it", it, want)
			}
		}
		if got := []string{describe(f.get(pulled.Key)), describe(f.get(pushed.Key))}; !slices.Equal(got, before) {
			f.Errorf("the sweep changed items:\n got %v\nwant %v", got, before)
		}
		if got := f.records(pulled.ID); len(got) != 0 {
			f.Errorf("the sweep wrote %d records", len(got))
		}
		// Within its limits a lapsed item stays as it is, and its receipt good.
		f.apply(complete(pulled), release(pushed))
	}},
	{"D08_EveryLapsedItemIsFound", func(f *fixture) {
		var want []queue.ID
		for i := range 20 {
			q := queue.NewNumber(queue.Namespace(1+i%3), uint32(100+i))
			item := f.item(q)
			item.Partition = int32(i % 2)
			f.produce(item)
			f.leaseCalls(queue.LeaseCall{Queue: q, Partition: item.Partition, Takers: []queue.Taker{push(1)}})
			want = append(want, item.ID)
		}
		f.clock.Advance(2 * leaseTTL)
		f.wantSwept(f.sweep(7), want...)
	}},
	{"D08_WhatIsNeitherReadyNorScheduledNorLeasedIsFound", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		// Two of all that the verbs can make of an item, those that lapse by each of them.
		short := queue.Taker{TTL: time.Second, LapseCounts: true}
		for range 2 {
			f.produceAndLease(q, short)
			f.extendOne(extension(f.produceAndLease(q, short), 2*time.Second))
			f.apply(retry(f.produceAndLease(q, short), 0))
			f.leaseOne(q, short)
			f.apply(release(f.produceAndLease(q, short)))
			f.leaseOne(q, short)
			f.buried(q, dead)
			f.leaseOne(dead, short)
			it := f.buried(q, dead)
			f.wantMoved(f.move(queue.Move{Key: it.Key, Target: q})[0], queue.Moved)
			f.leaseOne(q, short)
			f.produceAndLease(q, pull(1))
			f.apply(retry(f.produceAndLease(q, pull(1)), time.Hour))
			f.buried(q, dead)
			scheduled := f.item(q)
			scheduled.Delay = time.Hour
			f.produce(scheduled)
		}
		f.fill(q, 2)
		f.clock.Advance(10 * time.Second)
		var want []queue.ID
		states := map[queue.State]int{}
		for _, it := range append(f.list(q), f.list(dead)...) {
			state := it.State(f.clock.Now())
			states[state]++
			switch state {
			case queue.Ready, queue.Scheduled, queue.Retrying, queue.Leased:
			default:
				want = append(want, it.ID)
			}
		}
		if states[queue.Lapsed] != 12 || len(want) != 12 || len(states) != 5 {
			f.Fatalf("made %v, want 12 that lapsed beside all other states", states)
		}
		f.wantSwept(f.sweep(5), want...)
	}},
	{"D09_RowsThatNeedNothingHideNoneThatDoes", func(f *fixture) {
		q := f.queue()
		const live = 10_000
		for range live / 1000 {
			f.fill(q, 1000)
		}
		long := queue.Taker{Limit: live, TTL: 24 * time.Hour}
		if got := f.leaseFor(q, long)[0]; len(got) != live {
			f.Fatalf("Lease: got %d items, want %d", len(got), live)
		}
		lapsed := f.produceAndLease(q, queue.Taker{TTL: time.Second})
		f.clock.Advance(time.Minute)
		items, pages, err := sweepAll(f.Context(), f.store, 100)
		if err != nil {
			f.Fatal(err)
		}
		f.wantSwept(items, lapsed.ID)
		if most := live/100 + 10; pages > most {
			f.Errorf("the walk took %d pages, want at most %d", pages, most)
		}
	}},
	{"D09_LapsedItemsWithinTheirLimitsHideNoExpiredOne", func(f *fixture) {
		q := f.queue()
		want := f.fill(q, 250)
		f.lease(q, 250)
		expired := f.item(q)
		expired.ExpireTTL = time.Second
		f.produce(expired)
		f.clock.Advance(2 * leaseTTL)
		// Nobody buries the 250; still the walk goes on to the end, each time.
		for range 2 {
			f.wantSwept(f.sweep(100), append(slices.Clone(want), expired.ID)...)
		}
	}},
	{"D10_OnlyTheStoredDeadlineCounts", func(f *fixture) {
		q := f.queue()
		f.fill(q, 2)
		got := f.leaseFor(q, queue.Taker{Limit: 1, TTL: time.Second}, queue.Taker{Limit: 1, TTL: 10 * time.Minute})
		short, long := got[0][0], got[1][0]
		f.clock.Advance(5 * time.Minute)
		f.wantSwept(f.sweep(10), short.ID)
		f.extendOne(extension(long, time.Hour))
		f.clock.Advance(30 * time.Minute)
		f.wantSwept(f.sweep(10), short.ID)
		f.wantIDs("lease", f.lease(q, 10), short.ID)
	}},
	{"Sweep_DeadItemsDoNotExpire", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		item := f.item(q)
		item.ExpireTTL = time.Second
		f.produce(item)
		f.apply(bury(f.leaseOne(q, pull(1)), dead))
		f.clock.Advance(time.Hour)
		f.wantSwept(f.sweep(10))
	}},
}
