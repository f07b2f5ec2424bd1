package queue_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

func (f *fixture) pause(t *testing.T, name string, what queue.Paused) queue.Settings {
	t.Helper()
	s, err := f.Pause(t.Context(), ns, name, what)
	if err != nil {
		t.Fatalf("pause %s: %v", name, err)
	}
	return s
}

func (f *fixture) resume(t *testing.T, name string, what queue.Paused) queue.Settings {
	t.Helper()
	s, err := f.Resume(t.Context(), ns, name, what)
	if err != nil {
		t.Fatalf("resume %s: %v", name, err)
	}
	return s
}

// wantNothing is the answer to a lease that the pause ended.
func wantNothing(t *testing.T, what string, a answer[queue.LeaseReply]) {
	t.Helper()
	if a.err != nil || len(a.value.Items) != 0 {
		t.Errorf("%s: got %+v, want no items and no error", what, a)
	}
}

func TestPause_SidesAddUpAndRepeatsChangeNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		if s, err := f.CreateQueue(t.Context(), queue.Settings{Namespace: ns, Name: "new", Paused: queue.PausedBoth}); err != nil || s.Paused != 0 {
			t.Errorf("create: got %v, %v, want nothing paused", s.Paused, err)
		}
		<-time.After(time.Second)
		if s := f.pause(t, "orders", queue.PausedLease); s.Paused != queue.PausedLease || !s.UpdatedAt.Equal(time.Now()) {
			t.Errorf("got %+v, want lease paused now", s)
		}
		if s := f.pause(t, "orders", queue.PausedProduce); s.Paused != queue.PausedBoth {
			t.Errorf("got %s, want both", s.Paused)
		}
		before := f.store.Calls(storagetest.PutDocument)
		if s := f.pause(t, "orders", queue.PausedBoth); s.Paused != queue.PausedBoth {
			t.Errorf("got %s, want both", s.Paused)
		}
		if f.store.Calls(storagetest.PutDocument) != before {
			t.Error("a pause of what was paused wrote the document")
		}
		if _, err := f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "orders", Reference: ptr("x")}); err != nil {
			t.Fatal(err)
		}
		if s := f.resume(t, "orders", queue.PausedProduce); s.Paused != queue.PausedLease || s.Reference != "x" {
			t.Errorf("got %+v, want lease paused, and the update", s)
		}
		if s := f.resume(t, "orders", queue.PausedBoth); s != f.settings(t, "orders") || s.Paused != 0 {
			t.Errorf("got %+v, want nothing paused, as stored", s)
		}
		for _, what := range []queue.Paused{0, queue.PausedBoth + 1} {
			_, err := f.Pause(t.Context(), ns, "orders", what)
			wantInvalid(t, err, "what")
		}
		if _, err := f.Pause(t.Context(), ns, "nowhere", queue.PausedLease); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("unknown queue: got %v, want ErrNotFound", err)
		}
	})
}

func TestPause_GoesOnWhenAnotherNodeWasQuicker(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.store.FailBefore(storagetest.PutDocument, 1, queue.ErrRevision)
		if s := f.pause(t, "orders", queue.PausedLease); s.Paused != queue.PausedLease {
			t.Errorf("got %s, want lease", s.Paused)
		}
	})
}

func TestPause_ProduceIsRefusedToCallersOnly(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.produce(t, "orders", items(2)...)
		leased := f.lease(t, "orders", 1)
		if _, err := f.EnsureQueue(t.Context(), ns, "orders~dead"); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"orders", "orders~dead"} {
			f.pause(t, name, queue.PausedProduce)
			before := f.store.Calls(storagetest.Produce)
			_, err := f.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: name, Items: items(1)})
			if !errors.Is(err, queue.ErrPaused) || f.store.Calls(storagetest.Produce) != before {
				t.Errorf("produce to %s: got %v, want ErrPaused before the store", name, err)
			}
		}
		f.settle(t, entry(leased[0], queue.Bury))
		if got := f.total(t, "orders~dead"); got != 1 {
			t.Errorf("got %d buried items, want 1", got)
		}
		f.settle(t, entry(f.leaseOne(t, "orders"), queue.Complete))
		f.resume(t, "orders", queue.PausedProduce)
		f.produce(t, "orders", items(1)...)
		// What a deletion waits for was given up with the refusal.
		if err := f.DeleteQueue(t.Context(), ns, "orders~dead", true); err != nil {
			t.Error(err)
		}
	})
}

func TestPause_LeaseEndsWaitsAndGivesOutNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		began := time.Now()
		waiting := f.startLease(t.Context(), waitFor(1, time.Minute))
		f.pause(t, "orders", queue.PausedLease)
		wantNothing(t, "wait that the pause ended", <-waiting)
		if time.Since(began) != 0 {
			t.Error("the pause did not end the wait at once")
		}
		f.produce(t, "orders", items(1)...)
		before := f.store.Calls(storagetest.Lease)
		reply, err := f.Lease(t.Context(), params(1))
		wantNothing(t, "no wait", answer[queue.LeaseReply]{reply, err})
		reply, err = f.Lease(t.Context(), waitFor(1, time.Minute))
		wantNothing(t, "wait while paused", answer[queue.LeaseReply]{reply, err})
		if time.Since(began) != time.Minute {
			t.Errorf("took %v, want the minute, so that nobody asks again and again", time.Since(began))
		}
		waiting = f.startLease(t.Context(), waitFor(1, time.Minute))
		f.produce(t, "orders", items(1)...)
		if !isPending(waiting) || f.store.Calls(storagetest.Lease) != before {
			t.Fatal("the store was asked for a paused queue")
		}
		f.resume(t, "orders", queue.PausedLease)
		if a := <-waiting; len(a.value.Items) != 1 || time.Since(began) != time.Minute {
			t.Errorf("resumed: got %+v, want an item at once", a)
		}
	})
}

// What the store is giving out when a pause comes still arrives, and the pause answers
// after it: a look that has begun could find what is produced afterwards.
func TestPause_AnswersOnceNothingIsGivenOutAnyMore(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		pause := func() (queue.Settings, error) { return f.Pause(t.Context(), ns, "orders", queue.PausedLease) }
		f.produce(t, "orders", items(1)...)
		open := f.store.Block(storagetest.Lease)
		first := f.startLease(t.Context(), waitFor(1, time.Minute))
		behind := f.startLease(t.Context(), waitFor(1, time.Minute))
		paused := start(pause)
		wantNothing(t, "lease that no look had begun for", <-behind)
		if !isPending(paused) {
			t.Fatal("the pause answered under a look")
		}
		open()
		a := <-first
		if a := <-paused; a.err != nil {
			t.Fatalf("pause: %v", a.err)
		}
		if len(a.value.Items) != 1 {
			t.Fatalf("got %+v, want the item", a)
		}
		if extended, err := f.Extend(t.Context(), ns, "orders", []queue.ExtendEntry{{Receipt: a.value.Items[0].Receipt()}}); err != nil || extended[0].Status != queue.Applied {
			t.Errorf("extend: got %+v, %v, want it applied", extended, err)
		}
		f.settle(t, entry(a.value.Items[0], queue.Complete))

		f.resume(t, "orders", queue.PausedLease)
		began := time.Now()
		open = f.store.Block(storagetest.Lease)
		inVain := f.startLease(t.Context(), waitFor(1, time.Minute))
		paused = start(pause)
		synctest.Wait()
		open()
		wantNothing(t, "look in vain", <-inVain)
		if a := <-paused; a.err != nil {
			t.Errorf("pause: %v", a.err)
		}
		if !time.Now().Equal(began) {
			t.Error("the look in vain waited on")
		}
	})
}

// Nobody tells this node of the pause; it finds it before it gives out an item.
func TestPause_ByAnotherNodeHoldsOnceSettingsAreOld(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		other := newBroker(f.store, queue.Options{})
		number := f.settings(t, "orders").Number
		began := time.Now()
		waiting := f.startLease(t.Context(), waitFor(1, time.Minute))
		if _, err := other.Pause(t.Context(), ns, "orders", queue.PausedLease); err != nil {
			t.Fatal(err)
		}
		reads := f.store.Calls(storagetest.GetDocument)
		<-time.After(queue.DefaultSettingsAge)
		if !isPending(waiting) || f.store.Calls(storagetest.GetDocument) != reads {
			t.Fatal("an idle queue was read again")
		}
		f.produceThrough(t, other)
		leases := f.store.Calls(storagetest.Lease)
		f.Wake(number)
		wantNothing(t, "wait", <-waiting)
		if f.store.Calls(storagetest.Lease) != leases || time.Since(began) != queue.DefaultSettingsAge {
			t.Error("the store was asked before the settings were read again")
		}

		waiting = f.startLease(t.Context(), waitFor(1, time.Minute))
		if _, err := other.Resume(t.Context(), ns, "orders", queue.PausedLease); err != nil {
			t.Fatal(err)
		}
		f.Wake(number)
		if !isPending(waiting) {
			t.Fatal("settings were read again before they were old")
		}
		<-time.After(queue.DefaultSettingsAge)
		f.Wake(number)
		if a := <-waiting; len(a.value.Items) != 1 {
			t.Errorf("resumed: got %+v, want the item", a)
		}
	})
}

func (f *fixture) produceThrough(t *testing.T, b *queue.Broker) {
	t.Helper()
	if _, err := b.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "orders", Items: items(1)}); err != nil {
		t.Fatal(err)
	}
}

func TestPause_OfProduceAnswersOnceThoseThatWereLetInAreDone(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		open := f.store.Block(storagetest.Produce)
		first := f.startProduce(t.Context(), items(1)...)
		if !isPending(first) {
			t.Fatal("produce did not wait for the store")
		}
		waiting := f.startProduce(t.Context(), items(1)...)
		paused := start(func() (queue.Settings, error) { return f.Pause(t.Context(), ns, "orders", queue.PausedProduce) })
		if !isPending(paused) {
			t.Fatal("the pause answered before those that had been let in")
		}
		if _, err := f.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "orders", Items: items(1)}); !errors.Is(err, queue.ErrPaused) {
			t.Errorf("produce after the pause began: got %v, want ErrPaused", err)
		}
		open()
		for i, c := range []<-chan answer[[]queue.Produced]{first, waiting} {
			if a := <-c; a.err != nil {
				t.Errorf("produce %d, let in before: %v", i, a.err)
			}
		}
		if a := <-paused; a.err != nil {
			t.Errorf("pause: %v", a.err)
		}
	})
}

// A store that is slow on one queue holds up no call about another.
// slowDocs reads at once, and answers when hold is closed, if there is one.
type slowDocs struct {
	queue.QueueDocs
	hold atomic.Pointer[chan struct{}]
}

func (d *slowDocs) Get(ctx context.Context, ns queue.Namespace, name string) (queue.Settings, uint64, error) {
	hold := d.hold.Load()
	s, revision, err := d.QueueDocs.Get(ctx, ns, name)
	if hold != nil {
		<-*hold
	}
	return s, revision, err
}

// A document that was read before a change, and answered after it, changes nothing back.
func TestPause_AnOlderReadDoesNotUndoIt(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		docs := &slowDocs{QueueDocs: storage.NewCollection[queue.Settings](f.store, "queue")}
		node := queue.New(f.store, queue.Options{
			Queues:   docs,
			Counters: storage.NewCollection[queue.Counter](f.store, "counter"),
			Numbers:  storage.NewCollection[queue.NumberEntry](f.store, "number"),
		})
		produce := func() error {
			_, err := node.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: "orders", Items: items(1)})
			return err
		}
		if err := produce(); err != nil {
			t.Fatal(err)
		}
		answer := make(chan struct{})
		docs.hold.Store(&answer)
		older := start(func() (struct{}, error) { return struct{}{}, node.Reload(t.Context(), ns, "orders") })
		if !isPending(older) {
			t.Fatal("read without the store")
		}
		docs.hold.Store(nil)
		f.pause(t, "orders", queue.PausedProduce)
		if err := node.Reload(t.Context(), ns, "orders"); err != nil {
			t.Fatal(err)
		}
		close(answer)
		<-older
		if err := produce(); !errors.Is(err, queue.ErrPaused) {
			t.Errorf("got %v, want ErrPaused", err)
		}
	})
}

func TestPause_HoldsUpNoOtherQueue(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		open := f.store.Block(storagetest.Lease)
		waiting := f.startLease(t.Context(), waitFor(1, time.Minute))
		paused := start(func() (queue.Settings, error) { return f.Pause(t.Context(), ns, "orders", queue.PausedLease) })
		if !isPending(paused) {
			t.Fatal("the pause answered under a look")
		}
		began := time.Now()
		f.create(t, queue.Settings{Name: "other"})
		if took := time.Since(began); took != 0 {
			t.Errorf("creating another queue took %s", took)
		}
		open()
		<-waiting
		if a := <-paused; a.err != nil {
			t.Errorf("pause: %v", a.err)
		}
	})
}

// Its name is used anew, so whoever waits must come again for the new one.
func TestLease_FindsThatAnotherNodeMadeTheQueueAnew(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		other := newBroker(f.store, queue.Options{})
		old := f.settings(t, "orders").Number
		waiting := f.startLease(t.Context(), waitFor(1, 10*time.Minute))
		if err := other.DeleteQueue(t.Context(), ns, "orders", false); err != nil {
			t.Fatal(err)
		}
		if _, err := other.CreateQueue(t.Context(), queue.Settings{Namespace: ns, Name: "orders"}); err != nil {
			t.Fatal(err)
		}
		<-time.After(queue.DefaultSettingsAge)
		f.Wake(old)
		began := time.Now()
		if a := <-waiting; !errors.Is(a.err, queue.ErrNotFound) || time.Since(began) != 0 {
			t.Errorf("got %+v after %s, want ErrNotFound at once", a, time.Since(began))
		}
	})
}

func TestLease_FindsThatAnotherNodeDeletedTheQueue(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		other := newBroker(f.store, queue.Options{})
		number := f.settings(t, "orders").Number
		waiting := f.startLease(t.Context(), waitFor(1, time.Minute))
		if err := other.DeleteQueue(t.Context(), ns, "orders", false); err != nil {
			t.Fatal(err)
		}
		<-time.After(queue.DefaultSettingsAge)
		f.Wake(number)
		if a := <-waiting; !errors.Is(a.err, queue.ErrNotFound) {
			t.Errorf("got %+v, want ErrNotFound", a)
		}
	})
}

// Waits go on with what is known while settings cannot be read.
func TestLease_LooksThoughSettingsCannotBeReadAgain(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		waiting := f.startLease(t.Context(), waitFor(1, time.Minute))
		<-time.After(queue.DefaultSettingsAge)
		f.produceThrough(t, newBroker(f.store, queue.Options{}))
		f.store.FailBefore(storagetest.GetDocument, 1, queue.ErrUnavailable)
		f.Wake(f.known(t))
		if a := <-waiting; a.err != nil || len(a.value.Items) != 1 {
			t.Errorf("got %+v, want the item", a)
		}
	})
}

// known is the number of "orders", without reading it through the faulty store.
func (f *fixture) known(t *testing.T) queue.Number {
	t.Helper()
	stats, err := f.model.Stats(t.Context(), nil)
	if err != nil || len(stats) != 1 {
		t.Fatalf("got %d queues that hold something, %v, want 1", len(stats), err)
	}
	return stats[0].Queue
}

func TestReload_ReadsSettingsAtOnce(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		other := newBroker(f.store, queue.Options{})
		waiting := f.startLease(t.Context(), waitFor(1, time.Minute))
		if _, err := other.Pause(t.Context(), ns, "orders", queue.PausedLease); err != nil {
			t.Fatal(err)
		}
		if !isPending(waiting) {
			t.Fatal("the wait ended before anybody read the settings")
		}
		if err := f.Reload(t.Context(), ns, "orders"); err != nil {
			t.Fatal(err)
		}
		wantNothing(t, "wait", <-waiting)
		if _, err := other.Resume(t.Context(), ns, "orders", queue.PausedLease); err != nil {
			t.Fatal(err)
		}
		f.produceThrough(t, other)
		waiting = f.startLease(t.Context(), waitFor(1, time.Minute))
		if err := f.Reload(t.Context(), ns, "orders"); err != nil {
			t.Fatal(err)
		}
		if a := <-waiting; len(a.value.Items) != 1 {
			t.Errorf("got %+v, want the item", a)
		}
		if err := f.Reload(t.Context(), ns, "nowhere"); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("unknown queue: got %v, want ErrNotFound", err)
		}
	})
}
