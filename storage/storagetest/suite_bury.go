package storagetest

import (
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

var buryCases = []testCase{
	{"Bury_MovesTheItemWithItsReason", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		item := f.item(q)
		item.ExpireTTL, item.MaxAttempts, item.Kind = time.Hour, 9, "k"
		f.produce(item)
		made := f.clock.Now()
		f.apply(retry(f.leaseOne(q, push(1)), 0))
		f.clock.Advance(time.Second)
		leased := f.leaseOne(q, push(1))
		s := bury(leased, dead)
		s.Last = queue.Last{Status: 410, Error: "gone"}
		f.wantTime("answer", f.apply(s)[0].AvailableAt, f.clock.Now())

		got := f.get(queue.Key{ID: item.ID, Queue: dead, Home: q})
		want := queue.Dead{From: q, Reason: "rejected", At: f.clock.Now(), Status: 410, Attempts: 1}
		if got.Dead == nil || *got.Dead != want {
			f.Errorf("dead: got %+v, want %+v", got.Dead, want)
		}
		f.wantCounters("buried", got, counters{2, 0, 0})
		f.wantTime("due at", got.DueAt, f.clock.Now())
		f.wantTime("available at", got.AvailableAt, f.clock.Now())
		f.wantTime("created at", got.CreatedAt, made)
		if !got.ExpiresAt.IsZero() {
			f.Errorf("expires at %v, want never", got.ExpiresAt)
		}
		if got.Held || got.Seq <= leased.Seq || got.MaxAttempts != 9 || got.Last != s.Last || got.Kind != "k" || string(got.Payload) != string(item.Payload) {
			f.Errorf("got %+v, want the same content at a new place, let go of", got)
		}
		if left := f.list(q); len(left) != 0 {
			f.Errorf("the queue holds %d items, want none", len(left))
		}
	}},
	{"Bury_CountsTheAttemptBeforeIt", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		for _, counts := range []bool{false, true} {
			item := f.item(q)
			f.produce(item)
			f.apply(retry(f.leaseOne(q, push(1)), 0))
			s := bury(f.leaseOne(q, push(1)), dead)
			s.Counts = counts
			f.apply(s)
			want := int32(1)
			if counts {
				want = 2
			}
			got := f.get(queue.Key{ID: item.ID, Queue: dead, Home: q})
			if got.Dead == nil || got.Dead.Attempts != want || got.Attempts != 0 {
				f.Errorf("counts %v: %d attempts, died of %+v, want none and %d", counts, got.Attempts, got.Dead, want)
			}
		}
	}},
	{"Bury_StandsAtTheTail", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		ids := f.fill(q, 2)
		leased := f.lease(q, 2)
		there := f.fill(dead, 1)
		f.apply(bury(leased[1], dead), bury(leased[0], dead))
		f.wantIDs("dead-letter queue", f.list(dead), there[0], ids[1], ids[0])
	}},
	{"Bury_ReceiptOfTheOldPlaceIsGone", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		leased := f.produceAndLease(q, pull(1))
		f.apply(bury(leased, dead))
		f.wantStatus(f.settle(complete(leased))[0], queue.Gone)
	}},
	{"Bury_CopiesOfOneItemMeetInOneDeadLetterQueue", func(f *fixture) {
		a, b, dead := f.queue(), f.queue(), f.queue()
		first := f.item(a)
		second := first
		second.Queue = b
		f.produce(first)
		f.produce(second)
		if found := f.find(first.ID); len(found) != 2 {
			f.Fatalf("Find: got %d copies, want 2", len(found))
		}
		f.apply(bury(f.leaseOne(a, pull(1)), dead))
		f.apply(bury(f.leaseOne(b, pull(1)), dead))
		f.wantIDs("dead-letter queue", f.list(dead), first.ID, first.ID)
		// Each is leased and ended by itself, and knows where it came from.
		both := f.lease(dead, 2)
		if both[0].Home != a || both[1].Home != b {
			f.Errorf("homes: got %d and %d, want %d and %d", both[0].Home, both[1].Home, a, b)
		}
		f.apply(complete(both[0]))
		f.wantStatus(f.settle(complete(both[0]))[0], queue.Gone)
		f.apply(complete(both[1]))
	}},
	{"Bury_EarlierCopyOfTheSameItemGivesWay", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		first := f.buried(q, dead)
		again := f.item(q)
		again.ID = first.ID
		f.produce(again)
		f.clock.Advance(time.Second)
		f.apply(bury(f.leaseOne(q, pull(1)), dead))
		f.wantIDs("dead-letter queue", f.list(dead), first.ID)
		got := f.get(first.Key)
		f.wantTime("buried at", got.Dead.At, f.clock.Now())
		if got := f.stats(dead); got.Total != 1 {
			f.Errorf("stats: got %d items, want 1", got.Total)
		}
		f.apply(complete(f.leaseOne(dead, pull(1))))
		if got := f.find(first.ID); len(got) != 0 {
			f.Errorf("%d copies live after the end of the one", len(got))
		}
	}},
	{"Bury_DoesNotLookAtIdempotencyKeys", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		item := f.keyed(q, "k", "body")
		f.produce(item)
		f.apply(bury(f.leaseOne(q, pull(1)), dead))
		again := f.keyed(q, "k", "body")
		if got := f.produce(again)[0]; !got.Duplicate || got.ID != item.ID {
			f.Errorf("got %+v, want a duplicate of the buried item", got)
		}
	}},
}

var groupCases = []testCase{
	{"D17_OneBadEntryUndoesItsGroupOnly", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		stale := f.produceAndLease(q, pull(1))
		f.apply(release(stale))
		newest := f.leaseOne(q, pull(1))
		a, b, c, d := f.produceAndLease(q, pull(1)), f.produceAndLease(q, pull(1)), f.produceAndLease(q, pull(1)), f.produceAndLease(q, pull(1))
		gone := a
		gone.ID = f.ids.next(f.clock.Now())
		groups := f.settleGroups(
			queue.SettleGroup{Entries: []queue.Settlement{complete(a), complete(stale), bury(b, dead), complete(gone)}},
			queue.SettleGroup{Entries: []queue.Settlement{complete(c), retry(d, time.Hour)}},
		)
		for i, want := range []queue.SettleStatus{queue.Undone, queue.Stale, queue.Undone, queue.Gone} {
			f.wantStatus(groups[0][i], want)
		}
		for i := range groups[1] {
			f.wantStatus(groups[1][i], queue.Applied)
		}
		if got := f.list(dead); len(got) != 0 {
			f.Errorf("the undone bury moved %d items", len(got))
		}
		// The receipts of the undone entries are as good as before.
		f.apply(complete(a), bury(b, dead), complete(newest))
	}},
	{"Groups_UndoneEntriesLeaveNoTrace", func(f *fixture) {
		q, done := f.queue(), f.queue()
		good := f.produceAndLease(q, pull(1))
		gone := good
		gone.ID = f.ids.next(f.clock.Now())
		s := complete(good)
		s.Record = &queue.Record{Type: queue.AttemptRecord}
		s.Produce = []queue.NewItem{f.item(done)}
		f.wantStatus(f.settle(s, complete(gone))[0], queue.Undone)
		if got := f.list(done); len(got) != 0 {
			f.Errorf("an undone entry produced %d items", len(got))
		}
		if got := f.records(good.ID); len(got) != 0 {
			f.Errorf("an undone entry wrote %d records", len(got))
		}
		f.apply(s)
		f.wantIDs("produced with the settlement", f.list(done), s.Produce[0].ID)
	}},
	{"Groups_OneReceiptIsUsedUpOnce", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		leased := f.produceAndLease(q, pull(1))
		settled := f.settle(complete(leased), bury(leased, dead))
		f.wantStatus(settled[0], queue.Undone)
		if got := settled[1].Status; got != queue.Stale && got != queue.Gone {
			f.Errorf("second use in a group: got %s, want stale or gone", statusName(got))
		}
		groups := f.settleGroups(
			queue.SettleGroup{Entries: []queue.Settlement{retry(leased, time.Hour)}},
			queue.SettleGroup{Entries: []queue.Settlement{complete(leased)}},
		)
		f.wantStatus(groups[0][0], queue.Applied)
		f.wantStatus(groups[1][0], queue.Stale)
		f.wantIDs("retrying", f.list(q, queue.Retrying), leased.ID)
	}},
	{"Groups_SettlementProducesOnceByIdempotencyKey", func(f *fixture) {
		q, done := f.queue(), f.queue()
		known := f.keyed(done, "done", "a")
		f.produce(known)
		s := complete(f.produceAndLease(q, pull(1)))
		s.Produce = []queue.NewItem{f.keyed(done, "done", "a"), f.keyed(done, "other", "b")}
		f.apply(s)
		f.wantIDs("produced", f.list(done), known.ID, s.Produce[1].ID)
	}},
}
