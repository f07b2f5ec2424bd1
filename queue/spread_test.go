package queue_test

import (
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

func spreadCall(dead string, every time.Duration, limit int) queue.RedriveCall {
	return queue.RedriveCall{Namespace: ns, Queue: dead, Limit: limit, Every: every}
}

// take has a copy of an item live in the queue "orders" already.
func (f *fixture) take(t *testing.T, id queue.ID) {
	t.Helper()
	copied := queue.NewItem{ID: id, Queue: f.settings(t, "orders").Number}
	if _, err := f.model.Produce(t.Context(), []queue.ProduceGroup{{Items: []queue.NewItem{copied}}}); err != nil {
		t.Fatal(err)
	}
}

func TestRedrive_SpreadsItemsOverTime(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		ttl := time.Hour
		if _, err := f.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "orders", ExpireTTL: &ttl}); err != nil {
			t.Fatal(err)
		}
		ids := f.bury(t, "orders", "broken", items(5)...)
		now := time.Now().UTC().Round(0)
		call := spreadCall("orders~dead", time.Minute, 4)
		call.DryRun = true
		want := queue.Redriven{Moved: 4, More: true, Until: now.Add(3 * time.Minute)}
		f.wantRedriven(t, call, want)
		call.DryRun = false
		f.wantRedriven(t, call, want)
		f.wantIDs(t, "orders", ids[:4]...)
		for i, id := range ids[:4] {
			it := f.find(t, id)
			due := now.Add(time.Duration(i) * time.Minute)
			if !it.AvailableAt.Equal(due) || !it.FirstDueAt.Equal(due) || !it.ExpiresAt.Equal(due.Add(ttl)) {
				t.Errorf("item %d: due at %v, expires at %v, want %v and an hour later", i, it.AvailableAt, it.ExpiresAt, due)
			}
			if state := it.State(now); i > 0 && state != queue.Scheduled {
				t.Errorf("item %d is %s, want scheduled", i, state)
			}
		}
		// Whoever waits for time is told of each, and they come one by one.
		f.mu.Lock()
		told := f.due[f.settings(t, "orders").Number]
		f.mu.Unlock()
		for i := range 3 {
			if due := now.Add(time.Duration(1+i) * time.Minute); len(told) < 3 || !told[len(told)-3+i].Equal(due) {
				t.Fatalf("told of %v, want %v among them", told, due)
			}
		}
		for i := range 4 {
			it := f.leaseOne(t, "orders")
			if it.ID != ids[i] {
				t.Errorf("item %d: got %v, want %v", i, it.ID, ids[i])
			}
			f.settle(t, entry(it, queue.Complete))
			if got := f.lease(t, "orders", 10); len(got) != 0 {
				t.Errorf("%d items came too early", len(got))
			}
			<-time.After(time.Minute)
		}
	})
}

func TestRedrive_SpreadGoesOnFromPageToPage(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		const n = 1100 // more than a page
		var ids []queue.ID
		for range 2 {
			f.produce(t, "orders", make([]queue.ProduceItem, n/2)...)
			var entries []queue.SettleEntry
			for _, it := range f.lease(t, "orders", n/2) {
				entries = append(entries, entry(it, queue.Bury))
				ids = append(ids, it.ID)
			}
			f.settle(t, entries...)
		}
		f.take(t, ids[0])
		now := time.Now().UTC().Round(0)
		done := f.redrive(t, spreadCall("orders~dead", time.Second, n))
		if want := now.Add((n - 1) * time.Second); done.Moved != n-1 || !done.Until.Equal(want) {
			t.Errorf("got %+v, want %d until %v", done, n-1, want)
		}
		for i, id := range ids {
			if i == 0 {
				continue // it stays; its turn passes
			}
			if got, want := f.find(t, id).AvailableAt, now.Add(time.Duration(i)*time.Second); !got.Equal(want) {
				t.Fatalf("item %d is due at %v, want %v", i, got, want)
			}
		}
	})
}

func TestRedrive_WhatIsNotDueYetCanBeCancelled(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		ids := f.bury(t, "orders", "broken", items(6)...)
		f.redrive(t, spreadCall("orders~dead", time.Minute, 3))
		done, err := f.Cancel(t.Context(), queue.CancelCall{Namespace: ns, Queue: "orders", State: queue.Scheduled})
		if err != nil || done.Count != 2 {
			t.Errorf("cancelled %d, %v, want the two that are not due", done.Count, err)
		}
		f.wantIDs(t, "orders", ids[0])
		f.redrive(t, spreadCall("orders~dead", time.Minute, 3))
		done, err = f.Clear(t.Context(), queue.ClearCall{Namespace: ns, Queue: "orders", Scheduled: true})
		if err != nil || done.Count != 2 {
			t.Errorf("cleared %d, %v, want the two that are not due", done.Count, err)
		}
		f.wantIDs(t, "orders", ids[0], ids[3])
	})
}

// What stays leaves no gap where two would follow each other more quickly.
func TestRedrive_SpreadIsNoQuickerForWhatStays(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		ids := f.bury(t, "orders", "broken", items(3)...)
		f.take(t, ids[0])
		now := time.Now().UTC().Round(0)
		f.wantRedriven(t, spreadCall("orders~dead", time.Minute, 3), queue.Redriven{Moved: 2, Skipped: 1, Until: now.Add(2 * time.Minute)})
		for i, id := range ids[1:] {
			if got, want := f.find(t, id).AvailableAt, now.Add(time.Duration(1+i)*time.Minute); !got.Equal(want) {
				t.Errorf("item %d is due at %v, want %v", 1+i, got, want)
			}
		}
	})
}

func TestRedrive_SpreadIsBounded(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.bury(t, "orders", "broken", items(1)...)
		for _, call := range []queue.RedriveCall{
			spreadCall("orders~dead", -1, 1),
			spreadCall("orders~dead", queue.MaxSpread+1, 1),
			spreadCall("orders~dead", queue.MaxSpread/100+1, 100),
			spreadCall("orders~dead", 1<<62, queue.MaxRedrive),
		} {
			_, err := f.Redrive(t.Context(), call)
			wantInvalid(t, err, "rate")
		}
		f.redrive(t, spreadCall("orders~dead", queue.MaxSpread/100, 100))
	})
}
