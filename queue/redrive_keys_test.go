package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// keyedItems are n items of each key, in turns.
func keyedItems(n int, keys ...string) (items []queue.ProduceItem) {
	for range n {
		for _, key := range keys {
			items = append(items, queue.ProduceItem{Content: queue.Content{OrderingKey: key}})
		}
	}
	return items
}

func idsOf(produced []queue.Produced) (ids []queue.ID) {
	for _, p := range produced {
		ids = append(ids, p.ID)
	}
	return ids
}

// What was produced into a dead-letter queue is bound by its key there, and nothing passes a
// head that is leased.
func TestRedrive_NothingPassesALeasedHead(t *testing.T) {
	t.Parallel()
	for _, topic := range []bool{false, true} {
		t.Run(fmt.Sprint("to a topic: ", topic), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, f *fixture) {
				f.create(t, queue.Settings{Name: "dead"})
				f.create(t, queue.Settings{Name: "work", DeadQueue: "dead"})
				target := "work"
				if topic {
					f.topic(t, "events", "a")
					target = "events~a"
				}
				ids := idsOf(f.produce(t, "dead", keyedItems(2, "held", "free")...))
				head := f.leaseOne(t, "dead")
				call := redriveCall("dead")
				call.Target = "work"
				if topic {
					call.Target = "events"
				}
				f.wantRedriven(t, call, queue.Redriven{Moved: 2, Skipped: 2})
				f.wantIDs(t, target, ids[1], ids[3])
				f.settle(t, entry(head, queue.Release))
				f.wantRedriven(t, call, queue.Redriven{Moved: 2})
				f.wantIDs(t, "dead")
				for _, want := range []queue.ID{ids[1], ids[0]} {
					if it := f.leaseOne(t, target); it.ID != want {
						t.Errorf("leased %v, want %v", it.ID, want)
					}
				}
			})
		})
	}
}

// More than a page of them, in one partition or more, keeps the order of each key.
func TestRedrive_KeepsTheOrderOfEachKeyOverPages(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int32{1, 4} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, f *fixture) {
				const each = 30
				var keys []string
				for i := range 100 {
					keys = append(keys, fmt.Sprint("key ", i))
				}
				f.create(t, queue.Settings{Name: "dead", Partitions: 1})
				f.create(t, queue.Settings{Name: "work", DeadQueue: "dead"})
				var all int
				of := map[string][]queue.ID{}
				for n, items := 0, keyedItems(each, keys...); n < len(items); n += 1000 {
					if n > 0 && partitions > 1 { // what follows lies elsewhere
						if _, err := f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "dead", Partitions: &partitions}); err != nil {
							t.Fatal(err)
						}
					}
					for i, p := range f.produce(t, "dead", items[n:n+1000]...) {
						key := items[n+i].OrderingKey
						of[key] = append(of[key], p.ID)
						all++
					}
				}
				call := redriveCall("dead")
				call.Target = "work"
				f.wantRedriven(t, call, queue.Redriven{Moved: all})
				for all > 0 {
					leased := f.lease(t, "work", 100)
					if len(leased) == 0 {
						t.Fatalf("%d items are left, and none to be leased", all)
					}
					for _, it := range leased {
						if want := of[it.OrderingKey][0]; it.ID != want {
							t.Fatalf("%s: leased %v, want %v", it.OrderingKey, it.ID, want)
						}
						of[it.OrderingKey] = of[it.OrderingKey][1:]
						all--
						f.settle(t, entry(it, queue.Complete))
					}
				}
			})
		})
	}
}

// A head whose lease has lapsed is taken, and those behind it.
func TestRedrive_TakesAHeadThatHasLapsed(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "dead"})
		f.create(t, queue.Settings{Name: "work", DeadQueue: "dead"})
		ids := idsOf(f.produce(t, "dead", keyedItems(3, "k")...))
		f.leaseOne(t, "dead")
		<-time.After(queue.DefaultLeaseTTL)
		call := redriveCall("dead")
		call.Target = "work"
		f.wantRedriven(t, call, queue.Redriven{Moved: 3})
		for _, want := range ids {
			it := f.leaseOne(t, "work")
			if it.ID != want {
				t.Errorf("leased %v, want %v", it.ID, want)
			}
			f.settle(t, entry(it, queue.Complete))
		}
	})
}

// What stands behind an item that the call does not ask for stays with it, wherever the two
// lie, and in a dry run as in earnest; also where the call names items.
func TestRedrive_WhatIsBehindAnItemThatStaysStaysToo(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int32{1, 4} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, f *fixture) {
				f.create(t, queue.Settings{Name: "dead", Partitions: partitions})
				f.create(t, queue.Settings{Name: "work", DeadQueue: "dead"})
				made := keyedItems(2, "a", "b")
				made[0].Kind = "other"
				for _, i := range []int{1, 2, 3} {
					made[i].Kind = "asked"
				}
				ids := idsOf(f.produce(t, "dead", made...))
				call := redriveCall("dead")
				call.Target, call.Kind, call.DryRun = "work", "asked", true
				f.wantRedriven(t, call, queue.Redriven{Moved: 2, Skipped: 1})
				call.DryRun, call.Limit = false, 1
				f.wantRedriven(t, call, queue.Redriven{Moved: 1, More: true})
				f.wantRedriven(t, call, queue.Redriven{Moved: 1, More: true})
				f.wantRedriven(t, call, queue.Redriven{Skipped: 1})
				f.wantIDs(t, "work", ids[1], ids[3])
				named := redriveCall("dead")
				named.Target, named.IDs = "work", []queue.ID{ids[2], ids[0]}
				f.wantRedriven(t, named, queue.Redriven{Moved: 2})
				f.wantIDs(t, "work", ids[1], ids[0], ids[3], ids[2])
			})
		})
	}
}

// Who waits on a dead-letter queue gets what takes the place of a head that was moved.
func TestRedrive_WakesWhoWaitsBehindAHead(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "dead"})
		f.create(t, queue.Settings{Name: "work", DeadQueue: "dead"})
		made := keyedItems(2, "k")
		made[0].Delay = time.Hour
		ids := idsOf(f.produce(t, "dead", made...))
		p := params(1)
		p.Queue, p.Wait = "dead", time.Minute
		waiting := f.startLease(t.Context(), p)
		call := redriveCall("dead")
		call.Target, call.IDs = "work", ids[:1]
		f.wantRedriven(t, call, queue.Redriven{Moved: 1})
		began := time.Now()
		if got := <-waiting; got.err != nil || len(got.value.Items) != 1 || got.value.Items[0].ID != ids[1] || time.Since(began) > time.Second {
			t.Errorf("got %+v after %s, want the item behind, at once", got, time.Since(began))
		}
	})
}
