package dispatcher_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/dispatcher"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
	"github.com/posthaste-io/posthaste/webhooks"
)

// failing has an item tried every ten minutes for as long as it fails.
func failing(after time.Duration) subscriptions.Change {
	return subscriptions.Change{Retry: subscriptions.PolicyChange{
		Schedule: []time.Duration{10 * time.Minute}, MaxAttempts: new(int32(-1)), GiveUpAfter: new(time.Duration(0)),
		DisableAfter: &after,
	}}
}

func (r *rig) sub() *subscriptions.Subscription {
	r.t.Helper()
	sub, err := r.subs.Get(r.t.Context(), ns, "sub")
	if err != nil {
		r.t.Fatal(err)
	}
	return &sub
}

func TestC04_NothingButFailuresForDaysDisables(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(failing(5 * 24 * time.Hour))
		r.sender.script(always(status(500)))
		began := time.Now()
		id := r.produce(1)[0]
		pass(20 * time.Minute)
		if since := r.sub().FailingSince; since.Sub(began).Abs() > time.Second {
			t.Errorf("failing since %s, want %s", since, began)
		}
		pass(5*24*time.Hour - 30*time.Minute)
		if state := r.sub().State(); state != subscriptions.Active {
			t.Fatalf("%v before its time", state)
		}
		pass(time.Hour)
		sub := r.sub()
		if sub.State() != subscriptions.Disabled || !strings.Contains(sub.Reason, "nothing but failures") || !strings.Contains(sub.Reason, "status: ") {
			t.Errorf("state %v, reason %q", sub.State(), sub.Reason)
		}
		if it := r.item(id); it == nil || it.Dead != nil {
			t.Errorf("item %+v, want it parked", it)
		}
	})
}

func TestC04_OneSuccessBeginsAnew(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(failing(2 * time.Hour))
		r.sender.script(always(status(500)))
		r.produce(1)
		pass(100 * time.Minute)
		if r.sub().FailingSince.IsZero() {
			t.Fatal("not written that it fails")
		}
		r.sender.script(always(status(200)))
		pass(15 * time.Minute)
		if since := r.sub().FailingSince; !since.IsZero() {
			t.Fatalf("failing since %s after a success", since)
		}
		r.sender.script(always(status(500)))
		r.produce(1)
		pass(100 * time.Minute)
		if state := r.sub().State(); state != subscriptions.Active {
			t.Errorf("%v after 100 minutes", state)
		}
	})
}

func TestC04_OneFailureAndSilenceDisablesNobody(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(failing(2 * time.Hour))
		r.sender.script(func(context.Context, webhooks.Request) webhooks.Result {
			res := status(400)
			res.Never = true
			return res
		})
		r.produce(1)
		pass(3 * time.Hour)
		if state := r.sub().State(); state != subscriptions.Active {
			t.Fatalf("%v after one failure", state)
		}
		r.produce(1) // the second one, after the time
		pass(time.Minute)
		if state := r.sub().State(); state != subscriptions.Disabled {
			t.Errorf("%v, want it disabled by a failure after its time", state)
		}
	})
}

func TestC04_WhatIsOurFaultDisablesNobody(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(failing(2 * time.Hour))
		r.sender.script(func(context.Context, webhooks.Request) webhooks.Result { panic("ours") })
		r.produce(1)
		pass(3 * time.Hour)
		if sub := r.sub(); sub.State() != subscriptions.Active || !sub.FailingSince.IsZero() {
			t.Errorf("%v, failing since %s: %s", sub.State(), sub.FailingSince, sub.Reason)
		}
	})
}

func TestC04_FailuresOfOneNodeAloneDisableNobody(t *testing.T) {
	t.Parallel()
	among(t, func(t *testing.T, r *rig) {
		change := failing(2 * time.Hour)
		change.MaxInFlight = new(2)
		r.subscribe(change)
		a, b := r.node(), r.node()
		defer a.stop()
		defer b.stop()
		pass(10 * time.Second)
		a.sender.script(always(status(500))) // it cannot reach the endpoint, b can
		r.produce(50)
		for range 3 * 60 * 2 {
			r.produce(1)
			pass(30 * time.Second)
		}
		if len(a.sender.seen()) == 0 || len(b.sender.seen()) == 0 {
			t.Fatalf("%d and %d requests, want some of both", len(a.sender.seen()), len(b.sender.seen()))
		}
		if sub := r.sub(); sub.State() != subscriptions.Active {
			t.Errorf("%v: %s", sub.State(), sub.Reason)
		}
	})
}

func TestC04_ShortTroubleIsNotWrittenDown(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{Retry: subscriptions.PolicyChange{Schedule: []time.Duration{time.Second}}})
		before := r.sub().Revision
		n := 0
		r.sender.script(func(context.Context, webhooks.Request) webhooks.Result {
			n++
			if n%3 == 0 {
				return status(500)
			}
			return status(200)
		})
		for range 100 {
			r.produce(1)
			pass(10 * time.Second)
		}
		if after := r.sub().Revision; after != before {
			t.Errorf("revision %d, was %d", after, before)
		}
	})
}

func TestDispatcher_LogPolicies(t *testing.T) {
	t.Parallel()
	for policy, want := range map[subscriptions.LogPolicy]string{
		subscriptions.LogAll: "retryable delivered", subscriptions.LogFailures: "retryable", subscriptions.LogOff: "",
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
				r.subscribe(subscriptions.Change{Log: &policy})
				answers := []int{500, 200}
				r.sender.script(func(context.Context, webhooks.Request) webhooks.Result {
					code := answers[0]
					answers = answers[1:]
					return status(code)
				})
				id := r.produce(1)[0]
				if it := r.item(id); it == nil || it.Last.Status != 500 {
					t.Errorf("item %+v, want it to know its last status, whatever is logged", it)
				}
				pass(time.Minute)
				var got []string
				for _, record := range r.records(id) {
					got = append(got, record.Verdict)
				}
				if strings.Join(got, " ") != want {
					t.Errorf("records %q, want %q", got, want)
				}
			})
		})
	}
}

func TestDispatcher_TestSendsASampleAndLeavesNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{Method: new("PUT"), Headers: map[string]string{"X-Sub": "s"}})
		if _, err := r.subs.Pause(t.Context(), ns, "sub"); err != nil {
			t.Fatal(err)
		}
		r.sender.script(always(status(503)))
		record, err := r.Test(t.Context(), ns, "sub", nil)
		if err != nil || record.Verdict != "retryable" || record.Status != 503 || record.Delivery != 1 || record.Subscription != "sub" {
			t.Errorf("got %+v, %v", record, err)
		}
		record, err = r.Test(t.Context(), ns, "sub", &queue.Content{Kind: "k", Payload: []byte("mine")})
		if err != nil {
			t.Fatal(err)
		}
		requests := r.sender.seen()
		if len(requests) != 2 || requests[0].Info.Kind != "posthaste.test" || string(requests[1].Body) != "mine" ||
			requests[0].Method != "PUT" || requests[0].Headers["X-Sub"] != "s" || requests[1].ID != record.Key.ID.String() {
			t.Errorf("requests %+v", requests)
		}
		if state, _ := r.LaneState(ns, "sub"); state.LastError != "" || r.held() != 0 || len(r.records(record.Key.ID)) != 0 {
			t.Errorf("lane %+v, %d held, want no trace of it", state, r.held())
		}
	})
}
