package queue_test

import (
	"context"
	"testing"

	"github.com/posthaste-io/posthaste/queue"
)

// late makes another node delete "orders", and this one, which does not know yet, put an
// item there afterwards.
func (f *fixture) late(t *testing.T) (other *queue.Broker, id queue.ID) {
	t.Helper()
	other = newBroker(f.store, queue.Options{})
	f.settings(t, "orders")
	if err := other.DeleteQueue(t.Context(), ns, "orders", false); err != nil {
		t.Fatal(err)
	}
	return other, f.produce(t, "orders", items(1)...)[0].ID
}

func TestINV01_WhatCameToADeletedQueueIsThereAgain(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		if _, err := f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "orders", Reference: new("ours")}); err != nil {
			t.Fatal(err)
		}
		number := f.settings(t, "orders").Number
		_, id := f.late(t)
		f.tidyLater(t)
		if it := f.leaseOne(t, "orders"); it.ID != id {
			t.Errorf("leased %s, want %s", it.ID, id)
		}
		if s := f.settings(t, "orders"); s.Number != number || s.Reference != "ours" {
			t.Errorf("got %+v, want the queue as it was", s)
		}
		f.tidyLater(t) // which finds nothing to do
		f.settings(t, "orders")
	})
}

func TestINV01_WhatCameToADeletedQueueGoesToTheOneOfItsName(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		other, id := f.late(t)
		if _, err := other.CreateQueue(context.Background(), queue.Settings{Namespace: ns, Name: "orders"}); err != nil {
			t.Fatal(err)
		}
		f.tidyLater(t)
		if it := f.leaseOne(t, "orders"); it.ID != id {
			t.Errorf("leased %s, want %s", it.ID, id)
		}
		f.tidyLater(t)
	})
}

func TestDelete_ByForceCancelsWhatComesLater(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		other := newBroker(f.store, queue.Options{})
		f.settings(t, "orders")
		if err := other.DeleteQueue(t.Context(), ns, "orders", true); err != nil {
			t.Fatal(err)
		}
		id := f.produce(t, "orders", items(1)...)[0].ID
		f.tidyLater(t)
		if got := ending(t, f, id); got != "queue_deleted" {
			t.Errorf("ending record: got %q, want queue_deleted", got)
		}
	})
}
