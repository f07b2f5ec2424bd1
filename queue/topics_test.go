package queue_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

// topic makes a topic with subscriptions.
func (f *fixture) topic(t *testing.T, name string, subscriptions ...string) queue.Settings {
	t.Helper()
	made, err := f.CreateTopic(t.Context(), ns, name, "")
	if err != nil {
		t.Fatalf("create topic %s: %v", name, err)
	}
	for _, each := range subscriptions {
		f.subscribe(t, name, each, nil)
	}
	return made
}

func (f *fixture) subscribe(t *testing.T, topic, subscription string, filter json.RawMessage) queue.Settings {
	t.Helper()
	made, err := f.Subscribe(t.Context(), ns, topic, subscription, filter)
	if err != nil {
		t.Fatalf("subscribe %s to %s: %v", subscription, topic, err)
	}
	return made
}

func wantCopies(t *testing.T, what string, got queue.Produced, want int) {
	t.Helper()
	if got.Duplicate || got.Copies == nil || *got.Copies != want {
		t.Errorf("%s: got %+v, want a new item with %d copies", what, got, want)
	}
}

func TestTopic_EverySubscriptionGetsEveryItem(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "events", "billing", "search")
		first := f.produce(t, "events", items(2)...)
		f.subscribe(t, "events", "late", nil)
		second := f.produce(t, "events", items(1)...)
		wantCopies(t, "first", first[0], 2)
		wantCopies(t, "second", second[0], 3)
		for name, want := range map[string][]queue.ID{
			"events~billing": {first[0].ID, first[1].ID, second[0].ID},
			"events~search":  {first[0].ID, first[1].ID, second[0].ID},
			"events~late":    {second[0].ID},
		} {
			leased := f.lease(t, name, 10)
			var got []queue.ID
			for _, it := range leased {
				got = append(got, it.ID)
				if it.Home != it.Queue {
					t.Errorf("%s: item %s has its home elsewhere", name, it.ID)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: got %v, want %v", name, got, want)
			}
		}
		if got := f.produce(t, "orders", items(1)...); got[0].Copies != nil {
			t.Errorf("item of a queue: got %d copies, want that not to be said", *got[0].Copies)
		}
	})
}

func TestTopic_NobodySubscribes(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "events")
		item := queue.ProduceItem{IdempotencyKey: "k"}
		first := f.produce(t, "events", item)
		wantCopies(t, "item", first[0], 0)
		f.subscribe(t, "events", "late", nil)
		if again := f.produce(t, "events", item); !again[0].Duplicate || again[0].ID != first[0].ID || again[0].Copies != nil {
			t.Errorf("repeat: got %+v, want a duplicate of %s", again[0], first[0].ID)
		}
		if got := f.total(t, "events~late"); got != 0 {
			t.Errorf("the subscription has %d items, want none", got)
		}
	})
}

func TestTopic_OneKeyForAllCopies(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "events", "a", "b")
		call := queue.ProduceCall{Namespace: ns, Queue: "events", Key: "call", Items: items(2)}
		call.Items[0].IdempotencyKey = "own"
		first, err := f.Produce(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		f.subscribe(t, "events", "c", nil)
		again, err := f.Produce(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		for i := range again {
			if !again[i].Duplicate || again[i].ID != first[i].ID {
				t.Errorf("item %d: got %+v, want a duplicate of %s", i, again[i], first[i].ID)
			}
		}
		for name, want := range map[string]int{"events~a": 2, "events~b": 2, "events~c": 0} {
			if got := f.total(t, name); got != want {
				t.Errorf("%s holds %d items, want %d", name, got, want)
			}
		}
		call.Items[0].Payload = []byte("another")
		if _, err := f.Produce(t.Context(), call); !errors.Is(err, queue.ErrMismatch) {
			t.Errorf("another body: got %v, want ErrMismatch", err)
		}
	})
}

// Nothing of what one node knows of a topic is true on another that has changed it: the
// store finds out, and the call goes on with what is new.
func TestTopic_ChangesOfOtherNodesCountAtOnce(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		other := newBroker(f.store, queue.Options{})
		f.topic(t, "events", "a")
		f.produce(t, "events", items(1)...) // Now the topic is known here.
		if _, err := other.Subscribe(t.Context(), ns, "events", "b", nil); err != nil {
			t.Fatal(err)
		}
		wantCopies(t, "after another node's subscription", f.produce(t, "events", items(1)...)[0], 2)

		a, _, err := f.Queue(t.Context(), ns, "events~a")
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Unsubscribe(t.Context(), ns, "events", "a", a.Number); err != nil {
			t.Fatal(err)
		}
		wantCopies(t, "after another node's deletion", f.produce(t, "events", items(1)...)[0], 1)

		if err := other.DeleteTopic(t.Context(), ns, "events", true); err != nil {
			t.Fatal(err)
		}
		_, err = f.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "events", Items: items(1)})
		if !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("deleted topic: got %v, want ErrNotFound", err)
		}

		f.topic(t, "events", "c")
		wantCopies(t, "made anew", f.produce(t, "events", items(1)...)[0], 1)
		if err := other.DeleteTopic(t.Context(), ns, "events", true); err != nil {
			t.Fatal(err)
		}
		if _, err := other.CreateQueue(t.Context(), queue.Settings{Namespace: ns, Name: "events"}); err != nil {
			t.Fatal(err)
		}
		if got := f.produce(t, "events", items(1)...); got[0].Copies != nil || f.total(t, "events") != 1 {
			t.Errorf("a queue of its name: got %+v and %d items, want an item of the queue", got[0], f.total(t, "events"))
		}
	})
}

func TestTopic_ThousandSubscriptionsAreOneCallOfTheStore(t *testing.T) {
	t.Parallel()
	const many = 1000
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "events")
		for i := range many {
			f.subscribe(t, "events", fmt.Sprint("s", i), nil)
		}
		before, listed := f.store.Calls(storagetest.Produce), f.store.Calls(storagetest.GetDocument)
		wantCopies(t, "item", f.produce(t, "events", items(1)...)[0], many)
		if got := f.store.Calls(storagetest.Produce) - before; got != 1 {
			t.Errorf("got %d calls of the store, want 1", got)
		}
		if got := f.store.Calls(storagetest.GetDocument) - listed; got > 2 {
			t.Errorf("read %d documents one by one, want none", got)
		}
		// Settings that are old are read anew, and not one by one.
		<-time.After(time.Minute)
		listed = f.store.Calls(storagetest.GetDocument)
		wantCopies(t, "later", f.produce(t, "events", items(10)...)[9], many)
		if got := f.store.Calls(storagetest.GetDocument) - listed; got > 2 {
			t.Errorf("read %d documents one by one, want none", got)
		}
		// 11 items are 11,000 copies.
		before = f.store.Calls(storagetest.Produce)
		_, err := f.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "events", Items: items(11)})
		if large, ok := errors.AsType[*queue.FanOutError](err); !ok || large.Copies != 11*many || large.Limit != queue.MaxCopies {
			t.Errorf("got %v, want a FanOutError", err)
		}
		_, err = f.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "events", Items: []queue.ProduceItem{
			{Content: queue.Content{Headers: map[string]string{"X-Long": strings.Repeat("x", 9000)}}},
		}})
		if large, ok := errors.AsType[*queue.FanOutError](err); !ok || large.Unit != "bytes" {
			t.Errorf("got %v, want a FanOutError about bytes", err)
		}
		if got := f.store.Calls(storagetest.Produce) - before; got != 0 {
			t.Errorf("the store was called %d times for what was refused", got)
		}
	})
}

// What a transaction of the store has no room for is told of as what it is: too many copies.
func TestTopic_CopiesAreTooMuchForTheStore(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		items int
		says  string
	}{
		"an item":       {1, "items: the copies of an item in 3 queues of topic events are over the limit of 6225920 bytes; send a smaller item, or have fewer subscriptions on a topic"},
		"several items": {2, "items: 2 items are 6 copies in the queues of topic events, over the limit of 6225920 bytes; send fewer items in a call"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, f *fixture) {
				f.topic(t, "events", "a", "b", "c")
				produce := func(field string) error {
					f.store.FailBefore(storagetest.Produce, 1, &queue.TooLargeError{Field: field, Limit: 6_225_920, Unit: "bytes"})
					_, err := f.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "events", Items: items(test.items)})
					return err
				}
				err := produce("items")
				want := queue.FanOutError{Field: "items", Topic: "events", Items: test.items, Copies: 3 * test.items, Limit: 6_225_920, Unit: "bytes"}
				if got, ok := errors.AsType[*queue.FanOutError](err); !ok || *got != want || got.Error() != test.says {
					t.Errorf("got %v, want %v", err, &want)
				}
				// One of them is too large for any queue.
				if got, ok := errors.AsType[*queue.TooLargeError](produce("items[0]")); !ok || got.Field != "items[0]" {
					t.Errorf("got %v, want it as it is", got)
				}
				f.produce(t, "events", items(1)...)
			})
		})
	}
}

func TestTopic_QueuesSayWhenTheirCopiesExpire(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "events", "a", "b")
		ttl := 10 * time.Minute
		if _, err := f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "events~b", ExpireTTL: &ttl}); err != nil {
			t.Fatal(err)
		}
		f.produce(t, "events", items(1)...)
		if a, b := f.leaseOne(t, "events~a"), f.leaseOne(t, "events~b"); !a.ExpiresAt.IsZero() || b.ExpiresAt.Sub(b.FirstDueAt) != ttl {
			t.Errorf("got expiries %v and %v, want none and after %v", a.ExpiresAt, b.ExpiresAt, ttl)
		}
	})
}

func TestTopic_WhoWaitsForACopyIsWoken(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "events", "a", "b")
		var waiting []<-chan answer[queue.LeaseReply]
		for _, name := range []string{"events~a", "events~b"} {
			waiting = append(waiting, f.startLease(t.Context(), queue.LeaseParams{Namespace: ns, Queue: name, Limit: 1, Wait: time.Minute}))
		}
		f.produce(t, "events", items(1)...)
		for _, each := range waiting {
			if got := <-each; got.err != nil || len(got.value.Items) != 1 {
				t.Errorf("got %+v, want the copy", got)
			}
		}
		f.produce(t, "events", queue.ProduceItem{Delay: time.Hour})
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, name := range []string{"events~a", "events~b"} {
			if got := f.due[f.settings(t, name).Number]; len(got) == 0 {
				t.Errorf("%s: nobody was told of the due time", name)
			}
		}
	})
}

func TestTopic_UnsubscribeTakesTheQueueAlong(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "events", "a", "b")
		f.produce(t, "events", items(3)...)
		old := f.settings(t, "events~a").Number
		leased := f.leaseOne(t, "events~a")
		if err := f.Unsubscribe(t.Context(), ns, "events", "a", old); err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.Queue(t.Context(), ns, "events~a"); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("its queue: got %v, want ErrNotFound", err)
		}
		if stats, err := f.model.Stats(t.Context(), []queue.Number{old}); err != nil || len(stats) != 0 {
			t.Errorf("copies: got %v, %v, want none", stats, err)
		}
		_, err := f.Settle(t.Context(), settleCall(entry(leased, queue.Complete)))
		if !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("receipt of a copy that is gone: got %v, want ErrNotFound", err)
		}
		if got := f.total(t, "events~b"); got != 3 {
			t.Errorf("the other subscription has %d items, want 3", got)
		}
		// One that comes again begins anew, and is not taken for the old one.
		f.subscribe(t, "events", "a", nil)
		f.produce(t, "events", items(1)...)
		if err := f.Unsubscribe(t.Context(), ns, "events", "a", old); err != nil {
			t.Fatal(err)
		}
		if got := f.total(t, "events~a"); got != 1 {
			t.Errorf("the new subscription has %d items, want 1", got)
		}
	})
}

func TestTopic_IsNoQueue(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "events", "a")
		call := queue.ProduceItem{Content: queue.Content{OnDone: "events"}}
		name := "events"
		for what, run := range map[string]func() error{
			"lease": func() error {
				_, err := f.Lease(t.Context(), queue.LeaseParams{Namespace: ns, Queue: name, Limit: 1})
				return err
			},
			"clear": func() error {
				_, err := f.Clear(t.Context(), queue.ClearCall{Namespace: ns, Queue: name, Ready: true})
				return err
			},
			"cancel": func() error {
				_, err := f.Cancel(t.Context(), queue.CancelCall{Namespace: ns, Queue: name, State: queue.Ready})
				return err
			},
			"stats": func() error { _, err := f.Stats(t.Context(), ns, name); return err },
			"pause": func() error { _, err := f.Pause(t.Context(), ns, name, queue.PausedBoth); return err },
			"items": func() error {
				_, err := f.Items(t.Context(), queue.ItemsQuery{Namespace: ns, Queue: name, Limit: 1})
				return err
			},
			"update": func() error {
				_, err := f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: name})
				return err
			},
			"queue":  func() error { _, _, err := f.Queue(t.Context(), ns, name); return err },
			"ensure": func() error { _, err := f.EnsureQueue(t.Context(), ns, name); return err },
			"reload": func() error { return f.Reload(t.Context(), ns, name) },
			"delete": func() error { return f.DeleteQueue(t.Context(), ns, name, true) },
			"import": func() error {
				_, err := f.Import(t.Context(), queue.ImportCall{Namespace: ns, Queue: name, Items: []queue.ImportItem{
					{Content: queue.Content{SourceID: "x"}},
				}})
				return err
			},
			"redrive from": func() error {
				_, err := f.Redrive(t.Context(), queue.RedriveCall{Namespace: ns, Queue: name, Limit: 1})
				return err
			},
		} {
			err := run()
			if topic, ok := errors.AsType[*queue.TopicError](err); !ok || topic.Topic != name {
				t.Errorf("%s: got %v, want a TopicError", what, err)
			}
		}
		call.OnDone = name
		_, err := f.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: name, Items: []queue.ProduceItem{call}})
		wantInvalid(t, err, "items[0].on_done")
		call.OnDone = "events~a"
		_, err = f.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "events", Items: []queue.ProduceItem{call}})
		wantInvalid(t, err, "items[0].on_done")
		call.Content = queue.Content{Target: &queue.Target{URL: "https://example.com"}}
		_, err = f.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "events", Items: []queue.ProduceItem{call}})
		wantInvalid(t, err, "items[0].target")
		_, err = f.CreateQueue(t.Context(), queue.Settings{Namespace: ns, Name: "q", DeadQueue: name})
		wantInvalid(t, err, "dead_queue")
		if _, err := f.CreateQueue(t.Context(), queue.Settings{Namespace: ns, Name: name}); !errors.Is(err, queue.ErrExists) {
			t.Errorf("a queue of its name: got %v, want ErrExists", err)
		}
		if _, err := f.CreateTopic(t.Context(), ns, "orders", ""); !errors.Is(err, queue.ErrExists) {
			t.Errorf("a topic of a queue's name: got %v, want ErrExists", err)
		}
		if _, _, err := f.Topic(t.Context(), ns, "orders"); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("a queue as a topic: got %v, want ErrNotFound", err)
		}

		listed, err := f.Queues(t.Context(), ns, "events", 10)
		if err != nil || len(listed) != 2 || listed[0].Name != "events~a" || listed[1].Name != "orders" {
			t.Errorf("queues: got %v, %v, want events~a and orders", listed, err)
		}
		topics, err := f.Topics(t.Context(), ns, "", 10)
		if err != nil || len(topics) != 1 || topics[0].Name != "events" {
			t.Errorf("topics: got %v, %v, want events", topics, err)
		}
		if got, err := f.QueueName(t.Context(), topics[0].Value.Number); err != nil || got != "events" {
			t.Errorf("name: got %q, %v", got, err)
		}
	})
}

func TestTopic_Delete(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "events", "a", "b")
		f.produce(t, "events", items(1)...)
		buried := f.leaseOne(t, "events~a")
		f.settle(t, entry(buried, queue.Bury))
		if err := f.DeleteTopic(t.Context(), ns, "events", false); !errors.Is(err, queue.ErrNotEmpty) {
			t.Errorf("got %v, want ErrNotEmpty", err)
		}
		for _, force := range []bool{false, true} {
			if err := f.DeleteQueue(t.Context(), ns, "events", force); !errors.As(err, new(*queue.TopicError)) {
				t.Errorf("as a queue: got %v, want a TopicError", err)
			}
		}
		if err := f.DeleteQueue(t.Context(), ns, "events~b", false); !errors.Is(err, queue.ErrNotEmpty) {
			t.Errorf("a subscription's queue: got %v, want ErrNotEmpty", err)
		}
		if err := f.DeleteQueue(t.Context(), ns, "events~b", true); err != nil {
			t.Errorf("a subscription's queue, with force: %v", err)
		}
		if s, _, err := f.Topic(t.Context(), ns, "events"); err != nil || len(s.Topic.Subscribers) != 1 {
			t.Errorf("got %+v, %v, want one subscription left", s.Topic, err)
		}
		if err := f.DeleteTopic(t.Context(), ns, "events", true); err != nil {
			t.Fatal(err)
		}
		if err := f.DeleteTopic(t.Context(), ns, "events", true); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("again: got %v, want ErrNotFound", err)
		}
		// What was buried is still there.
		if got := f.total(t, "events~a~dead"); got != 1 {
			t.Errorf("the dead-letter queue holds %d items, want 1", got)
		}
		f.tidyLater(t)
		f.create(t, queue.Settings{Name: "events"})
	})
}
