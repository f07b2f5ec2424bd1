package queue_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

// inEveryState makes one item in each state but behind, and returns them by it.
func (f *fixture) inEveryState(t *testing.T) map[queue.State]queue.Item {
	t.Helper()
	short := params(1)
	short.TTL = time.Second
	f.produce(t, "orders", items(1)...)
	if _, err := f.Lease(t.Context(), short); err != nil {
		t.Fatal(err)
	}
	f.produce(t, "orders", items(1)...)
	retry := entry(f.leaseOne(t, "orders"), queue.Retry)
	retry.Delay = time.Hour
	f.settle(t, retry)
	f.produce(t, "orders", items(1)...)
	f.leaseOne(t, "orders")
	f.produce(t, "orders", queue.ProduceItem{Delay: time.Hour}, queue.ProduceItem{Content: queue.Content{Kind: "k"}, IdempotencyKey: "key"})
	<-time.After(2 * time.Second)
	page, err := f.Items(t.Context(), queue.ItemsQuery{Namespace: ns, Queue: "orders", Limit: 10})
	if err != nil || len(page.Items) != 5 {
		t.Fatalf("got %d items, %v, want 5", len(page.Items), err)
	}
	states := map[queue.State]queue.Item{}
	for _, it := range page.Items {
		states[it.State(page.Now)] = it
	}
	return states
}

// states are those of the items that a queue holds.
func (f *fixture) states(t *testing.T, name string) []queue.State {
	t.Helper()
	page, err := f.Items(t.Context(), queue.ItemsQuery{Namespace: ns, Queue: name, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	var states []queue.State
	for _, it := range page.Items {
		states = append(states, it.State(page.Now))
	}
	slices.Sort(states)
	return states
}

func (f *fixture) verdictOf(t *testing.T, id queue.ID) string {
	t.Helper()
	page, err := f.model.Records(t.Context(), storage.RecordQuery{Namespace: ns, Item: id, Backward: true, Limit: 1})
	if err != nil || len(page.Records) != 1 {
		t.Fatalf("got %d records, %v, want one", len(page.Records), err)
	}
	return page.Records[0].Verdict
}

func TestClear_ByState(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		call queue.ClearCall
		left []queue.State
	}{
		"scheduled": {queue.ClearCall{Scheduled: true}, []queue.State{queue.Ready, queue.Leased, queue.Lapsed}},
		"ready":     {queue.ClearCall{Ready: true}, []queue.State{queue.Scheduled, queue.Retrying, queue.Leased}},
		"leased":    {queue.ClearCall{Leased: true}, []queue.State{queue.Ready, queue.Scheduled, queue.Retrying, queue.Lapsed}},
		"all":       {queue.ClearCall{Scheduled: true, Ready: true, Leased: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, f *fixture) {
				states := f.inEveryState(t)
				test.call.Namespace, test.call.Queue = ns, "orders"
				done, err := f.Clear(t.Context(), test.call)
				if err != nil || done.Count != 5-len(test.left) || done.More {
					t.Errorf("got %+v, %v, want %d items", done, err, 5-len(test.left))
				}
				if left := f.states(t, "orders"); !slices.Equal(left, test.left) {
					t.Errorf("left: got %v, want %v", left, test.left)
				}
				if test.call.Leased {
					_, err := f.Settle(t.Context(), settleCall(entry(states[queue.Leased], queue.Complete)))
					wantRefused(t, err, map[int]error{0: queue.ErrNotFound})
				}
				if test.call.Ready {
					if got := f.verdictOf(t, states[queue.Ready].ID); got != queue.ReasonCleared {
						t.Errorf("record: got %q, want cleared", got)
					}
				}
				again := f.produce(t, "orders", queue.ProduceItem{Content: queue.Content{Kind: "k"}, IdempotencyKey: "key"})
				if !again[0].Duplicate {
					t.Error("the idempotency key was forgotten")
				}
			})
		})
	}
}

func TestClear_ChecksTheCall(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		_, err := f.Clear(t.Context(), queue.ClearCall{Namespace: ns, Queue: "orders"})
		wantInvalid(t, err, "queue")
		_, err = f.Clear(t.Context(), queue.ClearCall{Namespace: ns, Queue: "nowhere", Ready: true})
		if !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
	})
}

// slowPurge takes a second for each page.
type slowPurge struct{ storage.Backend }

func (s slowPurge) Purge(ctx context.Context, req queue.PurgeRequest) (queue.PurgeAnswer, error) {
	select {
	case <-time.After(time.Second):
		return s.Backend.Purge(ctx, req)
	case <-ctx.Done():
		return queue.PurgeAnswer{}, ctx.Err()
	}
}

// Every call ends in its time, with what it has done, and calls that are repeated come
// to the end.
func TestCancel_AnswersInItsTime(t *testing.T) {
	t.Parallel()
	const all = 2500
	for name, call := range map[string]func(b *queue.Broker, ctx context.Context, ids []queue.ID) (queue.Cancelled, error){
		"clear": func(b *queue.Broker, ctx context.Context, _ []queue.ID) (queue.Cancelled, error) {
			return b.Clear(ctx, queue.ClearCall{Namespace: ns, Queue: "orders", Ready: true})
		},
		"cancel all": func(b *queue.Broker, ctx context.Context, _ []queue.ID) (queue.Cancelled, error) {
			return b.Cancel(ctx, queue.CancelCall{Namespace: ns, Queue: "orders"})
		},
		"cancel by age": func(b *queue.Broker, ctx context.Context, _ []queue.ID) (queue.Cancelled, error) {
			return b.Cancel(ctx, queue.CancelCall{Namespace: ns, Queue: "orders", Before: time.Now().Add(time.Hour)})
		},
		"cancel by id": func(b *queue.Broker, ctx context.Context, ids []queue.ID) (queue.Cancelled, error) {
			return b.Cancel(ctx, queue.CancelCall{Namespace: ns, IDs: ids[:min(len(ids), 1000)]})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, f *fixture) {
				var ids []queue.ID
				for left := all; left > 0; left -= 500 {
					for _, p := range f.produce(t, "orders", items(500)...) {
						ids = append(ids, p.ID)
					}
				}
				b := newBroker(slowPurge{f.store}, queue.Options{})
				gone, calls := 0, 0
				for more := true; more || gone < all; calls++ {
					ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
					done, err := call(b, ctx, ids)
					cancel()
					if err != nil || done.Count == 0 || len(done.NotFound) > 0 {
						t.Fatalf("call %d: got %+v, %v", calls, done, err)
					}
					gone, more = gone+done.Count, done.More
					ids = ids[done.Count:]
				}
				if gone != all || calls < 2 || f.total(t, "orders") != 0 {
					t.Errorf("got %d items gone after %d calls, want all, in several", gone, calls)
				}
			})
		})
	}
}

func TestA05_CancelByIdStaysInItsNamespace(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "other"})
		produced := f.produce(t, "orders", items(3)...)
		elsewhere := f.produce(t, "other", items(1)...)[0].ID
		f.settle(t, entry(f.leaseOne(t, "orders"), queue.Bury))
		leased := f.leaseOne(t, "orders")
		none := queue.NewID()
		ids := []queue.ID{produced[0].ID, none, produced[1].ID, produced[0].ID, elsewhere}

		done, err := f.Cancel(t.Context(), queue.CancelCall{Namespace: ns + 1, IDs: ids})
		if err != nil || done.Count != 0 || !slices.Equal(done.NotFound, []queue.ID{produced[0].ID, none, produced[1].ID, elsewhere}) {
			t.Errorf("another namespace: got %+v, %v, want none found", done, err)
		}
		done, err = f.Cancel(t.Context(), queue.CancelCall{Namespace: ns, IDs: ids, Queue: "other"})
		if err != nil || done.Count != 1 || len(done.NotFound) != 3 {
			t.Errorf("one queue: got %+v, %v, want its item", done, err)
		}
		done, err = f.Cancel(t.Context(), queue.CancelCall{Namespace: ns, IDs: ids})
		if err != nil || done.Count != 2 || !slices.Equal(done.NotFound, []queue.ID{none, elsewhere}) {
			t.Errorf("got %+v, %v, want the buried and the leased one", done, err)
		}
		if got := f.verdictOf(t, leased.ID); got != queue.ReasonCancelled {
			t.Errorf("record: got %q, want cancelled", got)
		}
		if f.total(t, "orders") != 1 || f.total(t, "orders~dead") != 0 {
			t.Error("others were cancelled, or not all that were named")
		}
	})
}

// An item that moves between the look at it and its end is looked for again.
func TestCancel_FindsWhatMovesMeanwhile(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		id := f.bury(t, "orders", "", items(1)...)[0]
		open := f.store.Block(storagetest.Purge)
		cancelled := start(func() (queue.Cancelled, error) {
			return f.Cancel(t.Context(), queue.CancelCall{Namespace: ns, IDs: []queue.ID{id}})
		})
		if !isPending(cancelled) {
			t.Fatal("cancelled without the store")
		}
		f.wantRedriven(t, redriveCall("orders~dead"), queue.Redriven{Moved: 1})
		open()
		if a := <-cancelled; a.err != nil || a.value.Count != 1 || len(a.value.NotFound) != 0 {
			t.Errorf("got %+v, want the item ended", a)
		}
		if n := f.total(t, "orders"); n != 0 {
			t.Errorf("%d items live on", n)
		}
	})
}

func TestCancel_ByFilter(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		call func(c *queue.CancelCall, states map[queue.State]queue.Item)
		left []queue.State
	}{
		"all":    {func(*queue.CancelCall, map[queue.State]queue.Item) {}, nil},
		"state":  {func(c *queue.CancelCall, _ map[queue.State]queue.Item) { c.State = queue.Retrying }, []queue.State{queue.Ready, queue.Scheduled, queue.Leased, queue.Lapsed}},
		"kind":   {func(c *queue.CancelCall, _ map[queue.State]queue.Item) { c.Kind = "k" }, []queue.State{queue.Scheduled, queue.Retrying, queue.Leased, queue.Lapsed}},
		"before": {func(c *queue.CancelCall, _ map[queue.State]queue.Item) { c.Before = time.Now() }, nil},
		"too late": {
			func(c *queue.CancelCall, s map[queue.State]queue.Item) { c.Before = s[queue.Ready].CreatedAt },
			[]queue.State{queue.Ready, queue.Scheduled, queue.Retrying, queue.Leased, queue.Lapsed},
		},
		"all of it": {func(c *queue.CancelCall, _ map[queue.State]queue.Item) {
			c.Kind, c.State, c.Before = "k", queue.Leased, time.Now()
		}, []queue.State{queue.Ready, queue.Scheduled, queue.Retrying, queue.Leased, queue.Lapsed}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, f *fixture) {
				f.create(t, queue.Settings{Name: "other"})
				f.produce(t, "other", queue.ProduceItem{Content: queue.Content{Kind: "k"}})
				states := f.inEveryState(t)
				c := queue.CancelCall{Namespace: ns, Queue: "orders"}
				test.call(&c, states)
				done, err := f.Cancel(t.Context(), c)
				if err != nil || done.Count != 5-len(test.left) || done.More {
					t.Errorf("got %+v, %v, want %d items", done, err, 5-len(test.left))
				}
				if left := f.states(t, "orders"); !slices.Equal(left, test.left) {
					t.Errorf("left: got %v, want %v", left, test.left)
				}
				if f.total(t, "other") != 1 {
					t.Error("an item of another queue was cancelled")
				}
			})
		})
	}
}

func TestCancel_ChecksTheCall(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		id := f.produce(t, "orders", items(1)...)[0].ID
		for field, c := range map[string]queue.CancelCall{
			"filter.queue_name": {Kind: "k"},
			"filter.state":      {Queue: "orders", State: queue.Behind + 1},
			"filter":            {IDs: []queue.ID{id}, Kind: "k"},
		} {
			c.Namespace = ns
			_, err := f.Cancel(t.Context(), c)
			wantInvalid(t, err, field)
		}
		_, err := f.Cancel(t.Context(), queue.CancelCall{Namespace: ns, IDs: make([]queue.ID, queue.DefaultMaxItems+1)})
		if _, ok := errors.AsType[*queue.TooLargeError](err); !ok {
			t.Errorf("too many: got %v, want a TooLargeError", err)
		}
		if _, err = f.Cancel(t.Context(), queue.CancelCall{Namespace: ns, IDs: []queue.ID{id}, Queue: "nowhere"}); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("unknown queue: got %v, want ErrNotFound", err)
		}
		if f.total(t, "orders") != 1 {
			t.Error("a refused call cancelled the item")
		}
	})
}
