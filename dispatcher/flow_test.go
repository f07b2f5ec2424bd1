package dispatcher_test

import (
	"context"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/dispatcher"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
	"github.com/posthaste-io/posthaste/webhooks"
)

func TestFlow_RateBoundsWhatStarts(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{Rate: &subscriptions.Rate{Count: 50, Period: 10 * time.Second}})
		ids := r.produce(40)
		// A tenth of a period's count may start at once, and one more each 200 ms.
		for second := range 4 {
			if got, want := len(r.sender.seen()), 5+5*second; got < want-1 || got > want+1 {
				t.Errorf("after %d s: %d requests, want %d", second, got, want)
			}
			pass(time.Second)
		}
		pass(100 * time.Millisecond)
		state, _ := r.LaneState(ns, "sub")
		if wait := time.Until(state.RateUntil); wait <= 0 || wait > 200*time.Millisecond || state.InFlight != 0 {
			t.Errorf("lane %+v, want it to wait for its rate", state)
		}
		for _, id := range ids[30:] {
			if it := r.item(id); it == nil || it.Deliveries != 0 {
				t.Errorf("item %+v, want it ready and untouched", it)
			}
		}
		pass(10 * time.Second)
		if n := len(r.sender.seen()); n != 40 {
			t.Errorf("%d requests in the end, want 40", n)
		}
	})
}

func TestC01_RetriesPassThroughTheRate(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{
			Rate:  &subscriptions.Rate{Count: 10, Period: time.Second},
			Retry: subscriptions.PolicyChange{Schedule: []time.Duration{time.Millisecond}, MaxAttempts: new(int32(-1))},
		})
		r.sender.script(always(status(400))) // no illness, so that the breaker stays closed
		r.produce(20)
		pass(10 * time.Second)
		if n := len(r.sender.seen()); n < 95 || n > 103 {
			t.Errorf("%d requests in 10 s, want about 100", n)
		}
	})
}

func TestFlow_ChangedRateCountsAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{Rate: &subscriptions.Rate{Count: 1, Period: time.Hour}})
		r.produce(30)
		if n := len(r.sender.seen()); n != 1 {
			t.Fatalf("%d requests, want the burst of 1", n)
		}
		if _, err := r.subs.Update(t.Context(), subscriptions.UpdateParams{
			Namespace: ns, Name: "sub", Change: subscriptions.Change{Rate: &subscriptions.Rate{}},
		}); err != nil {
			t.Fatal(err)
		}
		pass(time.Millisecond)
		if n := len(r.sender.seen()); n != 30 {
			t.Errorf("%d requests without a limit, want all", n)
		}
	})
}

func TestFlow_WindowIsHalvedByTimeoutsAndThrottling(t *testing.T) {
	t.Parallel()
	for name, res := range map[string]webhooks.Result{
		"timeout":   {Verdict: webhooks.Retryable, Class: webhooks.ClassTimeout, Error: "timeout: no answer"},
		"throttled": status(429),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
				r.subscribe(subscriptions.Change{})
				r.widen("orders")
				if state, _ := r.LaneState(ns, "sub"); state.Window != 32 {
					t.Fatalf("window %d after it went well, want 32", state.Window)
				}
				first := true
				r.sender.script(func(context.Context, webhooks.Request) webhooks.Result {
					defer func() { first = false }()
					if first {
						return res
					}
					return status(200)
				})
				r.produce(1)
				want := 16
				if name == "throttled" {
					want = 1 // the lane pauses, and begins slowly after that
				}
				if state, _ := r.LaneState(ns, "sub"); state.Window != want {
					t.Errorf("window %d after one that did not, want %d", state.Window, want)
				}
			})
		})
	}
}

func TestC01_RecoveredEndpointIsNotFloodedByWhatWaited(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{
			Retry: subscriptions.PolicyChange{Schedule: []time.Duration{time.Second}, MaxAttempts: new(int32(-1))},
		})
		r.widen("orders")
		r.sender.script(always(status(500)))
		r.produce(500)
		pass(time.Minute)
		if state, _ := r.LaneState(ns, "sub"); state.Breaker != "open" {
			t.Fatalf("lane %+v, want the breaker open", state)
		}
		r.sender.forget()
		r.sender.script(slow(time.Second, status(200)))
		pass(5 * time.Minute)
		var first time.Time
		perSecond := map[int]int{}
		for _, req := range r.sender.seen() {
			if first.IsZero() {
				first = req.at
			}
			perSecond[int(req.at.Sub(first)/time.Second)]++
		}
		for second, n := range perSecond {
			// One more, since what ends at the edge of a second makes room within it.
			if most := 1<<min(second/10+1, 5) + 1; n > most {
				t.Errorf("%d requests in second %d after the recovery, want at most %d", n, second, most)
			}
		}
		if len(r.sender.seen()) < 500 {
			t.Errorf("%d requests within five minutes, want all of what waited", len(r.sender.seen()))
		}
	})
}

func TestC06_ItemThatAlwaysFailsHoldsUpNobody(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{MaxInFlight: new(1)})
		r.sender.script(func(_ context.Context, req webhooks.Request) webhooks.Result {
			if string(req.Body) == "poison" {
				return status(422)
			}
			return status(200)
		})
		poison := r.produceTo("orders", queue.ProduceItem{Content: queue.Content{Payload: []byte("poison")}})[0]
		others := r.produce(100)
		for _, id := range others {
			if r.item(id) != nil {
				t.Fatal("an item waits for the poison before it")
			}
		}
		pass(8 * 24 * time.Hour)
		if it := r.item(poison); it == nil || it.Dead == nil || it.Dead.Reason != queue.ReasonMaxAttempts {
			t.Errorf("poison %+v, want it buried for its attempts", it)
		}
	})
}

// Where an item stands in its retries is in the store alone: what pushes it next goes on.
func TestC18_AnotherProcessGoesOnWithTheRetries(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{Retry: subscriptions.PolicyChange{
			Schedule: []time.Duration{time.Hour}, MaxAttempts: new(int32(3)),
		}})
		r.sender.script(always(status(500)))
		id := r.produce(1)[0]
		r.end()
		<-r.ended

		other := dispatcher.New(dispatcher.Options{Broker: r.broker, Subscriptions: r.subs, Sender: r.sender, Rand: func() float64 { return 0.5 }})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- other.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		pass(59 * time.Minute)
		if n := len(r.sender.seen()); n != 1 {
			t.Fatalf("%d requests before the retry is due", n)
		}
		pass(2 * time.Minute)
		if it := r.item(id); it == nil || it.Attempts != 2 || len(r.sender.seen()) != 2 {
			t.Fatalf("item %+v after %d requests, want the second attempt", it, len(r.sender.seen()))
		}
		pass(time.Hour)
		if it := r.item(id); it == nil || it.Dead == nil || it.Dead.Attempts != 3 {
			t.Errorf("item %+v, want it buried by the third", it)
		}
	})
}
