package subscriptions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// UpdateParams changes the settings that are set and no other.
type UpdateParams struct {
	Namespace queue.Namespace
	Name      string
	// Revision, if not 0, must be the stored one.
	Revision uint64
	Change
}

// Update changes settings. They count for the next request; one that runs is not
// touched. Another URL enables what is disabled: it was the old endpoint that said
// that it is gone.
//
// Errors: [queue.InvalidError], [queue.ErrNotFound], [queue.ErrRevision], those of
// the store.
func (s *Service) Update(ctx context.Context, p UpdateParams) (Subscription, error) {
	return s.mutate(ctx, p.Namespace, p.Name, p.Revision, func(sub *Subscription) (bool, error) {
		old := sub.URL
		err := p.apply(sub, s.checks)
		if sub.URL != old {
			sub.enable()
		}
		return true, err
	})
}

// Pause stops pushes until Resume. Requests that run end and are settled.
func (s *Service) Pause(ctx context.Context, ns queue.Namespace, name string) (Subscription, error) {
	return s.setPaused(ctx, ns, name, true)
}

// Resume ends a pause. It does not enable what is disabled.
func (s *Service) Resume(ctx context.Context, ns queue.Namespace, name string) (Subscription, error) {
	return s.setPaused(ctx, ns, name, false)
}

func (s *Service) setPaused(ctx context.Context, ns queue.Namespace, name string, paused bool) (Subscription, error) {
	return s.mutate(ctx, ns, name, 0, func(sub *Subscription) (bool, error) {
		changed := sub.Paused != paused
		sub.Paused = paused
		return changed, nil
	})
}

// Enable takes a disabled subscription back into service. It does not end a pause.
func (s *Service) Enable(ctx context.Context, ns queue.Namespace, name string) (Subscription, error) {
	return s.mutate(ctx, ns, name, 0, func(sub *Subscription) (bool, error) {
		changed := sub.Disabled
		sub.enable()
		return changed, nil
	})
}

func (s *Subscription) enable() {
	s.Disabled, s.Reason, s.DisabledAt = false, "", time.Time{}
}

// Disable takes a subscription out of service because the endpoint at url said
// that it is gone, in the words of reason. It does nothing if the subscription is
// disabled already, or points to another endpoint by now: the answer was not about
// that one.
func (s *Service) Disable(ctx context.Context, ns queue.Namespace, name, url, reason string) (Subscription, error) {
	return s.mutate(ctx, ns, name, 0, func(sub *Subscription) (bool, error) {
		if sub.Disabled || sub.URL != url {
			return false, nil
		}
		sub.Disabled, sub.Reason, sub.DisabledAt = true, reason, s.stamp()
		return true, nil
	})
}

// mutate reads, changes and writes a subscription, again where somebody else was
// quicker, unless the caller insists on a revision. Without a change nothing is
// written.
func (s *Service) mutate(ctx context.Context, ns queue.Namespace, name string, insist uint64,
	change func(*Subscription) (changed bool, err error),
) (Subscription, error) {
	for range rounds {
		sub, err := s.Get(ctx, ns, name)
		if err != nil {
			return Subscription{}, err
		}
		if insist != 0 && sub.Revision != insist {
			return Subscription{}, fmt.Errorf("subscription %s: %w", name, queue.ErrRevision)
		}
		before := sub.State()
		changed, err := change(&sub)
		if err != nil {
			return Subscription{}, err
		}
		if !changed {
			return sub, nil
		}
		sub.UpdatedAt = s.stamp()
		revision, err := s.docs.Put(ctx, ns, name, toDocument(sub), sub.Revision, never)
		if errors.Is(err, queue.ErrRevision) {
			continue
		}
		if err != nil {
			return Subscription{}, err
		}
		sub.Revision = revision
		if after := sub.State(); after != before {
			s.log.Info("subscription changed state", "subscription", name, "queue", sub.Queue,
				"from", before.String(), "to", after.String(), "reason", sub.Reason)
		}
		s.watchers.changed(sub.Key())
		return sub, nil
	}
	return Subscription{}, fmt.Errorf("subscription %s: %w", name, queue.ErrRevision)
}

// stamp is now as documents keep it.
func (s *Service) stamp() time.Time { return s.now().UTC().Truncate(time.Microsecond) }
