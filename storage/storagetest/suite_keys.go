package storagetest

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// ordered returns an item with an ordering key.
func (f *fixture) ordered(q queue.Number, key string) queue.NewItem {
	item := f.item(q)
	item.OrderingKey = key
	return item
}

// fillKeys produces one item of each key, in order, by one group.
func (f *fixture) fillKeys(q queue.Number, keys ...string) []queue.ID {
	f.Helper()
	items, ids := make([]queue.NewItem, len(keys)), make([]queue.ID, len(keys))
	for i, key := range keys {
		items[i] = f.ordered(q, key)
		ids[i] = items[i].ID
	}
	f.produce(items...)
	return ids
}

// wantBehind checks which items stand behind another, in order of arrival.
func (f *fixture) wantBehind(q queue.Number, want ...queue.ID) {
	f.Helper()
	behind := f.list(q, queue.Behind)
	f.wantIDs("behind", behind, want...)
	for _, it := range behind {
		if !it.AvailableAt.Equal(queue.Forever) || it.Held {
			f.Errorf("%v: available at %v, held %v; want it to stand behind", it.ID, it.AvailableAt, it.Held)
		}
	}
	if got := f.stats(q).Behind; got != len(want) {
		f.Errorf("stats: %d behind, want %d", got, len(want))
	}
}

func (f *fixture) listKeys(q queue.Number, after string, limit int) []queue.KeyState {
	f.Helper()
	page, err := f.store.ListKeys(f.Context(), queue.KeysRequest{Queue: q, After: after, Limit: limit})
	if err != nil {
		f.Fatalf("ListKeys: %v", err)
	}
	f.wantTime("now", page.Now, f.clock.Now())
	return page.Keys
}

var keyCases = []testCase{
	{"Keys_OnlyHeadsAreLeased", func(f *fixture) {
		q := f.queue()
		ids := f.fillKeys(q, "a", "a", "b", "", "a", "b", "")
		f.wantBehind(q, ids[1], ids[4], ids[5])
		f.wantIDs("lease", f.lease(q, 10), ids[0], ids[2], ids[3], ids[6])
		f.wantIDs("again", f.lease(q, 10))
		later := f.produce(f.ordered(q, "a"), f.ordered(q, "c"))
		if !later[0].DueAt.Equal(queue.Forever) || !later[1].DueAt.Equal(f.clock.Now()) {
			f.Errorf("due at %v and %v, want never and now", later[0].DueAt, later[1].DueAt)
		}
		f.wantIDs("another key", f.lease(q, 10), later[1].ID)
	}},
	{"Keys_CompletionPromotesTheNext", func(f *fixture) {
		q := f.queue()
		ids := f.fillKeys(q, "a", "a", "b", "a", "b")
		first := f.lease(q, 10)
		f.apply(complete(first[0]), complete(first[1])) // heads of two keys in one group
		f.wantBehind(q, ids[3])
		second := f.lease(q, 10)
		f.wantIDs("lease", second, ids[1], ids[4])
		if it := second[0]; it.Token.Counter != 1 || it.Deliveries != 1 {
			f.Errorf("promoted: token %d, deliveries %d; want those of a first lease", it.Token.Counter, it.Deliveries)
		}
		f.apply(complete(second[0]))
		f.wantIDs("the last", f.lease(q, 10), ids[3])
		f.wantBehind(q)
	}},
	{"Keys_APromotedItemStandsAtItsDueTime", func(f *fixture) {
		q := f.queue()
		head, now, soon, late := f.ordered(q, "a"), f.ordered(q, "a"), f.ordered(q, "a"), f.ordered(q, "a")
		soon.Delay, late.Delay = leaseTTL/2, time.Hour
		start := f.clock.Now()
		f.produce(head, now, soon, late)
		f.clock.Advance(time.Second)
		between := f.fill(q, 1)
		f.apply(complete(f.leaseOne(q, pull(1))))
		if at := f.list(q, queue.Ready)[0]; at.ID != now.ID || !at.AvailableAt.Equal(start) || !at.DueAt.Equal(start) {
			f.Errorf("promoted: %v stands at %v, want %v at %v, before what came later", at.ID, at.AvailableAt, now.ID, start)
		}
		f.wantIDs("lease", f.lease(q, 1), now.ID)
		f.apply(complete(f.held(q, now.ID)))
		f.wantIDs("not yet due", f.lease(q, 10), between...)
		f.wantTime("scheduled", f.get(queue.Key{ID: soon.ID, Queue: q, Home: q}).AvailableAt, start.Add(leaseTTL/2))
		f.wantBehind(q, late.ID)
		f.clock.Advance(leaseTTL / 2)
		f.wantIDs("due", f.lease(q, 10), soon.ID)
	}},
	{"Keys_AScheduledHeadBlocksItsKey", func(f *fixture) {
		q := f.queue()
		head := f.ordered(q, "a")
		head.Delay = leaseTTL / 2
		f.produce(head)
		follower := f.fillKeys(q, "a", "b")
		f.wantBehind(q, follower[0])
		f.wantIDs("lease", f.lease(q, 10), follower[1])
		f.clock.Advance(leaseTTL / 2)
		f.wantIDs("when it is due", f.lease(q, 10), head.ID)
	}},
	{"Keys_AHeadThatFailedStaysTheHead", func(f *fixture) {
		for name, end := range map[string]func(f *fixture, it queue.Item){
			"retried":  func(f *fixture, it queue.Item) { f.apply(retry(it, time.Minute)) },
			"released": func(f *fixture, it queue.Item) { f.apply(release(it)) },
			"later": func(f *fixture, it queue.Item) {
				s := release(it)
				s.Delay = time.Minute
				f.apply(s)
			},
			"lapsed": func(f *fixture, _ queue.Item) { f.clock.Advance(2 * leaseTTL) },
		} {
			q := f.queue()
			ids := f.fillKeys(q, "a", "a")
			end(f, f.leaseOne(q, pull(1)))
			f.wantBehind(q, ids[1])
			f.clock.Advance(time.Minute)
			if got := idsOf(f.lease(q, 10)); len(got) != 1 || got[0] != ids[0] {
				f.Errorf("%s: leased %v, want the head %v again", name, got, ids[0])
			}
		}
	}},
	{"Keys_BuryPromotesTheNext", func(f *fixture) {
		for name, end := range map[string]func(f *fixture, it queue.Item, dead queue.Number){
			"buried": func(f *fixture, it queue.Item, dead queue.Number) { f.apply(bury(it, dead)) },
			"at the limit": func(f *fixture, it queue.Item, dead queue.Number) {
				s := retry(it, time.Minute)
				s.MaxAttempts, s.DeadQueue = 1, dead
				f.apply(s)
			},
			"lapsed": func(f *fixture, it queue.Item, dead queue.Number) {
				f.clock.Advance(2 * leaseTTL)
				f.apply(buryUnheld(it, dead, "poison"))
			},
		} {
			q, dead := f.queue(), f.queue()
			ids := f.fillKeys(q, "a", "a", "a")
			end(f, f.leaseOne(q, pull(1)), dead)
			f.wantBehind(q, ids[2])
			if got := idsOf(f.lease(q, 10)); len(got) != 1 || got[0] != ids[1] {
				f.Errorf("%s: leased %v, want the next %v", name, got, ids[1])
			}
		}
	}},
	{"Keys_WhatStandsBehindIsBuriedAlone", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		head, next, last := f.ordered(q, "a"), f.ordered(q, "a"), f.ordered(q, "a")
		next.ExpireTTL = time.Minute
		f.produce(head, next, last)
		leased := f.leaseOne(q, queue.Taker{Limit: 1, TTL: time.Hour})
		f.clock.Advance(2 * time.Minute)
		swept := f.sweep(10)
		f.wantSwept(swept, next.ID)
		f.apply(buryUnheld(swept[0], dead, "expired"))
		f.wantBehind(q, last.ID)
		f.apply(complete(leased))
		f.wantIDs("lease", f.lease(q, 10), last.ID)
	}},
	{"Keys_OneGroupMayEndSeveralOfAKey", func(f *fixture) {
		for _, behindFirst := range []bool{false, true} {
			q, dead := f.queue(), f.queue()
			head, next, last := f.ordered(q, "a"), f.ordered(q, "a"), f.ordered(q, "a")
			next.ExpireTTL = time.Minute
			f.produce(head, next, last)
			leased := f.leaseOne(q, queue.Taker{Limit: 1, TTL: time.Hour})
			f.clock.Advance(2 * time.Minute)
			expired := f.get(queue.Key{ID: next.ID, Queue: q, Home: q})
			entries := []queue.Settlement{complete(leased), buryUnheld(expired, dead, "expired")}
			if behindFirst {
				entries[0], entries[1] = entries[1], entries[0]
			}
			f.apply(entries...)
			f.wantIDs("lease", f.lease(q, 10), last.ID)
			f.wantBehind(q)
		}
	}},
	{"Keys_AGroupThatFailsPromotesNothing", func(f *fixture) {
		q := f.queue()
		ids := f.fillKeys(q, "a", "a", "b")
		leased := f.lease(q, 10)
		f.apply(complete(leased[1]))
		settled := f.settle(complete(leased[0]), complete(leased[1]))
		if settled[0].Status != queue.Undone {
			f.Errorf("got %s, want undone", statusName(settled[0].Status))
		}
		f.wantBehind(q, ids[1])
	}},
	{"Keys_PurgePromotesTheNext", func(f *fixture) {
		q := f.queue()
		ids := f.fillKeys(q, "a", "a", "a", "b", "b")
		purge := func(want int, req queue.PurgeRequest) {
			f.Helper()
			req.Limit, req.Reason = 100, "test"
			if answer, err := f.store.Purge(f.Context(), req); err != nil || answer.Purged != want {
				f.Errorf("Purge: got %+v, %v, want %d", answer, err, want)
			}
		}
		purge(1, queue.PurgeRequest{Keys: []queue.Key{{ID: ids[1], Queue: q, Home: q}}}) // from the middle
		f.wantBehind(q, ids[2], ids[4])
		purge(2, queue.PurgeRequest{Keys: []queue.Key{{ID: ids[0], Queue: q, Home: q}, {ID: ids[3], Queue: q, Home: q}}})
		f.wantBehind(q)
		f.wantIDs("lease", f.lease(q, 10), ids[2], ids[4])
		f.fillKeys(q, "a", "b")
		purge(2, queue.PurgeRequest{Queue: q, States: []queue.State{queue.Behind}})
		f.wantBehind(q)
	}},
	{"Keys_PurgeEndsWhatItWasAskedFor", func(f *fixture) {
		const many = 1001 // more than a store may look at in one go
		one, heads := f.queue(), f.queue()
		var names []string
		for i := range many {
			names = append(names, fmt.Sprint("key ", i))
			f.fillKeys(one, "a")
		}
		f.fillKeys(heads, names...)
		f.fillKeys(heads, names...)
		for q, states := range map[queue.Number][]queue.State{one: nil, heads: {queue.Ready}} {
			answer, err := f.store.Purge(f.Context(), queue.PurgeRequest{Queue: q, States: states, Limit: 3 * many})
			if err != nil || answer.Purged != many {
				f.Errorf("Purge of %v: got %+v, %v, want %d", states, answer, err, many)
			}
		}
		if left := f.stats(one).Total; left != 0 {
			f.Errorf("%d items are left of one key", left)
		}
		if left := f.stats(heads); left.Total != many || left.Behind != 0 {
			f.Errorf("%d are left, %d of them behind; want those that were behind, as heads", left.Total, left.Behind)
		}
	}},
	{"Keys_DoNotBindInDeadLetterQueues", func(f *fixture) {
		q, dead, other := f.queue(), f.queue(), f.queue()
		ids := f.fillKeys(q, "a", "a", "a")
		for range ids {
			f.apply(bury(f.leaseOne(q, pull(1)), dead))
		}
		f.wantBehind(dead)
		f.wantIDs("all of them", f.list(dead, queue.Ready), ids...)
		// Back into a queue where the key lives they go behind, in the order in which they come.
		living := f.fillKeys(other, "a")
		for _, i := range []int{2, 0, 1} {
			statuses, err := f.store.Move(f.Context(), []queue.Move{{Key: queue.Key{ID: ids[i], Queue: dead, Home: q}, Target: other}})
			if err != nil || statuses[0] != queue.Moved {
				f.Fatalf("Move: %v, %v", statuses, err)
			}
		}
		f.wantBehind(other, ids[2], ids[0], ids[1])
		for _, want := range []queue.ID{living[0], ids[2], ids[0], ids[1]} {
			got := f.lease(other, 10)
			f.wantIDs("lease", got, want)
			f.apply(complete(got[0]))
		}
	}},
	{"Keys_MoveIntoAnEmptyKeyMakesAHead", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		ids := f.fillKeys(q, "a")
		f.apply(bury(f.leaseOne(q, pull(1)), dead))
		move := queue.Move{Key: queue.Key{ID: ids[0], Queue: dead, Home: q}, Target: q, Delay: time.Minute}
		if statuses, err := f.store.Move(f.Context(), []queue.Move{move}); err != nil || statuses[0] != queue.Moved {
			f.Fatalf("Move: %v, %v", statuses, err)
		}
		behind := f.fillKeys(q, "a")
		f.wantBehind(q, behind[0])
		f.clock.Advance(time.Minute)
		f.wantIDs("lease", f.lease(q, 10), ids[0])
	}},
	{"Keys_AreOfTheirQueueAlone", func(f *fixture) {
		q, other := f.queue(), f.queue()
		first := f.fillKeys(q, "a", "a")
		second := f.fillKeys(other, "a", "A", "ä", "a ")
		f.wantBehind(q, first[1])
		f.wantBehind(other)
		f.wantIDs("lease", f.lease(other, 10), second...)
	}},
	{"Keys_BindAcrossPartitions", func(f *fixture) {
		q := f.queue()
		head, next := f.ordered(q, "a"), f.ordered(q, "a")
		next.Partition = 1
		f.produce(head, next)
		lease := func(partition int32) []queue.Item {
			f.Helper()
			return f.leaseCalls(queue.LeaseCall{Queue: q, Partition: partition, Takers: []queue.Taker{pull(10)}})[0].Takers[0]
		}
		f.wantIDs("the other partition", lease(1))
		got := lease(0)
		f.wantIDs("its own", got, head.ID)
		f.apply(complete(got[0]))
		f.wantIDs("promoted", lease(1), next.ID)
	}},
	{"Keys_ADuplicateIsNobodysHead", func(f *fixture) {
		q := f.queue()
		first := f.ordered(q, "a")
		first.Dedupe = &queue.Dedupe{Scope: q, Key: "k", TTL: time.Hour}
		again := first
		again.ID = f.ids.next(f.clock.Now())
		f.produce(first)
		if p := f.produce(again, first); !p[0].Duplicate || !p[1].Duplicate {
			f.Errorf("got %+v, want duplicates", p)
		}
		f.wantBehind(q)
		f.apply(complete(f.leaseOne(q, pull(1))))
		if p := f.produce(again); !p[0].Duplicate {
			f.Errorf("got %+v, want a duplicate", p)
		}
		last := f.fillKeys(q, "a")
		f.wantIDs("lease", f.lease(q, 10), last[0])
	}},
	{"Keys_BindItemsOfADocument", func(f *fixture) {
		q := f.queue()
		ids := f.fillKeys(q, "a")
		item, free := f.ordered(q, "a"), f.ordered(q, "b")
		if _, err := f.store.Put(f.Context(), document(1, "doc", 0), item, free); err != nil {
			f.Fatal(err)
		}
		f.wantBehind(q, item.ID)
		f.wantIDs("lease", f.lease(q, 10), ids[0], free.ID)
	}},
	{"Keys_NextDueLooksAtHeads", func(f *fixture) {
		q := f.queue()
		head := f.ordered(q, "a")
		head.Delay = time.Minute
		f.produce(head)
		f.fillKeys(q, "a")
		f.wantDue(q, f.clock.Now().Add(time.Minute))
	}},
	{"Keys_ReleaseOfAnUnheldHeadMovesIt", func(f *fixture) {
		q := f.queue()
		ids := f.fillKeys(q, "a", "a")
		f.apply(retry(f.leaseOne(q, pull(1)), time.Hour))
		unblock := release(f.get(queue.Key{ID: ids[0], Queue: q, Home: q}))
		unblock.Guard, unblock.DueAt = queue.NotLive, f.clock.Now()
		f.apply(unblock)
		f.wantIDs("lease", f.lease(q, 10), ids[0])
	}},
	{"Keys_ListTellsWhatTheyWaitFor", func(f *fixture) {
		q := f.queue()
		ids := f.fillKeys(q, "b", "a", "a", "single", "b", "b", "c", "c")
		keys := f.listKeys(q, "", 10)
		want := []struct {
			key    string
			head   queue.ID
			behind int
		}{{"a", ids[1], 1}, {"b", ids[0], 2}, {"c", ids[6], 1}}
		if len(keys) != len(want) {
			f.Fatalf("got %+v, want three keys", keys)
		}
		for i, w := range want {
			if k := keys[i]; k.Key != w.key || k.Head.ID != w.head || k.Behind != w.behind || len(k.Head.Payload) > 0 {
				f.Errorf("got %+v, want %+v without content", k, w)
			}
		}
		if page := f.listKeys(q, "a", 1); len(page) != 1 || page[0].Key != "b" {
			f.Errorf("after a: got %+v, want b", page)
		}
		if page := f.listKeys(q, "c", 10); len(page) != 0 {
			f.Errorf("after the last: got %+v", page)
		}
		if page := f.listKeys(f.queue(), "", 10); len(page) != 0 {
			f.Errorf("another queue: got %+v", page)
		}
	}},
	{"Keys_SurviveAReopen", func(f *fixture) {
		q, dead := f.queue(), f.queue()
		ids := f.fillKeys(q, "a", "a", "b", "a", "b", "d")
		f.apply(complete(f.leaseOne(q, pull(1))))
		f.apply(bury(f.held(q, ids[2], f.lease(q, 10)...), dead)) // b; d stays leased
		f.reopen()
		f.wantBehind(q, ids[3])
		more := f.fillKeys(q, "a", "d", "b")
		f.wantBehind(q, ids[3], more[0], more[1], more[2])
		f.clock.Advance(2 * leaseTTL)
		got := f.lease(q, 10)
		f.wantIDs("lease", sortByID(got), ids[1], ids[4], ids[5])
		for _, it := range got {
			f.apply(complete(it))
		}
		f.wantIDs("promoted", sortByID(f.lease(q, 10)), ids[3], more[1], more[2])
	}},
	{"INV12_KeysAreStrictUnderConcurrency", func(f *fixture) {
		const keys, perKey, workers = 5, 40, 8
		q, dead := f.queue(), f.queue()
		var mu sync.Mutex
		produced, ended := map[string][]queue.ID{}, map[string][]queue.ID{}
		running := map[string]bool{}
		left := keys * perKey
		work := func(worker int) error {
			for {
				mu.Lock()
				done := left == 0
				mu.Unlock()
				if done {
					return nil
				}
				answer, err := f.store.Lease(f.Context(), []queue.LeaseCall{{Queue: q, Takers: []queue.Taker{{Limit: 3, TTL: time.Hour}}}})
				if err != nil {
					return fmt.Errorf("Lease: %w", err)
				}
				var entries []queue.Settlement
				mu.Lock()
				for i, it := range answer.Calls[0].Takers[0] {
					if running[it.OrderingKey] {
						f.Errorf("%s: %v was leased beside another", it.OrderingKey, it.ID)
					}
					running[it.OrderingKey] = true
					switch {
					case i == 2:
						entries = append(entries, release(it))
						continue
					case (worker+i)%3 == 0:
						entries = append(entries, bury(it, dead))
					default:
						entries = append(entries, complete(it))
					}
					ended[it.OrderingKey] = append(ended[it.OrderingKey], it.ID)
					left--
				}
				mu.Unlock()
				if len(entries) == 0 {
					continue
				}
				runtime.Gosched()
				// Those behind may be leased as soon as the store has settled.
				mu.Lock()
				for _, it := range answer.Calls[0].Takers[0] {
					delete(running, it.OrderingKey)
				}
				mu.Unlock()
				settled, err := f.store.Settle(f.Context(), []queue.SettleGroup{{Entries: entries}})
				if err != nil {
					return fmt.Errorf("Settle: %w", err)
				}
				for _, s := range settled.Groups[0] {
					if s.Status != queue.Applied {
						return fmt.Errorf("got %s, want applied", statusName(s.Status))
					}
				}
			}
		}
		produce := func(k int) error {
			key := fmt.Sprint("key ", k)
			for range perKey {
				mu.Lock()
				item := f.ordered(q, key)
				produced[key] = append(produced[key], item.ID)
				mu.Unlock()
				if _, err := f.store.Produce(f.Context(), []queue.ProduceGroup{{Items: []queue.NewItem{item}}}); err != nil {
					return fmt.Errorf("Produce: %w", err)
				}
			}
			return nil
		}
		f.wantNoErrors(together(keys+workers, func(i int) error {
			if i < keys {
				return produce(i)
			}
			return work(i)
		}))
		for key, want := range produced {
			if got := ended[key]; fmt.Sprint(got) != fmt.Sprint(want) {
				f.Errorf("%s: ended in the order\n%v, want\n%v", key, got, want)
			}
		}
		f.wantBehind(q)
	}},
}

// held returns the item of an id as it is leased: one of those given, or as it is stored.
func (f *fixture) held(q queue.Number, id queue.ID, leased ...queue.Item) queue.Item {
	f.Helper()
	for _, it := range leased {
		if it.ID == id {
			return it
		}
	}
	return f.get(queue.Key{ID: id, Queue: q, Home: q})
}

// sortByID puts items in the order in which the fixture made them.
func sortByID(items []queue.Item) []queue.Item {
	slices.SortFunc(items, func(a, b queue.Item) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return items
}
