package api_test

import (
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
)

// One row for each reason, and for each pair of which one goes before the other.
func TestWhy_IsTheOneReasonThatWouldHaveToGoFirst(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_900_000_000, 0)
	later, past := now.Add(time.Minute), now.Add(-time.Minute)
	const nextAt = "2030-03-17T17:47:40Z"
	var (
		ready     = queue.Item{AvailableAt: past}
		scheduled = queue.Item{AvailableAt: later}
		leased    = queue.Item{AvailableAt: later, Held: true, Owner: "worker-1"}
		buried    = queue.Item{AvailableAt: past, Dead: &queue.Dead{Reason: "max_attempts"}}

		active   = &subscriptions.Subscription{Name: "s"}
		paused   = &subscriptions.Subscription{Name: "s", Paused: true}
		disabled = &subscriptions.Subscription{Name: "s", Paused: true, Disabled: true, Reason: "status 410"}

		free = &api.LaneState{Window: 2, InFlight: 1, Breaker: "closed"}
		full = &api.LaneState{Window: 2, InFlight: 2, Breaker: "closed"}
	)
	with := func(it queue.Item, change func(*queue.Item)) queue.Item {
		change(&it)
		return it
	}
	ended := func(next queue.Step, verdict string) *queue.Record {
		return &queue.Record{Next: next, Verdict: verdict}
	}

	for name, c := range map[string]struct {
		item   queue.Item
		ending *queue.Record
		paused queue.Paused
		sub    *subscriptions.Subscription
		lane   *api.LaneState
		// leases is how many wait.
		leases int

		state, why, next string
		// says is in the message: what happens next, or what to do.
		says string
	}{
		"nobody takes it":                        {item: ready, state: "ready", why: "no_receiver", says: "no subscription"},
		"a consumer waits":                       {item: ready, leases: 1, state: "ready", why: "waiting", says: "turn"},
		"lapsed, nobody takes it":                {item: queue.Item{AvailableAt: past, Held: true}, state: "lapsed", why: "no_receiver", says: "queue.lease"},
		"pushed":                                 {item: ready, sub: active, lane: free, state: "ready", why: "waiting", says: "turn"},
		"pushed elsewhere":                       {item: ready, sub: active, state: "ready", why: "waiting", says: "turn"},
		"window full":                            {item: ready, sub: active, lane: full, state: "ready", why: "window_full", says: "max_in_flight"},
		"endpoint asked to wait, window full":    {item: ready, sub: active, lane: &api.LaneState{Window: 2, InFlight: 2, PausedUntil: later}, state: "ready", why: "rate_limited", next: nextAt, says: "asked to wait"},
		"breaker open, endpoint asked to wait":   {item: ready, sub: active, lane: &api.LaneState{Window: 2, Breaker: "open", BreakerUntil: later, PausedUntil: now.Add(time.Hour)}, state: "ready", why: "breaker_open", next: nextAt, says: "probes it at next_at"},
		"breaker half-open":                      {item: ready, sub: active, lane: &api.LaneState{Window: 2, InFlight: 1, Breaker: "half-open"}, state: "ready", why: "breaker_open", says: "probed now"},
		"subscription paused, breaker open":      {item: ready, sub: paused, lane: &api.LaneState{Window: 2, Breaker: "open"}, state: "ready", why: "subscription_paused", says: "subscriptions.resume"},
		"subscription disabled and paused":       {item: ready, sub: disabled, state: "ready", why: "subscription_disabled", says: "(status 410); subscriptions.enable"},
		"queue paused, subscription disabled":    {item: ready, paused: queue.PausedLease, sub: disabled, state: "ready", why: "queue_paused", says: "queues.resume"},
		"queue paused whole":                     {item: ready, paused: queue.PausedBoth, leases: 1, state: "ready", why: "queue_paused", says: "queues.resume"},
		"queue paused for producers":             {item: ready, paused: queue.PausedProduce, leases: 1, state: "ready", why: "waiting", says: "turn"},
		"scheduled, queue paused":                {item: scheduled, paused: queue.PausedLease, state: "scheduled", why: "scheduled", next: nextAt, says: "next_at"},
		"retrying after a status, sub disabled":  {item: with(scheduled, func(it *queue.Item) { it.Deliveries, it.Last.Status = 1, 502 }), sub: disabled, state: "retrying", why: "retrying", next: nextAt, says: "status 502; it is tried again at next_at"},
		"retrying after an error":                {item: with(scheduled, func(it *queue.Item) { it.Deliveries, it.Last.Error = 1, "timeout" }), state: "retrying", why: "retrying", next: nextAt, says: "last_error"},
		"given back for later":                   {item: with(scheduled, func(it *queue.Item) { it.Deliveries = 1 }), state: "retrying", why: "retrying", next: nextAt, says: "given back"},
		"behind, queue paused":                   {item: queue.Item{AvailableAt: queue.Forever}, paused: queue.PausedLease, state: "behind", why: "ordered_behind", says: "ordering key"},
		"expired, scheduled anew":                {item: with(scheduled, func(it *queue.Item) { it.ExpiresAt = past }), state: "scheduled", why: "expired", says: "dead-letter queue"},
		"expired, behind":                        {item: queue.Item{AvailableAt: queue.Forever, ExpiresAt: past}, state: "behind", why: "expired", says: "dead-letter queue"},
		"buried, queue paused":                   {item: buried, paused: queue.PausedBoth, state: "buried", why: "buried", says: "max_attempts; queue.redrive"},
		"buried since it expired":                {item: with(buried, func(it *queue.Item) { it.Dead = &queue.Dead{Reason: "expired"} }), state: "buried", why: "expired", says: "queue.redrive"},
		"leased":                                 {item: leased, state: "leased", why: "leased", next: nextAt, says: `by "worker-1"; unless it is settled or extended before next_at`},
		"leased, though expired, and all paused": {item: with(leased, func(it *queue.Item) { it.ExpiresAt = past }), paused: queue.PausedBoth, sub: disabled, state: "leased", why: "leased", next: nextAt, says: "next_at"},
		"leased from a dead-letter queue":        {item: with(leased, func(it *queue.Item) { it.Dead, it.Owner = buried.Dead, "" }), state: "leased", why: "leased", next: nextAt, says: "it is leased;"},
		"completed, queue paused":                {ending: ended(queue.StepComplete, ""), paused: queue.PausedBoth, sub: disabled, state: "completed", why: "completed", says: "done"},
		"cancelled":                              {ending: ended(queue.StepCancel, "queue_deleted"), state: "cancelled", why: "cancelled", says: "queue_deleted"},
		"a long reason is no flood":              {item: with(buried, func(it *queue.Item) { it.Dead = &queue.Dead{Reason: strings.Repeat("x", 500)} }), state: "buried", why: "buried", says: "…; queue.redrive"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := setup(t, func(o *api.Options) {
				o.Lane = func(_ queue.Namespace, name string) (api.LaneState, bool) {
					if c.lane == nil || name != "s" {
						return api.LaneState{}, false
					}
					return *c.lane, true
				}
			})
			if c.sub != nil {
				sub := *c.sub
				sub.Queue = "orders"
				e.subs.kept["s"] = sub
			}
			e.broker.look = func(queue.ID, string) ([]queue.ItemState, error) {
				return []queue.ItemState{{
					Queue: queue.Settings{Name: "orders", Paused: c.paused}, Item: c.item, Now: now, Ending: c.ending,
				}}, nil
			}
			e.broker.stats = func(string) (queue.QueueStats, error) { return queue.QueueStats{LeaseWaiting: c.leases}, nil }
			a := e.call("items.info", `{"item_id":"`+queue.NewID().String()+`"}`)
			a.is(c.state, "items", 0, "state")
			a.is(c.why, "items", 0, "why")
			if message, _ := a.get("items", 0, "message").(string); !strings.Contains(message, c.says) {
				t.Errorf("message %q does not say %q", message, c.says)
			}
			if next, _ := a.get("items", 0, "next_at").(string); next != c.next {
				t.Errorf("next_at: got %q, want %q", next, c.next)
			}
		})
	}
}
