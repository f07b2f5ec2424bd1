package dispatcher_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/dispatcher"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
	"github.com/posthaste-io/posthaste/webhooks"
)

// stopped ends the dispatcher and returns how long that took.
func (r *rig) stopped() time.Duration {
	start := time.Now()
	r.stop()
	return time.Since(start)
}

func TestC17_RunningRequestsMayEndWithinTheGraceTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, dispatcher.Options{Grace: 10 * time.Second})
		r.subscribe(subscriptions.Change{MaxInFlight: new(2)})
		r.sender.script(slow(7*time.Second, status(200)))
		ids := r.produce(5)
		if took := r.stopped(); took != 7*time.Second {
			t.Errorf("stop took %v, want 7s: as long as the requests", took)
		}
		if len(r.sender.seen()) != 2 || r.held() != 0 || r.item(ids[0]) != nil || r.item(ids[2]) == nil {
			t.Errorf("%d requests, %d held; want the running two settled and no other begun", len(r.sender.seen()), r.held())
		}
	})
}

func TestC17_IdleDispatcherStopsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, dispatcher.Options{})
		r.subscribe(subscriptions.Change{})
		r.subscribeTo("paused", "paused", subscriptions.Change{})
		if _, err := r.subs.Pause(t.Context(), ns, "paused"); err != nil {
			t.Fatal(err)
		}
		if took := r.stopped(); took != 0 {
			t.Errorf("stop took %v", took)
		}
	})
}

func TestD06_StopCountsNothingAndReordersNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, dispatcher.Options{Grace: 5 * time.Second})
		r.subscribe(subscriptions.Change{MaxInFlight: new(2)})
		r.sender.script(slow(20*time.Second, status(200)))
		ids := r.produce(4)
		before := r.item(ids[0]).DueAt
		if took := r.stopped(); took < 5*time.Second || took > 7*time.Second {
			t.Errorf("stop took %v, want the grace time and at most 2s", took)
		}
		if r.held() != 0 {
			t.Errorf("%d items are still leased", r.held())
		}
		for _, id := range ids {
			if it := r.item(id); it == nil || it.Attempts != 0 || it.Recoveries != 0 {
				t.Errorf("item %+v; want it uncounted", it)
			}
		}
		it := r.item(ids[0])
		if !it.AvailableAt.Equal(before) {
			t.Errorf("stands at %v, want its old place %v", it.AvailableAt, before)
		}
		if records := r.records(ids[0]); len(records) != 1 || records[0].Verdict != "aborted" || records[0].Next != queue.StepRelease {
			t.Errorf("records %+v", records)
		}
	})
}

// The store was handing the items out when we were told to stop.
func TestD06_ItemsThatCameTooLateAreGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, dispatcher.Options{})
		ids := r.produce(3)
		r.broker.lateLease(func() {
			r.end()
			// One of them is gone by then; the others are given back all the same.
			purge := queue.PurgeRequest{Keys: []queue.Key{r.item(ids[1]).Key}, Limit: 1}
			if _, err := r.broker.store.Purge(t.Context(), purge); err != nil {
				t.Error(err)
			}
		})
		r.subscribe(subscriptions.Change{})
		r.stop()
		if n := len(r.sender.seen()); n != 0 || r.held() != 0 {
			t.Errorf("%d requests, %d held", n, r.held())
		}
		for _, id := range []queue.ID{ids[0], ids[2]} {
			if it := r.item(id); it.Deliveries != 1 || it.Attempts != 0 || it.Recoveries != 0 {
				t.Errorf("item %+v; want it leased once and given back uncounted", it)
			}
		}
	})
}

// The store refuses everything at the stop: Run must return all the same.
func TestC17_StopDoesNotWaitForAStoreThatRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, dispatcher.Options{Grace: 5 * time.Second})
		r.subscribe(subscriptions.Change{})
		r.sender.script(slow(time.Hour, status(200)))
		r.produce(3)
		r.broker.refuse(&r.broker.refuseSettle, queue.ErrUnavailable)
		r.broker.refuse(&r.broker.refuseExtend, queue.ErrUnavailable)
		r.broker.refuse(&r.broker.refuseLease, queue.ErrUnavailable)
		if took := r.stopped(); took > 7*time.Second {
			t.Errorf("stop took %v", took)
		}
	})
}

func TestC17_DrainedBrokerIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{})
		r.broker.Drain()
		pass(time.Minute)
		if n := r.broker.leaseCalls(); n > 2 || r.log.Len() > 0 {
			t.Errorf("asked %d times, logged %q", n, r.log.String())
		}
	})
}

func TestC17_NegativeGraceCancelsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, dispatcher.Options{Grace: -1})
		r.subscribe(subscriptions.Change{})
		r.sender.script(slow(time.Hour, status(200)))
		id := r.produce(1)[0]
		if took := r.stopped(); took > time.Second || r.held() != 0 || r.item(id).Attempts != 0 {
			t.Errorf("stop took %v, %d held", took, r.held())
		}
	})
}

// A connection that breaks because we cancel looks like many things.
func TestD06_OurCancelIsNeverTheEndpointsFault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, dispatcher.Options{Grace: time.Second})
		r.subscribe(subscriptions.Change{})
		r.sender.script(func(ctx context.Context, _ webhooks.Request) webhooks.Result {
			<-ctx.Done()
			return webhooks.Result{Verdict: webhooks.Retryable, Class: webhooks.ClassResetAfterWrite, Error: "reset_after_write: eof"}
		})
		id := r.produce(1)[0]
		r.stop()
		if it := r.item(id); it.Attempts != 0 || it.Held {
			t.Errorf("item %+v", it)
		}
	})
}
