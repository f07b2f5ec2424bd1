package subscriptions

import (
	"context"
	"slices"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

const (
	// DefaultOverlap is how long the secret before signs as well.
	DefaultOverlap = 24 * time.Hour

	maxOverlap = 7 * 24 * time.Hour
	// maxOldSecrets bounds the secrets beside the newest, and so the signatures of a push.
	maxOldSecrets = 2
)

// RotateParams is a new secret.
type RotateParams struct {
	// Secret, if empty, is made.
	Secret Secret
	// Overlap is how long the secrets before it sign as well, 0 to 7 days; nil is
	// [DefaultOverlap].
	Overlap *time.Duration
	// Revision, if not 0, must be the stored one.
	Revision uint64
}

// RotateSecret gives a subscription another signing secret and returns it with that,
// which no later answer shows. The one before signs beside it until the overlap is over,
// so that receivers have time to change theirs; of older ones one may still be left, and
// no longer than that.
//
// Errors: [queue.InvalidError], [queue.ErrNotFound], [queue.ErrRevision], [ErrNoKey],
// those of the store.
func (s *Service) RotateSecret(ctx context.Context, ns queue.Namespace, name string, p RotateParams) (Subscription, error) {
	overlap := DefaultOverlap
	set(&overlap, p.Overlap)
	if err := between("overlap", overlap, 0, maxOverlap); err != nil {
		return Subscription{}, err
	}
	if p.Secret == "" {
		p.Secret = Secret(s.newSecret())
	} else if err := s.checks.secret(p.Secret.Reveal()); err != nil {
		return Subscription{}, asInvalid("secret", err)
	}
	sub, err := s.mutate(ctx, ns, name, p.Revision, func(sub *Subscription) (bool, error) {
		if len(sub.Secrets) > 0 && sub.Secrets[0].Secret == p.Secret {
			return false, queue.Invalid("secret", "is the one that signs now; give another, or leave it out to have one made")
		}
		sub.rotate(p.Secret, s.stamp().Add(overlap))
		return true, nil
	})
	if err == nil {
		s.log.Info("subscription has a new secret", "subscription", name, "queue", sub.Queue, "overlap", overlap)
	}
	return sub, err
}

// rotate puts a secret before the others, which sign until then, if not less long.
func (s *Subscription) rotate(secret Secret, until time.Time) {
	secrets := []SigningSecret{{Secret: secret}}
	for _, old := range s.Secrets {
		if old.Secret == secret {
			continue // it comes back, and signs once
		}
		if old.Until.IsZero() || until.Before(old.Until) {
			old.Until = until
		}
		secrets = append(secrets, old)
	}
	s.Secrets = secrets[:min(len(secrets), 1+maxOldSecrets)]
}

// dropExpired forgets the secrets whose time is over.
func (s *Subscription) dropExpired(now time.Time) {
	s.Secrets = slices.DeleteFunc(s.Secrets, func(each SigningSecret) bool {
		return !each.Until.IsZero() && !now.Before(each.Until)
	})
}
