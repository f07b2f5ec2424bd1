package dispatcher_test

import (
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/dispatcher"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
)

func (r *rig) pauseQueue() {
	r.t.Helper()
	if _, err := r.broker.Pause(r.t.Context(), ns, "orders", queue.PausedLease); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) resumeQueue() {
	r.t.Helper()
	if _, err := r.broker.Resume(r.t.Context(), ns, "orders", queue.PausedLease); err != nil {
		r.t.Fatal(err)
	}
}

// A lane takes a paused queue for an empty one: what runs ends well, and nothing new
// begins until the queue goes on.
func TestLane_StandsStillWhileItsQueueIsPaused(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{MaxInFlight: new(2)})
		r.sender.script(slow(time.Minute, status(200)))
		ids := r.produce(4)
		pass(time.Second)
		r.pauseQueue()
		leases := r.broker.leaseCalls()
		pass(10 * time.Minute)
		if n := len(r.sender.seen()); n != 2 || r.item(ids[0]) != nil || r.item(ids[1]) != nil {
			t.Errorf("%d requests; want the two that ran, and their items done", n)
		}
		if n := r.broker.leaseCalls() - leases; n > 15 {
			t.Errorf("asked %d times in ten minutes; want about one long wait after the other", n)
		}
		r.produce(1)
		if held := r.held(); held != 0 {
			t.Errorf("%d leased from a paused queue", held)
		}
		r.resumeQueue()
		pass(0)
		if n := len(r.sender.seen()); n != 4 {
			t.Errorf("%d requests; want two more at once", n)
		}
		pass(3 * time.Minute)
		if n := len(r.sender.seen()); n != 5 || r.held() != 0 {
			t.Errorf("%d requests, %d held; want all delivered", n, r.held())
		}
	})
}

// With all slots taken by others, the lane looks without waiting when it gets one.
func TestLane_DoesNotSpinOnAPausedQueueWhereSlotsAreShort(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{MaxPushes: 4}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{})
		r.subscribeTo("other", "other", subscriptions.Change{})
		r.sender.script(slow(time.Second, status(200)))
		r.produce(2)
		r.pauseQueue()
		r.produceTo("other", make([]queue.ProduceItem, 100)...)
		before := r.broker.leaseCalls()
		pass(time.Minute)
		if n := r.broker.leaseCalls() - before; n > 120 {
			t.Errorf("asked %d times in a minute; want about one for each that ended", n)
		}
		r.resumeQueue()
		pass(time.Minute)
		if n := len(r.sender.seen()); n != 102 {
			t.Errorf("%d requests, want 102", n)
		}
	})
}
