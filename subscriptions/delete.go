package subscriptions

import (
	"context"
	"errors"
	"fmt"

	"github.com/posthaste-io/posthaste/queue"
)

// Delete removes a subscription; requests that run end and are settled. The items of one
// on a queue stay there. One on a topic takes its queue along, and the copies in it are
// cancelled; those that were buried stay.
//
// After an error it may be called again.
func (s *Service) Delete(ctx context.Context, ns queue.Namespace, name string) error {
	for range rounds {
		// What does not open can be deleted still.
		doc, revision, err := s.document(ctx, ns, name)
		if err != nil {
			return err
		}
		sub := doc.open(revision)
		if sub.Topic != "" {
			// Before the document, so that a name is not used again before its queue is gone.
			// Where another came under that name all the same, the queue has another number.
			if err := s.queues.Unsubscribe(ctx, ns, sub.Topic, name, sub.QueueNumber); err != nil {
				return fmt.Errorf("queue of subscription %s: %w", name, err)
			}
		}
		err = s.remove(ctx, &sub)
		if sub.Topic != "" && errors.Is(err, queue.ErrRevision) {
			continue // the lane has noted something; there is no way back
		}
		return err
	}
	return fmt.Errorf("subscription %s: %w", name, queue.ErrRevision)
}

// remove deletes the documents of a subscription.
func (s *Service) remove(ctx context.Context, sub *Subscription) error {
	// Read before the subscription is gone: whoever takes the queue afterwards
	// renews the claim, and this revision cannot remove it any more.
	held, err := s.heldBy(ctx, sub)
	if err != nil {
		return err
	}
	// A claim without its subscription counts for nothing, so this order may be
	// broken off at any place, and the other may not.
	if err := s.docs.Delete(ctx, sub.Namespace, sub.Name, sub.Revision); err != nil {
		return err
	}
	s.log.Info("subscription deleted", "subscription", sub.Name, "queue", sub.Queue)
	s.changed(sub)
	for _, c := range held {
		if err := s.claims.Delete(ctx, sub.Namespace, c.queue, c.revision); err != nil && !overtaken(err) {
			s.log.Warn("claim on a queue was left over; the next subscription takes it", "queue", c.queue, "error", err)
		}
	}
	return nil
}

// heldClaim is the claim of a subscription on a queue.
type heldClaim struct {
	queue    string
	revision uint64
}

// heldBy returns the claims of a subscription: on its queue, and where its topic was made of
// that, on the queue's name before.
func (s *Service) heldBy(ctx context.Context, sub *Subscription) (held []heldClaim, err error) {
	for _, name := range []string{sub.Queue, sub.Topic} {
		if name == "" {
			continue
		}
		claim, revision, err := s.claims.Get(ctx, sub.Namespace, name)
		if err != nil && !errors.Is(err, queue.ErrNotFound) {
			return nil, err
		}
		if err == nil && claim.Subscription == sub.Name {
			held = append(held, heldClaim{name, revision})
		}
	}
	return held, nil
}
