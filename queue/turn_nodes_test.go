package queue_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

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
		<-time.After(time.Second)
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
		<-time.After(time.Hour)
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
