package api

import (
	"context"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/subscriptions"
)

func (s *Server) rotateRoutes() {
	register(s, method[*v1.RotateSecretRequest, *v1.Subscription]{
		name: "subscriptions.rotate_secret", bytes: s.limits.Call,
		noun: "subscription", target: (*v1.RotateSecretRequest).GetName,
		do: s.rotateSecret,
	})
}

func (s *Server) rotateSecret(ctx context.Context, c *call, q *v1.RotateSecretRequest) (*v1.Subscription, error) {
	params := subscriptions.RotateParams{Secret: subscriptions.Secret(q.GetSecret())}
	var err error
	if params.Overlap, err = optionalDuration("overlap", q.GetOverlap(), 0, forever); err != nil {
		return nil, err
	}
	if params.Revision, err = revision(q.GetRevision()); err != nil {
		return nil, err
	}
	sub, err := s.subs.RotateSecret(ctx, c.namespace, q.GetName(), params)
	if err != nil {
		return nil, err
	}
	return revealed(&sub), nil
}

// revealed shows a subscription with its newest secret, for the answers to those who
// may have had it made.
func revealed(sub *subscriptions.Subscription) *v1.Subscription {
	answer := subscription(sub)
	answer.Secret = sub.Secrets[0].Secret.Reveal()
	return answer
}
