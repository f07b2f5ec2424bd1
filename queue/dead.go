package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// deadName is where items of the queue are buried.
func (s *Settings) deadName() string {
	if s.DeadQueue != "" {
		return s.DeadQueue
	}
	return s.Name + DeadSuffix
}

// pinDead returns the dead-letter queue of a queue, which it makes if there is none, and
// adds it to what is pinned.
func (b *Broker) pinDead(ctx context.Context, q *knownQueue, pinned *pinSet) (*knownQueue, error) {
	return pinned.pin(ctx, b.known, func() (*knownQueue, error) { return b.deadOf(ctx, q) })
}

// pin keeps a queue from being deleted until it is unpinned, and finds it again if
// it was deleted in between.
func (b *Broker) pin(ctx context.Context, find func() (*knownQueue, error)) (*knownQueue, error) {
	var pinned pinSet
	return pinned.pin(ctx, b.known, find)
}

// peekDead is pinDead without reading or making anything: nil if the dead-letter
// queue is not known.
func (b *Broker) peekDead(q *knownQueue, pinned *pinSet) *knownQueue {
	s := q.settings()
	dead := b.known.peek(s.Namespace, s.deadName())
	if dead == nil || !pinned.tryPin(dead) {
		return nil
	}
	return dead
}

func (b *Broker) deadOf(ctx context.Context, q *knownQueue) (*knownQueue, error) {
	if s := q.settings(); s.DeadQueue != "" {
		dead, err := b.known.named(ctx, s.Namespace, s.DeadQueue)
		if !errors.Is(err, ErrNotFound) && !errors.As(err, new(*TopicError)) {
			return dead, err
		}
		// A queue that was deleted leaves those that named it with their own.
	}
	return b.ownDead(ctx, q)
}

// ownDead returns the dead-letter queue that the system makes for a queue.
func (b *Broker) ownDead(ctx context.Context, q *knownQueue) (*knownQueue, error) {
	name := q.name + DeadSuffix
	dead, err := b.known.named(ctx, q.ns, name)
	if !errors.Is(err, ErrNotFound) {
		return dead, err
	}
	s := Settings{
		Namespace: q.ns, Name: name, DeadLetter: true, MaxAttempts: -1,
		Number: Number(q.deadNumber.Swap(0)),
	}
	s.setDefaults()
	err = b.insert(ctx, &s)
	switch {
	case err == nil:
		b.log.Info("dead-letter queue made", "queue", name, "number", s.Number.Own())
	case !errors.Is(err, ErrExists):
		// Tried again with every item that is to be buried, which must not use up a
		// number each time.
		q.deadNumber.Store(uint64(s.Number))
		return nil, err
	}
	return b.known.named(ctx, q.ns, name)
}

// takeDead judges the dead-letter queue that settings name, and marks it as one,
// before they are written: whatever is buried there stays.
func (b *Broker) takeDead(ctx context.Context, s *Settings) error {
	const field = "dead_queue"
	if s.DeadQueue == "" {
		return nil
	}
	if err := CheckReference(field, s.DeadQueue); err != nil {
		return err
	}
	switch {
	case s.DeadQueue == s.Name:
		return Invalid(field, "is the queue itself")
	case s.DeadLetter:
		return Invalid(field, "goes without: the queue is a dead-letter queue, and has none of its own")
	}
	for {
		dead, revision, err := b.Queue(ctx, s.Namespace, s.DeadQueue)
		if errors.As(err, new(*TopicError)) {
			return Invalid(field, "is %s, a topic; name a queue", s.DeadQueue)
		}
		if errors.Is(err, ErrNotFound) {
			return Invalid(field, "is %s, which does not exist; create it first", s.DeadQueue)
		}
		if err != nil {
			return err
		}
		if dead.SubscribesTo != "" {
			return Invalid(field, "is %s, which the items of topic %s are copied to; name another queue", s.DeadQueue, dead.SubscribesTo)
		}
		if dead.DeadQueue != "" {
			return Invalid(field, "is %s, which has a dead-letter queue of its own", s.DeadQueue)
		}
		if dead.DeadLetter {
			return nil
		}
		dead.DeadLetter = true
		if err := b.replace(ctx, dead, revision); !errors.Is(err, ErrRevision) {
			return err
		}
	}
}

// leaveDead makes a dead-letter queue an ordinary one again if no queue names it
// any more. Those that the system made stay what they are.
func (b *Broker) leaveDead(ctx context.Context, ns Namespace, name string) error {
	if name == "" {
		return nil
	}
	for {
		dead, revision, err := b.opts.Queues.Get(ctx, ns, name)
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if !dead.DeadLetter || strings.HasSuffix(name, DeadSuffix) {
			return nil
		}
		named, err := b.buriedInto(ctx, &dead)
		if err != nil || len(named) > 0 {
			return err
		}
		dead.DeadLetter = false
		if err := b.replace(ctx, dead, revision); !errors.Is(err, ErrRevision) {
			return err
		}
	}
}

// buriedInto returns the queues that name a queue as their dead-letter queue, and
// the one for which the system made it.
func (b *Broker) buriedInto(ctx context.Context, dead *Settings) ([]Versioned[Settings], error) {
	if !dead.DeadLetter {
		return nil, nil
	}
	const page = 500
	var named []Versioned[Settings]
	for after := ""; ; {
		queues, err := b.opts.Queues.List(ctx, dead.Namespace, after, page)
		if err != nil {
			return nil, fmt.Errorf("who buries into %s: %w", dead.Name, err)
		}
		for i := range queues {
			if s := &queues[i].Value; s.Topic == nil && !s.DeadLetter && s.deadName() == dead.Name {
				named = append(named, queues[i])
			}
		}
		if len(queues) < page {
			return named, nil
		}
		after = queues[len(queues)-1].Name
	}
}
