package queue_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

func toTopicCall(dead string) queue.RedriveCall {
	call := redriveCall(dead)
	call.Target = "events"
	return call
}

func kinds(kinds ...string) []queue.ProduceItem {
	items := make([]queue.ProduceItem, len(kinds))
	for i := range kinds {
		items[i] = queue.ProduceItem{Content: queue.Content{Kind: kinds[i], Payload: []byte(kinds[i])}}
	}
	return items
}

func TestRedrive_ToATopicGoesToAllWhoWantIt(t *testing.T) {
	t.Parallel()
	o := queue.Options{CompileFilter: func(filter json.RawMessage) (queue.Matcher, error) {
		return startsWith(strings.Trim(string(filter), `"`)), nil
	}}
	bubbleWith(t, o, func(t *testing.T, f *fixture) {
		f.topic(t, "events")
		f.subscribe(t, "events", "orders", json.RawMessage(`"order."`))
		f.subscribe(t, "events", "users", json.RawMessage(`"user."`))
		f.subscribe(t, "events", "paid", json.RawMessage(`"order.paid"`))
		ids := f.bury(t, "orders", "broken", kinds("order.new", "order.paid", "user.new", "nobody")...)
		call := toTopicCall("orders~dead")
		call.DryRun = true
		f.wantRedriven(t, call, queue.Redriven{Moved: 3, Skipped: 1})
		call.DryRun = false
		f.wantRedriven(t, call, queue.Redriven{Moved: 3, Skipped: 1})
		f.wantIDs(t, "orders~dead", ids[3])
		f.wantIDs(t, "events~orders", ids[0], ids[1])
		f.wantIDs(t, "events~paid", ids[1])
		f.wantIDs(t, "events~users", ids[2])
		it := f.leaseOne(t, "events~paid")
		if string(it.Payload) != "order.paid" || it.Attempts != 0 || it.Dead != nil || it.Deliveries != 1 {
			t.Errorf("got %+v, want the item with a fresh budget", it)
		}
		f.wantRedriven(t, call, queue.Redriven{Skipped: 1})
	})
}

func TestRedrive_ToATopicLeavesOutCopiesThatLive(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "events", "a", "b")
		id := f.produce(t, "events", items(1)...)[0].ID
		f.settle(t, entry(f.leaseOne(t, "events~a"), queue.Bury))
		f.wantRedriven(t, toTopicCall("events~a~dead"), queue.Redriven{Moved: 1})
		f.wantIDs(t, "events~a", id)
		f.wantIDs(t, "events~b", id)
		f.wantTotals(t, map[string]int{"events~a~dead": 0})
	})
}

func TestRedrive_ToATopicSkipsWhatIsLeasedAndTakesWhatHasLapsed(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "events", "a")
		f.bury(t, "orders", "", items(2)...)
		f.leaseOne(t, "orders~dead")
		f.wantRedriven(t, toTopicCall("orders~dead"), queue.Redriven{Moved: 1, Skipped: 1})
		<-time.After(queue.DefaultLeaseTTL)
		f.wantRedriven(t, toTopicCall("orders~dead"), queue.Redriven{Moved: 1})
		if got := f.total(t, "events~a"); got != 2 {
			t.Errorf("a holds %d items, want 2", got)
		}
	})
}

func TestRedrive_ToATopicKeepsOrderByKey(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "events", "a", "b")
		keyed := items(3)
		for i := range keyed {
			keyed[i].OrderingKey = "k"
		}
		ids := f.bury(t, "orders", "", keyed...)
		call := toTopicCall("orders~dead")
		call.Every = time.Second
		got := f.redrive(t, call)
		if got.Moved != 3 || got.Until.IsZero() {
			t.Fatalf("got %+v, want 3 moved, with the time of the last", got)
		}
		for _, id := range ids {
			for _, name := range []string{"events~a", "events~b"} {
				leased := f.lease(t, name, 10)
				if len(leased) != 1 || leased[0].ID != id {
					t.Fatalf("%s: got %v, want %v alone", name, leased, id)
				}
				f.settle(t, entry(leased[0], queue.Complete))
			}
			<-time.After(time.Second)
		}
	})
}

func TestRedrive_ToATopicThatChangesMeanwhile(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "events", "a")
		ids := f.bury(t, "orders", "", items(2)...)
		other := newBroker(f.store, queue.Options{})
		open := f.store.Block(storagetest.Settle)
		moved := start(func() (queue.Redriven, error) { return f.Redrive(t.Context(), toTopicCall("orders~dead")) })
		if _, err := other.Subscribe(t.Context(), ns, "events", "b", nil); err != nil {
			t.Fatal(err)
		}
		open()
		if got := <-moved; got.err != nil || got.value != (queue.Redriven{Moved: 2}) {
			t.Fatalf("got %+v, want 2 moved", got)
		}
		f.wantIDs(t, "events~a", ids...)
		f.wantIDs(t, "events~b", ids...)
		ids = f.bury(t, "orders", "", items(1)...)
		open = f.store.Block(storagetest.Settle)
		moved = start(func() (queue.Redriven, error) { return f.Redrive(t.Context(), toTopicCall("orders~dead")) })
		if err := other.DeleteTopic(t.Context(), ns, "events", true); err != nil {
			t.Fatal(err)
		}
		open()
		if got := <-moved; got.err != nil || got.value != (queue.Redriven{Skipped: 1}) {
			t.Errorf("got %+v, want it skipped, as what goes to a queue that is gone", got)
		}
		f.wantIDs(t, "orders~dead", ids...)
	})
}

func TestRedrive_ToATopicOfMany(t *testing.T) {
	t.Parallel()
	const subscriptions, many = 150, 200 // 30,000 copies
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "events")
		for i := range subscriptions {
			f.subscribe(t, "events", fmt.Sprint("s", i), nil)
		}
		f.produce(t, "orders", slices.Repeat(items(1), many)...)
		var entries []queue.SettleEntry
		for _, it := range f.lease(t, "orders", many) {
			entries = append(entries, entry(it, queue.Bury))
		}
		f.settle(t, entries...)
		f.wantRedriven(t, toTopicCall("orders~dead"), queue.Redriven{Moved: many})
		f.wantTotals(t, map[string]int{"events~s0": many, "events~s149": many})
	})
}

// After an answer that was lost the same call takes up what is left.
func TestD12_ARedriveToATopicIsRepeated(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "events", "a", "b")
		ids := f.bury(t, "orders", "", items(3)...)
		f.store.FailAfter(storagetest.Settle, 1, queue.ErrUnknownOutcome)
		if _, err := f.Redrive(t.Context(), toTopicCall("orders~dead")); !errors.Is(err, queue.ErrUnknownOutcome) {
			t.Fatalf("got %v, want ErrUnknownOutcome", err)
		}
		f.wantRedriven(t, toTopicCall("orders~dead"), queue.Redriven{})
		f.wantIDs(t, "events~a", ids...)
		f.wantIDs(t, "events~b", ids...)
	})
}

// Copies that died in several queues lie in a shared dead-letter queue several times.
func TestRedrive_ToATopicOnceForAllCopies(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "events", "a", "b")
		f.create(t, queue.Settings{Name: "dead"})
		for _, name := range []string{"events~a", "events~b"} {
			if _, err := f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: name, DeadQueue: new("dead")}); err != nil {
				t.Fatal(err)
			}
		}
		f.produce(t, "events", items(1)...)
		for _, name := range []string{"events~a", "events~b"} {
			f.settle(t, entry(f.leaseOne(t, name), queue.Bury))
		}
		calls := f.store.Calls(storagetest.Settle)
		f.wantRedriven(t, toTopicCall("dead"), queue.Redriven{Moved: 2})
		if got := f.store.Calls(storagetest.Settle) - calls; got != 1 {
			t.Errorf("%d settlements, want 1", got)
		}
		f.wantTotals(t, map[string]int{"events~a": 1, "events~b": 1})
	})
}

// An item for which the store has no room in a transaction keeps no other from moving.
func TestRedrive_ToATopicSkipsWhatTheStoreHasNoRoomFor(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "events", "a", "b")
		ids := f.bury(t, "orders", "", items(3)...)
		large := &queue.TooLargeError{Field: "entries", Limit: 6_225_920, Unit: "bytes"}
		f.store.FailBefore(storagetest.Settle, 1, large) // all three
		f.store.FailBefore(storagetest.Settle, 2, large) // the first alone
		f.wantRedriven(t, toTopicCall("orders~dead"), queue.Redriven{Moved: 2, Skipped: 1})
		f.wantIDs(t, "orders~dead", ids[0])
		f.wantIDs(t, "events~a", ids[1:]...)
	})
}

// Named items go in the order of the queue, however many and in whatever order they are named.
func TestRedrive_ToATopicInTheOrderOfTheQueue(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "events", "a")
		f.produce(t, "orders", items(120)...)
		call := toTopicCall("orders~dead")
		for _, it := range f.lease(t, "orders", 120) {
			f.settle(t, entry(it, queue.Bury))
			call.IDs = append(call.IDs, it.ID)
		}
		want := slices.Clone(call.IDs)
		slices.Reverse(call.IDs)
		f.wantRedriven(t, call, queue.Redriven{Moved: 120})
		f.wantIDs(t, "events~a", want...)
	})
}
