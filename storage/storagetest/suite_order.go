package storagetest

import (
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

var orderCases = []testCase{
	{"INV12_FirstInFirstOut", func(f *fixture) {
		q := f.queue()
		want := f.fill(q, 3)
		want = append(want, f.fill(q, 2)...) // In the same microsecond.
		f.clock.Advance(time.Second)
		want = append(want, f.fill(q, 2)...)
		f.wantIDs("first lease", f.lease(q, 4), want[:4]...)
		f.wantIDs("second lease", f.lease(q, 10), want[4:]...)
		f.wantIDs("third lease", f.lease(q, 10))
	}},
	{"Order_GroupsOfOneCallStandInItsOrder", func(f *fixture) {
		q := f.queue()
		var groups []queue.ProduceGroup
		var want []queue.ID
		for range 5 {
			a, b := f.item(q), f.item(q)
			groups = append(groups, queue.ProduceGroup{Items: []queue.NewItem{a, b}})
			want = append(want, a.ID, b.ID)
		}
		f.produceGroups(groups...)
		f.wantIDs("lease", f.lease(q, 20), want...)
	}},
	{"Order_DueItemsEnterByDueTime", func(f *fixture) {
		q := f.queue()
		late, early, middle := f.item(q), f.item(q), f.item(q)
		late.Delay, early.Delay, middle.Delay = 3*time.Second, time.Second, 2*time.Second
		f.produce(late, early, middle)
		f.clock.Advance(1500 * time.Millisecond)
		between := f.item(q)
		f.produce(between)
		f.clock.Advance(time.Minute)
		f.wantIDs("lease", f.lease(q, 10), early.ID, between.ID, middle.ID, late.ID)
	}},
	{"Order_EqualDueTimesStandByArrival", func(f *fixture) {
		q := f.queue()
		first, second := f.item(q), f.item(q)
		first.Delay = 2 * time.Second
		f.produce(first)
		f.clock.Advance(time.Second)
		second.Delay = time.Second
		f.produce(second)
		f.clock.Advance(time.Second)
		third := f.item(q)
		f.produce(third)
		f.wantIDs("lease", f.lease(q, 10), first.ID, second.ID, third.ID)
	}},
	{"Order_QueuesNamespacesAndPartitionsAreApart", func(f *fixture) {
		here, other := f.item(queue.NewNumber(1, 5)), f.item(queue.NewNumber(1, 6))
		elsewhere, part := f.item(queue.NewNumber(2, 5)), f.item(queue.NewNumber(1, 5))
		part.Partition = 1
		f.produce(part, elsewhere, other, here)
		answers := f.leaseCalls(
			queue.LeaseCall{Queue: here.Queue, Takers: []queue.Taker{pull(9)}},
			queue.LeaseCall{Queue: queue.NewNumber(1, 7), Takers: []queue.Taker{pull(9)}},
			queue.LeaseCall{Queue: here.Queue, Partition: 1, Takers: []queue.Taker{pull(9)}},
			queue.LeaseCall{Queue: elsewhere.Queue, Takers: []queue.Taker{pull(9)}},
		)
		for i, want := range [][]queue.ID{{here.ID}, {}, {part.ID}, {elsewhere.ID}} {
			f.wantIDs("lease", answers[i].Takers[0], want...)
		}
		if got := answers[2].Takers[0][0].Partition; got != 1 {
			f.Errorf("partition: got %d, want 1", got)
		}
		f.wantIDs("not asked for", f.list(other.Queue, queue.Ready), other.ID)
	}},
	{"Lease_AnswersTheItemAsItIsNow", func(f *fixture) {
		q := f.queue()
		item := f.item(q)
		item.Delay, item.ExpireTTL, item.MaxAttempts = time.Second, time.Hour, 7
		item.Kind = "order.created"
		f.produce(item)
		made := f.clock.Now()
		f.clock.Advance(5 * time.Second)
		got := f.leaseOne(q, queue.Taker{TTL: 90 * time.Second, Owner: "somebody"})
		now := f.clock.Now()

		if want := (queue.Key{ID: item.ID, Queue: q, Home: q}); got.Key != want {
			f.Errorf("key: got %v, want %v", got.Key, want)
		}
		f.wantTime("created at", got.CreatedAt, made)
		f.wantTime("updated at", got.UpdatedAt, now)
		f.wantTime("due at", got.DueAt, made.Add(time.Second))
		f.wantTime("deadline", got.AvailableAt, now.Add(90*time.Second))
		f.wantTime("expires at", got.ExpiresAt, made.Add(time.Second+time.Hour))
		if !got.Held || got.Owner != "somebody" || got.LapseCounts || got.Token.Counter == 0 {
			f.Errorf("lease: got %+v, want it held by somebody, with a token", got)
		}
		if got.Deliveries != 1 || got.Attempts != 0 || got.Recoveries != 0 || got.MaxAttempts != 7 || got.Generation != 0 {
			f.Errorf("counters: got %+v, want one delivery and a limit of 7", got)
		}
		if string(got.Payload) != string(item.Payload) || got.Kind != item.Kind {
			f.Errorf("content: got %+v, want %+v", got.Content, item.Content)
		}
		if got.Dead != nil || got.Last != (queue.Last{}) {
			f.Errorf("got dead %v, last %v, want neither", got.Dead, got.Last)
		}
		if state := got.State(now); state != queue.Leased {
			f.Errorf("state: got %s, want leased", state)
		}
	}},
}

var takerCases = []testCase{
	{"Takers_AreDealtItemsRoundRobin", func(f *fixture) {
		q := f.queue()
		ids := f.fill(q, 23)
		got := f.leaseFor(q, pull(20), pull(6), pull(1))
		for i, want := range []int{16, 6, 1} {
			if len(got[i]) != want {
				f.Errorf("taker %d: got %d items, want %d", i, len(got[i]), want)
			}
		}
		f.wantIDs("taker 0", got[0][:3], ids[0], ids[3], ids[5])
		f.wantIDs("taker 1", got[1][:3], ids[1], ids[4], ids[6])
		f.wantIDs("taker 2", got[2], ids[2])
	}},
	{"Takers_TakeNoMoreThanTheirLimits", func(f *fixture) {
		q := f.queue()
		ids := f.fill(q, 10)
		got := f.leaseFor(q, pull(2), pull(3))
		if len(got[0]) != 2 || len(got[1]) != 3 {
			f.Errorf("got %d and %d items, want 2 and 3", len(got[0]), len(got[1]))
		}
		f.wantIDs("left", f.list(q, queue.Ready), ids[5:]...)
	}},
	{"Takers_HaveTheirOwnTermsOfLease", func(f *fixture) {
		q := f.queue()
		f.fill(q, 2)
		got := f.leaseFor(q,
			queue.Taker{Limit: 1, TTL: time.Second, Owner: "a", LapseCounts: true},
			queue.Taker{Limit: 1, TTL: time.Hour, Owner: "b"})
		a, b := got[0][0], got[1][0]
		if a.Owner != "a" || !a.LapseCounts || b.Owner != "b" || b.LapseCounts {
			f.Errorf("got %q %v and %q %v, want each taker's own", a.Owner, a.LapseCounts, b.Owner, b.LapseCounts)
		}
		f.wantTime("a's deadline", a.AvailableAt, f.clock.Now().Add(time.Second))
		f.wantTime("b's deadline", b.AvailableAt, f.clock.Now().Add(time.Hour))
	}},
	{"Takers_StopBeforeMaxBytes", func(f *fixture) {
		q := f.queue()
		var ids []queue.ID
		for range 6 {
			item := f.item(q)
			item.Payload, item.Kind = make([]byte, 90), "0123456789" // Size 100.
			f.produce(item)
			ids = append(ids, item.ID)
		}
		bounded, whole := pull(10), pull(10)
		bounded.MaxBytes = 299
		got := f.leaseFor(q, bounded, whole)
		f.wantIDs("bounded", got[0], ids[0], ids[2])
		f.wantIDs("unbounded", got[1], ids[1], ids[3], ids[4], ids[5])
	}},
	{"Takers_FillMaxBytesExactly", func(f *fixture) {
		q := f.queue()
		for range 4 {
			item := f.item(q)
			item.Payload = make([]byte, 100)
			f.produce(item)
		}
		taker := pull(10)
		taker.MaxBytes = 300
		if got := f.leaseFor(q, taker)[0]; len(got) != 3 {
			f.Errorf("got %d items, want 3", len(got))
		}
	}},
	{"Takers_GetOneItemWhateverItsSize", func(f *fixture) {
		q := f.queue()
		ids := f.fill(q, 3)
		taker := pull(10)
		taker.MaxBytes = 1
		f.wantIDs("first", f.leaseFor(q, taker)[0], ids[0])
		f.wantIDs("second", f.leaseFor(q, taker)[0], ids[1])
	}},
}
