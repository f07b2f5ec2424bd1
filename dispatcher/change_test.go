package dispatcher_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/dispatcher"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
)

// What somebody changed through this node counts from the answer on: an item that is
// produced afterwards never shows the settings from before, however late the node reads.
func TestLane_ChangeCountsFromItsAnswerOn(t *testing.T) {
	t.Parallel()
	inBubble(t, dispatcher.Options{}, func(t *testing.T, r *rig) {
		r.subscribe(subscriptions.Change{})
		r.unread.Store(true)
		r.produce(1)
		if n := len(r.sender.seen()); n != 1 {
			t.Fatalf("%d requests before the change, want 1", n)
		}

		rotated, err := r.subs.RotateSecret(t.Context(), ns, "sub", subscriptions.RotateParams{Overlap: new(time.Duration)})
		if err != nil {
			t.Fatal(err)
		}
		r.produce(1)
		secret := rotated.Secrets[0].Secret.Reveal()
		if seen := r.sender.seen(); len(seen) != 2 || !slices.Equal(seen[1].Secrets, []string{secret}) {
			t.Errorf("%d requests, want a second one that is signed with the new secret alone", len(seen))
		}

		if _, err := r.subs.Pause(t.Context(), ns, "sub"); err != nil {
			t.Fatal(err)
		}
		r.produce(1)
		if n := len(r.sender.seen()); n != 2 {
			t.Errorf("%d requests after the pause, want none more", n)
		}
	})
}

// unreadable is subscriptions that the dispatcher cannot read while the rig says so.
type unreadable struct {
	*subscriptions.Service
	r *rig
}

func (u unreadable) All(ctx context.Context) ([]subscriptions.Subscription, error) {
	if u.r.unread.Load() {
		return nil, queue.ErrUnavailable
	}
	return u.Service.All(ctx)
}

func (u unreadable) Get(ctx context.Context, ns queue.Namespace, name string) (subscriptions.Subscription, error) {
	if u.r.unread.Load() {
		return subscriptions.Subscription{}, queue.ErrUnavailable
	}
	return u.Service.Get(ctx, ns, name)
}
