package queue_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

// redriveCall is for all of a dead-letter queue.
func redriveCall(dead string) queue.RedriveCall {
	return queue.RedriveCall{Namespace: ns, Queue: dead, Limit: queue.MaxRedrive}
}

func (f *fixture) redrive(t *testing.T, call queue.RedriveCall) queue.Redriven {
	t.Helper()
	done, err := f.Redrive(t.Context(), call)
	if err != nil {
		t.Fatalf("redrive %s: %v", call.Queue, err)
	}
	return done
}

func (f *fixture) wantRedriven(t *testing.T, call queue.RedriveCall, want queue.Redriven) {
	t.Helper()
	if got := f.redrive(t, call); got != want {
		t.Errorf("redrive %s: got %+v, want %+v", call.Queue, got, want)
	}
}

// bury produces items to a queue and buries them, a second apart.
func (f *fixture) bury(t *testing.T, name string, reason string, items ...queue.ProduceItem) []queue.ID {
	t.Helper()
	var ids []queue.ID
	for _, it := range items {
		f.produce(t, name, it)
		leased := f.leaseOne(t, name)
		e := entry(leased, queue.Bury)
		e.Reason = reason
		f.settle(t, e)
		ids = append(ids, leased.ID)
		<-time.After(time.Second)
	}
	return ids
}

func (f *fixture) wantIDs(t *testing.T, name string, want ...queue.ID) {
	t.Helper()
	page, err := f.Items(t.Context(), queue.ItemsQuery{Namespace: ns, Queue: name, Limit: queue.DefaultMaxItems})
	if err != nil {
		t.Fatalf("items of %s: %v", name, err)
	}
	var got []queue.ID
	for _, it := range page.Items {
		got = append(got, it.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s holds %v, want %v", name, got, want)
	}
}

func TestRedrive_TakesItemsBackToWhereTheyCameFrom(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "dead"})
		f.create(t, queue.Settings{Name: "a", DeadQueue: "dead"})
		f.create(t, queue.Settings{Name: "b", DeadQueue: "dead", ExpireTTL: time.Hour})
		a := f.bury(t, "a", "broken", items(2)...)
		b := f.bury(t, "b", "broken", items(1)...)
		waits := f.produce(t, "a", items(1)...)[0].ID
		<-time.After(time.Second)
		f.wantRedriven(t, redriveCall("dead"), queue.Redriven{Moved: 3})
		f.wantIDs(t, "dead")
		f.wantIDs(t, "a", waits, a[0], a[1])
		f.wantIDs(t, "b", b[0])
		it := f.find(t, b[0])
		if it.Dead != nil || it.Attempts != 0 || it.Generation != 1 || !it.ExpiresAt.Equal(time.Now().Add(time.Hour)) {
			t.Errorf("got %+v, want it with a fresh budget and expiry", it)
		}
		if it := f.find(t, a[0]); !it.ExpiresAt.IsZero() {
			t.Errorf("expires at %v, want never", it.ExpiresAt)
		}
		f.wantRedriven(t, redriveCall("dead"), queue.Redriven{})
	})
}

func TestRedrive_Filters(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "dead"})
		f.create(t, queue.Settings{Name: "a", DeadQueue: "dead"})
		f.create(t, queue.Settings{Name: "b", DeadQueue: "dead"})
		kinds := items(2)
		kinds[0].Kind = "paid"
		f.bury(t, "a", "broken", kinds...)
		between := time.Now().Add(-time.Millisecond)
		ids := f.bury(t, "b", "refused", kinds...)
		// It was put there, and not buried.
		direct := f.produce(t, "dead", kinds[:1]...)[0].ID
		for name, test := range map[string]struct {
			change func(call *queue.RedriveCall)
			want   queue.Redriven
		}{
			"nothing":         {func(*queue.RedriveCall) {}, queue.Redriven{Moved: 4, Skipped: 1}},
			"kind":            {func(c *queue.RedriveCall) { c.Kind = "paid" }, queue.Redriven{Moved: 2, Skipped: 1}},
			"reason":          {func(c *queue.RedriveCall) { c.Reason = "refused" }, queue.Redriven{Moved: 2}},
			"before":          {func(c *queue.RedriveCall) { c.Before = between }, queue.Redriven{Moved: 2}},
			"from":            {func(c *queue.RedriveCall) { c.From = "a" }, queue.Redriven{Moved: 2}},
			"kind and reason": {func(c *queue.RedriveCall) { c.Kind, c.Reason = "paid", "refused" }, queue.Redriven{Moved: 1}},
			"kind and from":   {func(c *queue.RedriveCall) { c.Kind, c.From = "other", "a" }, queue.Redriven{}},
			"target":          {func(c *queue.RedriveCall) { c.Target = "orders" }, queue.Redriven{Moved: 5}},
			"ids": {
				func(c *queue.RedriveCall) { c.IDs = []queue.ID{ids[1], queue.NewID(), ids[1], direct} },
				queue.Redriven{Moved: 1, Skipped: 1},
			},
			"ids and kind": {func(c *queue.RedriveCall) { c.IDs, c.Kind = ids, "paid" }, queue.Redriven{Moved: 1}},
			"limit":        {func(c *queue.RedriveCall) { c.Limit = 3 }, queue.Redriven{Moved: 3, More: true}},
		} {
			call := redriveCall("dead")
			test.change(&call)
			call.DryRun = true
			if got := f.redrive(t, call); got != test.want {
				t.Errorf("%s: got %+v, want %+v", name, got, test.want)
			}
		}
		if got := f.total(t, "dead"); got != 5 {
			t.Errorf("after the dry runs the queue holds %d items, want all 5", got)
		}
		f.wantRedriven(t, queue.RedriveCall{Namespace: ns, Queue: "dead", Limit: 9, IDs: []queue.ID{ids[1], ids[0]}, Kind: "paid"}, queue.Redriven{Moved: 1})
		f.wantIDs(t, "b", ids[0])
		f.wantRedriven(t, queue.RedriveCall{Namespace: ns, Queue: "dead", Limit: 9, IDs: []queue.ID{direct}, Target: "orders"}, queue.Redriven{Moved: 1})
		f.wantIDs(t, "orders", direct)
	})
}

func TestRedrive_RefusesWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.bury(t, "orders", "", items(1)...)
		f.create(t, queue.Settings{Name: "other"})
		f.bury(t, "other", "", items(1)...)
		for field, call := range map[string]queue.RedriveCall{
			"queue_name":  {Queue: "orders", Limit: 1},
			"limit":       {Queue: "orders~dead"},
			"target":      {Queue: "orders~dead", Limit: 1, Target: "none"},
			"filter.from": {Queue: "orders~dead", Limit: 1, From: "none"},
		} {
			call.Namespace = ns
			_, err := f.Redrive(t.Context(), call)
			wantInvalid(t, err, field)
		}
		for _, target := range []string{"orders~dead", "other~dead"} {
			call := redriveCall("orders~dead")
			call.Target = target
			_, err := f.Redrive(t.Context(), call)
			wantInvalid(t, err, "target")
		}
		call := redriveCall("orders~dead")
		call.Limit = queue.MaxRedrive + 1
		_, err := f.Redrive(t.Context(), call)
		wantInvalid(t, err, "limit")
		call = redriveCall("orders~dead")
		call.IDs = make([]queue.ID, queue.DefaultMaxItems+1)
		_, err = f.Redrive(t.Context(), call)
		if tooLarge, ok := errors.AsType[*queue.TooLargeError](err); !ok || tooLarge.Field != "filter.item_ids" {
			t.Errorf("got %v, want a TooLargeError for filter.item_ids", err)
		}
		if _, err := f.Redrive(t.Context(), redriveCall("none")); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("no such queue: got %v, want ErrNotFound", err)
		}
		call = redriveCall("orders~dead")
		call.Namespace = ns + 1
		if _, err := f.Redrive(t.Context(), call); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("another namespace: got %v, want ErrNotFound", err)
		}
		if got := f.total(t, "orders~dead"); got != 1 {
			t.Errorf("the dead-letter queue holds %d items, want 1", got)
		}
	})
}

func TestRedrive_SkipsWhatIsLeasedTakenOrHomeless(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "dead"})
		gone := f.create(t, queue.Settings{Name: "gone", DeadQueue: "dead"})
		f.create(t, queue.Settings{Name: "a", DeadQueue: "dead"})
		leased := f.bury(t, "a", "", items(1)...)
		f.lease(t, "dead", 1)
		homeless := f.bury(t, "gone", "", items(1)...)
		if err := f.DeleteQueue(t.Context(), ns, "gone", false); err != nil {
			t.Fatal(err)
		}
		// The name is used again, but that is another queue.
		if again := f.create(t, queue.Settings{Name: "gone", DeadQueue: "dead"}); again.Number == gone.Number {
			t.Fatalf("number %d is used again", gone.Number)
		}
		taken := f.imports(t, "a", sourced("s"))[0].ID
		f.settle(t, entry(f.leaseOne(t, "a"), queue.Bury))
		f.bury(t, "a", "", items(1)...)
		// Two nodes may have imported it at one time.
		again := []queue.NewItem{{ID: taken, Queue: f.settings(t, "a").Number}}
		if _, err := f.model.Produce(t.Context(), []queue.ProduceGroup{{Items: again}}); err != nil {
			t.Fatal(err)
		}
		call := redriveCall("dead")
		call.DryRun = true
		f.wantRedriven(t, call, queue.Redriven{Moved: 1, Skipped: 3})
		f.wantRedriven(t, redriveCall("dead"), queue.Redriven{Moved: 1, Skipped: 3})
		// The leased one stands at its deadline.
		f.wantIDs(t, "dead", homeless[0], taken, leased[0])
	})
}

// Nobody may ever lease from a dead-letter queue again, so nothing else ends the lapse.
func TestRedrive_TakesWhatHasLapsed(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		id := f.bury(t, "orders", "", items(1)...)[0]
		stale := f.leaseOne(t, "orders~dead")
		call := redriveCall("orders~dead")
		f.wantRedriven(t, call, queue.Redriven{Skipped: 1})
		<-time.After(queue.DefaultLeaseTTL)
		call.DryRun = true
		f.wantRedriven(t, call, queue.Redriven{Moved: 1})
		call.DryRun, call.IDs = false, []queue.ID{id}
		f.wantRedriven(t, call, queue.Redriven{Moved: 1})
		if it := f.leaseOne(t, "orders"); it.ID != id || it.Attempts != 0 {
			t.Errorf("got %+v, want the item with a fresh budget", it)
		}
		if _, err := f.Settle(t.Context(), queue.SettleCall{Namespace: ns, Entries: []queue.SettleEntry{entry(stale, queue.Complete)}}); err == nil {
			t.Error("the receipt of the lapsed lease still settles")
		}
	})
}

// What another node deleted is gone, though this one has not heard of it.
func TestRedrive_SkipsWhatCameFromAQueueThatAnotherNodeDeleted(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		id := f.bury(t, "orders", "", items(1)...)[0]
		if err := newBroker(f.store, queue.Options{}).DeleteQueue(t.Context(), ns, "orders", false); err != nil {
			t.Fatal(err)
		}
		f.wantRedriven(t, redriveCall("orders~dead"), queue.Redriven{Skipped: 1})
		f.wantIDs(t, "orders~dead", id)
	})
}

func TestRedrive_StopsAtItsLimit(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		ids := f.bury(t, "orders", "", items(4)...)
		call := redriveCall("orders~dead")
		call.Limit = 3
		f.wantRedriven(t, call, queue.Redriven{Moved: 3, More: true})
		f.wantIDs(t, "orders", ids[:3]...)
		call.Limit = 1
		f.wantRedriven(t, call, queue.Redriven{Moved: 1})
		f.wantIDs(t, "orders", ids...)
	})
}

func TestRedrive_WalksManyPages(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		const many = 2500
		for range many / 500 {
			f.produce(t, "orders", items(500)...)
			leased := f.lease(t, "orders", 500)
			entries := make([]queue.SettleEntry, len(leased))
			for i := range leased {
				entries[i] = entry(leased[i], queue.Bury)
			}
			f.settle(t, entries...)
		}
		call := redriveCall("orders~dead")
		call.DryRun = true
		f.wantRedriven(t, call, queue.Redriven{Moved: many})
		call.DryRun, call.Limit = false, 1800
		f.wantRedriven(t, call, queue.Redriven{Moved: 1800, More: true})
		f.wantRedriven(t, call, queue.Redriven{Moved: many - 1800})
		if got := f.total(t, "orders"); got != many {
			t.Errorf("got %d items, want %d", got, many)
		}
	})
}

// What dies again while the call runs would be moved for ever.
func TestRedrive_LeavesWhatDiesAgain(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		const page = 50 // of items that are read with their kind
		kinds := items(page + 1)
		for i := range kinds {
			kinds[i].Kind = "k"
		}
		f.bury(t, "orders", "", kinds...)
		call := redriveCall("orders~dead")
		call.Kind = "k"
		move := f.store.Block(storagetest.Move)
		answered := start(func() (queue.Redriven, error) { return f.Redrive(t.Context(), call) })
		list := f.store.Block(storagetest.ListItems)
		move()
		synctest.Wait()
		// Between the first page and the second.
		<-time.After(time.Second)
		again := f.lease(t, "orders", page)
		for _, it := range again {
			f.settle(t, entry(it, queue.Bury))
		}
		list()
		got := <-answered
		if want := (queue.Redriven{Moved: len(kinds)}); got.err != nil || got.value != want {
			t.Errorf("got %+v, %v, want %+v", got.value, got.err, want)
		}
		if got := f.total(t, "orders~dead"); got != page {
			t.Errorf("the dead-letter queue holds %d items, want the %d that died again", got, page)
		}
	})
}

func TestRedrive_ByIDMovesWhatIsBuriedAlone(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "other"})
		ids := f.bury(t, "orders", "", items(3)...)
		alive := f.produce(t, "orders", items(1)...)[0].ID
		call := redriveCall("orders~dead")
		call.Target = "other"
		call.IDs = []queue.ID{ids[2], alive, queue.NewID(), ids[0], ids[2]}
		f.wantRedriven(t, call, queue.Redriven{Moved: 2})
		// In the order of the queue, whatever that of the ids.
		f.wantIDs(t, "other", ids[0], ids[2])
		f.wantIDs(t, "orders", alive)
		f.wantIDs(t, "orders~dead", ids[1])
	})
}

func TestRedrive_EndsBeforeItsTimeIsUp(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		kinds := items(60)
		for i := range kinds {
			kinds[i].Kind = "k"
		}
		f.bury(t, "orders", "", kinds...)
		open := f.store.Block(storagetest.Move)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		call := redriveCall("orders~dead")
		call.Kind = "k"
		answered := start(func() (queue.Redriven, error) { return f.Redrive(ctx, call) })
		<-time.After(600 * time.Millisecond)
		open()
		got := <-answered
		if want := (queue.Redriven{Moved: 50, More: true}); got.err != nil || got.value != want {
			t.Errorf("got %+v, %v, want a page, and more", got.value, got.err)
		}
		f.wantRedriven(t, call, queue.Redriven{Moved: 10})
	})
}

func TestRedrive_WakesWhoWaits(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		id := f.bury(t, "orders", "", items(1)...)[0]
		p := params(1)
		p.Wait = time.Minute
		waiting := f.startLease(t.Context(), p)
		call := redriveCall("orders~dead")
		call.DryRun = true
		f.wantRedriven(t, call, queue.Redriven{Moved: 1})
		if !isPending(waiting) {
			t.Fatal("a dry run gave something out")
		}
		f.wantRedriven(t, redriveCall("orders~dead"), queue.Redriven{Moved: 1})
		if got := <-waiting; got.err != nil || len(got.value.Items) != 1 || got.value.Items[0].ID != id {
			t.Errorf("got %+v, %v, want the item", got.value, got.err)
		}
	})
}

// A deletion waits for what is being moved to the queue, and finds it there.
func TestRedrive_ADeletionOfTheTargetLosesNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.bury(t, "orders", "", items(1)...)
		f.create(t, queue.Settings{Name: "other"})
		open := f.store.Block(storagetest.Move)
		call := redriveCall("orders~dead")
		call.Target = "other"
		moving := start(func() (queue.Redriven, error) { return f.Redrive(t.Context(), call) })
		deleting := start(func() (struct{}, error) {
			return struct{}{}, f.DeleteQueue(t.Context(), ns, "other", false)
		})
		synctest.Wait()
		open()
		if got := <-deleting; !errors.Is(got.err, queue.ErrNotEmpty) {
			t.Errorf("delete: got %v, want ErrNotEmpty", got.err)
		}
		if got := <-moving; got.err != nil || got.value.Moved != 1 {
			t.Errorf("got %+v, %v, want one moved", got.value, got.err)
		}
		// And the other way round: what is gone takes nothing.
		f.settle(t, entry(f.leaseOne(t, "other"), queue.Complete))
		f.bury(t, "orders", "", items(1)...)
		open = f.store.Block(storagetest.DeleteDocument)
		deleting = start(func() (struct{}, error) {
			return struct{}{}, f.DeleteQueue(t.Context(), ns, "other", false)
		})
		moving = start(func() (queue.Redriven, error) { return f.Redrive(t.Context(), call) })
		open()
		if got := <-deleting; got.err != nil {
			t.Errorf("delete: %v", got.err)
		}
		if got := <-moving; got.err != nil || got.value != (queue.Redriven{Skipped: 1}) {
			t.Errorf("got %+v, %v, want one skipped", got.value, got.err)
		}
		if got := f.total(t, "orders~dead"); got != 1 {
			t.Errorf("the dead-letter queue holds %d items, want 1", got)
		}
	})
}

func TestRedrive_SaysWhatTheStoreSaid(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		ids := f.bury(t, "orders", "", items(2)...)
		for _, verb := range []storagetest.Verb{storagetest.ListItems, storagetest.Move, storagetest.GetDocument} {
			f.store.FailBefore(verb, 1, errTest)
			if _, err := f.Redrive(t.Context(), redriveCall("orders~dead")); !errors.Is(err, errTest) {
				t.Errorf("%s: got %v, want the store's error", verb, err)
			}
		}
		f.store.FailBefore(storagetest.Find, 1, errTest)
		call := redriveCall("orders~dead")
		call.DryRun = true
		if _, err := f.Redrive(t.Context(), call); !errors.Is(err, errTest) {
			t.Errorf("dry run: got %v, want the store's error", err)
		}
		f.store.FailAfter(storagetest.Move, 1, queue.ErrUnknownOutcome)
		call.DryRun = false
		if _, err := f.Redrive(t.Context(), call); !errors.Is(err, queue.ErrUnknownOutcome) {
			t.Errorf("got %v, want ErrUnknownOutcome", err)
		}
		f.wantIDs(t, "orders", ids...)
		f.wantRedriven(t, call, queue.Redriven{})
		// Nothing stays pinned by all that.
		if err := f.DeleteQueue(t.Context(), ns, "orders", true); err != nil {
			t.Error(err)
		}
	})
}
