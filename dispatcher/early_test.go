package dispatcher_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/dispatcher"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
	"github.com/posthaste-io/posthaste/webhooks"
)

// quickEndpoint has a lane lease ahead: each lease takes 4 ms, each request 1 ms.
func quickEndpoint(r *rig, change subscriptions.Change) {
	r.broker.slow(4 * time.Millisecond)
	r.sender.script(slow(time.Millisecond, status(200)))
	change.MaxInFlight = new(4)
	r.subscribe(change)
}

func TestLane_QuickEndpointDoesNotWaitForTheStore(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		quickEndpoint(r, subscriptions.Change{})
		ids := r.produce(1000)
		pass(time.Second)
		seen := r.sender.seen()
		if len(seen) != len(ids) || r.sender.most() != 4 || r.held() != 0 {
			t.Fatalf("%d requests, %d at one time, %d held", len(seen), r.sender.most(), r.held())
		}
		place := map[string]int{}
		for i, id := range ids {
			place[id.String()] = i
		}
		for i, req := range seen {
			if d := i - place[req.ID]; d <= -4 || d >= 4 { // four run at one time
				t.Fatalf("item %d was request %d", place[req.ID], i)
			}
		}
		// Four at a time for 1 ms each are 250 ms; with a wait for each lease, five times that.
		if took := seen[999].at.Sub(seen[0].at); took > 300*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

// Until an endpoint has answered once, nobody knows whether it is quick.
func TestD03_NothingIsLeasedAheadOfASlowEndpoint(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		quickEndpoint(r, subscriptions.Change{})
		r.sender.script(slow(time.Second, status(200)))
		r.produce(100)
		for range 50 {
			if held := r.held(); held > 4 {
				t.Fatalf("%d held, want the 4 that run", held)
			}
			pass(37 * time.Millisecond)
		}
	})
}

// Whatever stops a lane, what it leased ahead goes back to its place, uncounted.
func TestD03_WhatWasLeasedAheadIsGivenBack(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*rig){
		"paused":   func(r *rig) { r.subs.Pause(r.t.Context(), ns, "sub") },
		"disabled": func(r *rig) { r.subs.Disable(r.t.Context(), ns, "sub", endpoint, "test") },
		"deleted":  func(r *rig) { r.subs.Delete(r.t.Context(), ns, "sub") },
		"throttled": func(r *rig) {
			res := status(429)
			res.RetryAfter = time.Hour
			r.sender.script(always(res))
		},
		"broken":  func(r *rig) { r.sender.script(always(status(500))) },
		"hanging": func(r *rig) { r.sender.script(slow(20*time.Second, status(200))) },
		"stopped": func(r *rig) { r.end(); <-r.ended },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, dispatcher.Options{})
				defer r.stop()
				quickEndpoint(r, subscriptions.Change{})
				ids := r.produce(1000)
				pass(50 * time.Millisecond)
				if held := r.held(); held <= 4 || held > 4+2*8*4 {
					t.Fatalf("%d held; want some ahead of the 4 that run", held)
				}
				stop(r)
				pass(time.Second)
				if held := r.held(); held > 4 {
					t.Errorf("%d held, want no more than run", held)
				}
				sent := map[string]bool{}
				for _, req := range r.sender.seen() {
					sent[req.ID] = true
				}
				for _, id := range ids {
					it := r.item(id)
					switch {
					case sent[id.String()]:
					case it == nil:
						t.Fatalf("an item that was never sent is gone")
					case it.Attempts != 0 || it.Recoveries != 0 || it.AvailableAt.After(time.Now()):
						t.Fatalf("item %+v; want it back in its place, uncounted", it)
					}
				}
			})
		})
	}
}

// The store hangs while items wait: none of them may start once its lease is old.
func TestD01_ItemsLeasedAheadDoNotOutliveTheirLeases(t *testing.T) {
	t.Parallel()
	for _, hang := range []time.Duration{time.Second, 27 * time.Second, 40 * time.Second} {
		inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
			quickEndpoint(r, subscriptions.Change{})
			r.produce(1000)
			pass(50 * time.Millisecond)
			r.broker.slow(hang)
			pass(20 * time.Millisecond) // what was there is used up, or the loop is in the store
			began := time.Now()
			r.sender.script(func(ctx context.Context, req webhooks.Request) webhooks.Result {
				if late := time.Since(began); late > 300*time.Millisecond && late < hang-100*time.Millisecond {
					t.Errorf("store hangs for %v: a request began %v later", hang, late)
				}
				return slow(200*time.Millisecond, status(200))(ctx, req)
			})
			pass(hang / 2)
			if held := r.held(); held > 4+4 { // those that run, and what the store is handing out
				t.Errorf("%d held while the store hangs", held)
			}
			r.broker.slow(0)
			pass(2 * time.Minute)
		})
	}
}

func TestD14_NothingStartsAfterTheLaneEnded(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*rig){
		"deleted": func(r *rig) { r.subs.Delete(r.t.Context(), ns, "sub") },
		"stopped": func(r *rig) { r.end() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
				quickEndpoint(r, subscriptions.Change{})
				r.broker.slow(20 * time.Millisecond)
				r.produce(1000)
				pass(200 * time.Millisecond)
				end(r)
				synctest.Wait()
				at := len(r.sender.seen())
				pass(time.Second)
				if n := len(r.sender.seen()) - at; n != 0 {
					t.Errorf("%d requests began after it", n)
				}
			})
		})
	}
}

// A lane that may not lease for a while keeps nothing meanwhile.
func TestD03_NothingIsKeptAheadWhileTheStoreRefuses(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		quickEndpoint(r, subscriptions.Change{})
		r.produce(1000)
		pass(50 * time.Millisecond)
		r.sender.script(slow(10*time.Second, status(200)))
		r.broker.refuse(&r.broker.refuseLease, &queue.OverloadedError{RetryAfter: 5 * time.Second})
		pass(time.Second)
		if held := r.held(); held > 4 {
			t.Errorf("%d held, want the 4 that run", held)
		}
	})
}

// Lanes that share a full process take turns, and lease little in vain. How much depends on
// who comes first, too: 20 to 300, and now and then much more, of 2,000; so the best of three
// counts. Where a lane takes slots only after it has leased, it is 900 and more each time.
func TestC05_FullProcessWastesFewLeases(t *testing.T) {
	t.Parallel()
	const most = 600
	best := most + 1
	for try := 0; try < 3 && best > most; try++ {
		inBubble(t, dispatcher.Options{MaxPushes: 40}, func(t *testing.T, r *rig) {
			r.broker.slow(4 * time.Millisecond)
			r.sender.script(slow(time.Millisecond, status(200)))
			names := []string{"a", "b", "c", "d"}
			for _, name := range names {
				r.subscribeTo(name, name, subscriptions.Change{MaxInFlight: new(8)})
			}
			for _, name := range names {
				r.produceTo(name, make([]queue.ProduceItem, 500)...)
			}
			pass(10 * time.Second)
			wasted := 0
			for _, req := range r.sender.seen() {
				wasted += int(req.Info.Attempt) - 1
			}
			if n := len(r.sender.seen()); n != 2000 {
				t.Errorf("%d requests, want 2000", n)
			}
			best = min(best, wasted)
		})
	}
	if best > most {
		t.Errorf("%d leases or more were given back, want %d at most", best, most)
	}
}

func TestC16_SlotsCountWhatIsLeasedAhead(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{MaxPushes: 8}, func(t *testing.T, r *rig) {
		var mu sync.Mutex
		var most int
		quickEndpoint(r, subscriptions.Change{})
		r.sender.script(func(ctx context.Context, req webhooks.Request) webhooks.Result {
			held := r.held()
			mu.Lock()
			most = max(most, held)
			mu.Unlock()
			return slow(time.Millisecond, status(200))(ctx, req)
		})
		ids := r.produceTo("orders", make([]queue.ProduceItem, 500)...)
		pass(5 * time.Second)
		if len(r.sender.seen()) != len(ids) || r.held() != 0 {
			t.Errorf("%d requests, %d held", len(r.sender.seen()), r.held())
		}
		if most > 8 {
			t.Errorf("%d held at one time, want at most the 8 slots", most)
		}
	})
}
