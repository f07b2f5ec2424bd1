package queue_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

// sourced is an item with a source id, which is its payload too.
func sourced(id string) queue.ImportItem {
	return queue.ImportItem{Content: queue.Content{SourceID: id, Payload: []byte(id)}}
}

func (f *fixture) imports(t *testing.T, name string, items ...queue.ImportItem) []queue.Item {
	t.Helper()
	kept, err := f.Import(t.Context(), queue.ImportCall{Namespace: ns, Queue: name, Items: items})
	if err != nil {
		t.Fatalf("import to %s: %v", name, err)
	}
	if len(kept) != len(items) {
		t.Fatalf("import to %s: got %d items, want %d", name, len(kept), len(items))
	}
	return kept
}

func TestImport_KeepsWhatItemsWereElsewhere(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		now := time.Now().UTC()
		given := queue.ImportItem{
			Content: queue.Content{
				SourceID: "№ 7 of the old system", Kind: "order.paid", Encoding: "text/plain", Reference: "ref",
				Headers: map[string]string{"X-A": "b"}, Payload: []byte("payload"),
			},
			DueAt: now.Add(time.Minute), ExpiresAt: now.Add(time.Hour), Attempts: 2, MaxAttempts: 3,
		}
		kept := f.imports(t, "orders", given, sourced("plain"))
		it := kept[0]
		if it.SourceID != given.SourceID || it.Kind != given.Kind || it.Encoding != given.Encoding || it.Reference != given.Reference ||
			it.Headers["X-A"] != "b" || string(it.Payload) != "payload" || it.Attempts != 2 || it.MaxAttempts != 3 {
			t.Errorf("got %+v, want %+v", it, given)
		}
		if !it.AvailableAt.Equal(given.DueAt) || !it.ExpiresAt.Equal(given.ExpiresAt) || !it.CreatedAt.Equal(now) {
			t.Errorf("got due %v, expiry %v, created %v", it.AvailableAt, it.ExpiresAt, it.CreatedAt)
		}
		if stored := f.find(t, it.ID); stored.Seq != it.Seq || stored.Key != it.Key {
			t.Errorf("got %+v, want it as the store has it: %+v", it, stored)
		}
		leased := f.leaseOne(t, "orders")
		if leased.ID != kept[1].ID || leased.Attempts != 0 || !leased.ExpiresAt.IsZero() {
			t.Errorf("got %+v, want the plain one, due at once", leased)
		}
	})
}

func TestImport_WithoutADeadlineTakesTheQueues(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "hasty", ExpireTTL: time.Hour})
		own := sourced("own")
		own.ExpiresAt = time.Now().Add(2 * time.Hour)
		kept := f.imports(t, "hasty", sourced("none"), own)
		if got := kept[0].ExpiresAt; !got.Equal(time.Now().Add(time.Hour)) {
			t.Errorf("without: expires at %v, want in an hour", got)
		}
		if got := kept[1].ExpiresAt; !got.Equal(own.ExpiresAt) {
			t.Errorf("with its own: expires at %v, want %v", got, own.ExpiresAt)
		}
	})
}

func TestImport_IgnoresASourceIDWhileItsItemLives(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "other"})
		first := f.imports(t, "orders", sourced("a"))[0]
		again := sourced("a")
		again.Payload = []byte("another body")
		kept := f.imports(t, "orders", sourced("b"), again, sourced("b"))
		if kept[1].ID != first.ID || string(kept[1].Payload) != "a" {
			t.Errorf("got %s with %q, want the one that lives", kept[1].ID, kept[1].Payload)
		}
		if kept[0].ID != kept[2].ID || kept[0].ID == first.ID {
			t.Errorf("got %s and %s, want one item for both", kept[0].ID, kept[2].ID)
		}
		if got := f.total(t, "orders"); got != 2 {
			t.Errorf("got %d items, want 2", got)
		}
		if elsewhere := f.imports(t, "other", sourced("a"))[0]; elsewhere.ID == first.ID {
			t.Error("the same source id has the same id in another queue")
		}
		// While it is leased as well.
		leased := f.leaseOne(t, "orders")
		if kept := f.imports(t, "orders", again); kept[0].ID != leased.ID || !kept[0].Held {
			t.Errorf("got %+v, want the leased one", kept[0])
		}
		f.settle(t, entry(leased, queue.Complete))
		if kept := f.imports(t, "orders", again); string(kept[0].Payload) != "another body" {
			t.Errorf("after its end: got %q, want the new item", kept[0].Payload)
		}
	})
}

func TestImport_KeepsTheTimeOfSourceIDsThatAreIDs(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		id := queue.NewID()
		kept := f.imports(t, "orders", sourced(id.String()), sourced(strings.ToUpper(id.String())), sourced("6ba7b810-9dad-11d1-80b4-00c04fd430c8"))
		if got := kept[0].ID; got == id || string(got[:6]) != string(id[:6]) {
			t.Errorf("got %s, want a new id with the time of %s", got, id)
		}
		for _, it := range kept {
			if again, err := queue.ParseID(it.ID.String()); err != nil || again != it.ID || it.ID[6]>>4 != 7 || it.ID[8]>>6 != 2 {
				t.Errorf("%s is not laid out as an id: %v", it.ID, err)
			}
		}
		for _, it := range kept[1:] {
			if string(it.ID[:6]) != "\x00\x00\x00\x00\x00\x00" {
				t.Errorf("%s from %s: has a time", it.ID, it.SourceID)
			}
		}
	})
}

func TestImport_BuriesWhatIsOverItsLimits(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		spent, late, good := sourced("spent"), sourced("late"), sourced("good")
		spent.Attempts = queue.DefaultMaxAttempts
		late.ExpiresAt = time.Now().Add(-time.Hour)
		good.Attempts = queue.DefaultMaxAttempts - 1
		kept := f.imports(t, "orders", spent, late, good)
		if leased := f.lease(t, "orders", 10); len(leased) != 1 || leased[0].ID != kept[2].ID {
			t.Errorf("got %d items, want the good one", len(leased))
		}
		for i, reason := range []string{queue.ReasonMaxAttempts, queue.ReasonExpired} {
			if it := f.find(t, kept[i].ID); it.Dead == nil || it.Dead.Reason != reason {
				t.Errorf("%s: got %+v, want it buried: %s", kept[i].SourceID, it.Dead, reason)
			}
		}
	})
}

func TestImport_ChecksEveryField(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	with := func(change func(it *queue.ImportItem)) queue.ImportItem {
		it := sourced("id")
		change(&it)
		return it
	}
	for field, item := range map[string]queue.ImportItem{
		"items[1].id":              sourced(""),
		"items[1].kind":            with(func(it *queue.ImportItem) { it.Kind = long }),
		"items[1].encoding":        with(func(it *queue.ImportItem) { it.Encoding = "\xff" }),
		"items[1].reference":       with(func(it *queue.ImportItem) { it.Reference = "a\x00" }),
		"items[1].headers":         with(func(it *queue.ImportItem) { it.Headers = map[string]string{"a": "\xff"} }),
		"items[1].attempts":        with(func(it *queue.ImportItem) { it.Attempts = -1 }),
		"items[1].max_attempts":    with(func(it *queue.ImportItem) { it.MaxAttempts = -2 }),
		"items[1].lease_deadline":  with(func(it *queue.ImportItem) { it.DueAt, it.DueField = time.Unix(-1, 0), "lease_deadline" }),
		"items[1].dead_deadline":   with(func(it *queue.ImportItem) { it.ExpiresAt, it.ExpireField = time.Unix(0, 0), "dead_deadline" }),
		"items[1].enqueue_at":      with(func(it *queue.ImportItem) { it.DueAt = time.Unix(-1, 0) }),
		"items[1].expire_deadline": with(func(it *queue.ImportItem) { it.ExpiresAt = time.Unix(0, 0) }),
	} {
		refuseImport(t, item, func(err error) { wantInvalid(t, err, field) })
	}
	refuseImport(t, sourced(long), func(err error) { wantInvalid(t, err, "items[1].id") })
	refuseImport(t, with(func(it *queue.ImportItem) { it.ExpiresAt = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) }),
		func(err error) { wantInvalid(t, err, "items[1].expire_deadline") })
	refuseImport(t, with(func(it *queue.ImportItem) { it.Payload = make([]byte, queue.DefaultMaxPayload+1) }), func(err error) {
		if tooLarge, ok := errors.AsType[*queue.TooLargeError](err); !ok || tooLarge.Field != "items[1].payload" {
			t.Errorf("got %v, want a TooLargeError for the payload", err)
		}
	})
}

// refuseImport imports an item behind a good one, which must not be kept either.
func refuseImport(t *testing.T, item queue.ImportItem, check func(err error)) {
	t.Helper()
	f := newFixture(queue.Options{})
	f.create(t, queue.Settings{Name: "orders"})
	_, err := f.Import(t.Context(), queue.ImportCall{Namespace: ns, Queue: "orders", Items: []queue.ImportItem{sourced("good"), item}})
	if err == nil {
		t.Fatalf("%+v was taken", item)
	}
	check(err)
	if got := f.total(t, "orders"); got != 0 {
		t.Errorf("got %d items, want none", got)
	}
}

func TestImport_BoundsACall(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		heavy := make([]queue.ImportItem, 6)
		for i := range heavy {
			heavy[i] = sourced(string(rune('a' + i)))
			heavy[i].Payload = make([]byte, queue.DefaultMaxPayload)
		}
		for name, items := range map[string][]queue.ImportItem{
			"items": make([]queue.ImportItem, queue.DefaultMaxItems+1),
			"bytes": heavy,
		} {
			_, err := f.Import(t.Context(), queue.ImportCall{Namespace: ns, Queue: "orders", Items: items})
			if tooLarge, ok := errors.AsType[*queue.TooLargeError](err); !ok || tooLarge.Field != "items" || tooLarge.Unit != name {
				t.Errorf("%s: got %v, want a TooLargeError", name, err)
			}
		}
		_, err := f.Import(t.Context(), queue.ImportCall{Namespace: ns, Queue: "orders"})
		wantInvalid(t, err, "items")
	})
}

func TestImport_ToAPausedQueueIsRefused(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		if _, err := f.Pause(t.Context(), ns, "orders", queue.PausedProduce); err != nil {
			t.Fatal(err)
		}
		call := queue.ImportCall{Namespace: ns, Queue: "orders", Items: []queue.ImportItem{sourced("a")}}
		if _, err := f.Import(t.Context(), call); !errors.Is(err, queue.ErrPaused) {
			t.Errorf("got %v, want ErrPaused", err)
		}
		call.Queue = "none"
		if _, err := f.Import(t.Context(), call); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("no such queue: got %v, want ErrNotFound", err)
		}
	})
}

func TestImport_WakesWhoWaits(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		p := params(1)
		p.Wait = time.Minute
		waiting := f.startLease(t.Context(), p)
		kept := f.imports(t, "orders", sourced("a"))
		if got := <-waiting; got.err != nil || len(got.value.Items) != 1 || got.value.Items[0].ID != kept[0].ID {
			t.Errorf("got %+v, %v, want the item", got.value, got.err)
		}
	})
}

func TestImport_WhatCannotBeReadBackIsOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.store.FailBefore(storagetest.Find, 2, queue.ErrUnavailable) // the first looks for what is buried
		call := queue.ImportCall{Namespace: ns, Queue: "orders", Items: []queue.ImportItem{sourced("a")}}
		_, err := f.Import(t.Context(), call)
		if !errors.Is(err, queue.ErrUnknownOutcome) || errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("got %v, want ErrUnknownOutcome alone", err)
		}
		if f.imports(t, "orders", sourced("a")); f.total(t, "orders") != 1 {
			t.Error("the repeat did not find the item")
		}
		f.store.FailBefore(storagetest.Produce, 1, queue.ErrUnavailable)
		if _, err := f.Import(t.Context(), call); !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("store away: got %v, want ErrUnavailable", err)
		}
	})
}

// An item may end before it is read back; then it is answered as it was given.
func TestImport_AnswersWhatEndedMeanwhile(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		produce := f.store.Block(storagetest.Produce)
		given := sourced("a")
		given.Attempts = 2
		answered := start(func() ([]queue.Item, error) {
			return f.Import(context.Background(), queue.ImportCall{Namespace: ns, Queue: "orders", Items: []queue.ImportItem{given}})
		})
		synctest.Wait()
		open := f.store.Block(storagetest.Find)
		produce()
		synctest.Wait()
		leased := f.leaseOne(t, "orders")
		f.settle(t, entry(leased, queue.Complete))
		open()
		got := <-answered
		if got.err != nil || len(got.value) != 1 {
			t.Fatalf("got %v, %v, want the item", got.value, got.err)
		}
		if it := got.value[0]; it.Key != leased.Key || it.SourceID != "a" || string(it.Payload) != "a" || it.Attempts != 2 {
			t.Errorf("got %+v, want it as it was given", it)
		}
	})
}

// Buried, it lives on: another one, were it buried too, would take its place.
func TestImport_IgnoresWhatWasBuried(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.imports(t, "orders", sourced("a"))
		f.settle(t, entry(f.leaseOne(t, "orders"), queue.Bury))
		second := sourced("a")
		second.Payload = []byte("second")
		kept := f.imports(t, "orders", second, sourced("b"))
		if kept[0].Dead == nil || string(kept[0].Payload) != "a" || kept[1].Dead != nil {
			t.Errorf("got %+v, want the buried one, and a new one", kept)
		}
		if n, dead := f.total(t, "orders"), f.total(t, "orders~dead"); n != 1 || dead != 1 {
			t.Errorf("%d items and %d buried ones, want one each", n, dead)
		}
		f.imports(t, "orders", sourced("a")) // alone
	})
}

func TestImport_BoundsTheAttempts(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		it := sourced("a")
		it.Attempts, it.MaxAttempts = math.MaxInt32, -1
		_, err := f.Import(t.Context(), queue.ImportCall{Namespace: ns, Queue: "orders", Items: []queue.ImportItem{it}})
		wantInvalid(t, err, "items[0].attempts")
	})
}
