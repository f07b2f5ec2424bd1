package storagetest

import (
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// buryUnheld is the sweep's settlement: of an item that is not under a live lease.
func buryUnheld(it queue.Item, dead queue.Number, reason string) queue.Settlement {
	s := bury(it, dead)
	s.Guard, s.Reason = queue.NotLive, reason
	return s
}

var guardCases = []testCase{
	{"Guard_SweptItemIsBuriedWithItsLapse", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		f.produceAndLease(q, push(1))
		f.clock.Advance(2 * leaseTTL)
		leased := f.leaseOne(q, push(1)) // Pays for the first lapse.
		f.clock.Advance(2 * leaseTTL)
		swept := f.sweep(10)
		f.wantSwept(swept, leased.ID)
		s := buryUnheld(swept[0], dead, "poison")
		s.Record = &queue.Record{Type: queue.EndingRecord, Verdict: "poison"}
		f.apply(s)

		buried := f.get(queue.Key{ID: leased.ID, Queue: dead, Home: q})
		want := queue.Dead{From: q, Reason: "poison", At: f.clock.Now(), Recoveries: 2}
		if buried.Dead == nil || *buried.Dead != want {
			f.Errorf("dead: got %+v, want %+v", buried.Dead, want)
		}
		f.wantCounters("buried", buried, counters{2, 0, 0})
		var types []queue.RecordType
		for _, r := range f.records(leased.ID) {
			types = append(types, r.Type)
		}
		if len(types) != 3 || types[0] != queue.LapseRecord || types[1] != queue.LapseRecord || types[2] != queue.EndingRecord {
			f.Errorf("records: got %v, want lapse, lapse, ending", types)
		}
	}},
	{"Guard_LapseOfAPullIsAnAttempt", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		leased := f.produceAndLease(q, pull(1))
		f.clock.Advance(2 * leaseTTL)
		f.apply(buryUnheld(f.sweep(10)[0], dead, "exhausted"))
		buried := f.get(queue.Key{ID: leased.ID, Queue: dead, Home: q})
		if d := buried.Dead; d == nil || d.Attempts != 1 || d.Recoveries != 0 {
			f.Errorf("dead: got %+v, want one attempt", d)
		}
	}},
	{"Guard_ExpiredItemThatWaitsIsBuried", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		never, retried := f.item(q), f.item(q)
		never.ExpireTTL, retried.ExpireTTL = time.Minute, time.Minute
		f.produce(retried)
		f.apply(retry(f.leaseOne(q, pull(1)), time.Hour))
		f.produce(never)
		f.clock.Advance(2 * time.Minute)
		swept := f.sweep(10)
		f.wantSwept(swept, never.ID, retried.ID)
		for _, it := range swept {
			f.apply(buryUnheld(it, dead, "expired"))
		}
		f.wantSwept(f.sweep(10))
		if got := f.stats(dead); got.Total != 2 || got.Held != 0 {
			f.Errorf("dead-letter queue: got %+v, want both, not held", got)
		}
		for _, r := range f.records(never.ID) {
			f.Errorf("got record %+v for an item that nobody leased", r)
		}
	}},
	{"Guard_LiveLeaseIsNotTouched", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		leased := f.produceAndLease(q, pull(1))
		f.wantStatus(f.settle(buryUnheld(leased, dead, "expired"))[0], queue.Stale)
		f.apply(complete(leased))
	}},
	{"Guard_WhatHappenedSinceTheSweepWins", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		first, second, third := f.produceAndLease(q, pull(1)), f.produceAndLease(q, pull(1)), f.produceAndLease(q, pull(1))
		f.clock.Advance(2 * leaseTTL)
		swept := map[queue.ID]queue.Item{}
		for _, it := range f.sweep(10) {
			swept[it.ID] = it
		}
		f.apply(complete(first))
		f.extendOne(extension(second, time.Hour))
		if again := f.leaseOne(q, pull(1)); again.ID != third.ID {
			f.Fatalf("leased %v, want the third", again.ID)
		}
		f.wantStatus(f.settle(buryUnheld(swept[first.ID], dead, "x"))[0], queue.Gone)
		f.wantStatus(f.settle(buryUnheld(swept[second.ID], dead, "x"))[0], queue.Stale)
		f.wantStatus(f.settle(buryUnheld(swept[third.ID], dead, "x"))[0], queue.Stale)
		if got := f.list(dead); len(got) != 0 {
			f.Errorf("the dead-letter queue holds %d items, want none", len(got))
		}
	}},
	{"Guard_ReceiptOfABuriedLeaseIsRefused", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		leased := f.produceAndLease(q, pull(1))
		f.clock.Advance(2 * leaseTTL)
		f.apply(buryUnheld(f.sweep(10)[0], dead, "exhausted"))
		f.wantStatus(f.settle(complete(leased))[0], queue.Gone)
		moved := leased
		moved.Queue = dead
		f.wantStatus(f.settle(complete(moved))[0], queue.Stale)
	}},
}
