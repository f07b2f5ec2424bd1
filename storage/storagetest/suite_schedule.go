package storagetest

import (
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

var scheduleCases = []testCase{
	{"INV08_ItemsWaitUntilTheyAreDue", func(f *fixture) {
		q := f.queue()
		item := f.item(q)
		item.Delay = time.Hour
		produced := f.produce(item)[0]
		f.wantTime("due at", produced.DueAt, f.clock.Now().Add(time.Hour))
		f.wantIDs("scheduled", f.list(q, queue.Scheduled), item.ID)
		f.clock.Advance(time.Hour - time.Microsecond)
		f.wantIDs("a microsecond early", f.lease(q, 1))
		f.clock.Advance(time.Microsecond)
		f.wantIDs("in time", f.lease(q, 1), item.ID)
	}},
	{"Schedule_DueTimeWinsOverDelay", func(f *fixture) {
		q := f.queue()
		item := f.item(q)
		item.Delay, item.DueAt = time.Hour, f.clock.Now().Add(time.Minute)
		f.wantTime("due at", f.produce(item)[0].DueAt, item.DueAt)
	}},
	{"Schedule_PastAndSoonMeanNow", func(f *fixture) {
		now := f.clock.Now()
		for _, test := range []struct {
			name  string
			at    time.Time
			delay time.Duration
			want  time.Time
		}{
			{"no time", time.Time{}, 0, now},
			{"long past", time.Unix(0, 0), 0, now},
			{"just past", now.Add(-time.Microsecond), 0, now},
			{"now", now, 0, now},
			{"soon", now.Add(queue.Soon - time.Microsecond), 0, now},
			{"soon, by delay", time.Time{}, queue.Soon - time.Microsecond, now},
			{"ahead", now.Add(queue.Soon), 0, now.Add(queue.Soon)},
			{"ahead, by delay", time.Time{}, queue.Soon, now.Add(queue.Soon)},
			{"a century, by delay", time.Time{}, 100 * 365 * 24 * time.Hour, now.Add(100 * 365 * 24 * time.Hour)},
			{"a past time wins over a delay", now.Add(-time.Hour), time.Hour, now},
		} {
			q := f.queue()
			item := f.item(q)
			item.DueAt, item.Delay = test.at, test.delay
			f.wantTime(test.name+": produced", f.produce(item)[0].DueAt, test.want)
			stored := f.get(queue.Key{ID: item.ID, Queue: q, Home: q})
			f.wantTime(test.name+": due at", stored.DueAt, test.want)
			f.wantTime(test.name+": available at", stored.AvailableAt, test.want)
		}
	}},
	{"C14_InstantsAreKeptToTheMicrosecond", func(f *fixture) {
		q := f.queue()
		item := f.item(q)
		want := time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
		item.DueAt = want.Add(999).In(time.FixedZone("", 3600))
		f.produce(item)
		got := f.get(queue.Key{ID: item.ID, Queue: q, Home: q})
		if got.DueAt != want || got.AvailableAt != want {
			f.Errorf("got due %v, available %v, want %v", got.DueAt, got.AvailableAt, want)
		}
	}},
	{"Schedule_NextDueIsNeverLate", func(f *fixture) {
		q, empty := f.queue(), f.queue()
		for _, delay := range []time.Duration{time.Hour, time.Minute, 2 * time.Minute} {
			item := f.item(q)
			item.Delay = delay
			f.produce(item)
		}
		now := f.clock.Now()
		f.wantDue(q, now.Add(time.Minute))
		f.clock.Advance(time.Minute)
		leased := f.leaseOne(q, queue.Taker{TTL: 10 * time.Second, LapseCounts: true})
		f.wantDue(q, f.clock.Now().Add(10*time.Second))
		f.apply(complete(leased))
		f.wantDue(q, now.Add(2*time.Minute))
		f.fill(q, 1)
		f.wantDue(q, f.clock.Now())
		if _, found := f.nextDue(empty); found {
			f.Error("NextDue names a queue that holds nothing")
		}
	}},
	{"Schedule_NextDueIsAheadAfterALeaseThatFoundNothing", func(f *fixture) {
		q := f.queue()
		item := f.item(q)
		item.Delay = time.Hour
		f.produce(item)
		f.apply(complete(f.produceAndLease(q, pull(1))))
		f.wantIDs("lease", f.lease(q, 1))
		// Whoever sleeps until then would wake at once, again and again.
		if at, _ := f.nextDue(q); !at.After(f.clock.Now()) {
			f.Errorf("NextDue: got %v, want it after %v", at, f.clock.Now())
		}
	}},
	{"Schedule_NextDueForgetsAnEmptiedQueue", func(f *fixture) {
		q := f.queue()
		f.apply(complete(f.produceAndLease(q, pull(1))))
		f.wantIDs("lease", f.lease(q, 1))
		if at, found := f.nextDue(q); found {
			f.Errorf("NextDue: got %v for a queue that holds nothing", at)
		}
	}},
	{"Expiry_RunsFromTheFirstDueTime", func(f *fixture) {
		q := f.queue()
		item := f.item(q)
		item.Delay, item.ExpireTTL = time.Minute, time.Hour
		f.produce(item)
		want := f.clock.Now().Add(time.Minute + time.Hour)
		f.clock.Advance(30 * time.Minute)
		leased := f.leaseOne(q, pull(1))
		f.apply(retry(leased, 20*time.Minute))
		f.wantTime("after a retry", f.get(leased.Key).ExpiresAt, want)
	}},
	{"Expiry_ExpiredItemsAreLeasedToo", func(f *fixture) {
		q := f.queue()
		item := f.item(q)
		item.ExpireTTL = time.Minute
		f.produce(item)
		f.clock.Advance(time.Hour)
		if got := f.leaseOne(q, pull(1)); !got.Expired(f.clock.Now()) {
			f.Errorf("got one that expires at %v, want an expired item", got.ExpiresAt)
		}
	}},
}

// nextDue returns a queue's earliest position, if the store names one.
func (f *fixture) nextDue(q queue.Number) (time.Time, bool) {
	f.Helper()
	answer, err := f.store.NextDue(f.Context())
	if err != nil {
		f.Fatalf("NextDue: %v", err)
	}
	for _, due := range answer.Queues {
		if due.Queue == q && due.Partition == 0 {
			return due.At, true
		}
	}
	return time.Time{}, false
}

// wantDue checks that NextDue is not after at, which is when something is due.
func (f *fixture) wantDue(q queue.Number, at time.Time) {
	f.Helper()
	if got, found := f.nextDue(q); !found || got.After(at) {
		f.Errorf("NextDue: got %v, %v, want %v or earlier", got, found, at)
	}
}
