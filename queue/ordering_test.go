package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// ordered are items of keys, each with its key as its kind.
func ordered(keys ...string) []queue.ProduceItem {
	items := make([]queue.ProduceItem, len(keys))
	for i, key := range keys {
		items[i].Kind, items[i].OrderingKey = key, key
	}
	return items
}

// Who waits gets the next item of a key as soon as the one before has ended, whatever the way.
func TestINV12_TheNextOfAKeyWakesWhoWaits(t *testing.T) {
	t.Parallel()
	ends := map[string]func(*testing.T, *fixture, queue.Item){
		"completed": func(t *testing.T, f *fixture, it queue.Item) {
			f.settle(t, queue.SettleEntry{Receipt: it.Receipt(), Outcome: queue.Complete})
		},
		"buried": func(t *testing.T, f *fixture, it queue.Item) {
			f.settle(t, queue.SettleEntry{Receipt: it.Receipt(), Outcome: queue.Bury, Reason: "no"})
		},
		"at its limit": func(t *testing.T, f *fixture, it queue.Item) {
			f.settle(t, queue.SettleEntry{Receipt: it.Receipt(), Outcome: queue.Retry, MaxAttempts: 1, Delay: time.Hour})
		},
		"cancelled": func(t *testing.T, f *fixture, it queue.Item) {
			if _, err := f.Cancel(t.Context(), queue.CancelCall{Namespace: ns, IDs: []queue.ID{it.ID}}); err != nil {
				t.Error(err)
			}
		},
		"cleared": func(t *testing.T, f *fixture, it queue.Item) {
			if _, err := f.Clear(t.Context(), queue.ClearCall{Namespace: ns, Queue: "orders", Leased: true}); err != nil {
				t.Error(err)
			}
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, f *fixture) {
				made := f.produce(t, "orders", ordered("a", "a")...)
				if !made[1].DueAt.Equal(queue.Forever) {
					t.Errorf("the second is due at %v", made[1].DueAt)
				}
				head := f.leaseOne(t, "orders")
				next := f.startLease(t.Context(), queue.LeaseParams{Namespace: ns, Queue: "orders", Limit: 10, Wait: time.Minute, TTL: time.Hour})
				synctest.Wait()
				began := time.Now()
				end(t, f, head)
				got := <-next
				if got.err != nil || len(got.value.Items) != 1 || got.value.Items[0].ID != made[1].ID {
					t.Fatalf("leased %+v, %v; want the next of the key", got.value.Items, got.err)
				}
				if waited := time.Since(began); waited > 50*time.Millisecond {
					t.Errorf("it came after %v", waited)
				}
			})
		})
	}
}

func TestBroker_KeysTellWhatBlocksThem(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		made := f.produce(t, "orders", ordered("b", "a", "a", "b", "b", "c", "")...)
		page, err := f.Keys(t.Context(), queue.KeysQuery{Namespace: ns, Queue: "orders", Limit: 10})
		if err != nil || len(page.Keys) != 2 {
			t.Fatalf("got %+v, %v, want a and b", page, err)
		}
		for i, want := range []queue.KeyState{{Key: "a", Behind: 1}, {Key: "b", Behind: 2}} {
			if k := page.Keys[i]; k.Key != want.Key || k.Behind != want.Behind {
				t.Errorf("got %+v, want %+v", k, want)
			}
		}
		if page.Keys[0].Head.ID != made[1].ID {
			t.Errorf("the head of a is %v, want %v", page.Keys[0].Head.ID, made[1].ID)
		}
		for _, limit := range []int{0, 1001} {
			_, err := f.Keys(t.Context(), queue.KeysQuery{Namespace: ns, Queue: "orders", Limit: limit})
			if invalid, ok := errors.AsType[*queue.InvalidError](err); !ok || invalid.Field != "limit" {
				t.Errorf("limit %d: %v", limit, err)
			}
		}
		if _, err := f.Keys(t.Context(), queue.KeysQuery{Namespace: ns, Queue: "none", Limit: 1}); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("of no queue: %v", err)
		}
	})
}

func TestBroker_UnblockTriesTheHeadAgainOrSkipsIt(t *testing.T) {
	t.Parallel()
	for _, skip := range []bool{false, true} {
		bubble(t, func(t *testing.T, f *fixture) {
			made := f.produce(t, "orders", ordered("a", "a")...)
			head := f.leaseOne(t, "orders")
			f.settle(t, queue.SettleEntry{Receipt: head.Receipt(), Outcome: queue.Retry, Delay: 10 * time.Hour, Last: queue.Last{Status: 500}})
			next := f.startLease(t.Context(), queue.LeaseParams{Namespace: ns, Queue: "orders", Limit: 10, Wait: time.Minute})
			synctest.Wait()
			if err := f.Unblock(t.Context(), queue.UnblockCall{Namespace: ns, Queue: "orders", Item: head.ID, Skip: skip}); err != nil {
				t.Fatal(err)
			}
			want := made[0].ID
			if skip {
				want = made[1].ID
			}
			got := <-next
			if got.err != nil || len(got.value.Items) != 1 || got.value.Items[0].ID != want {
				t.Fatalf("skip %v: leased %+v, %v; want %v", skip, got.value.Items, got.err, want)
			}
			if skip {
				if buried := f.find(t, head.ID); buried.Dead == nil || buried.Dead.Reason != queue.ReasonSkipped || buried.Dead.Status != 500 {
					t.Errorf("skipped: %+v", buried.Dead)
				}
			} else if it := got.value.Items[0]; it.Attempts != 1 {
				t.Errorf("tried again with %d attempts, want the one it had", it.Attempts)
			}
		})
	}
}

func TestBroker_UnblockSaysWhatBlocksNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		made := f.produce(t, "orders", ordered("a", "a", "")...)
		leased := f.lease(t, "orders", 1)
		f.create(t, queue.Settings{Name: "other"})
		for _, tt := range []struct {
			queue string
			item  queue.ID
			want  error
			says  string
		}{
			{"orders", leased[0].ID, queue.ErrNotBlocking, "is being worked on"},
			{"orders", made[1].ID, queue.ErrNotBlocking, "queue.keys"},
			{"orders", made[2].ID, queue.ErrNotBlocking, "no ordering key"},
			{"orders", queue.NewID(), queue.ErrNotFound, "orders"},
			{"other", made[0].ID, queue.ErrNotFound, "other"},
			{"none", made[0].ID, queue.ErrNotFound, "none"},
		} {
			for _, skip := range []bool{false, true} {
				err := f.Unblock(t.Context(), queue.UnblockCall{Namespace: ns, Queue: tt.queue, Item: tt.item, Skip: skip})
				if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%v in %s: got %v, want %v that says %q", tt.item, tt.queue, err, tt.want, tt.says)
				}
			}
		}
		if n := f.total(t, "orders"); n != 3 {
			t.Errorf("%d items are left of 3", n)
		}
	})
}

func TestI03_AnOrderingKeyIsJudged(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		for _, key := range []string{strings.Repeat("k", queue.MaxLabel+1), "a\x00", "\xff"} {
			_, err := f.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "orders", Items: ordered(key)})
			if invalid, ok := errors.AsType[*queue.InvalidError](err); !ok || !strings.Contains(invalid.Field, "ordering_key") && !strings.Contains(invalid.Field, "kind") {
				t.Errorf("%q: %v", key, err)
			}
		}
		f.produce(t, "orders", ordered(strings.Repeat("k", queue.MaxLabel))...)
	})
}

// What stands behind is cancelled, found and told of like any other item.
func TestBroker_WhatStandsBehindIsCancelledAlone(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		made := f.produce(t, "orders", ordered("a", "a", "a")...)
		states, err := f.Look(context.Background(), ns, made[1].ID, "")
		if err != nil || len(states) != 1 || states[0].Item.State(states[0].Now) != queue.Behind {
			t.Errorf("looked at %+v, %v", states, err)
		}
		if _, err := f.Cancel(t.Context(), queue.CancelCall{Namespace: ns, IDs: []queue.ID{made[1].ID}}); err != nil {
			t.Fatal(err)
		}
		head := f.leaseOne(t, "orders")
		f.settle(t, queue.SettleEntry{Receipt: head.Receipt(), Outcome: queue.Complete})
		if got := f.leaseOne(t, "orders"); got.ID != made[2].ID {
			t.Errorf("leased %v, want the third", got.ID)
		}
	})
}

// A key whose head has failed often enough waits for somebody, whoever says that it failed;
// what has no key is tried on.
func TestBroker_ParksAKeyAfterFailures(t *testing.T) {
	t.Parallel()
	for _, told := range []bool{false, true} { // by a lane, which has the item, or by a receipt alone
		bubble(t, func(t *testing.T, f *fixture) {
			if _, err := f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "orders", ParkAfter: new(int32(2))}); err != nil {
				t.Fatal(err)
			}
			made := f.produce(t, "orders", ordered("a", "a", "")...)
			for range 2 {
				for _, it := range f.lease(t, "orders", 10) {
					e := queue.SettleEntry{Receipt: it.Receipt(), Outcome: queue.Retry, Delay: time.Minute}
					if told {
						e.Item = &it
					}
					f.settle(t, e)
				}
				<-time.After(time.Minute)
			}
			if got := f.lease(t, "orders", 10); len(got) != 1 || got[0].ID != made[2].ID {
				t.Errorf("leased %v, want only what has no key", got)
			}
			head := f.find(t, made[0].ID)
			if !head.IsParked(time.Now()) || head.Attempts != 2 {
				t.Errorf("the head stands at %v after %d attempts, want it parked", head.AvailableAt, head.Attempts)
			}
			if err := f.Unblock(t.Context(), queue.UnblockCall{Namespace: ns, Queue: "orders", Item: made[0].ID}); err != nil {
				t.Fatal(err)
			}
			again := f.leaseOne(t, "orders")
			settled := f.settle(t, queue.SettleEntry{Receipt: again.Receipt(), Outcome: queue.Retry})
			head = f.find(t, made[0].ID)
			if again.ID != made[0].ID || !head.IsParked(time.Now()) || !settled[0].Parked {
				t.Errorf("leased %v, settled %+v, want the head, which is parked again by one more failure", again.ID, settled[0])
			}
		})
	}
}

// What waits as long as a caller may ask for is not parked, and what is parked stays so for a
// lifetime.
func TestItem_IsParkedForNoDelayOfACaller(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		if _, err := f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "orders", ParkAfter: new(int32(1))}); err != nil {
			t.Fatal(err)
		}
		const years = 365 * 24 * time.Hour
		made := f.produce(t, "orders", ordered("a", "")...)
		for _, it := range f.lease(t, "orders", 10) {
			settled := f.settle(t, queue.SettleEntry{Receipt: it.Receipt(), Outcome: queue.Retry, Delay: 10 * years})
			if want := it.ID == made[0].ID; settled[0].Parked != want {
				t.Errorf("%s: got %+v, want parked: %v", it.ID, settled[0], want)
			}
		}
		parked, later := f.find(t, made[0].ID), f.find(t, made[1].ID)
		for _, after := range []time.Duration{0, 70 * years} {
			if now := time.Now().Add(after); !parked.IsParked(now) || later.IsParked(now) {
				t.Errorf("after %v: the one is at %v and the other at %v, want the first alone parked", after, parked.AvailableAt, later.AvailableAt)
			}
		}
	})
}

// numbered are items of one key, each with its number as its reference.
func numbered(from, n int) []queue.ProduceItem {
	items := make([]queue.ProduceItem, n)
	for i := range items {
		items[i].Kind, items[i].OrderingKey, items[i].Reference = "x", "k", fmt.Sprint(from+i)
	}
	return items
}

// What is ended page by page makes heads of what stood behind: a call ends all that it is
// asked for, and nothing else.
func TestBroker_CancelEndsWhatItIsAskedForOfAKey(t *testing.T) {
	t.Parallel()
	var heads []queue.ProduceItem
	for i := range 600 {
		heads = append(heads, queue.ProduceItem{Content: queue.Content{Kind: "x", OrderingKey: fmt.Sprint("key ", i)}})
	}
	for name, tt := range map[string]struct {
		produce [][]queue.ProduceItem
		cancel  func(*fixture) (queue.Cancelled, error)
		want    int
	}{
		"one key by kind": {[][]queue.ProduceItem{numbered(0, 900)}, func(f *fixture) (queue.Cancelled, error) {
			return f.Cancel(context.Background(), queue.CancelCall{Namespace: ns, Queue: "orders", Kind: "x"})
		}, 900},
		"one key, cleared": {[][]queue.ProduceItem{numbered(0, 900)}, func(f *fixture) (queue.Cancelled, error) {
			return f.Clear(context.Background(), queue.ClearCall{Namespace: ns, Queue: "orders", Ready: true})
		}, 900},
		"heads alone": {[][]queue.ProduceItem{heads, heads, heads}, func(f *fixture) (queue.Cancelled, error) {
			return f.Cancel(context.Background(), queue.CancelCall{Namespace: ns, Queue: "orders", State: queue.Ready})
		}, 600},
		"heads alone by kind": {[][]queue.ProduceItem{heads, heads, heads}, func(f *fixture) (queue.Cancelled, error) {
			return f.Cancel(context.Background(), queue.CancelCall{Namespace: ns, Queue: "orders", State: queue.Ready, Kind: "x"})
		}, 600},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, f *fixture) {
				for _, items := range tt.produce {
					f.produce(t, "orders", items...)
				}
				before := f.total(t, "orders")
				done, err := tt.cancel(f)
				if err != nil || done.Count != tt.want || done.More {
					t.Errorf("got %+v, %v, want %d", done, err, tt.want)
				}
				if left := f.total(t, "orders"); left != before-tt.want {
					t.Errorf("%d are left, want %d", left, before-tt.want)
				}
			})
		})
	}
}

// The items of a deleted queue that are handed on to the one of its name keep the order of
// their key, also where its head is leased meanwhile.
func TestBroker_HandOnKeepsTheOrderOfAKey(t *testing.T) {
	t.Parallel()
	for _, leased := range []bool{false, true} {
		bubble(t, func(t *testing.T, f *fixture) {
			other := newBroker(f.store, queue.Options{})
			f.settings(t, "orders")
			if err := other.DeleteQueue(t.Context(), ns, "orders", false); err != nil {
				t.Fatal(err)
			}
			const n = 1200
			f.produce(t, "orders", numbered(0, 1000)...)
			f.produce(t, "orders", numbered(1000, n-1000)...)
			var head []queue.Item
			if leased {
				reply, err := f.Lease(t.Context(), queue.LeaseParams{Namespace: ns, Queue: "orders", Limit: 1, TTL: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				head = reply.Items
			}
			if _, err := other.CreateQueue(t.Context(), queue.Settings{Namespace: ns, Name: "orders"}); err != nil {
				t.Fatal(err)
			}
			f.tidyLater(t)
			f.tidyLater(t)
			first := 0
			if leased {
				if got := f.lease(t, "orders", 10); len(got) > 0 {
					t.Fatalf("item %s is leased while the head of its key still is", got[0].Reference)
				}
				f.settle(t, queue.SettleEntry{Receipt: head[0].Receipt(), Outcome: queue.Complete})
				f.tidyLater(t)
				f.tidyLater(t)
				first = 1
			}
			for want := first; want < n; want++ {
				it := f.leaseOne(t, "orders")
				if it.Reference != fmt.Sprint(want) {
					t.Fatalf("got %s, want %d", it.Reference, want)
				}
				f.settle(t, queue.SettleEntry{Receipt: it.Receipt(), Outcome: queue.Complete})
			}
		})
	}
}
