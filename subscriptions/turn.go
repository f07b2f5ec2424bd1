package subscriptions

import (
	"context"
	"errors"

	"github.com/posthaste-io/posthaste/queue"
)

// fromQueue is the field of the call that makes a topic of a queue.
const fromQueue = "from_queue"

// Turn says how the subscription of a queue becomes one on a topic of that name, whose own
// queue has the number; see [queue.Broker.TurnIntoTopic].
//
// The claim on the queue stays, and is written once more: so nobody else can take the queue
// at that moment, and nodes that do not know yet that it has another name find its
// subscription.
func (s *Service) Turn(ctx context.Context, ns queue.Namespace, name string, number queue.Number) (queue.SubscriptionTurn, error) {
	none := queue.SubscriptionTurn{}
	claim, claimed, err := s.claims.Get(ctx, ns, name)
	if errors.Is(err, queue.ErrNotFound) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	doc, revision, err := s.document(ctx, ns, claim.Subscription)
	if errors.Is(err, queue.ErrNotFound) || err == nil && doc.Queue != name {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	if err := checkTurn(&doc); err != nil {
		return none, err
	}
	doc.Queue, doc.Topic, doc.QueueNumber = queue.CopyQueue(name, doc.Name), name, number
	doc.UpdatedAt = s.stamp()
	turn := queue.SubscriptionTurn{Subscription: doc.Name, Filter: Filter(doc.Filter).raw()}
	_, own, err := s.claims.Get(ctx, ns, doc.Queue)
	if err != nil && !errors.Is(err, queue.ErrNotFound) {
		return none, err
	}
	// What is secret of it is sealed for its name, which stays, and is not opened.
	put, err := s.docs.PutChange(ns, doc.Name, doc, revision, never)
	if err != nil {
		return none, err
	}
	taken, err := s.claims.PutChange(ns, doc.Queue, claim, own, never)
	if err != nil {
		return none, err
	}
	kept, err := s.claims.PutChange(ns, name, claim, claimed, never)
	if err != nil {
		return none, err
	}
	turn.Changes = []queue.DocumentChange{put, taken, kept}
	turn.Done = func(revisions []uint64) { s.turned(&doc, name, revisions) }
	return turn, nil
}

// checkTurn says why a subscription on a queue cannot be one on a topic.
func checkTurn(doc *Document) error {
	switch {
	case doc.AllowTarget:
		return queue.Invalid(fromQueue, "is %s, whose subscription %s has allow_target, and items of a topic have no targets of their own; "+
			"set allow_target to false first", doc.Queue, doc.Name)
	case queue.CopyQueue(doc.Queue, doc.Name) == doc.Queue+queue.DeadSuffix:
		return queue.Invalid(fromQueue, "is %s, whose subscription is called %s, and its queue would have the name of the dead-letter queue; "+
			"create it anew under another name", doc.Queue, doc.Name)
	}
	return nil
}

// turned tells this process of a subscription that is on a topic now, or may be.
func (s *Service) turned(doc *Document, was string, revisions []uint64) {
	sub := doc.open(0)
	if len(revisions) > 0 {
		if opened, err := s.opened(doc, revisions[0]); err == nil {
			sub = opened
			s.watchers.updated(&sub)
		}
		s.log.Info("subscription is on a topic now", "subscription", doc.Name, "queue", doc.Queue, "topic", doc.Topic)
	}
	s.answers.forget(doc.Namespace, was)
	s.changed(&sub)
}
