package storagetest

import (
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

func (f *fixture) move(entries ...queue.Move) []queue.MoveStatus {
	f.Helper()
	statuses, err := f.store.Move(f.Context(), entries)
	if err != nil {
		f.Fatalf("Move: %v", err)
	}
	if len(statuses) != len(entries) {
		f.Fatalf("Move: answered %d entries, want %d", len(statuses), len(entries))
	}
	return statuses
}

func (f *fixture) wantMoved(got, want queue.MoveStatus) {
	f.Helper()
	if got != want {
		f.Errorf("Move: got status %d, want %d", got, want)
	}
}

// buried makes an item that was buried from one queue into another.
func (f *fixture) buried(q, dead queue.Number) queue.Item {
	f.Helper()
	leased := f.produceAndLease(q, pull(1))
	f.apply(bury(leased, dead))
	return f.get(queue.Key{ID: leased.ID, Queue: dead, Home: q})
}

func (f *fixture) purge(req queue.PurgeRequest) queue.PurgeAnswer {
	f.Helper()
	answer, err := f.store.Purge(f.Context(), req)
	if err != nil {
		f.Fatalf("Purge: %v", err)
	}
	return answer
}

// purgeAll repeats a purge until there is no more, and returns the sum.
func (f *fixture) purgeAll(req queue.PurgeRequest) int {
	f.Helper()
	sum := 0
	for range maxPages {
		answer := f.purge(req)
		if answer.Purged > req.Limit {
			f.Fatalf("Purge: purged %d items, want at most %d", answer.Purged, req.Limit)
		}
		sum += answer.Purged
		if !answer.More {
			return sum
		}
	}
	f.Fatalf("Purge: %v", errEndless)
	return 0
}

var moveCases = []testCase{
	{"Move_RedrivesToTheTailAfresh", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		it := f.buried(q, dead)
		f.clock.Advance(time.Second)
		waiting := f.fill(q, 1)
		f.wantMoved(f.move(queue.Move{Key: it.Key, Target: q, ExpireTTL: time.Hour})[0], queue.Moved)
		got := f.get(queue.Key{ID: it.ID, Queue: q, Home: q})
		now := f.clock.Now()
		if got.Dead != nil || got.Generation != 1 || got.Seq <= it.Seq || got.Held {
			f.Errorf("got %+v, want generation 1 at a new place, not dead", got)
		}
		f.wantCounters("moved", got, counters{1, 0, 0})
		f.wantTime("due at", got.DueAt, now)
		f.wantTime("available at", got.AvailableAt, now)
		f.wantTime("expires at", got.ExpiresAt, now.Add(time.Hour))
		f.wantTime("created at", got.CreatedAt, it.CreatedAt)
		if string(got.Payload) != string(it.Payload) {
			f.Errorf("payload: got %q, want %q", got.Payload, it.Payload)
		}
		if left := f.list(dead); len(left) != 0 {
			f.Errorf("the dead-letter queue holds %d items, want none", len(left))
		}
		f.wantIDs("lease", f.lease(q, 10), waiting[0], it.ID)
	}},
	{"Move_ClearsWhatWasUsedUp", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		it := f.buried(q, dead)
		leased := f.leaseOne(dead, push(1))
		s := retry(leased, 0)
		s.Undead = true
		f.apply(s)
		f.wantMoved(f.move(queue.Move{Key: it.Key, Target: q})[0], queue.Moved)
		got := f.get(queue.Key{ID: it.ID, Queue: q, Home: q})
		f.wantCounters("moved", got, counters{2, 0, 0})
		if !got.ExpiresAt.IsZero() {
			f.Errorf("expires at %v, want never", got.ExpiresAt)
		}
	}},
	{"Move_ElsewhereKeepsTheHome", func(f *fixture) {
		q, dead, other := f.queue(), f.queue(), f.queue()
		it := f.buried(q, dead)
		f.wantMoved(f.move(queue.Move{Key: it.Key, Target: other, Partition: 1})[0], queue.Moved)
		got := f.get(queue.Key{ID: it.ID, Queue: other, Home: q})
		if got.Partition != 1 {
			f.Errorf("partition: got %d, want 1", got.Partition)
		}
	}},
	{"Move_SkipsWhatIsHeldOrGone", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		held := f.buried(q, dead)
		f.leaseOne(dead, pull(1))
		good := f.buried(q, dead)
		gone := good.Key
		gone.ID = f.ids.next(f.clock.Now())
		got := f.move(
			queue.Move{Key: gone, Target: q},
			queue.Move{Key: held.Key, Target: q},
			queue.Move{Key: good.Key, Target: q},
			queue.Move{Key: good.Key, Target: q},
		)
		for i, want := range []queue.MoveStatus{queue.MoveGone, queue.MoveGone, queue.Moved, queue.MoveGone} {
			f.wantMoved(got[i], want)
		}
		f.wantIDs("queue", f.list(q), good.ID)
		f.wantIDs("dead-letter queue", f.list(dead), held.ID)
	}},
	{"Move_SkipsWhatLivesInTheTargetAlready", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		it := f.buried(q, dead)
		again := f.item(q)
		again.ID = it.ID
		f.produce(again)
		before := describe(f.get(it.Key))
		f.wantMoved(f.move(queue.Move{Key: it.Key, Target: q})[0], queue.MoveTaken)
		if got := describe(f.get(it.Key)); got != before {
			f.Errorf("the item that stayed changed:\n got %s\nwant %s", got, before)
		}
		f.wantIDs("queue", f.list(q), it.ID)
	}},
	{"Move_CopiesReturnEachToItsHome", func(f *fixture) {
		a, b, dead := f.queue(), f.queue(), f.queue()
		first := f.item(a)
		second := first
		second.Queue = b
		f.produce(first, second)
		f.apply(bury(f.leaseOne(a, pull(1)), dead), bury(f.leaseOne(b, pull(1)), dead))
		var moves []queue.Move
		for _, it := range f.list(dead) {
			moves = append(moves, queue.Move{Key: it.Key, Target: it.Home})
		}
		for _, status := range f.move(moves...) {
			f.wantMoved(status, queue.Moved)
		}
		f.wantIDs("a", f.list(a), first.ID)
		f.wantIDs("b", f.list(b), first.ID)
	}},
	{"Move_ForLaterIsScheduledAnew", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		f.fill(q, 5)
		var ids []queue.ID
		var moves []queue.Move
		for i, it := range f.lease(q, 5) {
			f.apply(bury(it, dead))
			ids = append(ids, it.ID)
			moves = append(moves, queue.Move{
				Key: queue.Key{ID: it.ID, Queue: dead, Home: q}, Target: q, ExpireTTL: time.Hour,
				Delay: time.Duration(i) * time.Minute,
			})
		}
		moves[1].Delay = queue.Soon - time.Microsecond // as good as now
		f.clock.Advance(time.Second)
		for _, status := range f.move(moves...) {
			f.wantMoved(status, queue.Moved)
		}
		now := f.clock.Now()
		due := []time.Time{now, now, now.Add(2 * time.Minute), now.Add(3 * time.Minute), now.Add(4 * time.Minute)}
		for i, id := range ids {
			it := f.get(queue.Key{ID: id, Queue: q, Home: q})
			f.wantTime("first due at", it.FirstDueAt, due[i])
			f.wantTime("due at", it.DueAt, due[i])
			f.wantTime("available at", it.AvailableAt, due[i])
			f.wantTime("updated at", it.UpdatedAt, now)
			f.wantTime("expires at", it.ExpiresAt, due[i].Add(time.Hour))
		}
		f.wantIDs("ready", f.list(q, queue.Ready), ids[:2]...)
		f.wantIDs("scheduled", f.list(q, queue.Scheduled), ids[2:]...)
		f.wantIDs("retrying", f.list(q, queue.Retrying))
		f.wantIDs("lease", f.lease(q, 10), ids[:2]...)
		f.wantIDs("lease before its time", f.lease(q, 10))
		if at, found := f.nextDue(q); !found || at.After(due[2]) {
			f.Errorf("next due at %v, want %v or sooner", at, due[2])
		}
		if got := f.purgeAll(queue.PurgeRequest{Queue: q, States: []queue.State{queue.Scheduled}, Limit: 1}); got != 3 {
			f.Errorf("%d scheduled items were purged, want 3", got)
		}
	}},
	{"Move_ForLaterThenRetriedIsRetrying", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		it := f.buried(q, dead)
		f.wantMoved(f.move(queue.Move{Key: it.Key, Target: q, Delay: time.Minute})[0], queue.Moved)
		f.clock.Advance(time.Minute)
		f.apply(retry(f.leaseOne(q, pull(1)), time.Minute))
		f.wantIDs("retrying", f.list(q, queue.Retrying), it.ID)
		f.wantIDs("scheduled", f.list(q, queue.Scheduled))
	}},
	{"D12_MoveDoesNotLookAtIdempotencyKeys", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		item := f.keyed(q, "k", "body")
		f.produce(item)
		f.apply(bury(f.leaseOne(q, pull(1)), dead))
		f.wantMoved(f.move(queue.Move{Key: queue.Key{ID: item.ID, Queue: dead, Home: q}, Target: q})[0], queue.Moved)
		f.wantIDs("lease", f.lease(q, 1), item.ID)
		f.wantDuplicate("key", f.produce(f.keyed(q, "k", "body"))[0], item.ID)
	}},
}

var purgeCases = []testCase{
	{"Purge_ByKeyWhateverTheState", func(f *fixture) {
		q := f.queue()
		leased := f.produceAndLease(q, pull(1))
		lapsed := f.produceAndLease(q, queue.Taker{TTL: time.Second})
		scheduled := f.item(q)
		scheduled.Delay = time.Hour
		f.produce(scheduled)
		f.clock.Advance(2 * time.Second)
		stays := f.fill(q, 1)
		gone := leased.Key
		gone.ID = f.ids.next(f.clock.Now())
		keys := []queue.Key{leased.Key, gone, lapsed.Key, {ID: scheduled.ID, Queue: q, Home: q}}
		got := f.purge(queue.PurgeRequest{Keys: keys, Limit: 10, Reason: "cancelled"})
		if want := (queue.PurgeAnswer{Purged: 3}); got != want {
			f.Errorf("got %+v, want %+v", got, want)
		}
		f.wantIDs("left", f.list(q), stays...)
		f.wantStatus(f.settle(complete(leased))[0], queue.Gone)
	}},
	{"Purge_ByStatesInPages", func(f *fixture) {
		q := f.queue()
		f.fill(q, 25)
		leased := f.lease(q, 5)
		scheduled := f.item(q)
		scheduled.Delay = time.Hour
		f.produce(scheduled)
		elsewhere := f.queue()
		f.fill(elsewhere, 1)
		first := f.purge(queue.PurgeRequest{Queue: q, States: []queue.State{queue.Ready, queue.Scheduled}, Limit: 10})
		if want := (queue.PurgeAnswer{Purged: 10, More: true}); first != want {
			f.Errorf("first page: got %+v, want %+v", first, want)
		}
		rest := f.purgeAll(queue.PurgeRequest{Queue: q, States: []queue.State{queue.Ready, queue.Scheduled}, Limit: 10})
		if rest != 11 {
			f.Errorf("rest: purged %d, want 11", rest)
		}
		f.wantIDs("left", f.list(q), idsOf(leased)...)
		if total := f.stats(elsewhere).Total; total != 1 {
			f.Errorf("another queue holds %d items, want 1", total)
		}
	}},
	{"Purge_OfAWholeQueue", func(f *fixture) {
		q := f.queue()
		f.fill(q, 7)
		f.lease(q, 3)
		if got := f.purgeAll(queue.PurgeRequest{Queue: q, Limit: 3}); got != 7 {
			f.Errorf("purged %d, want 7", got)
		}
		if got := f.stats(q); got.Total != 0 || got.Held != 0 {
			f.Errorf("stats: got %+v, want nothing", got)
		}
		f.wantIDs("lease", f.lease(q, 10))
	}},
	{"Purge_WritesEndingRecords", func(f *fixture) {
		q := f.queue()
		leased := f.produceAndLease(q, pull(1))
		f.purge(queue.PurgeRequest{Keys: []queue.Key{leased.Key}, Limit: 1, Reason: "cancelled"})
		records := f.records(leased.ID)
		if len(records) != 1 {
			f.Fatalf("got %d records, want 1", len(records))
		}
		r := records[0]
		if r.Type != queue.EndingRecord || r.Verdict != "cancelled" || r.Key != leased.Key || r.Delivery != 1 || r.Next != queue.StepCancel {
			f.Errorf("got %+v, want the ending with its reason", r)
		}
		f.wantTime("at", r.At, f.clock.Now())
	}},
}
