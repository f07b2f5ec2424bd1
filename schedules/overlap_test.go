package schedules_test

import (
	"errors"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/schedules"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

// lease takes the only item that is ready, for an hour.
func (r *rig) lease() queue.Receipt {
	r.t.Helper()
	reply, err := r.broker.Lease(r.t.Context(), queue.LeaseParams{Namespace: ns, Queue: "orders", Limit: 10, TTL: time.Hour})
	if err != nil || len(reply.Items) != 1 {
		r.t.Fatalf("leased %v, %v; want one item", reply.Items, err)
	}
	return reply.Items[0].Receipt()
}

func (r *rig) settle(receipt queue.Receipt, outcome queue.Outcome) {
	r.t.Helper()
	_, err := r.broker.Settle(r.t.Context(), queue.SettleCall{
		Namespace: ns, Queue: "orders", Entries: []queue.SettleEntry{{Receipt: receipt, Outcome: outcome, Reason: "test"}},
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// The item itself decides, so each fire may be another process's: a mark in memory, or one
// that a crash left behind, would say something else.
func TestService_OverlapIsDecidedByTheItemBefore(t *testing.T) {
	t.Parallel()
	waits := func(*rig) {}
	held := func(r *rig) { r.lease() }
	ends := func(outcome queue.Outcome) func(*rig) {
		return func(r *rig) { r.settle(r.lease(), outcome) }
	}
	tests := []struct {
		name    string
		overlap schedules.Overlap
		before  func(*rig)
		fires   bool
	}{
		{"allow beside one that waits", schedules.OverlapAllow, waits, true},
		{"allow beside one that is worked on", schedules.OverlapAllow, held, true},
		{"skip while it waits", schedules.OverlapSkip, waits, false},
		{"skip while it is worked on", schedules.OverlapSkip, held, false},
		{"skip while it is to be tried again", schedules.OverlapSkip, ends(queue.Retry), false},
		{"skip, but it is done", schedules.OverlapSkip, ends(queue.Complete), true},
		{"skip, but it is buried", schedules.OverlapSkip, ends(queue.Bury), true},
		{"queue one while it waits", schedules.OverlapQueueOne, waits, false},
		{"queue one while it is worked on", schedules.OverlapQueueOne, held, true},
		{"queue one, but it is done", schedules.OverlapQueueOne, ends(queue.Complete), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, r *rig) {
				r.create("*/10 * * * *", schedules.Change{Overlap: &tt.overlap})
				r.serve(10 * time.Minute)
				first := r.sched().LastItem
				tt.before(r)
				r.Service = r.otherNode()
				r.serve(10 * time.Minute)
				if fired := r.sched().LastItem != first; fired != tt.fires {
					t.Errorf("fired: %v, want %v", fired, tt.fires)
				}
				if tt.fires {
					r.wantCounts(0, 0)
				} else {
					r.wantCounts(0, 1)
				}
			})
		})
	}
}

// With one that is worked on and one that waits there is enough.
// An expired item is done; that the sweep has not found it yet is no reason to wait.
func TestService_OverlapDoesNotWaitForWhatIsExpired(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		item := stamped
		item.ExpireTTL = 55 * time.Second
		r.create("* * * * *", schedules.Change{Item: &item, Overlap: new(schedules.OverlapSkip)})
		r.serve(4 * time.Minute)
		r.wantTimes(time.Minute, 2*time.Minute, 3*time.Minute, 4*time.Minute)
		r.wantCounts(0, 0)
	})
}

func TestService_OverlapQueueOneQueuesOne(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.create("*/10 * * * *", schedules.Change{Overlap: new(schedules.OverlapQueueOne)})
		r.serve(10 * time.Minute)
		working := r.lease()
		r.serve(40 * time.Minute)
		r.wantTimes(10*time.Minute, 20*time.Minute)
		r.wantCounts(0, 3)
		r.settle(working, queue.Complete)
		r.lease()
		r.serve(10 * time.Minute)
		r.wantTimes(20*time.Minute, 60*time.Minute)
	})
}

// A consumer that died holds nothing up for longer than its lease.
func TestService_OverlapEndsWithALapsedItem(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.create("*/10 * * * *", schedules.Change{
			Overlap: new(schedules.OverlapSkip), Item: &queue.ProduceItem{MaxAttempts: 1},
		})
		r.serve(10 * time.Minute)
		r.lease() // for an hour, and then nobody hears of it
		r.serve(65 * time.Minute)
		if _, err := r.broker.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.serve(10 * time.Minute)
		if got := r.sched().LastAt; !got.Equal(newYear.Add(80 * time.Minute)) {
			t.Errorf("last fired for %v, want 01:20, after the lease had lapsed", got)
		}
		r.wantCounts(0, 6)
	})
}

// Times that are made up for would overlap each other.
func TestService_OverlapMakesUpForOne(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.create("*/10 * * * *", schedules.Change{
			Overlap: new(schedules.OverlapSkip), Missed: missed(schedules.Missed{Policy: schedules.MissAll, Max: 4}),
		})
		pass(100 * time.Minute)
		r.fire()
		r.wantTimes(100 * time.Minute)
		r.wantCounts(6, 3)
	})
}

// Who cannot see the item before does not guess.
func TestService_OverlapWaitsForTheStore(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.create("*/10 * * * *", schedules.Change{Overlap: new(schedules.OverlapSkip)})
		r.serve(10 * time.Minute)
		r.settle(r.lease(), queue.Complete)
		pass(10 * time.Minute)
		r.store.FailBefore(storagetest.Find, 1, queue.ErrUnavailable)
		if _, _, err := r.Fire(t.Context()); !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("got %v, want the store's error", err)
		}
		r.fire()
		r.wantTimes(20 * time.Minute)
		r.wantCounts(0, 0)
	})
}
