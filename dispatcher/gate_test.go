package dispatcher_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/dispatcher"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
	"github.com/posthaste-io/posthaste/webhooks"
)

func TestC02_RetryAfterMakesItemAndLaneWait(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{MaxInFlight: new(1)})
		r.sender.script(func(_ context.Context, req webhooks.Request) webhooks.Result {
			if req.Info.Attempt > 1 {
				return status(200)
			}
			res := status(429)
			res.RetryAfter = 10 * time.Minute
			return res
		})
		start := time.Now()
		ids := r.produce(2)
		pass(299 * time.Second)
		if n := len(r.sender.seen()); n != 1 {
			t.Errorf("%d requests in the pause", n)
		}
		state, _ := r.LaneState(ns, "sub")
		if got := state.PausedUntil.Sub(start); got != 5*time.Minute {
			t.Errorf("lane paused for %v, want 5m", got)
		}
		if it := r.item(ids[0]); it.Held || it.Attempts != 0 || it.AvailableAt.Sub(start) < 10*time.Minute {
			t.Errorf("item %+v; want it given back uncounted, for at least 10m", it)
		}
		if it := r.item(ids[1]); it.Deliveries != 0 {
			t.Error("the second item was leased in the pause")
		}
		pass(time.Hour)
		for _, id := range ids {
			if r.item(id) != nil {
				t.Error("not delivered after the wait")
			}
		}
	})
}

// A lane that waits for items when its gate closes must not lease the next one.
func TestC02_ThrottledAnswerEndsTheWaitForItems(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{})
		res := status(429)
		res.RetryAfter = time.Minute
		r.sender.script(slow(time.Second, res))
		r.produce(1)
		pass(2 * time.Second)
		if it := r.item(r.produce(1)[0]); it.Deliveries != 0 {
			t.Errorf("leased %d times in the pause", it.Deliveries)
		}
	})
}

func TestC03_GoneParksTheItems(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{MaxInFlight: new(2)})
		r.sender.script(slow(time.Second, status(410)))
		ids := r.produce(500)
		pass(time.Hour)
		if n := len(r.sender.seen()); n != 2 {
			t.Errorf("%d requests, want only those that ran", n)
		}
		sub, err := r.subs.Get(t.Context(), ns, "sub")
		if err != nil || sub.State() != subscriptions.Disabled || sub.Reason == "" {
			t.Errorf("subscription %v, %q, %v", sub.State(), sub.Reason, err)
		}
		for _, id := range ids {
			if it := r.item(id); it == nil || it.Held || it.Attempts != 0 || it.Dead != nil {
				t.Fatalf("item %+v; want it parked, uncounted", it)
			}
		}
		if records := r.records(ids[0]); len(records) != 1 || records[0].Verdict != "gone" || records[0].Status != 410 {
			t.Errorf("records %+v", records)
		}

		r.sender.script(nil)
		if _, err := r.subs.Enable(t.Context(), ns, "sub"); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		for _, id := range ids {
			if r.item(id) != nil {
				t.Fatal("not delivered after it was enabled")
			}
		}
		if r.sender.most() != 2 {
			t.Errorf("%d in flight after it was enabled", r.sender.most())
		}
	})
}

func TestC04_OpenBreakerBurnsNoAttempts(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{MaxInFlight: new(1)})
		r.sender.script(always(status(500)))
		start := time.Now()
		ids := r.produce(100)
		if n := len(r.sender.seen()); n != 10 {
			t.Fatalf("%d requests until the breaker opened, want 10", n)
		}
		state, _ := r.LaneState(ns, "sub")
		if state.Breaker != "open" || state.BreakerUntil.Sub(start) != 10*time.Second || state.LastError == "" {
			t.Errorf("lane %+v", state)
		}
		pass(1211 * time.Second)
		var probes []int
		for _, req := range r.sender.seen()[10:] {
			probes = append(probes, int(req.at.Sub(start)/time.Second))
		}
		if want := []int{10, 30, 70, 150, 310, 610, 910, 1210}; !slices.Equal(probes, want) {
			t.Errorf("probes at %v, want %v", probes, want)
		}
		var deliveries, attempts int32
		for _, id := range ids {
			it := r.item(id)
			deliveries += it.Deliveries
			attempts += it.Attempts
		}
		if deliveries != 18 || attempts != 18 || r.held() != 0 {
			t.Errorf("%d leases, %d attempts for 18 requests, %d held", deliveries, attempts, r.held())
		}

		r.sender.script(nil)
		pass(300 * time.Second)
		if state, _ := r.LaneState(ns, "sub"); state.Breaker != "closed" {
			t.Errorf("breaker %s after a probe that went well", state.Breaker)
		}
		pass(time.Hour)
		for _, id := range ids {
			if r.item(id) != nil {
				t.Fatal("not delivered after the endpoint came back")
			}
		}
	})
}

func TestC04_HalfOpenSendsOneRequestAtATime(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{})
		r.sender.script(always(status(500)))
		r.produce(100)
		before := len(r.sender.seen())
		r.sender.script(slow(20*time.Second, status(500)))
		pass(29 * time.Second)
		if n := len(r.sender.seen()) - before; n != 1 {
			t.Errorf("%d requests while a probe runs", n)
		}
	})
}

func TestD14_PausedDisabledAndDeletedStopAtOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*rig) error
	}{
		{"paused", func(r *rig) error { _, err := r.subs.Pause(r.t.Context(), ns, "sub"); return err }},
		{"disabled", func(r *rig) error {
			_, err := r.subs.Disable(r.t.Context(), ns, "sub", endpoint, "test")
			return err
		}},
		{"deleted", func(r *rig) error { return r.subs.Delete(r.t.Context(), ns, "sub") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
				r.subscribe(subscriptions.Change{MaxInFlight: new(2)})
				r.sender.script(slow(time.Second, status(200)))
				running := r.produce(2)
				if err := tt.change(r); err != nil {
					t.Fatal(err)
				}
				waiting := r.produce(5)
				pass(time.Hour)
				for _, id := range running {
					if r.item(id) != nil {
						t.Error("a running request was not settled")
					}
				}
				for _, id := range waiting {
					if it := r.item(id); it == nil || it.Deliveries != 0 {
						t.Errorf("item %+v; want it untouched", it)
					}
				}
			})
		})
	}
}

func TestDispatcher_TakesChangesOverAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{MaxInFlight: new(1)})
		r.sender.script(always(status(500)))
		r.produce(20)
		if state, _ := r.LaneState(ns, "sub"); state.Breaker != "open" {
			t.Fatalf("lane %+v", state)
		}
		r.sender.script(slow(time.Second, status(200)))
		// A new endpoint is not the old one's fault.
		if _, err := r.subs.Update(t.Context(), subscriptions.UpdateParams{
			Namespace: ns, Name: "sub", Change: subscriptions.Change{URL: new("https://new.example"), MaxInFlight: new(3)},
		}); err != nil {
			t.Fatal(err)
		}
		pass(time.Millisecond)
		if held := r.held(); held != 3 {
			t.Errorf("%d held, want the new limit of 3", held)
		}
		for _, req := range r.sender.seen()[10:] {
			if req.URL != "https://new.example" {
				t.Errorf("sent to %s", req.URL)
			}
		}
	})
}

// What the old endpoint asked for, or did, is not held against the new one.
func TestDispatcher_NewEndpointIsNotPausedByTheOldOne(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{})
		res := status(429)
		res.RetryAfter = time.Hour
		r.sender.script(slow(2*time.Second, res))
		r.produce(1)
		if _, err := r.subs.Update(t.Context(), subscriptions.UpdateParams{
			Namespace: ns, Name: "sub", Change: subscriptions.Change{URL: new("https://new.example")},
		}); err != nil {
			t.Fatal(err)
		}
		pass(3 * time.Second)
		r.sender.script(nil)
		if id := r.produce(1)[0]; r.item(id) != nil {
			t.Error("the new endpoint has to wait for the old one's pause")
		}
	})
}

func TestDispatcher_ResumeStartsWithACleanSlate(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{MaxInFlight: new(1)})
		r.sender.script(always(status(500)))
		ids := r.produce(11)
		if state, _ := r.LaneState(ns, "sub"); state.Breaker != "open" {
			t.Fatalf("lane %+v", state)
		}
		r.sender.script(nil)
		if _, err := r.subs.Pause(t.Context(), ns, "sub"); err != nil {
			t.Fatal(err)
		}
		pass(time.Millisecond)
		if _, err := r.subs.Resume(t.Context(), ns, "sub"); err != nil {
			t.Fatal(err)
		}
		pass(time.Millisecond)
		if r.item(ids[10]) != nil {
			t.Error("somebody said go on, and the breaker is open all the same")
		}
	})
}

func TestDispatcher_SeesWhatOtherNodesChanged(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{})
		other := r.otherNode()
		if _, err := other.Pause(t.Context(), ns, "sub"); err != nil {
			t.Fatal(err)
		}
		pass(11 * time.Second)
		id := r.produce(1)[0]
		if it := r.item(id); it == nil || it.Deliveries != 0 {
			t.Error("pushed although another node paused the subscription")
		}
		if err := other.Delete(t.Context(), ns, "sub"); err != nil {
			t.Fatal(err)
		}
		pass(11 * time.Second)
		if _, ok := r.LaneState(ns, "sub"); ok {
			t.Error("the lane outlives its subscription")
		}
	})
}

func TestC16_BacklogLivesInTheStore(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{MaxPushes: 50, MaxBytes: 1000}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{MaxInFlight: new(40)})
		r.widen("orders")
		r.sender.script(slow(time.Second, status(200)))
		items := make([]queue.ProduceItem, 200)
		for i := range items {
			items[i].Payload = make([]byte, 100)
		}
		ids := r.produceTo("orders", items...)
		if held := r.held(); held != 10 {
			t.Errorf("%d held, want 10 of 100 bytes each", held)
		}
		pass(30 * time.Second)
		if r.sender.most() != 10 {
			t.Errorf("%d at one time, want 10", r.sender.most())
		}
		for _, id := range ids {
			if r.item(id) != nil {
				t.Fatal("not all delivered")
			}
		}
	})
}
