package storagetest

import (
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// counters are an item's, in the order deliveries, attempts, recoveries.
type counters [3]int32

func countersOf(it queue.Item) counters {
	return counters{it.Deliveries, it.Attempts, it.Recoveries}
}

func (f *fixture) wantCounters(what string, it queue.Item, want counters) {
	f.Helper()
	if got := countersOf(it); got != want {
		f.Errorf("%s: got deliveries, attempts, recoveries %v, want %v", what, got, want)
	}
}

var counterCases = []testCase{
	{"Counters_DeliveriesCountLeases", func(f *fixture) {
		q := f.queue()
		f.fill(q, 1)
		for i := range int32(4) {
			leased := f.leaseOne(q, pull(1))
			f.wantCounters("lease", leased, counters{i + 1, 0, 0})
			f.apply(release(leased))
			f.wantCounters("release", f.get(leased.Key), counters{i + 1, 0, 0})
		}
	}},
	{"Counters_RetryCountsAnAttempt", func(f *fixture) {
		q := f.queue()
		f.fill(q, 1)
		for i := range int32(4) {
			leased := f.leaseOne(q, push(1))
			f.apply(retry(leased, 0))
			f.wantCounters("retry", f.get(leased.Key), counters{i + 1, i + 1, 0})
		}
	}},
	{"D06_LapseOfAPullCostsAnAttempt", func(f *fixture) {
		q := f.queue()
		f.produceAndLease(q, pull(1))
		for i := range int32(3) {
			f.clock.Advance(2 * leaseTTL)
			f.wantCounters("lease", f.leaseOne(q, pull(1)), counters{i + 2, i + 1, 0})
		}
	}},
	{"D06_LapseOfAPushCostsARecovery", func(f *fixture) {
		q := f.queue()
		f.produceAndLease(q, push(1))
		for i := range int32(3) {
			f.clock.Advance(2 * leaseTTL)
			f.wantCounters("lease", f.leaseOne(q, push(1)), counters{i + 2, 0, i + 1})
		}
	}},
	{"D06_TheLapsedLeaseDecidesWhatALapseCosts", func(f *fixture) {
		q := f.queue()
		f.produceAndLease(q, push(1))
		f.clock.Advance(2 * leaseTTL)
		f.wantCounters("pull after push", f.leaseOne(q, pull(1)), counters{2, 0, 1})
		f.clock.Advance(2 * leaseTTL)
		f.wantCounters("push after pull", f.leaseOne(q, push(1)), counters{3, 1, 1})
	}},
	{"D06_LapseIsCountedOnce", func(f *fixture) {
		q := f.queue()
		f.produceAndLease(q, push(1))
		f.clock.Advance(2 * leaseTTL)
		leased := f.leaseOne(q, push(1))
		f.apply(release(leased))
		f.wantCounters("next lease", f.leaseOne(q, push(1)), counters{3, 0, 1})
	}},
	{"D06_LeaseTellsHowManyLapsed", func(f *fixture) {
		q := f.queue()
		f.fill(q, 3)
		f.lease(q, 2)
		f.clock.Advance(2 * leaseTTL)
		for _, want := range []int{2, 3} {
			got := f.leaseCalls(queue.LeaseCall{Queue: q, Takers: []queue.Taker{pull(2), pull(2)}})[0]
			if n := len(got.Takers[0]) + len(got.Takers[1]); n != 3 || got.Lapsed != want {
				f.Errorf("got %d items and %d lapsed, want 3 and %d", n, got.Lapsed, want)
			}
			f.clock.Advance(2 * leaseTTL)
		}
	}},
	{"D06_ReleaseLeavesTheRecoveries", func(f *fixture) {
		q := f.queue()
		f.produceAndLease(q, push(1))
		f.clock.Advance(2 * leaseTTL)
		leased := f.leaseOne(q, push(1))
		f.apply(release(leased))
		f.wantCounters("release", f.get(leased.Key), counters{2, 0, 1})
	}},
	{"D06_OutcomeEndsTheRecoveries", func(f *fixture) {
		q := f.queue()
		f.produceAndLease(q, push(1))
		f.clock.Advance(2 * leaseTTL)
		leased := f.leaseOne(q, push(1))
		f.apply(retry(leased, 0))
		f.wantCounters("retry", f.get(leased.Key), counters{2, 1, 0})
	}},
	{"D07_WhatIsBuriedTakesItsRecoveriesAlong", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		f.produceAndLease(q, push(1))
		for range 2 {
			f.clock.Advance(2 * leaseTTL)
			f.leaseOne(q, push(1))
		}
		f.clock.Advance(2 * leaseTTL)
		leased := f.leaseOne(q, push(1))
		f.apply(bury(leased, dead))
		got := f.get(queue.Key{ID: leased.ID, Queue: dead, Home: q})
		if got.Dead == nil || got.Dead.Recoveries != 3 || got.Recoveries != 0 {
			f.Errorf("got %d recoveries and dead %+v, want 0, and 3 in dead", got.Recoveries, got.Dead)
		}
	}},
	{"Counters_FirstDueTimeStaysUntilARedrive", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		item := f.item(q)
		item.Delay = time.Hour
		f.produce(item)
		due := f.clock.Now().Add(time.Hour)
		f.clock.Advance(2 * time.Hour)
		leased := f.leaseOne(q, push(1))
		f.wantTime("leased", leased.FirstDueAt, due)
		f.apply(retry(leased, time.Hour))
		f.clock.Advance(2 * time.Hour)
		again := f.leaseOne(q, push(1))
		f.wantTime("retried", again.FirstDueAt, due)
		f.apply(bury(again, dead))
		key := queue.Key{ID: item.ID, Queue: dead, Home: q}
		f.wantTime("buried", f.get(key).FirstDueAt, due)
		if status, err := f.store.Move(f.Context(), []queue.Move{{Key: key, Target: q}}); err != nil || status[0] != queue.Moved {
			f.Fatalf("move: %v, %v", status, err)
		}
		f.wantTime("redriven", f.get(queue.Key{ID: item.ID, Queue: q, Home: q}).FirstDueAt, f.clock.Now())
	}},
	{"Counters_LastOutcomeIsKept", func(f *fixture) {
		q := f.queue()
		f.fill(q, 1)
		first := queue.Last{Status: 503, Error: "unavailable"}
		for _, test := range []struct {
			outcome    queue.Outcome
			give, want queue.Last
		}{
			{queue.Retry, first, first},
			{queue.Retry, queue.Last{}, first},
			{queue.Release, queue.Last{}, first},
			{queue.Release, queue.Last{Status: 429, Error: "slow down"}, queue.Last{Status: 429, Error: "slow down"}},
			{queue.Retry, queue.Last{Error: "no route"}, queue.Last{Error: "no route"}},
		} {
			leased := f.leaseOne(q, push(1))
			s := settlement(leased, test.outcome)
			s.Last = test.give
			f.apply(s)
			if got := f.get(leased.Key).Last; got != test.want {
				f.Errorf("%s with %+v: got %+v, want %+v", test.outcome, test.give, got, test.want)
			}
		}
	}},
	{"Limit_RetryBuriesInTheSameStep", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		f.fill(q, 1)
		var leased queue.Item
		var s queue.Settlement
		for i := range 3 {
			leased = f.leaseOne(q, pull(1))
			s = retry(leased, 0)
			s.MaxAttempts, s.DeadQueue, s.Reason = 3, dead, "exhausted"
			s.Last = queue.Last{Status: 500, Error: "boom"}
			if got := f.apply(s)[0].Buried; got != (i == 2) {
				f.Errorf("retry %d: buried is %v", i+1, got)
			}
		}
		if got := f.list(q); len(got) != 0 {
			f.Errorf("the queue holds %d items, want none", len(got))
		}
		buried := f.get(queue.Key{ID: leased.ID, Queue: dead, Home: q})
		want := queue.Dead{From: q, Reason: "exhausted", At: f.clock.Now(), Status: 500, Attempts: 3}
		if buried.Dead == nil || *buried.Dead != want {
			f.Errorf("dead: got %+v, want %+v", buried.Dead, want)
		}
		f.wantCounters("buried", buried, counters{3, 0, 0})
	}},
	{"Limit_ItemsOwnWins", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		for _, test := range []struct {
			own, given int32
			buried     bool
		}{
			{0, 0, false},
			{0, -1, false},
			{0, 1, true},
			{0, 2, false},
			{1, 5, true},
			{1, -1, true},
			{2, 1, false},
			{-1, 1, false},
		} {
			item := f.item(q)
			item.MaxAttempts = test.own
			f.produce(item)
			s := retry(f.leaseOne(q, pull(1)), time.Hour)
			s.MaxAttempts, s.DeadQueue = test.given, dead
			if got := f.apply(s)[0].Buried; got != test.buried {
				f.Errorf("own %d, given %d: buried is %v, want %v", test.own, test.given, got, test.buried)
			}
		}
	}},
	{"Limit_LapsesCountTowardsIt", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		f.produceAndLease(q, pull(1))
		f.clock.Advance(2 * leaseTTL)
		s := retry(f.leaseOne(q, pull(1)), 0)
		s.MaxAttempts, s.DeadQueue = 2, dead
		if !f.apply(s)[0].Buried {
			f.Error("one lapse and one retry of 2: not buried")
		}
	}},
	{"Limit_WithoutADeadQueueNothingOfTheGroupIsDone", func(f *fixture) {
		q, other := f.queue(), f.queue()
		over, good := f.produceAndLease(q, pull(1)), f.produceAndLease(q, pull(1))
		s := retry(over, 0)
		s.MaxAttempts = 1
		groups := f.settleGroups(
			queue.SettleGroup{Entries: []queue.Settlement{complete(good), s}},
			queue.SettleGroup{Entries: []queue.Settlement{complete(f.produceAndLease(other, pull(1)))}},
		)
		f.wantStatus(groups[0][0], queue.Undone)
		f.wantStatus(groups[0][1], queue.OverLimit)
		f.wantStatus(groups[1][0], queue.Applied)
		// The broker makes the queue and repeats, with the receipts as good as before.
		s.DeadQueue = f.queue()
		settled := f.apply(complete(good), s)
		if !settled[1].Buried {
			f.Error("the repeat did not bury")
		}
	}},
	{"Limit_NothingIsBuriedInADeadLetterQueue", func(f *fixture) {
		dead := f.queue()
		f.fill(dead, 1)
		for i := range int32(3) {
			leased := f.leaseOne(dead, push(1))
			s := retry(leased, 0)
			s.MaxAttempts, s.Undead = 1, true
			if f.apply(s)[0].Buried {
				f.Fatal("buried")
			}
			f.wantCounters("retry", f.get(leased.Key), counters{i + 1, i + 1, 0})
		}
	}},
}
