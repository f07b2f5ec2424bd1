package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

// toTopic is an item whose end the topic "ends" is told of.
func toTopic() queue.ProduceItem {
	return queue.ProduceItem{Content: queue.Content{Kind: "order", OnDone: "ends"}}
}

func TestDone_ATopicIsToldOfEveryEnd(t *testing.T) {
	t.Parallel()
	o := queue.Options{CompileFilter: func(filter json.RawMessage) (queue.Matcher, error) {
		return startsWith(strings.Trim(string(filter), `"`)), nil
	}}
	bubbleWith(t, o, func(t *testing.T, f *fixture) {
		f.topic(t, "ends", "a", "b")
		f.subscribe(t, "ends", "other", json.RawMessage(`"user."`))
		f.subscribe(t, "ends", "done", json.RawMessage(`"item."`))
		f.create(t, queue.Settings{Name: "short", MaxAttempts: 1})
		for outcome, c := range map[string]struct {
			name  string
			entry func(queue.Item) queue.SettleEntry
		}{
			"completed":    {"orders", func(it queue.Item) queue.SettleEntry { return entry(it, queue.Complete) }},
			"buried":       {"orders", func(it queue.Item) queue.SettleEntry { return entry(it, queue.Bury) }},
			"max_attempts": {"short", func(it queue.Item) queue.SettleEntry { return entry(it, queue.Retry) }},
		} {
			f.produce(t, c.name, toTopic())
			it := f.leaseOne(t, c.name)
			f.settle(t, c.entry(it))
			for _, copies := range []string{"ends~a", "ends~b", "ends~done"} {
				if got := f.endsOf(t, copies); len(got) != 1 || got[0].ItemID != it.ID.String() {
					t.Errorf("%s: %s was told %+v, want the end of %s", outcome, copies, got, it.ID)
				}
			}
			if got := f.total(t, "ends~other"); got != 0 {
				t.Errorf("%s: the filter of one let %d items through", outcome, got)
			}
		}
	})
}

// What is buried by itself is told as well, also if that is more copies than a call takes.
func TestDone_ATopicIsToldOfManyThatExpire(t *testing.T) {
	t.Parallel()
	const subscriptions, many = 50, 450
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "ends")
		for i := range subscriptions {
			f.subscribe(t, "ends", fmt.Sprint("s", i), nil)
		}
		items := make([]queue.ProduceItem, many)
		for i := range items {
			items[i] = toTopic()
			items[i].ExpireTTL = time.Minute
		}
		f.produce(t, "orders", items...)
		<-time.After(2 * time.Minute)
		if _, err := f.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := f.total(t, "orders~dead"); got != many {
			t.Errorf("%d items were buried, want %d", got, many)
		}
		for i := range subscriptions {
			if got := f.total(t, fmt.Sprint("ends~s", i)); got != many {
				t.Errorf("subscription %d was told of %d ends, want %d", i, got, many)
			}
		}
	})
}

func TestDone_WhoSubscribedJustNowIsTold(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "ends", "a")
		f.produce(t, "orders", toTopic(), toTopic(), toTopic())
		f.settle(t, entry(f.leaseOne(t, "orders"), queue.Complete)) // so that the topic is known
		other := newBroker(f.store, queue.Options{})
		if _, err := other.Subscribe(t.Context(), ns, "ends", "b", nil); err != nil {
			t.Fatal(err)
		}
		f.settle(t, entry(f.leaseOne(t, "orders"), queue.Complete))
		f.wantTotals(t, map[string]int{"ends~a": 2, "ends~b": 1})
		// One that is gone is told no more, and keeps no item from ending.
		if err := other.DeleteTopic(t.Context(), ns, "ends", true); err != nil {
			t.Fatal(err)
		}
		f.settle(t, entry(f.leaseOne(t, "orders"), queue.Complete))
		if got := f.total(t, "orders"); got != 0 {
			t.Errorf("orders holds %d items, want 0", got)
		}
	})
}

func TestDone_ASweepMeetsATopicThatChanged(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "ends", "a")
		f.produce(t, "orders", toTopic())
		f.settle(t, entry(f.leaseOne(t, "orders"), queue.Complete))
		it := toTopic()
		it.ExpireTTL = 500 * time.Millisecond
		f.produce(t, "orders", it)
		<-time.After(600 * time.Millisecond)
		other := newBroker(f.store, queue.Options{})
		if _, err := other.Subscribe(t.Context(), ns, "ends", "b", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.wantTotals(t, map[string]int{"orders~dead": 1, "ends~a": 2, "ends~b": 1})
	})
}

func TestDone_MoreCopiesThanACallTakes(t *testing.T) {
	t.Parallel()
	const subscriptions, receipts = 30, 400
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "ends")
		for i := range subscriptions {
			f.subscribe(t, "ends", fmt.Sprint("s", i), nil)
		}
		items := make([]queue.ProduceItem, receipts)
		for i := range items {
			items[i] = toTopic()
		}
		f.produce(t, "orders", items...)
		var entries []queue.SettleEntry
		for _, it := range f.lease(t, "orders", receipts) {
			entries = append(entries, entry(it, queue.Complete))
		}
		_, err := f.Settle(t.Context(), settleCall(entries...))
		tooMuch, ok := errors.AsType[*queue.FanOutError](err)
		if !ok || tooMuch.Field != "receipts" || tooMuch.Topic != "ends" || tooMuch.Copies != subscriptions*receipts {
			t.Fatalf("got %v, want a FanOutError about receipts", err)
		}
		if got := f.total(t, "orders"); got != receipts {
			t.Errorf("%d items are left, want all %d", got, receipts)
		}
		f.settle(t, entries[:receipts/2]...)
		f.settle(t, entries[receipts/2:]...)
		if got := f.total(t, "ends~s7"); got != receipts {
			t.Errorf("s7 was told of %d ends, want %d", got, receipts)
		}
	})
}

// All who are told share what they are told.
func TestDone_ManyAreToldOfALongResponse(t *testing.T) {
	t.Parallel()
	const subscriptions = 2000
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "ends")
		for i := range subscriptions {
			f.subscribe(t, "ends", fmt.Sprint("s", i), nil)
		}
		f.produce(t, "orders", toTopic())
		e := entry(f.leaseOne(t, "orders"), queue.Complete)
		e.Record = answered(200, strings.Repeat("x", queue.MaxResponse))
		f.settle(t, e)
		for _, name := range []string{"ends~s0", "ends~s1999"} {
			ends := f.endsOf(t, name)
			if len(ends) != 1 || len(ends[0].ResponseText) != queue.MaxResponse || ends[0].ResponseCut {
				t.Errorf("%s was told of %d ends, want one with the whole response", name, len(ends))
			}
		}
	})
}

func TestD13_TheEndAndWhatATopicIsToldAreOneTransaction(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "ends", "a", "b")
		f.produce(t, "orders", toTopic())
		it := f.leaseOne(t, "orders")
		f.store.FailBefore(storagetest.Settle, 1, queue.ErrUnavailable)
		if _, err := f.Settle(t.Context(), settleCall(entry(it, queue.Complete))); !errors.Is(err, queue.ErrUnavailable) {
			t.Fatalf("got %v, want ErrUnavailable", err)
		}
		if a, o := f.total(t, "ends~a"), f.total(t, "orders"); a != 0 || o != 1 {
			t.Errorf("nothing was done, and a holds %d and orders %d items", a, o)
		}
		f.store.FailAfter(storagetest.Settle, 1, queue.ErrUnknownOutcome)
		if _, err := f.Settle(t.Context(), settleCall(entry(it, queue.Complete))); !errors.Is(err, queue.ErrUnknownOutcome) {
			t.Fatalf("got %v, want ErrUnknownOutcome", err)
		}
		if _, err := f.Settle(t.Context(), settleCall(entry(it, queue.Complete))); err == nil {
			t.Error("the repeat was taken")
		}
		for _, name := range []string{"ends~a", "ends~b"} {
			if got := f.total(t, name); got != 1 {
				t.Errorf("%s was told %d times, want once", name, got)
			}
		}
	})
}

// What the store has no room for is refused as too many receipts, or not told.
func TestDone_TheStoreHasNoRoom(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "ends", "a", "b")
		f.produce(t, "orders", toTopic(), toTopic(), toTopic())
		leased := f.lease(t, "orders", 3)
		large := &queue.TooLargeError{Field: "entries", Limit: 6_225_920, Unit: "bytes"}
		f.store.FailBefore(storagetest.Settle, 1, large)
		_, err := f.Settle(t.Context(), settleCall(entry(leased[0], queue.Complete), entry(leased[1], queue.Complete)))
		if tooMuch, ok := errors.AsType[*queue.FanOutError](err); !ok || tooMuch.Field != "receipts" || tooMuch.Limit != large.Limit {
			t.Errorf("got %v, want a FanOutError about receipts", err)
		}
		f.store.FailBefore(storagetest.Settle, 1, large)
		f.settle(t, entry(leased[0], queue.Complete))
		f.settle(t, entry(leased[1], queue.Complete))
		it := toTopic()
		it.ExpireTTL = time.Minute
		f.produce(t, "orders", it)
		<-time.After(2 * time.Minute)
		f.store.FailBefore(storagetest.Settle, 1, large)
		if _, err := f.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.wantTotals(t, map[string]int{"orders": 1, "orders~dead": 1, "ends~a": 1})
	})
}

// Two topics whose subscriptions tell each other do not multiply what they are told.
func TestDone_TopicsThatTellEachOther(t *testing.T) {
	t.Parallel()
	o := queue.Options{OnDone: func(_ context.Context, _ queue.Namespace, name string) (string, error) {
		switch topic, _, _ := strings.Cut(name, "~"); topic {
		case "left":
			return "right", nil
		case "right":
			return "left", nil
		default:
			return "", nil
		}
	}}
	bubbleWith(t, o, func(t *testing.T, f *fixture) {
		f.topic(t, "left", "a", "b")
		f.topic(t, "right", "a", "b")
		f.produce(t, "left", items(1)...)
		deliveries := 0
		for again := true; again && deliveries < 100; {
			again = false
			for _, name := range []string{"left~a", "left~b", "right~a", "right~b"} {
				for _, it := range f.lease(t, name, 100) {
					again = true
					deliveries++
					e := entry(it, queue.Complete)
					if e.OnDone, _ = o.OnDone(t.Context(), ns, name); e.OnDone == "" {
						t.Fatal("nobody is told")
					}
					f.settle(t, e)
				}
			}
		}
		if deliveries != 2+4 {
			t.Errorf("%d deliveries, want the item's two, and two of each of their ends", deliveries)
		}
	})
}

func TestUnblock_SkipsAHeadThatTellsATopicThatChanged(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "ends", "a")
		head, next := toTopic(), toTopic()
		head.OrderingKey, next.OrderingKey = "k", "k"
		head.Delay = time.Hour
		id := f.produce(t, "orders", head, next)[0].ID
		if _, err := newBroker(f.store, queue.Options{}).Subscribe(t.Context(), ns, "ends", "b", nil); err != nil {
			t.Fatal(err)
		}
		if err := f.Unblock(t.Context(), queue.UnblockCall{Namespace: ns, Queue: "orders", Item: id, Skip: true}); err != nil {
			t.Fatal(err)
		}
		f.settle(t, entry(f.leaseOne(t, "orders"), queue.Complete))
		if got := f.total(t, "ends~b"); got != 2 {
			t.Errorf("b was told of %d ends, want 2", got)
		}
	})
}
