package storagetest

import (
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

var listCases = []testCase{
	{"Find_ReturnsEveryLivingCopy", func(f *fixture) {
		a, b := f.queue(), f.queue()
		first := f.item(a)
		second := first
		second.Queue = b
		f.produce(first, second)
		f.fill(a, 1)
		found := f.find(first.ID)
		if len(found) != 2 || found[0].ID != first.ID || found[1].ID != first.ID || found[0].Queue == found[1].Queue {
			f.Fatalf("got %+v, want one copy in each queue", found)
		}
		if string(found[0].Payload) != string(first.Payload) {
			f.Errorf("payload: got %q, want %q", found[0].Payload, first.Payload)
		}
		f.apply(complete(f.leaseOne(a, pull(1))))
		if found := f.find(first.ID); len(found) != 1 || found[0].Queue != b {
			f.Errorf("after one ended: got %+v, want the other", found)
		}
		if found := f.find(f.ids.next(f.clock.Now())); len(found) != 0 {
			f.Errorf("unknown id: got %+v, want nothing", found)
		}
	}},
	{"List_FiltersByState", func(f *fixture) {
		q := f.queue()
		retrying := f.produceAndLease(q, pull(1))
		f.apply(retry(retrying, 30*time.Minute))
		scheduled := f.item(q)
		scheduled.Delay = 2 * time.Hour
		f.produce(scheduled)
		leased := f.produceAndLease(q, queue.Taker{TTL: time.Hour})
		lapsed := f.produceAndLease(q, queue.Taker{TTL: time.Second})
		f.clock.Advance(time.Minute)
		ready := f.fill(q, 1)[0]
		for state, want := range map[queue.State][]queue.ID{
			queue.Ready: {ready}, queue.Scheduled: {scheduled.ID}, queue.Retrying: {retrying.ID},
			queue.Leased: {leased.ID}, queue.Lapsed: {lapsed.ID}, queue.Behind: {},
		} {
			f.wantIDs(state.String(), f.list(q, state), want...)
		}
		f.wantIDs("two states", f.list(q, queue.Scheduled, queue.Lapsed), lapsed.ID, scheduled.ID)
		f.wantIDs("all", f.list(q), lapsed.ID, ready, retrying.ID, leased.ID, scheduled.ID)
	}},
	{"List_PagesJoinWithoutGapOrOverlap", func(f *fixture) {
		q := f.queue()
		ids := f.fill(q, 10) // All of one microsecond: seq alone tells them apart.
		f.clock.Advance(time.Second)
		ids = append(ids, f.fill(q, 10)...)
		for _, limit := range []int{1, 3, 10, 19, 20, 21} {
			f.wantIDs("all", f.listFrom(queue.ListRequest{Queue: q, Limit: limit}), ids...)
		}
		var odd []queue.ID
		for i, it := range f.lease(q, 20) {
			if i%2 == 1 {
				f.apply(release(it))
				odd = append(odd, it.ID)
			}
		}
		for _, limit := range []int{1, 3, 10} {
			f.wantIDs("filtered", f.listFrom(queue.ListRequest{Queue: q, States: []queue.State{queue.Ready}, Limit: limit}), odd...)
		}
	}},
	{"List_CursorOutlivesItsItem", func(f *fixture) {
		q := f.queue()
		ids := f.fill(q, 6)
		page, err := f.store.ListItems(f.Context(), queue.ListRequest{Queue: q, Limit: 3})
		if err != nil || len(page.Items) != 3 || page.Next == "" {
			f.Fatalf("ListItems: got %d items, next %q, %v", len(page.Items), page.Next, err)
		}
		f.purge(queue.PurgeRequest{Keys: []queue.Key{page.Items[1].Key, page.Items[2].Key}, Limit: 2})
		f.wantIDs("rest", f.listFrom(queue.ListRequest{Queue: q, Cursor: page.Next, Limit: 10}), ids[3:]...)
		f.wantIDs("a cursor wins over a start", f.listFrom(queue.ListRequest{Queue: q, Cursor: page.Next, From: ids[0], Limit: 10}), ids[3:]...)
	}},
	{"List_StartsFromAnItem", func(f *fixture) {
		q := f.queue()
		ids := f.fill(q, 6)
		f.wantIDs("from the third", f.listFrom(queue.ListRequest{Queue: q, From: ids[2], Limit: 2}), ids[2:]...)
		f.wantIDs("from the last", f.listFrom(queue.ListRequest{Queue: q, From: ids[5], Limit: 2}), ids[5])
		leased := f.lease(q, 1)[0]
		// The start stands at its deadline now, behind all others, and is filtered out.
		f.wantIDs("from one that was leased", f.listFrom(queue.ListRequest{Queue: q, From: leased.ID, Limit: 2}), leased.ID)
		f.wantIDs("filtered", f.listFrom(queue.ListRequest{Queue: q, From: leased.ID, States: []queue.State{queue.Ready}, Limit: 2}))
	}},
	{"List_StartThatIsGoneMeansItsPlace", func(f *fixture) {
		q := f.queue()
		var ids []queue.ID
		for range 5 {
			ids = append(ids, f.fill(q, 1)...)
			f.clock.Advance(time.Second)
		}
		f.purge(queue.PurgeRequest{Keys: []queue.Key{{ID: ids[2], Queue: q, Home: q}}, Limit: 1})
		f.wantIDs("from the one that is gone", f.listFrom(queue.ListRequest{Queue: q, From: ids[2], Limit: 1}), ids[3:]...)
		f.wantIDs("from after the end", f.listFrom(queue.ListRequest{Queue: q, From: f.ids.next(f.clock.Now().Add(time.Hour)), Limit: 1}))
		f.wantIDs("from before the head", f.listFrom(queue.ListRequest{Queue: q, From: f.ids.next(f.clock.Now().Add(-time.Hour)), Limit: 1}), ids[0], ids[1], ids[3], ids[4])
	}},
	{"List_ReadsContentWhenAsked", func(f *fixture) {
		q := f.queue()
		item := f.item(q)
		item.Kind, item.Headers = "k", map[string]string{"a": "b"}
		f.produce(item)
		got := f.listFrom(queue.ListRequest{Queue: q, Limit: 1, Content: true})[0]
		if string(got.Payload) != string(item.Payload) || got.Kind != "k" || got.Headers["a"] != "b" {
			f.Errorf("with content: got %+v, want %+v", got.Content, item.Content)
		}
		if got := f.list(q)[0]; got.Payload != nil {
			f.Errorf("without content: got a payload of %d bytes", len(got.Payload))
		}
	}},
	{"List_OfAnEmptyQueueIsEmpty", func(f *fixture) {
		f.wantIDs("list", f.list(f.queue()))
	}},
}

// meanTolerance is how far off a mean age may be: sums may be of milliseconds.
const meanTolerance = 2 * time.Millisecond

var statsCases = []testCase{
	{"Stats_CountByState", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		f.fill(q, 10)
		f.clock.Advance(10 * time.Second)
		leased := f.lease(q, 4)
		f.apply(retry(leased[0], time.Hour), complete(leased[1]), bury(leased[2], dead))
		scheduled := f.item(q)
		scheduled.Delay = time.Hour
		f.produce(scheduled)
		f.clock.Advance(10 * time.Second)
		got := f.stats(q)
		want := queue.Stats{
			Queue: q, Total: 9, Held: 1, Scheduled: 2, Failing: 1, OldestReady: Start,
			// Eight made 20 s ago and one 10 s ago; held for 10 s.
			MeanAge: 170 * time.Second / 9, MeanHeldAge: 10 * time.Second,
		}
		for _, mean := range []struct {
			what string
			got  *time.Duration
			want time.Duration
		}{{"mean age", &got.MeanAge, want.MeanAge}, {"mean held age", &got.MeanHeldAge, want.MeanHeldAge}} {
			if d := *mean.got - mean.want; d.Abs() > meanTolerance {
				f.Errorf("%s: got %v, want %v", mean.what, *mean.got, mean.want)
			}
			*mean.got = mean.want
		}
		if got != want {
			f.Errorf("got  %+v\nwant %+v", got, want)
		}
		if got := f.stats(dead); got.Total != 1 || got.Failing != 0 {
			f.Errorf("dead-letter queue: got %+v, want one that is not failing", got)
		}
	}},
	{"Stats_HeldIncludesLapsed", func(f *fixture) {
		q := f.queue()
		f.produceAndLease(q, pull(1))
		f.clock.Advance(time.Hour)
		if got := f.stats(q); got.Held != 1 || got.Scheduled != 0 {
			f.Errorf("got %+v, want one held", got)
		}
	}},
	{"Stats_ExtensionRenewsTheHeldAge", func(f *fixture) {
		q := f.queue()
		leased := f.produceAndLease(q, pull(1))
		f.clock.Advance(30 * time.Second)
		f.extendOne(extension(leased, time.Minute))
		f.clock.Advance(10 * time.Second)
		if got := f.stats(q).MeanHeldAge; (got - 10*time.Second).Abs() > meanTolerance {
			f.Errorf("mean held age: got %v, want 10s", got)
		}
	}},
	{"Stats_LeaveOutWhatHoldsNothing", func(f *fixture) {
		full, emptied, never := f.queue(), f.queue(), f.queue()
		f.fill(full, 2)
		f.apply(complete(f.produceAndLease(emptied, pull(1))))
		for name, queues := range map[string][]queue.Number{"all": nil, "named": {never, full, emptied}} {
			stats, err := f.store.Stats(f.Context(), queues)
			if err != nil || len(stats) != 1 || stats[0].Queue != full || stats[0].Total != 2 {
				f.Errorf("%s: got %+v, %v, want the full queue alone", name, stats, err)
			}
		}
	}},
	{"Stats_CountScheduledUpToACap", func(f *fixture) {
		q := f.queue()
		for range 11 {
			items := make([]queue.NewItem, 1000)
			for i := range items {
				items[i] = f.item(q)
				items[i].Delay = time.Hour
			}
			f.produce(items...)
		}
		if got := f.stats(q); got.Total != 11_000 || got.Scheduled != queue.StatsCap || !got.Capped {
			f.Errorf("got %+v, want 11,000 items and %d scheduled, capped", got, queue.StatsCap)
		}
	}},
}
