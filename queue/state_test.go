package queue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

func (f *fixture) look(t *testing.T, id queue.ID, name string) []queue.ItemState {
	t.Helper()
	states, err := f.Look(t.Context(), ns, id, name)
	if err != nil {
		t.Fatalf("look: %v", err)
	}
	return states
}

// wantUnknown says that nothing is known of an item.
func (f *fixture) wantUnknown(t *testing.T, what string, id queue.ID, name string) {
	t.Helper()
	if states, err := f.Look(t.Context(), ns, id, name); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("%s: got %+v, %v, want ErrNotFound", what, states, err)
	}
}

func TestLook_TellsWhereAnItemLives(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.create(t, queue.Settings{Name: "other"})
		id := f.produce(t, "orders", items(1)...)[0].ID
		leased := f.leaseOne(t, "orders")
		for _, name := range []string{"", "orders"} {
			states := f.look(t, id, name)
			if len(states) != 1 || states[0].Ending != nil || states[0].Queue != f.settings(t, "orders") {
				t.Fatalf("got %+v, want it in orders", states)
			}
			if st := states[0]; st.Item.Token != leased.Token || st.Item.State(st.Now) != queue.Leased || !st.Now.Equal(time.Now()) {
				t.Errorf("got %+v at %v, want it leased now", st.Item, st.Now)
			}
		}
		f.wantUnknown(t, "another queue", id, "other")
		f.wantUnknown(t, "another item", queue.NewID(), "")
		f.wantUnknown(t, "no queue", id, "nowhere")
		if _, err := f.Look(t.Context(), ns+1, id, ""); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("another namespace: got %v, want ErrNotFound", err)
		}
	})
}

func TestLook_FindsWhatAQueueBuried(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		id := f.produce(t, "orders", items(1)...)[0].ID
		f.settle(t, entry(f.leaseOne(t, "orders"), queue.Bury))
		for _, name := range []string{"", "orders", "orders~dead"} {
			states := f.look(t, id, name)
			if len(states) != 1 || states[0].Queue.Name != "orders~dead" || states[0].Item.Dead == nil || states[0].Ending != nil {
				t.Errorf("%q: got %+v, want it in orders~dead", name, states)
			}
		}
	})
}

func TestLook_KnowsAnEndingAsLongAsItIsKept(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		f.keep(t, "orders", time.Hour)
		produced := f.produce(t, "orders", items(2)...)
		f.settle(t, done(f.leaseOne(t, "orders"), "fine"))
		if _, err := f.Cancel(t.Context(), queue.CancelCall{Namespace: ns, IDs: []queue.ID{produced[1].ID}}); err != nil {
			t.Fatal(err)
		}
		ended := time.Now()
		<-time.After(time.Hour - 1)
		for i, want := range []queue.Step{queue.StepComplete, queue.StepCancel} {
			states := f.look(t, produced[i].ID, "orders")
			if len(states) != 1 || states[0].Ending == nil || states[0].Queue.Name != "orders" || states[0].Item.ID != produced[i].ID {
				t.Fatalf("got %+v, want the ending", states)
			}
			if r := states[0].Ending; r.Next != want || !r.At.Equal(ended) || want == queue.StepComplete && string(r.Response) != "fine" {
				t.Errorf("got %+v, want %s at %v", r, want, ended)
			}
		}
		<-time.After(1)
		for _, p := range produced {
			f.wantUnknown(t, "after its time", p.ID, "")
		}
	})
}

func TestLook_KnowsNothingWhereNothingIsKept(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		id := f.produce(t, "orders", items(1)...)[0].ID
		f.settle(t, entry(f.leaseOne(t, "orders"), queue.Complete))
		f.wantUnknown(t, "completed", id, "")
		id = f.produce(t, "orders", items(1)...)[0].ID
		if _, err := f.Cancel(t.Context(), queue.CancelCall{Namespace: ns, IDs: []queue.ID{id}}); err != nil {
			t.Fatal(err)
		}
		f.wantUnknown(t, "cancelled", id, "")
	})
}

// What was pushed is known as long as its attempts are, however it ended.
func TestLook_KnowsWhatWasPushed(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		pushed := func(outcome queue.Outcome) queue.ID {
			f.produce(t, "orders", items(1)...)
			e := entry(f.leaseOne(t, "orders"), outcome)
			e.Delay = map[queue.Outcome]time.Duration{queue.Retry: time.Hour}[outcome]
			e.Record = &queue.Record{Type: queue.AttemptRecord, Subscription: "s", Verdict: "v"}
			f.settle(t, e)
			return e.Receipt.Key.ID
		}
		delivered, cancelled := pushed(queue.Complete), pushed(queue.Retry)
		if st := f.look(t, cancelled, ""); len(st) != 1 || st[0].Ending != nil {
			t.Errorf("retried: got %+v, want it alive, and no ending", st)
		}
		if _, err := f.Cancel(t.Context(), queue.CancelCall{Namespace: ns, IDs: []queue.ID{cancelled}}); err != nil {
			t.Fatal(err)
		}
		<-time.After(24 * time.Hour)
		for id, want := range map[queue.ID]queue.Step{delivered: queue.StepComplete, cancelled: queue.StepCancel} {
			if st := f.look(t, id, ""); len(st) != 1 || st[0].Ending == nil || st[0].Ending.Next != want {
				t.Errorf("got %+v, want %s", st, want)
			}
		}
		if err := f.DeleteQueue(t.Context(), ns, "orders", true); err != nil {
			t.Fatal(err)
		}
		f.wantUnknown(t, "of a deleted queue", delivered, "")
	})
}

// An endpoint that finishes later does so with the receipt alone, and its item is known
// as long as one that was pushed.
func TestLook_KnowsWhatAnEndpointFinishedLater(t *testing.T) {
	t.Parallel()
	pushedBy := func(context.Context, queue.Namespace, string) (string, bool, error) { return "s", true, nil }
	bubbleWith(t, queue.Options{PushedBy: pushedBy}, func(t *testing.T, f *fixture) {
		f.produce(t, "orders", items(1)...)
		it := f.leaseOne(t, "orders")
		receipt := it.Receipt()
		receipt.Pushed = true
		parsed, err := queue.ParseReceipt(receipt.String())
		if err != nil || parsed != receipt {
			t.Fatalf("parsed %+v, %v", parsed, err)
		}
		f.settle(t, queue.SettleEntry{Receipt: parsed, Outcome: queue.Complete, Result: []byte("ok")})
		<-time.After(24 * time.Hour)
		st := f.look(t, receipt.Key.ID, "")
		if len(st) != 1 || st[0].Ending == nil || st[0].Ending.Subscription != "s" || string(st[0].Ending.Response) != "ok" {
			t.Errorf("got %+v, want the end with its result", st)
		}
	})
}

func TestLook_NeedsItsStore(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		id := f.produce(t, "orders", items(1)...)[0].ID
		for _, verb := range []storagetest.Verb{storagetest.Find, storagetest.ReadJournal, storagetest.ListItems} {
			f.store.FailBefore(verb, 1, errTest)
			if _, err := f.Look(t.Context(), ns, id, ""); !errors.Is(err, errTest) {
				t.Errorf("%s: got %v, want the store's error", verb, err)
			}
		}
	})
}
