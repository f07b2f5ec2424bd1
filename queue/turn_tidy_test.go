package queue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

// The tidying that found a number due before a turn, and its name after it, takes nothing for
// deleted.
func TestD11_ATidyingThatOverlapsATurnPurgesNothing(t *testing.T) {
	t.Parallel()
	turning(t, func(t *testing.T, f *fixture, _ *pushes) {
		reshape := func(partitions int32) {
			if _, err := f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "orders", Partitions: &partitions}); err != nil {
				t.Fatal(err)
			}
		}
		reshape(4)
		for range 20 {
			f.produce(t, "orders", items(1)...)
		}
		reshape(2)
		<-time.After(2 * time.Minute) // then its number is looked at, for the partitions that go
		// Another node, which is not held up.
		p := &pushes{docs: storage.NewCollection[pushedDoc](f.store.Backend, "pushed")}
		other := newBroker(f.store.Backend, queue.Options{Subscribers: p, Alone: true})
		open := f.store.Block(storagetest.GetDocument)
		tidied := start(func() (struct{}, error) { return struct{}{}, f.Tidy(t.Context()) })
		if _, err := other.TurnIntoTopic(t.Context(), ns, "orders", ""); err != nil {
			t.Fatal(err)
		}
		open()
		if got := <-tidied; got.err != nil {
			t.Fatal(got.err)
		}
		if got := f.total(t, "orders~billing"); got != 20 {
			t.Errorf("%d items are left, want 20", got)
		}
	})
}

// What became a topic is not undone while other nodes put items on it as a queue.
func TestTurn_IsNotUndoneBeforeItHasSettled(t *testing.T) {
	t.Parallel()
	turning(t, func(t *testing.T, f *fixture, _ *pushes) {
		ctx, cancel := context.WithCancel(t.Context())
		turned := start(func() (queue.Settings, error) { return f.TurnIntoTopic(ctx, ns, "orders", "") })
		cancel()
		if got := <-turned; !errors.Is(got.err, context.Canceled) {
			t.Errorf("got %v, want that it was given up", got.err)
		}
		number := f.settings(t, "orders~billing").Number
		began := time.Now()
		if err := f.Unsubscribe(t.Context(), ns, "orders", "billing", number); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < queue.DefaultSettingsAge {
			t.Errorf("it took %v, want no less than %v", took, queue.DefaultSettingsAge)
		}
	})
}
