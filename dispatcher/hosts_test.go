package dispatcher_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/dispatcher"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
	"github.com/posthaste-io/posthaste/webhooks"
)

func to(url string) queue.ProduceItem {
	return queue.ProduceItem{Content: queue.Content{Target: &queue.Target{URL: url}}}
}

func many(n int, it queue.ProduceItem) []queue.ProduceItem {
	items := make([]queue.ProduceItem, n)
	for i := range items {
		items[i] = it
	}
	return items
}

func TestTarget_ItemGoesWhereItSaysWithNothingOfTheSubscriptions(t *testing.T) {
	t.Parallel()
	auth := subscriptions.Auth{Bearer: "canary"}
	options := dispatcher.Options{Credentials: func(subscriptions.Auth) (*webhooks.Credentials, error) { return new(webhooks.Credentials), nil }}
	inBubble(t, options, func(t *testing.T, r *rig) {
		sub := r.subscribe(subscriptions.Change{
			AllowTarget: new(true), Auth: &auth, Headers: map[string]string{"X-Secret": "canary"},
		})
		own := to("https://own.example/a")
		own.Target.Method, own.Target.Timeout = "DELETE", 3*time.Second
		own.Headers = map[string]string{"X-Item": "i"}
		r.produceTo("orders", own, queue.ProduceItem{})
		requests := r.sender.seen()
		if len(requests) != 2 {
			t.Fatalf("%d requests", len(requests))
		}
		a, b := requests[0], requests[1]
		if a.URL == endpoint {
			a, b = b, a
		}
		if a.URL != "https://own.example/a" || a.Method != "DELETE" || a.Timeout != 3*time.Second ||
			len(a.Headers) != 1 || a.Credentials != nil || a.Secrets[0] != sub.Secrets[0].Secret.Reveal() {
			t.Errorf("to the item's target: %+v", a.Request)
		}
		if b.URL != endpoint || b.Headers["X-Secret"] != "canary" || b.Credentials == nil || b.Timeout != 30*time.Second {
			t.Errorf("to the subscription's endpoint: %+v", b.Request)
		}
	})
}

func TestTarget_HostThatHangsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{AllowTarget: new(true), MaxInFlight: new(2)})
		r.sender.script(func(ctx context.Context, req webhooks.Request) webhooks.Result {
			if strings.Contains(req.URL, "hang") {
				return slow(20*time.Second, status(200))(ctx, req)
			}
			return slow(time.Millisecond, status(200))(ctx, req)
		})
		hanging := r.produceTo("orders", many(200, to("https://hang.example/x"))...)
		ids := r.produceTo("orders", many(100, to("https://well.example/x"))...)
		pass(2 * time.Second)
		for _, id := range ids {
			if r.item(id) != nil {
				t.Fatal("an item for a host that is well waits")
			}
		}
		if held := r.held(); held < 2 || held > 4 { // some that may wait a moment among them
			t.Errorf("%d held, want the 2 that may run to the host that hangs, and hardly more", held)
		}
		state, _ := r.LaneState(ns, "sub")
		if len(state.Hosts) != 1 || state.Hosts[0].Host != "hang.example:443" || state.Hosts[0].InFlight != 2 {
			t.Errorf("hosts %+v", state.Hosts)
		}
		pass(2 * time.Hour)
		for _, id := range hanging {
			if it := r.item(id); it != nil {
				t.Fatalf("item %+v, want all done in the end", it)
			}
		}
		if n := len(r.sender.seen()); n != 300 {
			t.Errorf("%d requests for 300 items: turning away is no attempt", n)
		}
	})
}

func TestTarget_LimitsCountForEachHost(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{
			AllowTarget: new(true), Rate: &subscriptions.Rate{Count: 1, Period: time.Second},
			Retry: subscriptions.PolicyChange{Schedule: []time.Duration{time.Second}, MaxAttempts: new(int32(-1))},
		})
		r.sender.script(func(_ context.Context, req webhooks.Request) webhooks.Result {
			if strings.Contains(req.URL, "down") {
				return status(500)
			}
			return status(200)
		})
		for i := range 3 {
			r.produceTo("orders", many(30, to(fmt.Sprintf("https://host%d.example/x", i)))...)
		}
		r.produceTo("orders", many(5, to("https://down.example/x"))...)
		pass(10 * time.Second)
		at := map[string]int{}
		for _, req := range r.sender.seen() {
			at[req.URL]++
		}
		for i := range 3 {
			if n := at[fmt.Sprintf("https://host%d.example/x", i)]; n < 7 || n > 12 {
				t.Errorf("host %d: %d requests in 10 s, want about 10", i, n)
			}
		}
		pass(10 * time.Minute)
		state, _ := r.LaneState(ns, "sub")
		if len(state.Hosts) != 1 || state.Hosts[0].Breaker != "open" || state.Breaker != "closed" {
			t.Errorf("lane %+v, want the breaker of one host open", state)
		}
		if r.held() != 0 {
			t.Errorf("%d held", r.held())
		}
	})
}

func TestTarget_GoneIsTheEndOfTheItemAlone(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{AllowTarget: new(true)})
		r.sender.script(always(status(410)))
		id := r.produceTo("orders", to("https://gone.example/x"))[0]
		if it := r.item(id); it == nil || it.Dead == nil || it.Dead.Reason != dispatcher.ReasonGone {
			t.Errorf("item %+v, want it buried", it)
		}
		if sub, err := r.subs.Get(t.Context(), ns, "sub"); err != nil || sub.State() != subscriptions.Active {
			t.Errorf("subscription %v: %v, want it active", sub.State(), err)
		}
	})
}

func TestTarget_SubscriptionThatNoLongerAllowsIt(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{Retry: subscriptions.PolicyChange{MaxAttempts: new(int32(1))}})
		id := r.produceTo("orders", to("https://own.example/x"))[0]
		it := r.item(id)
		if it == nil || it.Dead == nil || !strings.HasPrefix(it.Last.Error, "invalid_request: ") || len(r.sender.seen()) != 0 {
			t.Errorf("item %+v and %d requests, want it buried and none", it, len(r.sender.seen()))
		}
	})
}

// With allow_target the subscription's own endpoint is one host among the others.
func TestTarget_OwnEndpointHasItsLimitsToo(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{
			AllowTarget: new(true), MaxInFlight: new(2), Rate: &subscriptions.Rate{Count: 1, Period: time.Second},
		})
		r.sender.script(slow(20*time.Second, status(200)))
		r.produce(100)
		pass(19 * time.Second)
		if n := len(r.sender.seen()); n != 2 {
			t.Errorf("%d requests to it, want max_in_flight, 2", n)
		}
	})
}

func TestTarget_ClosedFlowCostsFewLeases(t *testing.T) {
	t.Parallel()
	for name, res := range map[string]webhooks.Result{
		"breaker": status(500),
		"pause":   {Status: 429, Verdict: webhooks.Throttled, RetryAfter: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
				r.subscribe(subscriptions.Change{AllowTarget: new(true)})
				r.sender.script(always(res))
				r.produce(30)
				pass(time.Second)
				leases, requests := r.broker.leaseCalls(), len(r.sender.seen())
				pass(5 * time.Second)
				if n := r.broker.leaseCalls() - leases; n > 20 {
					t.Errorf("%d leases in 5 s while nothing may start", n)
				}
				if n := len(r.sender.seen()) - requests; n != 0 {
					t.Errorf("%d requests in 5 s while nothing may start", n)
				}
			})
		})
	}
}
