package subscriptions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// Collection keeps documents of one kind, by namespace and name. The errors are
// [queue.ErrNotFound], [queue.ErrExists] (a put of revision 0 that found one),
// [queue.ErrRevision], and those of the store; they name the document.
type Collection[T any] interface {
	Get(ctx context.Context, ns queue.Namespace, name string) (value T, revision uint64, err error)
	// Put writes value if revision is the stored one, 0 if there is none. A name's
	// revisions rise even over a deletion. Nothing here wakes by time or produces.
	Put(ctx context.Context, ns queue.Namespace, name string, value T, revision uint64,
		wakeAt time.Time, items ...queue.NewItem) (uint64, error)
	Delete(ctx context.Context, ns queue.Namespace, name string, revision uint64) error
	// PutChange is Put as a change among others, which somebody else writes.
	PutChange(ns queue.Namespace, name string, value T, revision uint64, wakeAt time.Time) (queue.DocumentChange, error)
	// List returns values in the order of their names, after the one named.
	List(ctx context.Context, ns queue.Namespace, after string, limit int) ([]queue.Versioned[T], error)
}

// never is the time of a document that does not wake.
var never time.Time

// TakenError says that a queue is pushed to already.
type TakenError struct {
	Queue string
	// By is the subscription that has it.
	By string
}

// Error implements error.
func (e *TakenError) Error() string {
	return fmt.Sprintf("queue %s has the subscription %s already, and a queue has one: two would share its items, "+
		"not each get all of them; to send every item to both, make a topic of it, with topics.create and from_queue, and subscribe to that",
		e.Queue, e.By)
}

// Is makes errors.Is(err, queue.ErrExists) true.
func (e *TakenError) Is(target error) bool { return target == queue.ErrExists }

// rounds bounds how often a step is repeated because somebody else was quicker.
// Each round means that another call got through, so it ends early but for a crowd.
const rounds = 20

// enter writes a new subscription in three steps; see the package comment. It
// returns the revision. The queue is made once it is known to be the subscription's,
// so that a creation that is refused makes none.
func (s *Service) enter(ctx context.Context, sub Subscription) (uint64, error) {
	doc, err := s.sealed(&sub)
	if err != nil {
		return 0, err
	}
	doc.Pending = true
	revision, err := s.putPending(ctx, doc)
	if err != nil {
		return 0, err
	}
	claimed, err := s.claim(ctx, sub)
	if err == nil {
		doc.QueueNumber, err = s.ensureQueue(ctx, &sub)
	}
	if err != nil {
		s.leave(ctx, sub, revision, claimed)
		return 0, err
	}
	doc.Pending = false
	revision, err = s.docs.Put(ctx, sub.Namespace, sub.Name, doc, revision, never)
	if overtaken(err) {
		return 0, fmt.Errorf("subscription %s, or the one of queue %s: %w", sub.Name, sub.Queue, queue.ErrExists)
	}
	return revision, err
}

// ensureQueue makes the queue of a subscription. From then on that of one on a topic gets
// the topic's items. It returns the number of that queue, 0 for a subscription on a queue.
func (s *Service) ensureQueue(ctx context.Context, sub *Subscription) (queue.Number, error) {
	if sub.Topic == "" {
		_, err := s.queues.EnsureQueue(ctx, sub.Namespace, sub.Queue)
		return 0, err
	}
	made, err := s.queues.Subscribe(ctx, sub.Namespace, sub.Topic, sub.Name, sub.Filter.raw())
	return made.Number, err
}

// leave takes back what enter has written, the claim too if its revision is not 0.
// What stays behind if this is refused is invisible, and free to take.
func (s *Service) leave(ctx context.Context, sub Subscription, revision, claimed uint64) {
	_ = s.docs.Delete(ctx, sub.Namespace, sub.Name, revision)
	if claimed != 0 {
		_ = s.claims.Delete(ctx, sub.Namespace, sub.Queue, claimed)
	}
}

// putPending writes doc where there is none, or only one that nobody finished.
func (s *Service) putPending(ctx context.Context, doc Document) (uint64, error) {
	var old uint64
	for range rounds {
		revision, err := s.docs.Put(ctx, doc.Namespace, doc.Name, doc, old, never)
		if !errors.Is(err, queue.ErrExists) && !overtaken(err) {
			return revision, err
		}
		there, revision, err := s.docs.Get(ctx, doc.Namespace, doc.Name)
		switch {
		case errors.Is(err, queue.ErrNotFound):
			revision = 0
		case err != nil:
			return 0, err
		case !there.Pending:
			return 0, fmt.Errorf("subscription %s: %w", doc.Name, queue.ErrExists)
		}
		old = revision
	}
	return 0, fmt.Errorf("subscription %s: %w", doc.Name, queue.ErrRevision)
}

// claim makes the queue the subscription's, whose pending document must be
// written. It writes the claim even where it names the subscription already, so
// that a deletion under way, which knows the old revision, does not remove it. It
// returns the claim's revision.
func (s *Service) claim(ctx context.Context, sub Subscription) (uint64, error) {
	for range rounds {
		claim, revision, err := s.claims.Get(ctx, sub.Namespace, sub.Queue)
		if err != nil && !errors.Is(err, queue.ErrNotFound) {
			return 0, err
		}
		if err == nil && claim.Subscription != sub.Name {
			free, err := s.evict(ctx, sub, claim.Subscription)
			if err != nil {
				return 0, err
			}
			if !free {
				continue
			}
		}
		revision, err = s.claims.Put(ctx, sub.Namespace, sub.Queue, Claim{Subscription: sub.Name}, revision, never)
		if errors.Is(err, queue.ErrExists) || overtaken(err) {
			continue
		}
		return revision, err
	}
	return 0, fmt.Errorf("claim on queue %s: %w", sub.Queue, queue.ErrRevision)
}

// evict says whether the claim of owner on sub's queue may be overwritten, after it
// removed what owner had begun and not finished. False without an error asks for
// another look.
func (s *Service) evict(ctx context.Context, sub Subscription, owner string) (bool, error) {
	doc, revision, err := s.docs.Get(ctx, sub.Namespace, owner)
	if errors.Is(err, queue.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if doc.Topic == sub.Queue {
		return s.topicGone(ctx, sub)
	}
	if doc.Queue != sub.Queue {
		return true, nil
	}
	if !doc.Pending {
		return false, &TakenError{Queue: sub.Queue, By: owner}
	}
	err = s.docs.Delete(ctx, sub.Namespace, owner, revision)
	if overtaken(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, nil
}

// topicGone says whether the claim on sub's queue, which is left from before a topic was
// made of it, counts for nothing any more. While the topic is there, nodes that do not know
// it yet go by the claim, and whoever wants the queue is refused with [queue.TopicError].
func (s *Service) topicGone(ctx context.Context, sub Subscription) (bool, error) {
	_, _, err := s.queues.Queue(ctx, sub.Namespace, sub.Queue)
	if err != nil && !errors.Is(err, queue.ErrNotFound) {
		return false, err
	}
	return true, nil
}

// overtaken says that somebody else changed or removed the document first.
func overtaken(err error) bool {
	return errors.Is(err, queue.ErrRevision) || errors.Is(err, queue.ErrNotFound)
}
