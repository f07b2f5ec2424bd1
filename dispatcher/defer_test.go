package dispatcher_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/dispatcher"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
	"github.com/posthaste-io/posthaste/webhooks"
)

var kept = webhooks.Result{Status: 202, Verdict: webhooks.Deferred}

func deferring(change subscriptions.Change) subscriptions.Change {
	change.Defer.Allowed = new(true)
	if change.Defer.Timeout == nil {
		change.Defer.Timeout = new(10 * time.Minute)
	}
	return change
}

func (r *rig) settleBy(receipt string, outcome queue.Outcome) error {
	r.t.Helper()
	parsed, err := queue.ParseReceipt(receipt)
	if err != nil {
		r.t.Fatal(err)
	}
	_, err = r.broker.Settle(r.t.Context(), queue.SettleCall{
		Namespace: ns, Entries: []queue.SettleEntry{{Receipt: parsed, Outcome: outcome}},
	})
	return err
}

func TestDefer_EndpointFinishesLater(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(deferring(subscriptions.Change{}))
		r.sender.script(always(kept))
		id := r.produce(1)[0]
		req := r.sender.seen()[0]
		if want := req.at.Add(10 * time.Minute); req.Info.Receipt == "" || !req.Info.LeaseDeadline.Equal(want) {
			t.Errorf("told receipt %q until %s, want one until %s", req.Info.Receipt, req.Info.LeaseDeadline, want)
		}
		it := r.item(id)
		if it == nil || !it.Held || it.AvailableAt.Before(req.Info.LeaseDeadline) || !it.LapseCounts {
			t.Fatalf("item %+v, want it with the endpoint at least until what it was told", it)
		}
		if state, _ := r.LaneState(ns, "sub"); state.InFlight != 0 || state.Deferred != 1 || state.MaxDeferred != 1000 {
			t.Errorf("lane %+v, want one deferred and no slot held", state)
		}
		if records := r.records(id); len(records) != 1 || records[0].Verdict != "deferred" || records[0].Next != queue.StepHold {
			t.Errorf("records %+v", records)
		}
		pass(9 * time.Minute)
		if err := r.settleBy(req.Info.Receipt, queue.Complete); err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)
		if r.item(id) != nil || len(r.sender.seen()) != 1 {
			t.Errorf("%d requests, want the item done after one", len(r.sender.seen()))
		}
	})
}

func TestDefer_LapseCountsAsAnAttempt(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(deferring(subscriptions.Change{Retry: subscriptions.PolicyChange{MaxAttempts: new(int32(2))}}))
		r.sender.script(always(kept))
		id := r.produce(1)[0]
		pass(11 * time.Minute)
		if n := len(r.sender.seen()); n != 2 {
			t.Fatalf("%d requests after the lapse, want another one", n)
		}
		if it := r.item(id); it == nil || it.Attempts != 1 || it.Recoveries != 0 {
			t.Errorf("item %+v, want one attempt counted", it)
		}
		pass(11 * time.Minute)
		if it := r.item(id); it == nil || it.Dead == nil || it.Dead.Reason != queue.ReasonMaxAttempts {
			t.Errorf("item %+v, want it buried at its limit", it)
		}
	})
}

func TestDefer_EndpointThatIsQuickerThanItsAnswer(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]webhooks.Result{"keep": kept, "done": status(200)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
				r.subscribe(deferring(subscriptions.Change{}))
				r.sender.script(func(ctx context.Context, req webhooks.Request) webhooks.Result {
					if err := r.settleBy(req.Info.Receipt, queue.Complete); err != nil {
						t.Error(err)
					}
					return answer
				})
				id := r.produce(1)[0]
				pass(time.Hour)
				if r.item(id) != nil || len(r.sender.seen()) != 1 {
					t.Errorf("%d requests, want the item done after one", len(r.sender.seen()))
				}
				if state, _ := r.LaneState(ns, "sub"); state.Deferred != 0 || state.InFlight != 0 {
					t.Errorf("lane %+v", state)
				}
			})
		})
	}
}

func TestDefer_NoMoreThanTheEndpointMayKeep(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(deferring(subscriptions.Change{Defer: subscriptions.DeferChange{Max: new(5)}}))
		r.sender.script(always(kept))
		r.produce(20)
		pass(time.Minute)
		requests := r.sender.seen()
		if len(requests) != 5 || r.held() != 5 {
			t.Fatalf("%d requests, %d held, want 5", len(requests), r.held())
		}
		for _, req := range requests[:3] {
			if err := r.settleBy(req.Info.Receipt, queue.Complete); err != nil {
				t.Fatal(err)
			}
		}
		pass(5 * time.Second)
		if n := len(r.sender.seen()); n != 8 || r.held() != 5 {
			t.Errorf("%d requests, %d held after 3 were finished, want 8 and 5", n, r.held())
		}
	})
}

func TestDefer_RequestsThatRunCountForWhatMayBeKept(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]subscriptions.Change{"": {}, "with targets": {AllowTarget: new(true)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
				change.Defer.Max = new(3)
				r.subscribe(deferring(change))
				r.sender.script(slow(20*time.Second, kept))
				r.produce(30)
				pass(10 * time.Second) // nothing is deferred yet, and nothing turns round and round
				if n := len(r.sender.seen()); n != 3 {
					t.Errorf("%d requests, want 3", n)
				}
				pass(time.Minute)
				if held := r.held(); held != 3 {
					t.Errorf("%d held, want 3", held)
				}
			})
		})
	}
}

func TestDefer_KeptItemsOfAnEarlierProcessCount(t *testing.T) {
	t.Parallel()
	among(t, func(t *testing.T, r *rig) {
		r.subscribe(deferring(subscriptions.Change{Defer: subscriptions.DeferChange{Max: new(3)}}))
		a := r.node()
		a.sender.script(always(kept))
		r.produce(10)
		pass(time.Second)
		a.stop()
		b := r.node()
		defer b.stop()
		b.sender.script(always(kept))
		pass(time.Minute)
		if n := len(b.sender.seen()); n != 0 || r.held() != 3 {
			t.Errorf("%d requests, %d held, want none and 3", n, r.held())
		}
	})
}

func TestDefer_EndpointHasItTriedAgainByTheSubscriptionsLimit(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(deferring(subscriptions.Change{Retry: subscriptions.PolicyChange{MaxAttempts: new(int32(3))}}))
		r.sender.script(always(kept))
		id := r.produce(1)[0]
		for n := 1; n <= 3; n++ {
			requests := r.sender.seen()
			if len(requests) != n {
				t.Fatalf("%d requests, want %d", len(requests), n)
			}
			if err := r.settleBy(requests[n-1].Info.Receipt, queue.Retry); err != nil {
				t.Fatal(err)
			}
			pass(time.Second)
		}
		if it := r.item(id); it == nil || it.Dead == nil || it.Dead.Reason != queue.ReasonMaxAttempts {
			t.Errorf("item %+v, want it buried by the third", it)
		}
		// Each request is in the log, and what the endpoint did with it.
		var got []string
		for _, record := range r.records(id) {
			got = append(got, record.Type.String()+" "+record.Next.String())
		}
		want := "attempt hold,outcome retry,attempt hold,outcome retry,attempt hold,outcome bury"
		if strings.Join(got, ",") != want {
			t.Errorf("log %v, want %s", got, want)
		}
	})
}

func TestD13_RequestThatItsEndpointSettledFirstIsInTheLog(t *testing.T) {
	t.Parallel()
	for _, outcome := range []queue.Outcome{queue.Complete, queue.Retry, queue.Release, queue.Bury} {
		t.Run(outcome.String(), func(t *testing.T) {
			t.Parallel()
			inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
				r.subscribe(deferring(subscriptions.Change{}))
				r.sender.script(func(_ context.Context, req webhooks.Request) webhooks.Result {
					r.sender.script(always(status(200)))
					if err := r.settleBy(req.Info.Receipt, outcome); err != nil {
						t.Error(err)
					}
					return kept
				})
				id := r.produce(1)[0]
				pass(time.Minute)
				deliveries := map[int32]int{}
				for _, record := range r.records(id) {
					deliveries[record.Delivery]++
				}
				for _, req := range r.sender.seen() {
					if n := deliveries[req.Info.Attempt]; n != 1 {
						t.Errorf("%d records of request %d, want 1", n, req.Info.Attempt)
					}
				}
			})
		})
	}
}

// An endpoint may ask for more time before it answers, and a renewal of ours in between
// changes nothing about that.
func TestDefer_WhatTheEndpointExtendedBeforeItsAnswerHolds(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{0, 15 * time.Second} {
		t.Run(wait.String(), func(t *testing.T) {
			t.Parallel()
			inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
				r.subscribe(deferring(subscriptions.Change{Defer: subscriptions.DeferChange{Timeout: new(30 * time.Second)}}))
				r.sender.script(func(ctx context.Context, req webhooks.Request) webhooks.Result {
					parsed, err := queue.ParseReceipt(req.Info.Receipt)
					if err != nil {
						t.Error(err)
					}
					if _, err := r.broker.Extend(ctx, ns, "", []queue.ExtendEntry{{Receipt: parsed, TTL: time.Hour}}); err != nil {
						t.Error(err)
					}
					return slow(wait, kept)(ctx, req)
				})
				id := r.produce(1)[0]
				pass(30 * time.Minute)
				if it := r.item(id); it == nil || it.State(time.Now()) != queue.Leased || len(r.sender.seen()) != 1 {
					t.Errorf("item %+v after %d requests, want it with the endpoint for an hour", it, len(r.sender.seen()))
				}
			})
		})
	}
}

func TestDefer_WithoutLeaveThereIsNoReceipt(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{})
		r.produce(1)
		if info := r.sender.seen()[0].Info; info.Receipt != "" || !info.LeaseDeadline.IsZero() {
			t.Errorf("told %+v", info)
		}
	})
}

func TestD01_DeferredItemThatSomebodyElseHasEndsItsRequest(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(deferring(subscriptions.Change{Timeout: new(10 * time.Minute)}))
		var ended atomic.Int64 // how long the request ran
		r.sender.script(func(ctx context.Context, req webhooks.Request) webhooks.Result {
			if err := r.settleBy(req.Info.Receipt, queue.Release); err != nil {
				t.Error(err)
			}
			began := time.Now()
			res := slow(9*time.Minute, status(200))(ctx, req)
			ended.Store(int64(time.Since(began)))
			r.sender.script(always(status(200)))
			return res
		})
		r.produce(1)
		pass(time.Minute)
		if ran := time.Duration(ended.Load()); ran == 0 || ran > 25*time.Second {
			t.Errorf("the request ran for %s after its lease was given back", ran)
		}
	})
}
