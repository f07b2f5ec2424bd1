package queue_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

// startsWith lets items through whose kind begins in a way.
type startsWith string

func (s startsWith) Match(c *queue.Candidate) (bool, error) {
	if c.Kind == "bad" {
		return s == "", errTest
	}
	return strings.HasPrefix(c.Kind, string(s)), nil
}

func TestTopic_FiltersSayWhoGetsWhat(t *testing.T) {
	t.Parallel()
	var failed []string
	o := queue.Options{
		CompileFilter: func(filter json.RawMessage) (queue.Matcher, error) {
			var prefix string
			if err := json.Unmarshal(filter, &prefix); err != nil {
				return nil, err
			}
			return startsWith(prefix), nil
		},
		FilterFailed: func(_ queue.Namespace, subscription string, err error) { failed = append(failed, subscription) },
	}
	bubbleWith(t, o, func(t *testing.T, f *fixture) {
		f.topic(t, "events", "all")
		f.subscribe(t, "events", "orders", json.RawMessage(`"order."`))
		f.subscribe(t, "events", "unread", json.RawMessage(`7`))
		kind := func(kind string) queue.ProduceItem {
			return queue.ProduceItem{Content: queue.Content{Kind: kind}}
		}
		produced := f.produce(t, "events", kind("order.paid"), kind("user.new"), kind("bad"), kind("order.sent"))
		for i, want := range []int{3, 2, 2, 3} {
			wantCopies(t, fmt.Sprint("item ", i), produced[i], want)
		}
		f.wantTotals(t, map[string]int{"events~all": 4, "events~orders": 2, "events~unread": 4})
		if fmt.Sprint(failed) != "[orders]" {
			t.Errorf("told of failures of %v, want orders", failed)
		}
		// Another filter counts for the next item.
		f.subscribe(t, "events", "orders", nil)
		wantCopies(t, "without a filter", f.produce(t, "events", kind("user.new"))[0], 3)
	})
}

// cannotJudge has no verdict on any item, and takes it all the same.
type cannotJudge struct{}

func (cannotJudge) Match(*queue.Candidate) (bool, error) {
	return true, errors.New("no such key: paid")
}

// Why a filter has no verdict is in the log, and does not fill it.
func TestTopic_FiltersThatFailAreLoggedSeldom(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	o := queue.Options{
		Logger:        slog.New(slog.NewTextHandler(&log, nil)),
		CompileFilter: func(json.RawMessage) (queue.Matcher, error) { return cannotJudge{}, nil },
	}
	bubbleWith(t, o, func(t *testing.T, f *fixture) {
		f.topic(t, "events")
		f.subscribe(t, "events", "a", json.RawMessage(`"x"`))
		logged := func() int { return strings.Count(log.String(), "no such key: paid") }
		for range 3 {
			f.produce(t, "events", items(5)...)
		}
		if got := logged(); got != 1 || !strings.Contains(log.String(), "subscription=a delivered=true") {
			t.Errorf("logged %d times, want once, with the subscription:\n%s", got, log.String())
		}
		<-time.After(2 * time.Hour)
		f.produce(t, "events", items(5)...)
		if got := logged(); got != 2 {
			t.Errorf("logged %d times, want once more after a while", got)
		}
	})
}

func TestTopic_ItemsAreFoundInAllTheirQueues(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "events", "a", "b", "c")
		id := f.produce(t, "events", items(1)...)[0].ID
		states, err := f.Look(t.Context(), ns, id, "")
		if err != nil || len(states) != 3 {
			t.Fatalf("got %d states, %v, want 3", len(states), err)
		}
		if one, err := f.Look(t.Context(), ns, id, "events~b"); err != nil || len(one) != 1 || one[0].Queue.Name != "events~b" {
			t.Errorf("in one queue: got %+v, %v", one, err)
		}
		waiting := start(func() ([]queue.ItemState, error) { return f.Await(t.Context(), ns, id, "", time.Minute) })
		f.settle(t, entry(f.leaseOne(t, "events~a"), queue.Complete))
		if !isPending(waiting) {
			t.Error("the wait is over with the end of one copy")
		}
		if done, err := f.Cancel(t.Context(), queue.CancelCall{Namespace: ns, IDs: []queue.ID{id}, Queue: "events~b"}); err != nil || done.Count != 1 {
			t.Errorf("cancel in one queue: got %+v, %v", done, err)
		}
		if got := f.total(t, "events~c"); got != 1 {
			t.Errorf("the third has %d items, want 1", got)
		}
		if done, err := f.Cancel(t.Context(), queue.CancelCall{Namespace: ns, IDs: []queue.ID{id}}); err != nil || done.Count != 1 {
			t.Errorf("cancel everywhere: got %+v, %v", done, err)
		}
		synctest.Wait()
		if got := <-waiting; !errors.Is(got.err, queue.ErrNotFound) {
			t.Errorf("wait: got %+v, want ErrNotFound, as of any item that has ended and is not kept", got)
		}
	})
}

// What is produced after the answer to Subscribe is in the queue, whoever produces.
func TestTopic_SubscribersComeWhileOthersProduce(t *testing.T) {
	t.Parallel()
	model := storagetest.NewModel(time.Now)
	nodes := []*queue.Broker{newBroker(model, queue.Options{}), newBroker(model, queue.Options{}), newBroker(model, queue.Options{})}
	if _, err := nodes[0].CreateTopic(t.Context(), ns, "events", ""); err != nil {
		t.Fatal(err)
	}
	const subscriptions, after = 30, 5
	stop := make(chan struct{})
	ended := make(chan error)
	for _, node := range nodes[1:] {
		go func() {
			for {
				select {
				case <-stop:
					ended <- nil
					return
				default:
				}
				if _, err := node.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "events", Items: items(1)}); err != nil {
					ended <- err
					return
				}
			}
		}()
	}
	for i := range subscriptions {
		name := fmt.Sprint("s", i)
		if _, err := nodes[0].Subscribe(t.Context(), ns, "events", name, nil); err != nil {
			t.Fatal(err)
		}
		for n := range after {
			produced, err := nodes[1+n%2].Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "events", Items: items(1)})
			if err != nil {
				t.Fatal(err)
			}
			states, err := nodes[0].Look(t.Context(), ns, produced[0].ID, queue.CopyQueue("events", name))
			if err != nil || len(states) != 1 {
				t.Fatalf("%s: got %v, %v, want the item that was produced after its creation", name, states, err)
			}
		}
	}
	close(stop)
	for range nodes[1:] {
		if err := <-ended; err != nil {
			t.Errorf("produce: %v", err)
		}
	}
}

// A name that was a queue's is used by what still names it, and must not stand in its way:
// a topic can be told, and holds no dead.
func TestTopic_NameOfAQueueThatWasTold(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "ends"})
		f.create(t, queue.Settings{Name: "graves"})
		f.create(t, queue.Settings{Name: "work", DeadQueue: "graves"})
		f.produce(t, "work", queue.ProduceItem{Content: queue.Content{OnDone: "ends"}}, queue.ProduceItem{})
		for _, name := range []string{"ends", "graves"} {
			if err := f.DeleteQueue(t.Context(), ns, name, true); err != nil {
				t.Fatal(err)
			}
			f.topic(t, name, "s")
		}
		f.settle(t, entry(f.leaseOne(t, "work"), queue.Complete))
		f.settle(t, entry(f.leaseOne(t, "work"), queue.Bury))
		f.wantTotals(t, map[string]int{"ends~s": 1, "graves~s": 0, "work~dead": 1})
	})
}

// What a node puts on a queue that is gone, since it does not know, is not given to those
// who subscribed to a topic of its name.
func TestTopic_ItemsOfAQueueOfItsName(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		other := newBroker(f.store, queue.Options{})
		f.create(t, queue.Settings{Name: "name"})
		call := queue.ProduceCall{Namespace: ns, Queue: "name", Items: items(1)}
		if _, err := other.Produce(t.Context(), call); err != nil { // Now it knows the queue.
			t.Fatal(err)
		}
		f.settle(t, entry(f.leaseOne(t, "name"), queue.Complete))
		if err := f.DeleteQueue(t.Context(), ns, "name", false); err != nil {
			t.Fatal(err)
		}
		f.topic(t, "name", "s")
		produced, err := other.Produce(t.Context(), call)
		if err != nil || produced[0].Copies != nil {
			t.Fatalf("got %+v, %v, want an item of the queue that is gone", produced, err)
		}
		for range 2 {
			f.tidyLater(t)
		}
		if got := f.total(t, "name~s"); got != 0 {
			t.Errorf("the subscription has %d items, want none", got)
		}
		if err := f.DeleteTopic(t.Context(), ns, "name", true); err != nil {
			t.Fatal(err)
		}
		f.tidyLater(t)
		if got := f.leaseOne(t, "name"); got.ID != produced[0].ID {
			t.Errorf("got %s, want the item", got.ID)
		}
	})
}

// A store that does not say what became of a call is asked again by the producer, with the
// same key.
func TestTopic_RepeatAfterAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "events", "a", "b")
		for i, fail := range []func(storagetest.Verb, int, error){f.store.FailBefore, f.store.FailAfter} {
			call := queue.ProduceCall{Namespace: ns, Queue: "events", Key: fmt.Sprint(i), Items: items(2)}
			fail(storagetest.Produce, 1, queue.ErrUnknownOutcome)
			if _, err := f.Produce(t.Context(), call); !errors.Is(err, queue.ErrUnknownOutcome) {
				t.Fatalf("got %v, want ErrUnknownOutcome", err)
			}
			if _, err := f.Produce(t.Context(), call); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"events~a", "events~b"} {
				if got := f.total(t, name); got != 2*(i+1) {
					t.Errorf("%s holds %d items, want %d", name, got, 2*(i+1))
				}
			}
		}
	})
}

// A node whose settings change while it reads the queues of a topic takes none of them for
// gone: the name of one was another queue's before.
func TestTopic_QueueOfTheSameNameIsFoundWhileSettingsChange(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		other := newBroker(f.store.Backend, queue.Options{}) // which is not held up
		f.topic(t, "events")
		s := f.subscribe(t, "events", "x", nil)
		f.produce(t, "events", items(1)...) // so that it is known
		if err := other.Unsubscribe(t.Context(), ns, "events", "x", s.Number); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Subscribe(t.Context(), ns, "events", "x", nil); err != nil {
			t.Fatal(err)
		}
		for range 3 { // more often than the list is read
			calls := f.store.Calls(storagetest.ListDocuments)
			open := f.store.Block(storagetest.ListDocuments)
			produced := start(func() ([]queue.Produced, error) {
				return f.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "events", Items: items(1)})
			})
			if f.store.Calls(storagetest.ListDocuments) == calls {
				open()
				<-produced
				continue // all is known by now
			}
			if _, err := f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "orders", Reference: new("changed")}); err != nil {
				t.Fatal(err)
			}
			open()
			if got := <-produced; got.err != nil || *got.value[0].Copies != 1 {
				t.Errorf("got %+v, want 1 copy", got)
			}
		}
		if got := f.total(t, "events~x"); got != 3 {
			t.Errorf("the new queue holds %d items, want 3", got)
		}
	})
}

func TestTopic_SubscribersQueueIsNoDeadLetterQueue(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.topic(t, "events", "a")
		_, err := f.CreateQueue(t.Context(), queue.Settings{Namespace: ns, Name: "work", DeadQueue: "events~a"})
		wantInvalid(t, err, "dead_queue")
		_, err = f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "orders", DeadQueue: new("events~a")})
		wantInvalid(t, err, "dead_queue")
	})
}
