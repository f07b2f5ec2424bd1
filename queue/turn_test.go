package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
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
		f.tidyLater(t)
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
					<-time.After(time.Duration(k%3) * time.Millisecond)
				}
			})
		}
		<-time.After(100 * time.Millisecond)
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
