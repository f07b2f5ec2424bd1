package storagetest

import (
	"slices"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// importCases are about items that bring along what they were elsewhere, and about
// finding many at a time.
var importCases = []testCase{
	{"Import_KeepsTheUsedBudget", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		item := f.item(q)
		item.Attempts = 2
		f.produce(item)
		f.wantCounters("stored", f.get(queue.Key{ID: item.ID, Queue: q, Home: q}), counters{0, 2, 0})
		leased := f.leaseOne(q, pull(1))
		f.wantCounters("leased", leased, counters{1, 2, 0})
		s := retry(leased, 0)
		s.MaxAttempts, s.DeadQueue = 3, dead
		if !f.apply(s)[0].Buried {
			f.Error("third outcome of 3: not buried")
		}
		if got := f.get(queue.Key{ID: item.ID, Queue: dead, Home: q}); got.Dead == nil || got.Dead.Attempts != 3 {
			f.Errorf("dead: got %+v, want 3 attempts", got.Dead)
		}
	}},
	{"Import_CountsAsFailing", func(f *fixture) {
		q := f.queue()
		used, fresh, again := f.item(q), f.item(q), f.item(q)
		used.Attempts = 1
		again.ID, again.Attempts = used.ID, 1
		f.produce(used, fresh, again)
		if got := f.stats(q); got.Total != 2 || got.Failing != 1 {
			f.Errorf("got %d items, %d failing, want 2 and 1", got.Total, got.Failing)
		}
		f.apply(complete(f.leaseOne(q, pull(1))))
		if got := f.stats(q); got.Total != 1 || got.Failing != 0 {
			f.Errorf("after the end of one: got %d items, %d failing, want 1 and none", got.Total, got.Failing)
		}
	}},
	{"Import_ExpiryAtATimeWins", func(f *fixture) {
		q := f.queue()
		now := f.clock.Now()
		for name, at := range map[string]time.Time{
			"ahead":          now.Add(time.Hour),
			"past":           now.Add(-time.Hour),
			"in nanoseconds": now.Add(time.Minute + 999).In(time.FixedZone("", 3600)),
		} {
			item := f.item(q)
			item.ExpiresAt, item.ExpireTTL, item.Delay = at, time.Second, time.Minute
			f.produce(item)
			got := f.get(queue.Key{ID: item.ID, Queue: q, Home: q})
			if want := at.Truncate(time.Microsecond).UTC(); got.ExpiresAt != want {
				f.Errorf("%s: expires at %v, want %v", name, got.ExpiresAt, want)
			}
		}
	}},
	{"Import_SweepFindsWhatExpiredElsewhere", func(f *fixture) {
		q := f.queue()
		item := f.item(q)
		item.ExpiresAt = f.clock.Now().Add(-time.Hour)
		// Nothing leases it for a while.
		item.Delay = time.Hour
		f.produce(item)
		swept, _, err := sweepAll(f.Context(), f.store, 10)
		if err != nil {
			f.Fatal(err)
		}
		f.wantIDs("sweep", swept, item.ID)
	}},
	{"Import_SurvivesAReopening", func(f *fixture) {
		q := f.queue()
		item := f.item(q)
		item.SourceID, item.Attempts, item.MaxAttempts = "from elsewhere", 4, 5
		item.ExpiresAt = f.clock.Now().Add(time.Hour)
		f.produce(item)
		key := queue.Key{ID: item.ID, Queue: q, Home: q}
		before := describe(f.get(key))
		f.reopen()
		if got := describe(f.get(key)); got != before {
			f.Errorf("got  %s\nwant %s", got, before)
		}
		if got := f.stats(q); got.Failing != 1 {
			f.Errorf("got %d failing items, want 1", got.Failing)
		}
		if !f.produce(item)[0].Duplicate {
			f.Error("the same item was taken once more")
		}
	}},
	{"Find_FindsEveryCopyOfEach", func(f *fixture) {
		a, b := f.queue(), f.queue()
		first := f.item(a)
		first.Kind = "kind"
		second := first
		second.Queue = b
		f.produce(first, second)
		f.fill(a, 2)
		last := f.produceAndLease(f.queue(), pull(1))
		gone := f.ids.next(f.clock.Now())
		for _, content := range []bool{false, true} {
			found, err := f.store.Find(f.Context(), []queue.ID{last.ID, gone, first.ID}, content)
			if err != nil {
				f.Fatal(err)
			}
			var want []queue.Item
			for _, it := range append(f.find(first.ID), f.find(last.ID)...) {
				if !content {
					it.Content = queue.Content{}
				}
				want = append(want, it)
			}
			sortByKey(found)
			sortByKey(want)
			if !slices.EqualFunc(found, want, func(a, b queue.Item) bool { return describe(a) == describe(b) }) {
				f.Errorf("with content %v: got %v, want %v", content, found, want)
			}
		}
	}},
	{"Find_OfNothingIsNothing", func(f *fixture) {
		f.fill(f.queue(), 1)
		for _, ids := range [][]queue.ID{nil, {f.ids.next(f.clock.Now())}} {
			if found, err := f.store.Find(f.Context(), ids, true); err != nil || len(found) != 0 {
				f.Errorf("%d ids: got %d items, %v, want none", len(ids), len(found), err)
			}
		}
	}},
	{"Find_TakesManyAtATime", func(f *fixture) {
		q := f.queue()
		ids := f.fill(q, 1500)
		found, err := f.store.Find(f.Context(), ids, false)
		if err != nil {
			f.Fatal(err)
		}
		sortByKey(found)
		f.wantIDs("found", found, ids...)
	}},
}
