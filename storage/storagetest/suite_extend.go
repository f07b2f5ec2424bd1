package storagetest

import (
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// extension is the plain extension of a leased item.
func extension(it queue.Item, ttl time.Duration) queue.Extension {
	return queue.Extension{Key: it.Key, Token: it.Token, TTL: ttl}
}

// extendOne extends one lease, which must work.
func (f *fixture) extendOne(e queue.Extension) queue.Extended {
	f.Helper()
	got := f.extend(e)[0]
	if got.Status != queue.Applied {
		f.Fatalf("Extend: got %s, want applied", statusName(got.Status))
	}
	return got
}

var extendCases = []testCase{
	{"Extend_MovesTheDeadline", func(f *fixture) {
		q := f.queue()
		leased := f.produceAndLease(q, push(1))
		f.clock.Advance(30 * time.Second)
		want := f.clock.Now().Add(time.Hour)
		f.wantTime("answer", f.extendOne(extension(leased, time.Hour)).Deadline, want)
		got := f.get(leased.Key)
		f.wantTime("deadline", got.AvailableAt, want)
		f.wantTime("due at", got.DueAt, leased.DueAt)
		if got.Token != leased.Token || got.Owner != leased.Owner || got.LapseCounts {
			f.Errorf("got %+v, want token and holder as before", got)
		}
		f.clock.Advance(time.Hour - time.Microsecond)
		f.wantIDs("before the new deadline", f.lease(q, 1))
		f.apply(complete(leased))
	}},
	{"Extend_NeverEarlier", func(f *fixture) {
		q := f.queue()
		leased := f.produceAndLease(q, push(1))
		f.wantTime("answer", f.extendOne(extension(leased, time.Second)).Deadline, leased.AvailableAt)
		f.wantTime("deadline", f.get(leased.Key).AvailableAt, leased.AvailableAt)
	}},
	{"Extend_RevivesALapsedLeaseUncounted", func(f *fixture) {
		q := f.queue()
		leased := f.produceAndLease(q, pull(1))
		f.clock.Advance(time.Hour)
		f.wantTime("answer", f.extendOne(extension(leased, time.Minute)).Deadline, f.clock.Now().Add(time.Minute))
		f.wantIDs("while it is live", f.lease(q, 1))
		got := f.get(leased.Key)
		f.wantCounters("revived", got, counters{1, 0, 0})
		f.wantTime("due at", got.DueAt, leased.DueAt)
		if got := f.records(leased.ID); len(got) != 0 {
			f.Errorf("got %d records, want none", len(got))
		}
		f.apply(release(leased))
		f.wantTime("release", f.get(leased.Key).AvailableAt, leased.DueAt)
	}},
	{"Extend_HandsTheLeaseOver", func(f *fixture) {
		q := f.queue()
		leased := f.produceAndLease(q, push(1))
		e := extension(leased, time.Hour)
		e.Handover = &queue.Handover{
			Owner: "endpoint", LapseCounts: true,
			Record: &queue.Record{Type: queue.AttemptRecord, Subscription: "s", Verdict: "deferred", Status: 202},
		}
		f.extendOne(e)
		got := f.get(leased.Key)
		if got.Owner != "endpoint" || !got.LapseCounts || !got.Held {
			f.Errorf("got owner %q, lapse counts %v, held %v, want the endpoint's lease", got.Owner, got.LapseCounts, got.Held)
		}
		records := f.records(leased.ID)
		if len(records) != 1 || records[0].Next != queue.StepHold || records[0].Verdict != "deferred" || records[0].Delivery != 1 {
			f.Fatalf("records: got %+v, want the deferral, held", records)
		}
		f.wantTime("record's next", records[0].NextAt, f.clock.Now().Add(time.Hour))
		f.clock.Advance(2 * time.Hour)
		f.wantCounters("after its lapse", f.leaseOne(q, push(1)), counters{2, 1, 0})
	}},
	{"Extend_HandoverTakesNoTimeAway", func(f *fixture) {
		q := f.queue()
		leased := f.produceAndLease(q, push(1))
		e := extension(leased, time.Second)
		e.Handover = &queue.Handover{Owner: "endpoint", LapseCounts: true}
		f.wantTime("answer", f.extendOne(e).Deadline, leased.AvailableAt)
	}},
	{"Extend_EachEntryByItself", func(f *fixture) {
		q := f.queue()
		stale := f.produceAndLease(q, pull(1))
		f.apply(retry(stale, time.Hour))
		good := f.produceAndLease(q, pull(1))
		gone := good
		gone.ID = f.ids.next(f.clock.Now())
		got := f.extend(extension(stale, time.Hour), extension(gone, time.Hour), extension(good, time.Hour))
		for i, want := range []queue.SettleStatus{queue.Stale, queue.Gone, queue.Applied} {
			if got[i].Status != want {
				f.Errorf("entry %d: got %s, want %s", i, statusName(got[i].Status), statusName(want))
			}
		}
		f.wantTime("good", f.get(good.Key).AvailableAt, f.clock.Now().Add(time.Hour))
		f.wantTime("stale", f.get(stale.Key).AvailableAt, f.clock.Now().Add(time.Hour))
	}},
	{"Extend_OrderOfLapseFollowsTheDeadline", func(f *fixture) {
		q := f.queue()
		ids := f.fill(q, 3)
		leased := f.lease(q, 3)
		f.extendOne(extension(leased[0], time.Hour))
		f.clock.Advance(2 * leaseTTL)
		f.wantIDs("lapsed", f.list(q, queue.Lapsed), ids[1], ids[2])
		f.wantIDs("lease", f.lease(q, 10), ids[1], ids[2])
	}},
}
