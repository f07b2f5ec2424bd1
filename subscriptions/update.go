package subscriptions

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
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
	sub, err := s.update(ctx, p)
	if err == nil && p.Filter != nil && sub.Topic != "" {
		err = s.changeFilter(ctx, sub)
	}
	return sub, err
}

func (s *Service) update(ctx context.Context, p UpdateParams) (Subscription, error) {
	return s.mutate(ctx, p.Namespace, p.Name, p.Revision, func(sub *Subscription) (bool, error) {
		old := sub.URL
		if err := p.apply(sub, s.checks); err != nil {
			return false, err
		}
		if p.Auth == nil && sub.Auth.shows() && !SameHost(old, sub.URL) {
			return false, queue.Invalid("auth", "was given for another host than that of the new url, which would be sent it; give it again, or auth: {}")
		}
		if p.OnDone != nil {
			// Only then: that its queue is gone by now must not stand in the way of a change
			// of something else.
			if err := s.checkOnDone(ctx, sub); err != nil {
				return false, err
			}
		}
		if sub.URL != old {
			sub.enable()
		}
		return true, nil
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
	s.FailingSince = time.Time{} // or it would be disabled again at the next failure
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
		sub.dropExpired(sub.UpdatedAt)
		doc, err := s.sealed(&sub)
		if err != nil {
			return Subscription{}, err
		}
		revision, err := s.docs.Put(ctx, ns, name, doc, sub.Revision, never)
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
		s.watchers.updated(&sub)
		s.changed(&sub)
		return sub, nil
	}
	return Subscription{}, fmt.Errorf("subscription %s: %w", name, queue.ErrRevision)
}

// stamp is now as documents keep it.
func (s *Service) stamp() time.Time { return s.now().UTC().Truncate(time.Microsecond) }

// SameHost says whether what was given for one URL may be sent to another: the host, the
// port and the scheme are the same. What was given for none may be sent to any.
func SameHost(a, b string) bool {
	if a == "" {
		return true
	}
	x, errX := url.Parse(a)
	y, errY := url.Parse(b)
	return errX == nil && errY == nil && strings.EqualFold(x.Scheme, y.Scheme) && strings.EqualFold(x.Host, y.Host)
}
