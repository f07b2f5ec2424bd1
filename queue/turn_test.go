package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

// pushedDoc is a subscription as the tests keep it, under its queue's name; one on a topic that
// was a queue also under that name, as its claim is kept.
type pushedDoc struct {
	Subscription string
	Topic        string
	Number       queue.Number
}

// pushes are subscriptions in the store of a broker, by the queues that they drain.
type pushes struct {
	docs *storage.Collection[pushedDoc]
	// refuse, if not nil, is why none of them can be on a topic.
	refuse error
	// meanwhile runs once, after a turn was prepared.
	meanwhile func()
	// told are the revisions of each turn that was told as done, nil for what is not known.
	told [][]uint64
}

var _ queue.Subscribers = (*pushes)(nil)

// of returns the subscription that drains a queue. A claim that is kept is of none.
func (p *pushes) of(ctx context.Context, ns queue.Namespace, name string) (pushedDoc, uint64, error) {
	doc, revision, err := p.docs.Get(ctx, ns, name)
	if err == nil && doc.Topic == name {
		err = queue.ErrNotFound
	}
	return doc, revision, err
}

func (p *pushes) Subscribed(ctx context.Context, ns queue.Namespace, name string) (bool, error) {
	_, _, err := p.of(ctx, ns, name)
	return err == nil, nil
}

func (p *pushes) Unsubscribe(ctx context.Context, ns queue.Namespace, name string) error {
	doc, revision, err := p.of(ctx, ns, name)
	if err != nil {
		return nil
	}
	if doc.Topic != "" {
		_, kept, err := p.docs.Get(ctx, ns, doc.Topic)
		if err != nil {
			return err
		}
		if err := p.docs.Delete(ctx, ns, doc.Topic, kept); err != nil {
			return err
		}
	}
	return p.docs.Delete(ctx, ns, name, revision)
}

func (p *pushes) Turn(ctx context.Context, ns queue.Namespace, name string, number queue.Number) (queue.SubscriptionTurn, error) {
	doc, revision, err := p.of(ctx, ns, name)
	if errors.Is(err, queue.ErrNotFound) {
		return queue.SubscriptionTurn{}, nil
	}
	if err != nil || p.refuse != nil {
		return queue.SubscriptionTurn{}, errors.Join(err, p.refuse)
	}
	doc.Topic, doc.Number = name, number
	put, putErr := p.docs.PutChange(ns, queue.CopyQueue(name, doc.Subscription), doc, 0, time.Time{})
	kept, keptErr := p.docs.PutChange(ns, name, doc, revision, time.Time{})
	if f := p.meanwhile; f != nil {
		p.meanwhile = nil
		f()
	}
	return queue.SubscriptionTurn{
		Subscription: doc.Subscription,
		Changes:      []queue.DocumentChange{put, kept},
		Done:         func(revisions []uint64) { p.told = append(p.told, revisions) },
	}, errors.Join(putErr, keptErr)
}

// subscribe makes the subscription of a queue.
func (p *pushes) subscribe(t *testing.T, name, subscription string) {
	t.Helper()
	if _, err := p.docs.Put(t.Context(), ns, name, pushedDoc{Subscription: subscription}, 0, time.Time{}); err != nil {
		t.Fatal(err)
	}
}

// turning runs a test with the queue "orders", which has the subscription "billing".
func turning(t *testing.T, test func(t *testing.T, f *fixture, p *pushes)) {
	t.Helper()
	p := new(pushes)
	bubbleWith(t, queue.Options{Subscribers: p}, func(t *testing.T, f *fixture) {
		p.docs = storage.NewCollection[pushedDoc](f.store, "pushed")
		p.subscribe(t, "orders", "billing")
		test(t, f, p)
	})
}

func (f *fixture) turn(t *testing.T) queue.Settings {
	t.Helper()
	topic, err := f.TurnIntoTopic(t.Context(), ns, "orders", "")
	if err != nil {
		t.Fatalf("make a topic of orders: %v", err)
	}
	return topic
}

func TestTurn_QueueBecomesThatOfItsSubscription(t *testing.T) {
	t.Parallel()
	turning(t, func(t *testing.T, f *fixture, p *pushes) {
		ttl, reference := time.Hour, "who did what"
		before, err := f.UpdateQueue(t.Context(), queue.SettingsUpdate{
			Namespace: ns, Name: "orders", ExpireTTL: &ttl, KeepEnded: &ttl, Reference: &reference, Partitions: ptr[int32](2),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Pause(t.Context(), ns, "orders", queue.PausedLease); err != nil {
			t.Fatal(err)
		}
		first := f.produce(t, "orders", items(3)...)
		topic := f.turn(t)
		if topic.Name != "orders" || topic.Reference != reference || topic.Number == before.Number || topic.Topic.Unsettled ||
			topic.Topic.KeyScope != before.Number || len(topic.Topic.Subscribers) != 1 || topic.Topic.Subscribers[0].Subscription != "billing" {
			t.Errorf("topic: got %+v %+v, want one that billing subscribes to", topic, topic.Topic)
		}
		after := f.settings(t, "orders~billing")
		want := before
		want.Name, want.SubscribesTo, want.DeadQueue, want.Paused = "orders~billing", "orders", "orders~dead", queue.PausedLease
		want.UpdatedAt = after.UpdatedAt
		if after != want {
			t.Errorf("queue: got %+v, want %+v", after, want)
		}
		if _, err := f.Resume(t.Context(), ns, "orders~billing", queue.PausedLease); err != nil {
			t.Fatal(err)
		}
		second := f.produce(t, "orders", items(1)...)
		wantCopies(t, "after", second[0], 1)
		if got := f.total(t, "orders~billing"); got != 4 {
			t.Errorf("it holds %d items, want 4", got)
		}
		for _, it := range f.lease(t, "orders~billing", 10) {
			if it.ExpiresAt.Sub(it.FirstDueAt) != ttl {
				t.Errorf("item %s expires at %v, want it as the queue says", it.ID, it.ExpiresAt)
			}
		}
		if states, err := f.Look(t.Context(), ns, first[0].ID, ""); err != nil || len(states) != 1 || states[0].Queue.Name != "orders~billing" {
			t.Errorf("item: got %v, %v, want it in its queue", states, err)
		}
		if doc, _, err := p.docs.Get(t.Context(), ns, "orders~billing"); err != nil || doc.Topic != "orders" || doc.Number != before.Number {
			t.Errorf("subscription: got %+v, %v, want it on the topic", doc, err)
		}
		if len(p.told) != 1 || len(p.told[0]) != 2 || p.told[0][0] == 0 || p.told[0][1] == 0 {
			t.Errorf("told revisions %v, want those of its documents", p.told)
		}
		// It can be used as any topic, and goes as any.
		f.subscribe(t, "orders", "search", nil)
		wantCopies(t, "with another subscription", f.produce(t, "orders", items(1)...)[0], 2)
		if err := f.DeleteTopic(t.Context(), ns, "orders", true); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"orders", "orders~billing", "orders~search"} {
			if _, _, err := f.Queue(t.Context(), ns, name); !errors.Is(err, queue.ErrNotFound) {
				t.Errorf("%s: got %v, want ErrNotFound", name, err)
			}
		}
		time.Sleep(2 * time.Minute)
		if err := f.Tidy(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.create(t, queue.Settings{Name: "orders"})
		f.produce(t, "orders", items(1)...)
	})
}

func TestTurn_KeysThatTheQueueKnewAreKnown(t *testing.T) {
	t.Parallel()
	turning(t, func(t *testing.T, f *fixture, _ *pushes) {
		call := queue.ProduceCall{Namespace: ns, Queue: "orders", Key: "call", Items: items(2)}
		call.Items[0].IdempotencyKey = "own"
		first, err := f.Produce(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		f.turn(t)
		for range 2 {
			again, err := f.Produce(t.Context(), call)
			if err != nil {
				t.Fatal(err)
			}
			for i := range again {
				if !again[i].Duplicate || again[i].ID != first[i].ID {
					t.Errorf("item %d: got %+v, want a duplicate of %s", i, again[i], first[i].ID)
				}
			}
			f.subscribe(t, "orders", "search", nil)
		}
		if got := f.total(t, "orders~search"); got != 0 {
			t.Errorf("who subscribed since has %d items, want none", got)
		}
		call.Items[0].Payload = []byte("another")
		if _, err := f.Produce(t.Context(), call); !errors.Is(err, queue.ErrMismatch) {
			t.Errorf("another body: got %v, want ErrMismatch", err)
		}
	})
}

func TestTurn_ReceiptsStayGood(t *testing.T) {
	t.Parallel()
	turning(t, func(t *testing.T, f *fixture, _ *pushes) {
		f.produce(t, "orders", items(5)...)
		leased := f.lease(t, "orders", 5)
		f.turn(t)
		for i, name := range []string{"", "orders", "orders~billing"} {
			extended, err := f.Extend(t.Context(), ns, name, []queue.ExtendEntry{{Receipt: leased[i].Receipt(), TTL: time.Hour}})
			if err != nil || extended[0].Status != queue.Applied {
				t.Errorf("extend with the queue %q: got %v, %v", name, extended, err)
			}
			call := settleCall(entry(leased[i], queue.Complete))
			call.Queue = name
			if _, err := f.Settle(t.Context(), call); err != nil {
				t.Errorf("complete with the queue %q: %v", name, err)
			}
		}
		f.settle(t, entry(leased[3], queue.Retry), entry(leased[4], queue.Bury))
		if got := f.total(t, "orders~billing"); got != 1 {
			t.Errorf("it holds %d items, want the one that is tried again", got)
		}
		f.wantIDs(t, "orders~dead", leased[4].ID)
		call := settleCall(entry(leased[0], queue.Complete))
		f.topic(t, "events", "a")
		call.Queue = "events"
		if _, err := f.Settle(t.Context(), call); !errors.As(err, new(*queue.TopicError)) {
			t.Errorf("with a topic that was no queue: got %v, want a TopicError", err)
		}
		call.Queue = "orders"
		f.produce(t, "events", items(1)...)
		call.Entries = []queue.SettleEntry{entry(f.leaseOne(t, "events~a"), queue.Complete)}
		_, err := f.Settle(t.Context(), call)
		wantInvalid(t, err, "queue_name")
	})
}

func TestTurn_WhatWasBuriedGoesBack(t *testing.T) {
	t.Parallel()
	for _, graveyard := range []string{"", "graveyard"} {
		turning(t, func(t *testing.T, f *fixture, _ *pushes) {
			dead := "orders~dead"
			if graveyard != "" {
				dead = f.create(t, queue.Settings{Name: graveyard}).Name
				if _, err := f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "orders", DeadQueue: &dead}); err != nil {
					t.Fatal(err)
				}
			}
			before := f.bury(t, "orders", "bad", items(1)...)
			f.turn(t)
			after := f.bury(t, "orders~billing", "bad", queue.ProduceItem{})
			f.wantIDs(t, dead, before[0], after[0])
			if err := f.DeleteQueue(t.Context(), ns, dead, false); !errors.Is(err, queue.ErrNotEmpty) {
				t.Errorf("delete %s: got %v, want ErrNotEmpty", dead, err)
			}
			f.wantRedriven(t, redriveCall(dead), queue.Redriven{Moved: 2})
			f.wantIDs(t, "orders~billing", before[0], after[0])
		})
	}
}

// What else produces to the queue goes on as well.
func TestTurn_EndsAndSchedulesGoToTheTopic(t *testing.T) {
	t.Parallel()
	turning(t, func(t *testing.T, f *fixture, _ *pushes) {
		f.create(t, queue.Settings{Name: "work"})
		work := queue.ProduceItem{Content: queue.Content{OnDone: "orders"}}
		f.produce(t, "work", work)
		before, err := f.Prepare(t.Context(), ns, "orders", []queue.ScheduledItem{{Key: "schedule/nightly/1"}})
		if err != nil {
			t.Fatal(err)
		}
		before.Release(false)
		f.turn(t)
		f.produce(t, "work", work)
		f.subscribe(t, "orders", "search", nil)
		for range 2 {
			f.settle(t, entry(f.leaseOne(t, "work"), queue.Complete))
		}
		for _, name := range []string{"orders~billing", "orders~search"} {
			if got := f.total(t, name); got != 2 {
				t.Errorf("%s was told %d ends, want 2", name, got)
			}
		}
		after, err := f.Prepare(t.Context(), ns, "orders", []queue.ScheduledItem{{Key: "schedule/nightly/1"}})
		if err != nil {
			t.Fatal(err)
		}
		defer after.Release(false)
		if len(after.Items) != 1 || len(after.Items[0].Copies) != 2 || *after.Items[0].Dedupe != *before.Items[0].Dedupe {
			t.Errorf("of a schedule: got %+v, want two copies under the key that it had", after.Items)
		}
	})
}

func TestTurn_WhoWaitsOnTheOldNameIsToldTheNewOne(t *testing.T) {
	t.Parallel()
	turning(t, func(t *testing.T, f *fixture, _ *pushes) {
		waiting := f.startLease(t.Context(), queue.LeaseParams{Namespace: ns, Queue: "orders", Limit: 1, Wait: queue.MaxWait, Client: "c"})
		f.turn(t)
		got := <-waiting
		topic, ok := errors.AsType[*queue.TopicError](got.err)
		if !ok || topic.Was != "orders~billing" || !strings.Contains(topic.Error(), "orders~billing") {
			t.Errorf("who waited: got %+v, want a TopicError that names orders~billing", got)
		}
		for what, err := range map[string]error{
			"lease": func() error { _, err := f.Lease(t.Context(), params(1)); return err }(),
			"queue": func() error { _, _, err := f.Queue(t.Context(), ns, "orders"); return err }(),
		} {
			if topic, ok := errors.AsType[*queue.TopicError](err); !ok || topic.Was != "orders~billing" {
				t.Errorf("%s: got %v, want a TopicError that names orders~billing", what, err)
			}
		}
		p := queue.LeaseParams{Namespace: ns, Queue: "orders~billing", Limit: 1, Wait: queue.MaxWait, Client: "c"}
		again := f.startLease(t.Context(), p)
		f.produce(t, "orders", items(1)...)
		if got := <-again; got.err != nil || len(got.value.Items) != 1 {
			t.Errorf("on the new name: got %+v, want the item", got)
		}
	})
}

// A lease that the store is being asked for at that moment gets what there is.
func TestTurn_ALookThatIsUnderWayIsServed(t *testing.T) {
	t.Parallel()
	for _, there := range []int{0, 1} {
		turning(t, func(t *testing.T, f *fixture, _ *pushes) {
			if there > 0 {
				f.produce(t, "orders", items(there)...)
			}
			open := f.store.Block(storagetest.Lease)
			waiting := f.startLease(t.Context(), queue.LeaseParams{Namespace: ns, Queue: "orders", Limit: 1, Wait: queue.MaxWait})
			f.turn(t)
			if !isPending(waiting) {
				t.Fatal("who is being served was answered before that")
			}
			open()
			got := <-waiting
			if there == 1 && (got.err != nil || len(got.value.Items) != 1) {
				t.Errorf("got %+v, want the item", got)
			}
			if there == 0 && !errors.As(got.err, new(*queue.TopicError)) {
				t.Errorf("got %+v, want a TopicError", got)
			}
		})
	}
}

func TestTurn_ProducersNoticeNothing(t *testing.T) {
	t.Parallel()
	turning(t, func(t *testing.T, f *fixture, _ *pushes) {
		const producers, each = 8, 200
		var all sync.WaitGroup
		ids := make([][]queue.ID, producers)
		for i := range producers {
			all.Go(func() {
				for k := range each {
					produced, err := f.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "orders", Items: []queue.ProduceItem{
						{Content: queue.Content{Payload: fmt.Append(nil, i, k)}, IdempotencyKey: fmt.Sprint(i, "/", k)},
					}})
					if err != nil {
						t.Errorf("producer %d: %v", i, err)
						return
					}
					ids[i] = append(ids[i], produced[0].ID)
					time.Sleep(time.Duration(k%3) * time.Millisecond)
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		f.turn(t)
		all.Wait()
		var want []queue.ID
		for i := range ids {
			want = append(want, ids[i]...)
		}
		var got []queue.ID
		for {
			leased := f.lease(t, "orders~billing", 1000)
			for _, it := range leased {
				got = append(got, it.ID)
			}
			if len(leased) == 0 {
				break
			}
		}
		compare := func(a, b queue.ID) int { return strings.Compare(a.String(), b.String()) }
		slices.SortFunc(got, compare)
		slices.SortFunc(want, compare)
		if !slices.Equal(got, want) {
			t.Errorf("got %d items, want the %d that were acknowledged, each once", len(got), len(want))
		}
	})
}

// What a call of a producer is on its way with when the turn comes, is waited for.
func TestTurn_WaitsForWhatIsBeingProduced(t *testing.T) {
	t.Parallel()
	turning(t, func(t *testing.T, f *fixture, _ *pushes) {
		open := f.store.Block(storagetest.Produce)
		first := f.startProduce(t.Context(), items(1)...)
		turned := start(func() (queue.Settings, error) { return f.TurnIntoTopic(t.Context(), ns, "orders", "") })
		second := f.startProduce(t.Context(), items(1)...)
		if !isPending(turned) || f.store.Calls(storagetest.ChangeDocuments) != 0 {
			t.Fatal("it did not wait")
		}
		open()
		a, b := <-first, <-second
		if a.err != nil || a.value[0].Copies != nil {
			t.Errorf("first: got %+v, want an item of the queue", a)
		}
		if b.err != nil || b.value[0].Copies == nil {
			t.Errorf("second: got %+v, want an item of the topic", b)
		}
		if got := <-turned; got.err != nil {
			t.Error(got.err)
		}
		f.wantIDs(t, "orders~billing", a.value[0].ID, b.value[0].ID)
	})
}

func TestTurn_Refuses(t *testing.T) {
	t.Parallel()
	turning(t, func(t *testing.T, f *fixture, p *pushes) {
		f.topic(t, "events", "a")
		f.create(t, queue.Settings{Name: "lonely"})
		f.create(t, queue.Settings{Name: "graveyard"})
		f.create(t, queue.Settings{Name: "quick", DeadQueue: "graveyard"})
		p.subscribe(t, "graveyard", "digger")
		f.create(t, queue.Settings{Name: "paused"})
		p.subscribe(t, "paused", "s")
		if _, err := f.Pause(t.Context(), ns, "paused", queue.PausedProduce); err != nil {
			t.Fatal(err)
		}
		before := f.store.Calls(storagetest.ChangeDocuments)
		for name, want := range map[string]string{
			"":               "is missing",
			"not there":      "only A-Z",
			"nothing":        "does not exist",
			"events":         "a topic already",
			"events~a":       "the system made for events",
			"lonely":         "no subscription",
			"graveyard":      "dead-letter queue",
			"paused":         "paused for producers",
			"orders~billing": "the system made for orders",
			"orders~dead":    "the system made for orders",
		} {
			_, err := f.TurnIntoTopic(t.Context(), ns, name, "")
			wantInvalid(t, err, "from_queue")
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: got %v, want %q in it", name, err, want)
			}
		}
		_, err := f.TurnIntoTopic(t.Context(), ns, "orders", strings.Repeat("x", queue.MaxQueueReference+1))
		wantInvalid(t, err, "reference")
		p.refuse = queue.Invalid("from_queue", "no")
		_, err = f.TurnIntoTopic(t.Context(), ns, "orders", "")
		wantInvalid(t, err, "from_queue")
		p.refuse = nil
		if got := f.store.Calls(storagetest.ChangeDocuments); got != before {
			t.Errorf("%d changes were tried", got-before)
		}
		f.turn(t)
		if _, err := f.TurnIntoTopic(t.Context(), ns, "orders", ""); !errors.Is(err, queue.ErrExists) {
			t.Errorf("once more: got %v, want ErrExists", err)
		}
		// A queue that stands where it would be.
		f.create(t, queue.Settings{Name: "next"})
		p.subscribe(t, "next", "dead")
		if _, err := f.EnsureQueue(t.Context(), ns, "next~dead"); err != nil {
			t.Fatal(err)
		}
		_, err = f.TurnIntoTopic(t.Context(), ns, "next", "")
		wantInvalid(t, err, "from_queue")
		f.produce(t, "next", items(1)...) // it goes on as before

		alone := newBroker(f.store, queue.Options{})
		if _, err := alone.TurnIntoTopic(t.Context(), ns, "next", ""); !errors.Is(err, queue.ErrNotSupported) {
			t.Errorf("without subscriptions: got %v, want ErrNotSupported", err)
		}
	})
}

// Who changes one of the documents first is not overwritten.
func TestTurn_GoesByWhatIsThere(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		meanwhile func(t *testing.T, f *fixture, p *pushes)
		want      string // of the refusal
		exists    bool   // it is refused since it is done
	}{
		"settings are changed": {meanwhile: func(t *testing.T, f *fixture, _ *pushes) {
			other := newBroker(f.store, queue.Options{})
			if _, err := other.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "orders", MaxAttempts: ptr[int32](7)}); err != nil {
				t.Error(err)
			}
		}},
		"subscription is deleted": {want: "no subscription", meanwhile: func(t *testing.T, _ *fixture, p *pushes) {
			if err := p.Unsubscribe(t.Context(), ns, "orders"); err != nil {
				t.Error(err)
			}
		}},
		"queue is deleted": {want: "does not exist", meanwhile: func(t *testing.T, f *fixture, p *pushes) {
			other := newBroker(f.store, queue.Options{Subscribers: p})
			if err := other.DeleteQueue(t.Context(), ns, "orders", true); err != nil {
				t.Error(err)
			}
		}},
		"another node is quicker": {exists: true, meanwhile: func(t *testing.T, f *fixture, p *pushes) {
			other := newBroker(f.store, queue.Options{Subscribers: p, Alone: true})
			if _, err := other.TurnIntoTopic(t.Context(), ns, "orders", ""); err != nil {
				t.Error(err)
			}
		}},
	} {
		turning(t, func(t *testing.T, f *fixture, p *pushes) {
			f.produce(t, "orders", items(1)...)
			p.meanwhile = func() { test.meanwhile(t, f, p) }
			_, err := f.TurnIntoTopic(t.Context(), ns, "orders", "")
			if test.exists {
				if !errors.Is(err, queue.ErrExists) {
					t.Errorf("%s: got %v, want ErrExists", what, err)
				}
				return
			}
			if test.want != "" {
				wantInvalid(t, err, "from_queue")
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%s: got %v, want %q in it", what, err, test.want)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if got := f.settings(t, "orders~billing"); got.MaxAttempts != 7 || f.total(t, "orders~billing") != 1 {
				t.Errorf("%s: got %+v, want what the other node wrote", what, got)
			}
		})
	}
}

func TestTurn_WhatTheStoreSays(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		fail   func(*storagetest.Faulty)
		want   error
		turned bool
	}{
		"nothing was done": {func(s *storagetest.Faulty) {
			s.FailBefore(storagetest.ChangeDocuments, 1, queue.ErrUnavailable)
		}, queue.ErrUnavailable, false},
		"not known, and not done": {func(s *storagetest.Faulty) {
			s.FailBefore(storagetest.ChangeDocuments, 1, queue.ErrUnknownOutcome)
		}, queue.ErrUnknownOutcome, false},
		"not known, and done": {func(s *storagetest.Faulty) {
			s.FailAfter(storagetest.ChangeDocuments, 1, queue.ErrUnknownOutcome)
		}, queue.ErrUnknownOutcome, true},
	} {
		turning(t, func(t *testing.T, f *fixture, p *pushes) {
			f.produce(t, "orders", items(1)...)
			leased := f.leaseOne(t, "orders")
			test.fail(f.store)
			if _, err := f.TurnIntoTopic(t.Context(), ns, "orders", ""); !errors.Is(err, test.want) {
				t.Errorf("%s: got %v, want %v", what, err, test.want)
			}
			if unknown := errors.Is(test.want, queue.ErrUnknownOutcome); (len(p.told) == 1) != unknown {
				t.Errorf("%s: the subscription was told %v", what, p.told)
			}
			// Whatever became of it, everything goes on, and a repeat ends it.
			f.produce(t, "orders", items(1)...)
			f.settle(t, entry(leased, queue.Release))
			_, err := f.TurnIntoTopic(t.Context(), ns, "orders", "")
			switch {
			case test.turned && !errors.Is(err, queue.ErrExists):
				t.Errorf("%s: repeat: got %v, want ErrExists", what, err)
			case test.turned:
			case err != nil:
				t.Errorf("%s: repeat: %v", what, err)
			}
			f.produce(t, "orders", items(1)...)
			if got := len(f.lease(t, "orders~billing", 10)); got != 3 {
				t.Errorf("%s: leased %d items, want 3", what, got)
			}
		})
	}
}

// While a node goes by what it has read before, it puts items into the queue, past whom
// else there may be. So nobody subscribes until none does.
func TestTurn_OtherNodesAreWaitedFor(t *testing.T) {
	t.Parallel()
	turning(t, func(t *testing.T, f *fixture, p *pushes) {
		late := newBroker(f.store, queue.Options{})
		produceLate := func() queue.Produced {
			produced, err := late.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "orders", Items: items(1)})
			if err != nil {
				t.Fatalf("late node: %v", err)
			}
			return produced[0]
		}
		keyed := queue.ProduceItem{IdempotencyKey: "k"}
		first := f.produce(t, "orders", keyed)[0]
		time.Sleep(time.Second)
		produceLate()
		waits := start(func() (queue.LeaseReply, error) {
			p := params(1)
			p.Wait = queue.MaxWait
			for {
				reply, err := late.Lease(t.Context(), p)
				if err != nil {
					return reply, err
				}
			}
		})
		asked := time.Now()
		turned := start(func() (queue.Settings, error) { return f.TurnIntoTopic(t.Context(), ns, "orders", "") })
		subscribed := start(func() (queue.Settings, error) { return f.Subscribe(t.Context(), ns, "orders", "search", nil) })
		fromLate := start(func() (queue.Settings, error) { return late.Subscribe(t.Context(), ns, "orders", "audit", nil) })
		if !isPending(turned) || !isPending(subscribed) || !isPending(fromLate) {
			t.Fatal("nobody waits")
		}
		if got := produceLate(); got.Copies != nil {
			t.Fatalf("the late node knows already: %+v", got)
		}
		again, err := late.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "orders", Items: []queue.ProduceItem{keyed}})
		if err != nil || !again[0].Duplicate || again[0].ID != first.ID {
			t.Errorf("repeat on the late node: got %+v, %v, want a duplicate", again, err)
		}
		for _, each := range []<-chan answer[queue.Settings]{turned, subscribed, fromLate} {
			if got := <-each; got.err != nil {
				t.Fatal(got.err)
			}
		}
		if took := time.Since(asked); took < queue.DefaultSettingsAge || took > 3*queue.DefaultSettingsAge {
			t.Errorf("it took %v, want a little more than %v", took, queue.DefaultSettingsAge)
		}
		wantCopies(t, "late node, after the answer", produceLate(), 3)
		wantCopies(t, "after the answer", f.produce(t, "orders", items(1)...)[0], 3)
		for name, want := range map[string]int{"orders~billing": 5, "orders~search": 2, "orders~audit": 2} {
			if got := f.total(t, name); got > want || got < want-1 { // the late node has leased one at most
				t.Errorf("%s holds %d items, want %d", name, got, want)
			}
		}
		if got := <-waits; !errors.As(got.err, new(*queue.TopicError)) {
			t.Errorf("who waits on the late node: got %v, want a TopicError", got.err)
		}
		topic, _, err := late.Topic(t.Context(), ns, "orders")
		if err != nil || topic.Topic.Unsettled {
			t.Errorf("got %+v, %v, want it settled", topic.Topic, err)
		}
	})
}

// Whoever comes after a crash waits instead.
func TestTurn_CallThatIsGivenUpWhileItWaits(t *testing.T) {
	t.Parallel()
	turning(t, func(t *testing.T, f *fixture, _ *pushes) {
		ctx, cancel := context.WithCancel(t.Context())
		turned := start(func() (queue.Settings, error) { return f.TurnIntoTopic(ctx, ns, "orders", "") })
		cancel()
		if got := <-turned; !errors.Is(got.err, context.Canceled) {
			t.Errorf("got %v, want that it was given up", got.err)
		}
		wantCopies(t, "item", f.produce(t, "orders", items(1)...)[0], 1)
		time.Sleep(time.Hour)
		asked := time.Now()
		f.subscribe(t, "orders", "search", nil)
		if took := time.Since(asked); took < queue.DefaultSettingsAge {
			t.Errorf("it took %v, want no less than %v", took, queue.DefaultSettingsAge)
		}
		asked = time.Now()
		f.subscribe(t, "orders", "audit", nil)
		if took := time.Since(asked); took != 0 {
			t.Errorf("the next one took %v, want no wait", took)
		}
	})
}

func TestTurn_NodeThatIsAloneWaitsForNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := new(pushes)
		f := newFixture(queue.Options{Subscribers: p, Alone: true})
		p.docs = storage.NewCollection[pushedDoc](f.store, "pushed")
		f.create(t, queue.Settings{Name: "orders"})
		p.subscribe(t, "orders", "billing")
		asked := time.Now()
		f.turn(t)
		f.subscribe(t, "orders", "search", nil)
		if took := time.Since(asked); took != 0 {
			t.Errorf("it took %v, want no wait", took)
		}
		wantCopies(t, "item", f.produce(t, "orders", items(1)...)[0], 2)
	})
}

// What was read before the turn, and answered after it, does not bring the queue back.
func TestTurn_AnOlderReadDoesNotUndoIt(t *testing.T) {
	t.Parallel()
	turning(t, func(t *testing.T, f *fixture, p *pushes) {
		docs := &staleDocs{QueueDocs: storage.NewCollection[queue.Settings](f.store, "queue")}
		late := queue.New(f.store, queue.Options{
			Queues:   docs,
			Counters: storage.NewCollection[queue.Counter](f.store, "counter"),
			Numbers:  storage.NewCollection[queue.NumberEntry](f.store, "number"),
		})
		docs.meanwhile = func() {
			f.turn(t)
			if _, err := late.Stats(t.Context(), ns, "orders~billing"); err != nil { // so it is known by that name
				t.Error(err)
			}
		}
		produced, err := late.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "orders", Items: items(1)})
		if err != nil {
			t.Fatal(err)
		}
		wantCopies(t, "item", produced[0], 1)
		reply, err := late.Lease(t.Context(), queue.LeaseParams{Namespace: ns, Queue: "orders~billing", Limit: 1})
		if err != nil || len(reply.Items) != 1 {
			t.Errorf("lease: got %+v, %v, want the item", reply, err)
		}
	})
}

// A late node settles, buries and redrives what it knows under the old name.
func TestTurn_LateNodeGoesOnWithReceipts(t *testing.T) {
	t.Parallel()
	turning(t, func(t *testing.T, f *fixture, _ *pushes) {
		late := newBroker(f.store, queue.Options{})
		f.produce(t, "orders", items(4)...)
		reply, err := late.Lease(t.Context(), params(4))
		if err != nil || len(reply.Items) != 4 {
			t.Fatalf("got %+v, %v, want 4 items", reply, err)
		}
		settle := func(i int, outcome queue.Outcome) {
			t.Helper()
			if _, err := late.Settle(t.Context(), settleCall(entry(reply.Items[i], outcome))); err != nil {
				t.Errorf("item %d: %v", i, err)
			}
		}
		turned := start(func() (queue.Settings, error) { return f.TurnIntoTopic(t.Context(), ns, "orders", "") })
		settle(0, queue.Complete)
		settle(1, queue.Bury)
		if got := <-turned; got.err != nil {
			t.Fatal(got.err)
		}
		settle(2, queue.Bury)
		f.wantIDs(t, "orders~dead", reply.Items[1].ID, reply.Items[2].ID)
		done, err := late.Redrive(t.Context(), redriveCall("orders~dead"))
		if err != nil || done.Moved != 2 {
			t.Errorf("redrive on the late node: got %+v, %v, want 2 items", done, err)
		}
		call := settleCall(entry(reply.Items[3], queue.Release))
		call.Queue = "orders~billing"
		if _, err := late.Settle(t.Context(), call); err != nil {
			t.Errorf("by the new name: %v", err)
		}
		if got := f.total(t, "orders~billing"); got != 3 {
			t.Errorf("it holds %d items, want 3", got)
		}
	})
}
