package storagetest

import (
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

var fencingCases = []testCase{
	{"D02_StaleReceiptIsRefused", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		old := f.produceAndLease(q, pull(1))
		f.clock.Advance(2 * leaseTTL)
		newest := f.leaseOne(q, pull(1))
		before := f.get(newest.Key)
		for _, s := range []queue.Settlement{complete(old), retry(old, 0), release(old), bury(old, dead)} {
			if got := f.settle(s)[0]; got.Status != queue.Stale {
				f.Errorf("%s: got %s, want stale", s.Outcome, statusName(got.Status))
			}
		}
		if got := f.extend(queue.Extension{Key: old.Key, Token: old.Token, TTL: time.Hour})[0]; got.Status != queue.Stale {
			f.Errorf("extend: got %s, want stale", statusName(got.Status))
		}
		if got, want := describe(f.get(newest.Key)), describe(before); got != want {
			f.Errorf("a stale receipt changed the item:\n got %s\nwant %s", got, want)
		}
		f.apply(complete(newest))
	}},
	{"D02_SettledReceiptIsRefused", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		for _, settle := range []func(queue.Item) queue.Settlement{
			func(it queue.Item) queue.Settlement { return retry(it, time.Hour) },
			func(it queue.Item) queue.Settlement { s := release(it); s.Delay = time.Hour; return s },
		} {
			leased := f.produceAndLease(q, pull(1))
			s := settle(leased)
			f.apply(s)
			for _, again := range []queue.Settlement{s, complete(leased), bury(leased, dead)} {
				if got := f.settle(again)[0]; got.Status != queue.Stale {
					f.Errorf("%s after %s: got %s, want stale", again.Outcome, s.Outcome, statusName(got.Status))
				}
			}
			if got := f.extend(queue.Extension{Key: leased.Key, Token: leased.Token, TTL: time.Hour})[0]; got.Status != queue.Stale {
				f.Errorf("extend after %s: got %s, want stale", s.Outcome, statusName(got.Status))
			}
		}
	}},
	{"D02_WhatIsGoneAnswersGone", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		done, buried := f.produceAndLease(q, pull(1)), f.produceAndLease(q, pull(1))
		f.apply(complete(done), bury(buried, dead))
		never := done
		never.ID = f.ids.next(f.clock.Now())
		for name, it := range map[string]queue.Item{"completed": done, "buried": buried, "never there": never} {
			if got := f.settle(complete(it))[0]; got.Status != queue.Gone {
				f.Errorf("%s: got %s, want gone", name, statusName(got.Status))
			}
			if got := f.extend(queue.Extension{Key: it.Key, Token: it.Token, TTL: time.Hour})[0]; got.Status != queue.Gone {
				f.Errorf("extend %s: got %s, want gone", name, statusName(got.Status))
			}
		}
	}},
	{"D02_EveryPartOfTheReceiptCounts", func(f *fixture) {
		q, other := f.queue(), f.queue()
		leased := f.produceAndLease(q, pull(1))
		for name, test := range map[string]struct {
			change func(*queue.Settlement)
			want   queue.SettleStatus
		}{
			"counter above": {func(s *queue.Settlement) { s.Token.Counter++ }, queue.Stale},
			"counter below": {func(s *queue.Settlement) { s.Token.Counter-- }, queue.Stale},
			"random part":   {func(s *queue.Settlement) { s.Token.Random ^= 1 }, queue.Stale},
			"no token":      {func(s *queue.Settlement) { s.Token = queue.Token{} }, queue.Stale},
			"queue":         {func(s *queue.Settlement) { s.Key.Queue = other }, queue.Gone},
			"home":          {func(s *queue.Settlement) { s.Key.Home = other }, queue.Gone},
			"id":            {func(s *queue.Settlement) { s.Key.ID[15] ^= 1 }, queue.Gone},
		} {
			s := complete(leased)
			test.change(&s)
			if got := f.settle(s)[0]; got.Status != test.want {
				f.Errorf("another %s: got %s, want %s", name, statusName(got.Status), statusName(test.want))
			}
		}
		f.apply(complete(leased))
	}},
	{"D02_NeverLeasedItemsCannotBeSettled", func(f *fixture) {
		q := f.queue()
		f.fill(q, 1)
		it := f.list(q)[0]
		if got := f.settle(complete(it))[0]; got.Status != queue.Stale {
			f.Errorf("got %s, want stale", statusName(got.Status))
		}
	}},
	{"D02_LateSettlementWithTheNewestTokenIsApplied", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		for _, settle := range []func(queue.Item) queue.Settlement{
			complete,
			func(it queue.Item) queue.Settlement { return retry(it, time.Hour) },
			func(it queue.Item) queue.Settlement { return bury(it, dead) },
		} {
			leased := f.produceAndLease(q, pull(1))
			f.clock.Advance(time.Hour)
			f.apply(settle(leased))
		}
		if got := f.stats(q); got.Total != 1 || got.Held != 0 {
			f.Errorf("stats: got %+v, want the retried item alone, not held", got)
		}
	}},
	{"D02_CounterRisesAtLeaseAndSettlement", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		f.fill(q, 1)
		it := f.list(q)[0]
		last := it.Token
		rises := func(what string, now queue.Token) {
			f.Helper()
			if now.Counter <= last.Counter {
				f.Errorf("%s: counter went from %d to %d, want it to rise", what, last.Counter, now.Counter)
			}
			last = now
		}
		for range 3 {
			it = f.leaseOne(q, pull(1))
			rises("lease", it.Token)
			f.apply(release(it))
			rises("release", f.get(it.Key).Token)
			it = f.leaseOne(q, pull(1))
			rises("lease", it.Token)
			f.clock.Advance(2 * leaseTTL)
			it = f.leaseOne(q, pull(1))
			rises("lease of a lapsed item", it.Token)
			f.apply(retry(it, 0))
			rises("retry", f.get(it.Key).Token)
		}
		it = f.leaseOne(q, pull(1))
		rises("lease", it.Token)
		f.apply(bury(it, dead))
		buried := f.get(queue.Key{ID: it.ID, Queue: dead, Home: q})
		rises("bury", buried.Token)
		rises("lease of a buried item", f.leaseOne(dead, pull(1)).Token)
	}},
	{"D02_RandomPartsDiffer", func(f *fixture) {
		q := f.queue()
		f.fill(q, 50)
		seen := map[uint64]bool{}
		for _, it := range f.lease(q, 50) {
			seen[it.Token.Random] = true
		}
		if len(seen) != 50 {
			f.Errorf("got %d random parts for 50 leases, want 50", len(seen))
		}
	}},
	{"D05_TheClockOfTheStoreNeverRunsBackwards", func(f *fixture) {
		q := f.queue()
		f.produceAndLease(q, pull(1))
		newest := f.clock.Now()
		f.clock.Advance(-time.Hour)
		f.fill(q, 1)
		answer, err := f.store.Lease(f.Context(), []queue.LeaseCall{{Queue: q, Takers: []queue.Taker{pull(10)}}})
		if err != nil {
			f.Fatal(err)
		}
		if answer.Now.Before(newest) {
			f.Errorf("now: got %v after %v", answer.Now, newest)
		}
		// The first item's lease is as live as it was, and the new one can be leased.
		if got := answer.Calls[0].Takers[0]; len(got) != 1 || got[0].AvailableAt.Before(newest.Add(leaseTTL)) {
			f.Errorf("lease: got %+v, want the new item, for its full time", got)
		}
	}},
}
