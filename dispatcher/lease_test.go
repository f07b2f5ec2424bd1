package dispatcher_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/dispatcher"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
	"github.com/posthaste-io/posthaste/webhooks"
)

func TestD01_SlowEndpointGetsOneRequest(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{Timeout: new(10 * time.Minute)})
		r.sender.script(slow(5*time.Minute, status(200)))
		ids := r.produce(3)
		pass(5*time.Minute + time.Second)
		if n := len(r.sender.seen()); n != 3 {
			t.Errorf("%d requests for 3 items", n)
		}
		for _, id := range ids {
			if it := r.item(id); it != nil {
				t.Errorf("item not completed: %+v", it)
			}
		}
		extends := r.broker.extendCalls()
		if len(extends) < 29 || len(extends) > 31 || slices.Max(extends) != 3 {
			t.Errorf("want one call for all leases each 10 s, got %v", extends)
		}
	})
}

func TestD01_RequestIsCancelledBeforeALeaseThatCannotBeRenewed(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{Timeout: new(10 * time.Minute)})
		var cancelled time.Time
		r.sender.script(func(ctx context.Context, req webhooks.Request) webhooks.Result {
			res := slow(5*time.Minute, status(200))(ctx, req)
			cancelled = time.Now()
			return res
		})
		r.broker.refuse(&r.broker.refuseExtend, queue.ErrUnavailable)
		start := time.Now()
		id := r.produce(1)[0]
		pass(26 * time.Second)
		if got := cancelled.Sub(start); got != 25*time.Second {
			t.Errorf("cancelled after %v, want 25s: 5s before the lease ends", got)
		}
		it := r.item(id)
		if it.Held || it.Attempts != 0 || it.Recoveries != 0 {
			t.Errorf("held %v, attempts %d, recoveries %d; want it given back uncounted", it.Held, it.Attempts, it.Recoveries)
		}
		if rest := it.AvailableAt.Sub(cancelled); rest != 3*time.Second {
			t.Errorf("rests for %v, want 3s: the middle of 1s and 5s", rest)
		}
	})
}

// One refused renewal, or several, must not be the last.
func TestD01_RenewalGoesOnAfterErrors(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{Timeout: new(10 * time.Minute)})
		r.sender.script(slow(2*time.Minute, status(200)))
		r.broker.refuse(&r.broker.refuseExtend, queue.ErrUnavailable)
		id := r.produce(1)[0]
		pass(23 * time.Second)
		r.broker.refuse(&r.broker.refuseExtend, nil)
		pass(2 * time.Minute)
		if n := len(r.sender.seen()); n != 1 || r.item(id) != nil {
			t.Errorf("%d requests, item %v; want one that completes it", n, r.item(id))
		}
		if n := strings.Count(r.log.String(), "cannot be renewed"); n != 1 {
			t.Errorf("the trouble was logged %d times", n)
		}
	})
}

func TestD01_RequestIsCancelledWhenTheLeaseIsLost(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{Timeout: new(10 * time.Minute)})
		r.sender.script(slow(5*time.Minute, status(200)))
		id := r.produce(1)[0]
		it := r.item(id)
		if _, err := r.broker.store.Purge(t.Context(), queue.PurgeRequest{Keys: []queue.Key{it.Key}, Limit: 1}); err != nil {
			t.Fatal(err)
		}
		pass(11 * time.Second)
		if running, stale := r.Running(); running != 0 || stale != 1 {
			t.Errorf("running %d, stale %d; want the request cancelled, its outcome refused", running, stale)
		}
	})
}

func TestD03_LeasesOnlyWhatCanStart(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{MaxInFlight: new(3)})
		r.sender.script(slow(time.Second, status(200)))
		r.produce(10)
		for range 3 {
			if held, sent := r.held(), r.sender.most(); held != 3 || sent != 3 {
				t.Errorf("%d leased, %d at one time; want 3", held, sent)
			}
			pass(time.Second)
		}
		pass(2 * time.Second)
		if n := len(r.sender.seen()); n != 10 || r.held() != 0 {
			t.Errorf("%d requests, %d held", n, r.held())
		}
	})
}

func TestD03_ProcessBoundHoldsOverAllLanes(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{MaxPushes: 4}, func(t *testing.T, r *rig) {
		names := []string{"a", "b", "c", "d", "e", "f"}
		for _, name := range names {
			r.subscribeTo(name, name, subscriptions.Change{})
		}
		r.sender.script(slow(time.Second, status(200)))
		for _, name := range names {
			r.produceTo(name, make([]queue.ProduceItem, 4)...)
		}
		for range 5 {
			if held := r.held(); held > 4 {
				t.Errorf("%d leased, want at most 4", held)
			}
			pass(time.Second)
		}
		pass(5 * time.Second)
		if n := len(r.sender.seen()); n != 24 || r.sender.most() != 4 || r.held() != 0 {
			t.Errorf("%d requests, %d at one time, %d held", n, r.sender.most(), r.held())
		}
	})
}

func TestD04_OwnersDifferOnOneHost(t *testing.T) {
	t.Parallel()
	a, b := dispatcher.New(dispatcher.Options{Node: "host"}), dispatcher.New(dispatcher.Options{Node: "host"})
	if a.Owner() == b.Owner() || !strings.HasPrefix(a.Owner(), "host/") || len(a.Owner()) != len("host/")+32 {
		t.Errorf("owners %q and %q", a.Owner(), b.Owner())
	}
}

func TestC05_HangingEndpointLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{MaxPushes: 20}, func(t *testing.T, r *rig) {
		hang := "https://hang.example"
		r.subscribeTo("hang", "hang", subscriptions.Change{URL: &hang, MaxInFlight: new(100), Timeout: new(time.Hour / 2)})
		r.subscribeTo("well", "well", subscriptions.Change{})
		r.widen("hang")
		r.sender.script(func(ctx context.Context, req webhooks.Request) webhooks.Result {
			if req.URL == hang {
				return slow(29*time.Minute, status(200))(ctx, req)
			}
			return status(200)
		})
		r.produceTo("hang", make([]queue.ProduceItem, 100)...)
		ids := r.produceTo("well", make([]queue.ProduceItem, 50)...)
		pass(time.Second)
		for _, id := range ids {
			if r.item(id) != nil {
				t.Fatal("the healthy endpoint was held up")
			}
		}
		if held := r.held(); held != 15 {
			t.Errorf("%d held by the hanging endpoint; want three quarters of 20", held)
		}
	})
}

func TestD01_WorkerOfACancelledRequestMakesTheNextOne(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{Timeout: new(10 * time.Minute)})
		r.sender.script(slow(time.Minute, status(200)))
		it := r.item(r.produce(1)[0])
		if _, err := r.broker.store.Purge(t.Context(), queue.PurgeRequest{Keys: []queue.Key{it.Key}, Limit: 1}); err != nil {
			t.Fatal(err)
		}
		pass(11 * time.Second)
		if running, _ := r.Running(); running != 0 {
			t.Fatal("the request whose lease was lost still runs")
		}
		id := r.produce(1)[0]
		pass(61 * time.Second)
		if r.item(id) != nil || len(r.sender.seen()) != 2 {
			t.Errorf("item %+v after %d requests; want it delivered by the second", r.item(id), len(r.sender.seen()))
		}
	})
}
