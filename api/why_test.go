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
		parked    = queue.Item{AvailableAt: now.AddDate(100, 0, 0), Deliveries: 3}
		leased    = queue.Item{AvailableAt: later, Held: true, Owner: "worker-1"}
		buried    = queue.Item{AvailableAt: past, Dead: &queue.Dead{Reason: "max_attempts"}}

		active   = &subscriptions.Subscription{Name: "s"}
		paused   = &subscriptions.Subscription{Name: "s", Paused: true}
		disabled = &subscriptions.Subscription{Name: "s", Paused: true, Disabled: true, Reason: "status 410", DisabledAt: time.Unix(1_900_000_000, 0)}

		free = &api.LaneState{Window: 2, InFlight: 1, Breaker: "closed"}
		full = &api.LaneState{Window: 2, InFlight: 2, Breaker: "closed"}

		// Of items that bring their own target.
		open   = &subscriptions.Subscription{Name: "s", AllowTarget: true, Rate: subscriptions.Rate{Count: 10, Period: time.Minute}}
		own    = queue.Item{Key: queue.Key{ID: queue.NewID()}, AvailableAt: past, Content: queue.Content{Target: &queue.Target{URL: "https://A.example:8443/x"}}}
		ofHost = func(h api.HostState) *api.LaneState {
			h.Host = "a.example:8443"
			return &api.LaneState{Window: 2, InFlight: 2, Breaker: "open", Hosts: []api.HostState{{Host: "b.example", Window: 1, InFlight: 1}, h}}
		}
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
		"rate has no room":                       {item: ready, sub: open, lane: &api.LaneState{Window: 2, RateUntil: later}, state: "ready", why: "rate_limited", next: nextAt, says: "no more than 10 requests in 60s; the next one starts at next_at"},
		"window full, rate has no room":          {item: ready, sub: active, lane: &api.LaneState{Window: 2, InFlight: 2, RateUntil: later}, state: "ready", why: "window_full", says: "2 requests run to the endpoint"},
		"endpoint keeps as many as it may":       {item: ready, sub: active, lane: &api.LaneState{Window: 2, InFlight: 1, Deferred: 9, MaxDeferred: 10}, state: "ready", why: "window_full", says: "keeps 9 items to finish later, and with those on their way it may keep 10"},
		"endpoint may keep one more":             {item: ready, sub: active, lane: &api.LaneState{Window: 2, InFlight: 1, Deferred: 8, MaxDeferred: 10}, state: "ready", why: "waiting", says: "turn"},
		"endpoint kept some once":                {item: ready, sub: active, lane: &api.LaneState{Window: 2, InFlight: 1, Deferred: 8}, state: "ready", why: "waiting", says: "turn"},
		"own target, its host fails":             {item: own, sub: open, lane: ofHost(api.HostState{Window: 2, Breaker: "open", BreakerUntil: later}), state: "ready", why: "breaker_open", next: nextAt, says: "host a.example:8443 fails"},
		"own target, its host asked to wait":     {item: own, sub: open, lane: ofHost(api.HostState{Window: 2, PausedUntil: later}), state: "ready", why: "rate_limited", next: nextAt, says: "host a.example:8443 asked to wait"},
		"own target, its host is full":           {item: own, sub: open, lane: ofHost(api.HostState{Window: 2, InFlight: 2}), state: "ready", why: "window_full", says: "2 requests run to host a.example:8443"},
		"own target, rate of its host":           {item: own, sub: open, lane: ofHost(api.HostState{Window: 2, RateUntil: later}), state: "ready", why: "rate_limited", next: nextAt, says: "host a.example:8443 gets no more than 10 requests in 60s"},
		"own target, others are held up":         {item: own, sub: open, lane: &api.LaneState{Window: 2, InFlight: 2, Breaker: "open", Hosts: []api.HostState{{Host: "b.example", Breaker: "open"}}}, state: "ready", why: "waiting", says: "turn"},
		"own target, sub disabled":               {item: own, sub: disabled, lane: ofHost(api.HostState{Breaker: "open"}), state: "ready", why: "subscription_disabled", says: "subscriptions.enable"},
		"own target, turned away by its host":    {item: with(own, func(it *queue.Item) { it.AvailableAt, it.Deliveries = later, 1 }), sub: open, lane: ofHost(api.HostState{Window: 2, InFlight: 2}), state: "retrying", why: "window_full", next: nextAt, says: "host a.example:8443"},
		"own target, turned away, host is free":  {item: with(own, func(it *queue.Item) { it.AvailableAt, it.Deliveries = later, 1 }), sub: open, lane: ofHost(api.HostState{Window: 2}), state: "retrying", why: "retrying", next: nextAt, says: "given back"},
		"own target, failed, its host is full":   {item: with(own, func(it *queue.Item) { it.AvailableAt, it.Deliveries, it.Last.Status = later, 1, 503 }), sub: open, lane: ofHost(api.HostState{Window: 2, InFlight: 2}), state: "retrying", why: "retrying", next: nextAt, says: "status 503"},
		"breaker half-open":                      {item: ready, sub: active, lane: &api.LaneState{Window: 2, InFlight: 1, Breaker: "half-open"}, state: "ready", why: "breaker_open", says: "probed now"},
		"subscription paused, breaker open":      {item: ready, sub: paused, lane: &api.LaneState{Window: 2, Breaker: "open"}, state: "ready", why: "subscription_paused", says: "subscriptions.resume"},
		"subscription disabled and paused":       {item: ready, sub: disabled, state: "ready", why: "subscription_disabled", says: "disabled since 2030-03-17T17:46:40Z (status 410); subscriptions.enable"},
		"queue paused, subscription disabled":    {item: ready, paused: queue.PausedLease, sub: disabled, state: "ready", why: "queue_paused", says: "queues.resume"},
		"queue paused whole":                     {item: ready, paused: queue.PausedBoth, leases: 1, state: "ready", why: "queue_paused", says: "queues.resume"},
		"queue paused for producers":             {item: ready, paused: queue.PausedProduce, leases: 1, state: "ready", why: "waiting", says: "turn"},
		"scheduled, queue paused":                {item: scheduled, paused: queue.PausedLease, state: "scheduled", why: "scheduled", next: nextAt, says: "next_at"},
		"retrying after a status, sub disabled":  {item: with(scheduled, func(it *queue.Item) { it.Deliveries, it.Last.Status = 1, 502 }), sub: disabled, state: "retrying", why: "retrying", next: nextAt, says: "status 502; it is tried again at next_at"},
		"retrying after an error":                {item: with(scheduled, func(it *queue.Item) { it.Deliveries, it.Last.Error = 1, "timeout" }), state: "retrying", why: "retrying", next: nextAt, says: "last_error"},
		"given back for later":                   {item: with(scheduled, func(it *queue.Item) { it.Deliveries = 1 }), state: "retrying", why: "retrying", next: nextAt, says: "given back"},
		"parked":                                 {item: with(parked, func(it *queue.Item) { it.Last.Status = 503 }), paused: queue.PausedLease, state: "retrying", why: "retrying", says: "status 503; its ordering key is parked, and waits for queue.unblock, which has it tried again or skips it"},
		"parked, own target, its host is full":   {item: with(own, func(it *queue.Item) { it.Deliveries, it.AvailableAt = 1, parked.AvailableAt }), sub: open, lane: ofHost(api.HostState{Window: 2, InFlight: 2}), state: "retrying", why: "retrying", says: "its ordering key is parked"},
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
				bare := c.item
				bare.Content = queue.Content{} // as looks answer it
				return []queue.ItemState{{
					Queue: queue.Settings{Name: "orders", Paused: c.paused}, Item: bare, Now: now, Ending: c.ending,
				}}, nil
			}
			e.broker.items = func(q queue.ItemsQuery) (queue.ListPage, error) {
				if q.From != c.item.ID || q.Queue != "orders" || q.Limit != 1 {
					t.Errorf("read %+v, want the item alone", q)
				}
				return queue.ListPage{Items: []queue.Item{c.item}}, nil
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
