package queue_test

import (
	"errors"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

func TestD12_TheSameRedriveAgainMovesNothingTwice(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		ids := f.bury(t, "orders", "broken", items(3)...)
		for name, call := range map[string]queue.RedriveCall{
			"all": redriveCall("orders~dead"),
			"ids": {Namespace: ns, Queue: "orders~dead", IDs: ids, Limit: 10},
		} {
			f.store.FailAfter(storagetest.Move, 1, queue.ErrUnknownOutcome)
			if _, err := f.Redrive(t.Context(), call); !errors.Is(err, queue.ErrUnknownOutcome) {
				t.Fatalf("%s: got %v, want ErrUnknownOutcome", name, err)
			}
			f.wantRedriven(t, call, queue.Redriven{})
			leased := f.lease(t, "orders", 10)
			if len(leased) != 3 {
				t.Fatalf("%s: %d items are there, want 3", name, len(leased))
			}
			for i, it := range leased {
				if it.ID != ids[i] {
					t.Errorf("%s: got %v, want %v", name, it.ID, ids[i])
				}
				f.settle(t, entry(it, queue.Bury))
			}
			<-time.After(time.Second)
		}
	})
}

func TestD12_OfTwoRedrivesAndALeaseOneTakesEachItem(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, f *fixture) {
		const n = 40
		f.bury(t, "orders", "broken", items(n)...)
		open := f.store.Block(storagetest.Move) // both have looked before one moves
		call := redriveCall("orders~dead")
		redrive := func() (queue.Redriven, error) { return f.Redrive(t.Context(), call) }
		first, second := start(redrive), start(redrive)
		leased := len(f.lease(t, "orders~dead", 10))
		open()
		a, b := <-first, <-second
		if a.err != nil || b.err != nil {
			t.Fatal(a.err, b.err)
		}
		if got := a.value.Moved + b.value.Moved; leased != 10 || got != n-leased {
			t.Errorf("%d were moved and %d leased, want %d in all", got, leased, n)
		}
		if got := f.total(t, "orders"); got != n-leased {
			t.Errorf("orders holds %d items, want %d", got, n-leased)
		}
	})
}
