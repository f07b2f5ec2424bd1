package storagetest

import (
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

var placeCases = []testCase{
	{"Place_ReleaseReordersNothing", func(f *fixture) {
		q := f.queue()
		ids := f.fill(q, 2)
		f.clock.Advance(time.Second)
		ids = append(ids, f.fill(q, 3)...)
		leased := f.lease(q, 4)
		f.clock.Advance(time.Second)
		// Given back in another order than they were leased, over two calls.
		f.apply(release(leased[3]), release(leased[1]))
		f.apply(release(leased[0]), release(leased[2]))
		f.wantIDs("list", f.list(q, queue.Ready), ids...)
		f.wantIDs("lease", f.lease(q, 10), ids...)
	}},
	{"Place_ReleaseReturnsToTheDueTime", func(f *fixture) {
		q := f.queue()
		item := f.item(q)
		item.Delay = time.Minute
		f.produce(item)
		due := f.clock.Now().Add(time.Minute)
		f.clock.Advance(time.Hour)
		leased := f.leaseOne(q, pull(1))
		f.wantTime("answer", f.apply(release(leased))[0].AvailableAt, due)
		got := f.get(leased.Key)
		f.wantTime("available at", got.AvailableAt, due)
		f.wantTime("due at", got.DueAt, due)
		if got.Held || got.State(f.clock.Now()) != queue.Ready {
			f.Errorf("got held %v, state %s, want ready", got.Held, got.State(f.clock.Now()))
		}
	}},
	{"Place_ReleaseWithADelayMovesTheDueTime", func(f *fixture) {
		q := f.queue()
		leased := f.produceAndLease(q, pull(1))
		later := release(leased)
		later.Delay = time.Minute
		due := f.clock.Now().Add(time.Minute)
		f.wantTime("answer", f.apply(later)[0].AvailableAt, due)
		f.wantTime("due at", f.get(leased.Key).DueAt, due)
		f.wantIDs("too early", f.lease(q, 1))
		f.clock.Advance(2 * time.Minute)
		// The next plain release returns to the new place, not to the first one.
		again := f.leaseOne(q, pull(1))
		f.apply(release(again))
		f.wantTime("second release", f.get(leased.Key).AvailableAt, due)
	}},
	{"Place_ReleaseAtADueTime", func(f *fixture) {
		q := f.queue()
		a, b := f.produceAndLease(q, pull(1)), f.produceAndLease(q, pull(1))
		f.clock.Advance(time.Second)
		ahead, past := release(a), release(b)
		ahead.DueAt = f.clock.Now().Add(time.Hour)
		past.DueAt = f.clock.Now().Add(-time.Hour)
		f.apply(ahead, past)
		f.wantTime("ahead", f.get(a.Key).AvailableAt, ahead.DueAt)
		f.wantTime("past means now", f.get(b.Key).AvailableAt, f.clock.Now())
	}},
	{"Place_RetryGoesBehindWhatWaits", func(f *fixture) {
		q := f.queue()
		ids := f.fill(q, 3)
		leased := f.leaseOne(q, pull(1))
		f.clock.Advance(time.Second)
		settled := f.apply(retry(leased, 0))[0]
		f.wantTime("answer", settled.AvailableAt, f.clock.Now())
		f.wantIDs("lease", f.lease(q, 10), ids[1], ids[2], ids[0])
	}},
	{"Place_RetryWaitsForItsTime", func(f *fixture) {
		q := f.queue()
		leased := f.produceAndLease(q, pull(1))
		f.clock.Advance(time.Second)
		settled := f.apply(retry(leased, time.Minute))[0]
		due := f.clock.Now().Add(time.Minute)
		f.wantTime("answer", settled.AvailableAt, due)
		got := f.get(leased.Key)
		f.wantTime("due at", got.DueAt, due)
		f.wantTime("updated at", got.UpdatedAt, f.clock.Now())
		if got.Held || got.State(f.clock.Now()) != queue.Retrying {
			f.Errorf("got held %v, state %s, want retrying", got.Held, got.State(f.clock.Now()))
		}
		f.wantIDs("too early", f.lease(q, 1))
		f.clock.Advance(time.Minute)
		again := f.leaseOne(q, pull(1))
		f.apply(release(again))
		f.wantTime("release returns to the retry's time", f.get(leased.Key).AvailableAt, due)
	}},
	{"Place_RetrySoonMeansNow", func(f *fixture) {
		q := f.queue()
		leased := f.produceAndLease(q, pull(1))
		settled := f.apply(retry(leased, queue.Soon-time.Microsecond))[0]
		f.wantTime("answer", settled.AvailableAt, f.clock.Now())
	}},
	{"Place_LapsedItemsStandAtTheTail", func(f *fixture) {
		q := f.queue()
		ids := f.fill(q, 1)
		lapsed := f.leaseOne(q, pull(1))
		f.clock.Advance(leaseTTL / 2)
		ids = append(ids, f.fill(q, 2)...)
		f.clock.Advance(leaseTTL)
		f.wantIDs("lapsed", f.list(q, queue.Lapsed), ids[0])
		got := f.lease(q, 10)
		f.wantIDs("lease", got, ids[1], ids[2], ids[0])
		f.wantTime("due at", got[2].DueAt, lapsed.AvailableAt)
		// What was leased after a lapse returns to the lapsed deadline.
		f.apply(release(got[2]))
		f.wantTime("release", f.get(lapsed.Key).AvailableAt, lapsed.AvailableAt)
	}},
	{"Place_LeaseAloneLeavesTheDueTime", func(f *fixture) {
		q := f.queue()
		due := f.clock.Now()
		f.fill(q, 1)
		for range 3 {
			f.clock.Advance(time.Second)
			leased := f.leaseOne(q, pull(1))
			f.wantTime("due at", leased.DueAt, due)
			f.apply(release(leased))
		}
	}},
	{"Place_LateReleaseReturnsToTheDueTime", func(f *fixture) {
		q := f.queue()
		due := f.clock.Now()
		leased := f.produceAndLease(q, pull(1))
		f.clock.Advance(2 * leaseTTL)
		f.apply(release(leased))
		got := f.get(leased.Key)
		f.wantTime("available at", got.AvailableAt, due)
		if got.Attempts != 0 || got.Recoveries != 0 {
			f.Errorf("got %d attempts, %d recoveries, want the lapse uncounted", got.Attempts, got.Recoveries)
		}
	}},
}
