package dispatcher_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/dispatcher"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
	"github.com/posthaste-io/posthaste/webhooks"
)

func TestDispatcher_SendsWhatTheItemSays(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		sub := r.subscribe(subscriptions.Change{Method: new("PUT"), Headers: map[string]string{"x-both": "sub", "X-Sub": "s"}})
		r.sender.script(always(status(500)))
		id := r.produceTo("orders", queue.ProduceItem{Content: queue.Content{
			Kind: "order.paid", Encoding: "application/json", Reference: "r1",
			Headers: map[string]string{"X-Both": "item", "X-Item": "i"},
			Trace:   "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Hop: 2,
			Payload: []byte{0, 0xff},
		}})[0]
		pass(5 * time.Second)
		requests := r.sender.seen()
		if len(requests) != 2 {
			t.Fatalf("%d requests", len(requests))
		}
		first, second := requests[0], requests[1]
		if first.ID != id.String() || first.URL != endpoint || first.Method != "PUT" || first.Timeout != 30*time.Second ||
			first.ContentType != "application/json" || string(first.Body) != "\x00\xff" {
			t.Errorf("request %+v", first.Request)
		}
		if len(first.Secrets) != 1 || first.Secrets[0] != sub.Secrets[0].Secret.Reveal() {
			t.Error("not signed with the subscription's secret")
		}
		if h := first.Headers; len(h) != 3 || h["X-Both"] != "item" || h["X-Sub"] != "s" || h["X-Item"] != "i" {
			t.Errorf("headers %v", h)
		}
		want := webhooks.Info{
			Queue: "orders", Subscription: "sub", Kind: "order.paid", Reference: "r1",
			Attempt: 1, MaxAttempts: 12, EnqueuedAt: first.Info.EnqueuedAt, Hop: 2,
			Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		}
		if first.Info != want || first.Info.EnqueuedAt.IsZero() {
			t.Errorf("first: %+v", first.Info)
		}
		want.Attempt, want.RetryReason, want.PreviousStatus = 2, "status", 500
		if second.Info != want {
			t.Errorf("second: %+v", second.Info)
		}
	})
}

// A throttled attempt counts for nothing, and the next one still says what it was.
func TestG09_AnEventIsSentAsItCameAndOthersAreMade(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{Format: new(subscriptions.FormatCloudEvents)})
		r.produceTo("orders", queue.ProduceItem{Content: queue.Content{
			Kind: "order.paid", Encoding: "text/plain", Reference: "r1",
			Headers: map[string]string{"X-Item": "i", "ce-specversion": "1.0", "ce-id": "7", "ce-source": "/shop", "ce-subject": "s", "ce-x": "1"},
		}})
		pass(time.Second)
		r.produceTo("orders", queue.ProduceItem{Content: queue.Content{Reference: "r1"}})
		pass(time.Second)
		requests := r.sender.seen()
		if len(requests) != 2 {
			t.Fatalf("%d requests", len(requests))
		}
		e := requests[0].CloudEvent
		if e == nil || e.ID != "7" || e.Source != "/shop" || e.Type != "order.paid" || e.Subject != "s" || !e.Time.IsZero() || len(e.Extensions) != 1 {
			t.Errorf("got %+v, want the event that came", e)
		}
		if h := requests[0].Headers; len(h) != 1 || h["X-Item"] != "i" {
			t.Errorf("headers %v", h)
		}
		if e = requests[1].CloudEvent; e == nil || e.ID != "" || e.Source != "/queues/orders" || e.Type != "posthaste.item" || e.Subject != "r1" || e.Time.IsZero() {
			t.Errorf("got %+v, want one of our own", e)
		}
		// Without the format an event is an item like others.
		if _, err := r.subs.Update(t.Context(), subscriptions.UpdateParams{
			Namespace: ns, Name: "sub", Change: subscriptions.Change{Format: new(subscriptions.FormatPlain)},
		}); err != nil {
			t.Fatal(err)
		}
		r.produceTo("orders", queue.ProduceItem{Content: queue.Content{Headers: map[string]string{"ce-id": "7"}}})
		pass(time.Second)
		if req := r.sender.seen()[2]; req.CloudEvent != nil || len(req.Headers) != 0 {
			t.Errorf("got %+v with %v", req.CloudEvent, req.Headers)
		}
	})
}

func TestDispatcher_TellsTheStatusOfAThrottledAttempt(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{})
		r.sender.script(func(context.Context, webhooks.Request) webhooks.Result {
			if len(r.sender.seen()) > 1 {
				return status(200)
			}
			res := status(429)
			res.RetryAfter = time.Second
			return res
		})
		r.produce(1)
		pass(3 * time.Second)
		requests := r.sender.seen()
		if len(requests) != 2 {
			t.Fatalf("%d requests, want 2", len(requests))
		}
		if info := requests[1].Info; info.PreviousStatus != 429 || info.RetryReason != "status" {
			t.Errorf("got previous status %d and reason %q, want 429 and status", info.PreviousStatus, info.RetryReason)
		}
	})
}

// The time that a policy gives an item begins when it is due, not when it is made.
func TestDispatcher_GivesUpByTheFirstDueTime(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{Retry: subscriptions.PolicyChange{
			GiveUpAfter: new(time.Minute), Schedule: []time.Duration{10 * time.Second},
		}})
		r.sender.script(always(status(500)))
		r.produceTo("orders", queue.ProduceItem{Delay: time.Hour})
		pass(time.Hour + 35*time.Second)
		if n := len(r.sender.seen()); n < 3 {
			t.Errorf("%d requests in 35 s since the item was due, want 3 or more", n)
		}
		pass(time.Minute)
		n := len(r.sender.seen())
		pass(time.Hour)
		if more := len(r.sender.seen()) - n; more != 0 {
			t.Errorf("%d requests after the item's time was over, want none", more)
		}
	})
}

func TestDispatcher_WritesOneLineAndOneRecordPerPush(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{Node: "host"}, func(t *testing.T, r *rig) {
		sub := r.subscribe(subscriptions.Change{})
		r.sender.script(func(context.Context, webhooks.Request) webhooks.Result {
			res := status(503)
			res.Response = []byte("busy")
			return res
		})
		id := r.produce(1)[0]
		records := r.records(id)
		if len(records) != 1 {
			t.Fatalf("%d records", len(records))
		}
		rec := records[0]
		if rec.Type != queue.AttemptRecord || rec.Subscription != "sub" || rec.Verdict != "retryable" || rec.Status != 503 ||
			string(rec.Response) != "busy" || rec.Delivery != 1 || rec.Next != queue.StepRetry || rec.Node != r.Owner() || rec.StartedAt.IsZero() {
			t.Errorf("record %+v", rec)
		}
		lines := r.pushed(t)
		if len(lines) != 1 {
			t.Fatalf("%d lines", len(lines))
		}
		for key, want := range map[string]any{
			"queue": "orders", "subscription": "sub", "item_id": id.String(), "attempt": 1.0, "status": 503.0,
			"verdict": "retryable", "next": "retry", "retry_in": "2.75s", "error": rec.Error,
		} {
			if lines[0][key] != want {
				t.Errorf("%s is %v, want %v", key, lines[0][key], want)
			}
		}
		if strings.Contains(r.log.String(), sub.Secrets[0].Secret.Reveal()) || strings.Contains(r.log.String(), endpoint) {
			t.Error("the log shows a secret or a URL")
		}
	})
}

// A failure that parks a key is told of as that, and not as a retry in a lifetime.
func TestPush_TellsThatAKeyIsParked(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var counted []string
	inBubble(t, dispatcher.Options{Observe: func(a dispatcher.Attempt) {
		mu.Lock()
		defer mu.Unlock()
		counted = append(counted, a.Next)
	}}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{})
		if _, err := r.broker.UpdateQueue(t.Context(), queue.SettingsUpdate{Namespace: ns, Name: "orders", ParkAfter: new(int32(2))}); err != nil {
			t.Fatal(err)
		}
		r.sender.script(always(status(503)))
		id := r.produceTo("orders", queue.ProduceItem{Content: queue.Content{OrderingKey: "a"}})[0]
		pass(24 * time.Hour)
		if it := r.item(id); !it.IsParked(time.Now()) || it.Attempts != 2 {
			t.Errorf("it is at %v after %d attempts, want it parked", it.AvailableAt, it.Attempts)
		}
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"retry", "park"}; !slices.Equal(counted, want) {
			t.Errorf("counted %v, want %v", counted, want)
		}
		lines := r.pushed(t)
		if len(lines) != 2 || lines[1]["next"] != "park" || lines[1]["retry_in"] != nil {
			t.Errorf("logged %v, want the last to say park, and no time", lines)
		}
	})
}

func TestD02_LateOutcomeIsCountedNotRetried(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{})
		r.sender.script(slow(3*time.Second, status(200)))
		id := r.produce(1)[0]
		it := r.item(id)
		// Somebody else settles it meanwhile.
		if _, err := r.broker.Settle(t.Context(), queue.SettleCall{Namespace: ns, Entries: []queue.SettleEntry{{
			Receipt: it.Receipt(), Outcome: queue.Release, Delay: time.Hour,
		}}}); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		if running, stale := r.Running(); running != 0 || stale != 1 {
			t.Errorf("running %d, stale %d", running, stale)
		}
		if it := r.item(id); it == nil || it.Attempts != 0 {
			t.Errorf("the late outcome changed the item: %+v", it)
		}
	})
}

func TestD07_PanicIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{})
		var poison string
		r.sender.script(func(_ context.Context, req webhooks.Request) webhooks.Result {
			if poison == "" {
				poison = req.ID
			}
			if req.ID == poison {
				panic("poison")
			}
			return status(200)
		})
		ids := r.produce(10)
		left := 0
		for _, id := range ids {
			it := r.item(id)
			if it == nil {
				continue
			}
			left++
			if it.ID.String() != poison || it.Held || it.Attempts != 1 || !strings.HasPrefix(it.Last.Error, "panic") {
				t.Errorf("item %+v", it)
			}
		}
		if left != 1 {
			t.Errorf("%d items left, want only the poison", left)
		}
		state, _ := r.LaneState(ns, "sub")
		if state.InFlight != 0 || state.Breaker != "closed" {
			t.Errorf("lane %+v", state)
		}
	})
}

func TestD13_OutcomeIsKeptUntilTheStoreTakesIt(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{})
		for _, refusal := range []error{queue.ErrUnavailable, queue.ErrUnknownOutcome, &queue.OverloadedError{}, errors.New("nobody foresaw this")} {
			r.broker.refuse(&r.broker.refuseSettle, refusal)
			before := len(r.sender.seen())
			id := r.produce(1)[0]
			pass(time.Minute) // longer than the lease, which is renewed
			if r.item(id) == nil {
				t.Fatal("settled by a store that refuses")
			}
			r.broker.refuse(&r.broker.refuseSettle, nil)
			pass(2 * time.Second)
			if n := len(r.sender.seen()) - before; n != 1 || r.item(id) != nil {
				t.Errorf("%v: %d requests, item %v; want one that completes it", refusal, n, r.item(id))
			}
			if records := r.records(id); len(records) != 1 {
				t.Errorf("%v: %d records", refusal, len(records))
			}
		}
	})
}

func TestDispatcher_BuriesAtTheLimitAndOnStatus(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{Retry: subscriptions.PolicyChange{
			MaxAttempts: new(int32(2)), Schedule: []time.Duration{time.Second}, BuryOn: []int32{422},
		}})
		r.sender.script(func(_ context.Context, req webhooks.Request) webhooks.Result {
			if req.Info.Kind == "bad" {
				return status(422)
			}
			return status(500)
		})
		slowly := r.produce(1)[0]
		atOnce := r.produceTo("orders", queue.ProduceItem{Content: queue.Content{Kind: "bad"}})[0]
		own := r.produceTo("orders", queue.ProduceItem{MaxAttempts: 1})[0]
		pass(time.Second)
		for id, want := range map[queue.ID]queue.Dead{
			slowly: {Reason: queue.ReasonMaxAttempts, Status: 500},
			atOnce: {Reason: dispatcher.ReasonRejected, Status: 422},
			own:    {Reason: queue.ReasonMaxAttempts, Status: 500},
		} {
			it := r.item(id)
			if it == nil || it.Dead == nil {
				t.Fatalf("not buried: %+v", it)
			}
			if got := *it.Dead; got.Reason != want.Reason || got.Status != want.Status {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
	})
}

func TestDispatcher_NeverBuriesInADeadLetterQueue(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{Retry: subscriptions.PolicyChange{MaxAttempts: new(int32(1))}})
		r.sender.script(always(status(500)))
		id := r.produce(1)[0]
		r.subscribeTo("orders~dead", "dead", subscriptions.Change{Retry: subscriptions.PolicyChange{
			MaxAttempts: new(int32(1)), MaxBackoff: new(time.Minute), BuryOn: []int32{500},
		}})
		pass(10 * time.Minute)
		it := r.item(id)
		if it == nil || it.Dead == nil || it.Key.Queue == it.Dead.From {
			t.Fatalf("item %+v", it)
		}
		if it.Attempts < 10 {
			t.Errorf("%d attempts in the dead-letter queue; want one each 33 s", it.Attempts)
		}
	})
}

func TestDispatcher_LeaseErrorsAreLoggedOnceAndTriedAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.broker.refuse(&r.broker.refuseLease, queue.ErrUnavailable)
		r.subscribe(subscriptions.Change{})
		id := r.produce(1)[0]
		pass(time.Minute)
		r.broker.refuse(&r.broker.refuseLease, nil)
		pass(5 * time.Second)
		if r.item(id) != nil {
			t.Error("not delivered five seconds after the store came back")
		}
		if down, up := strings.Count(r.log.String(), "cannot lease"), strings.Count(r.log.String(), "leases again"); down != 1 || up != 1 {
			t.Errorf("logged %d and %d times", down, up)
		}
	})
}

func TestDispatcher_IdleLaneAsksSeldom(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{})
		before := r.broker.leaseCalls()
		pass(time.Hour)
		if n := r.broker.leaseCalls() - before; n > 125 {
			t.Errorf("%d leases in an idle hour", n)
		}
	})
}
