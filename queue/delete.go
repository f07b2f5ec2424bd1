package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// purgePage bounds one call that cancels the items of a deleted queue.
	purgePage = 1000
	// lingerAfterDelete is when a deleted queue is looked at once more: settlements
	// that were on their way may have buried into it, other nodes may have produced
	// to it, and we may have ended in the middle. Longer than a call of the store
	// and the age of settings.
	lingerAfterDelete = time.Minute
	// reasonDeleted is in the ending records of items that went with their queue.
	reasonDeleted = "queue_deleted"
)

// DeleteQueue removes a queue. It answers [ErrNotEmpty] while the queue holds items,
// has a subscription, or is a dead-letter queue of another. With force the
// subscription and the queue go first, then all items are cancelled, leased ones
// too, and queues that named it bury into their own dead-letter queues again. The queue
// of a subscription on a topic goes with the subscription alone, as either of them says.
//
// Other errors: [ErrNotFound]; [ErrRevision], if it was changed meanwhile; those of
// [Store]. After an error the call may be repeated. Items that could not be
// cancelled at once are cancelled later.
func (b *Broker) DeleteQueue(ctx context.Context, ns Namespace, name string, force bool) error {
	if force {
		s, _, err := b.Queue(ctx, ns, name)
		if err != nil {
			return err
		}
		if s.SubscribesTo != "" {
			return b.deleteCopies(ctx, &s)
		}
	}
	leave, err := b.enterAdmin(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return b.deleteQueue(ctx, ns, name, deletion{force: force})
}

// deleteCopies deletes the queue of a subscription on a topic, and the subscription: one
// without the other would be nothing.
func (b *Broker) deleteCopies(ctx context.Context, s *Settings) error {
	topic := &Settings{Namespace: s.Namespace, Name: s.SubscribesTo}
	sub := Subscriber{Subscription: strings.TrimPrefix(s.Name, s.SubscribesTo+"~"), Number: s.Number}
	if err := b.endSubscriber(ctx, topic, sub); err != nil {
		return fmt.Errorf("delete %s: %w", s.Name, err)
	}
	return nil
}

// deletion is how a queue is deleted.
type deletion struct {
	force bool
	// unsubscribed says that its subscription is taken care of.
	unsubscribed bool
}

// deleteQueue is DeleteQueue for who is let in.
func (b *Broker) deleteQueue(ctx context.Context, ns Namespace, name string, how deletion) error {
	at := time.Now()
	s, revision, err := b.Queue(ctx, ns, name)
	if err != nil {
		return err
	}
	b.known.changed(s, revision, at)
	q, err := b.known.named(ctx, ns, name)
	if err != nil {
		return err
	}
	// Nothing is acknowledged on the queue from here until it is decided.
	if err := q.close(ctx); err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	err = b.remove(ctx, &s, revision, how)
	// Whoever held up reads it again, so it may be wrong about what is not known.
	gone := err == nil || errors.Is(err, ErrUnknownOutcome)
	q.reopen(gone)
	if gone {
		b.known.removed(q)
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	b.leases.dismiss(q.number, errGone(q))
	b.log.Info("queue deleted", "queue", name, "number", q.number.Own(), "force", how.force)
	if how.force {
		if err := b.purge(ctx, q.number); err != nil {
			b.log.Warn("items of a deleted queue are left; they are cancelled later", "queue", name, "error", err)
		}
		b.endings.wakeAll()
	}
	if err := b.leaveDead(ctx, ns, s.DeadQueue); err != nil {
		b.log.Warn("queue stays a dead-letter queue, though nobody names it any more", "queue", s.DeadQueue, "error", err)
	}
	return nil
}

// remove makes sure that the queue may go, and deletes its document.
func (b *Broker) remove(ctx context.Context, s *Settings, revision uint64, how deletion) error {
	named, err := b.buriedInto(ctx, s)
	if err != nil {
		return err
	}
	if how.force {
		err = b.detach(ctx, s, named, how.unsubscribed)
	} else {
		err = b.checkUnused(ctx, s, named)
	}
	if err != nil {
		return err
	}
	// First, so that the rest is found if we end in the middle.
	if err := b.linger(ctx, s, how.force); err != nil {
		return err
	}
	return b.opts.Queues.Delete(ctx, s.Namespace, s.Name, revision)
}

// checkUnused names the first reason for which the queue stays.
func (b *Broker) checkUnused(ctx context.Context, s *Settings, named []Versioned[Settings]) error {
	if len(named) > 0 {
		return fmt.Errorf("%w: it is the dead-letter queue of %s", ErrNotEmpty, named[0].Name)
	}
	if b.opts.Subscribers != nil {
		subscribed, err := b.opts.Subscribers.Subscribed(ctx, s.Namespace, s.Name)
		if err != nil {
			return err
		}
		if subscribed {
			return fmt.Errorf("%w: it has a subscription", ErrNotEmpty)
		}
	}
	if s.SubscribesTo != "" {
		return fmt.Errorf("%w: the items of topic %s are copied into it; delete the subscription %s",
			ErrNotEmpty, s.SubscribesTo, strings.TrimPrefix(s.Name, s.SubscribesTo+"~"))
	}
	stats, err := b.store.Stats(ctx, []Number{s.Number})
	if err != nil {
		return err
	}
	for _, st := range stats {
		if st.Total > 0 {
			return fmt.Errorf("%w: it holds %d items", ErrNotEmpty, st.Total)
		}
	}
	return nil
}

// detach takes away what points to the queue.
func (b *Broker) detach(ctx context.Context, s *Settings, named []Versioned[Settings], unsubscribed bool) error {
	if b.opts.Subscribers != nil && !unsubscribed {
		if err := b.opts.Subscribers.Unsubscribe(ctx, s.Namespace, s.Name); err != nil {
			return fmt.Errorf("its subscription: %w", err)
		}
	}
	for _, n := range named {
		if n.Value.DeadQueue == "" {
			continue // its own, which is made again when it is needed
		}
		n.Value.DeadQueue = ""
		n.Value.UpdatedAt = stamp()
		if err := b.replace(ctx, n.Value, n.Revision); err != nil {
			return err
		}
	}
	return nil
}

// linger has the tidying look at the number of a queue after a while. What is there
// then of an empty one that was deleted without force came from a node that did not know
// yet, and is put back.
func (b *Broker) linger(ctx context.Context, s *Settings, force bool) error {
	ns, name := s.Namespace, numberName(s.Number)
	entry, revision, err := b.opts.Numbers.Get(ctx, ns, name)
	if err != nil {
		return err
	}
	if entry.Deleted = nil; !force {
		entry.Deleted = s
	}
	_, err = b.opts.Numbers.Put(ctx, ns, name, entry, revision, stamp().Add(lingerAfterDelete))
	return err
}

// purge cancels all items of a queue.
func (b *Broker) purge(ctx context.Context, n Number) error {
	parts, err := b.partitionsOf(ctx, n)
	if err != nil {
		return err
	}
	for _, partition := range parts {
		for more := true; more; {
			answer, err := b.store.Purge(ctx, PurgeRequest{Queue: n, Partition: partition, Limit: purgePage, Reason: reasonDeleted})
			if err != nil {
				return err
			}
			more = answer.More
		}
	}
	return nil
}

// endNumbers cancels what is left under the numbers of deleted queues, and forgets
// the numbers.
func (b *Broker) endNumbers(ctx context.Context) error {
	const page = 100
	for {
		due, err := b.opts.Numbers.Due(ctx, page)
		if err != nil {
			return err
		}
		for i := range due.Values {
			if err := b.endNumber(ctx, &due.Values[i]); err != nil {
				return err
			}
		}
		if len(due.Values) < page {
			return nil
		}
	}
}

func (b *Broker) endNumber(ctx context.Context, e *Versioned[NumberEntry]) error {
	if e.Err != nil {
		return e.Err
	}
	s, revision, err := b.opts.Queues.Get(ctx, e.Namespace, e.Value.Queue)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if err == nil && s.Number == e.Value.Number {
		e.Value.Deleted = nil // the deletion was not carried through, if there was one
		return b.forgetDrained(ctx, e, s, revision)
	}
	// Written before anything is done by it: who gives the queue another name writes it too,
	// and one of the two comes too late.
	if e.Revision, err = b.opts.Numbers.Put(ctx, e.Namespace, e.Name, e.Value, e.Revision, stamp().Add(lingerAfterDelete)); err != nil {
		return ignoreOvertaken(err)
	}
	if e.Value.Deleted != nil {
		if rescued, err := b.rescue(ctx, e, s); rescued || err != nil {
			return err
		}
	}
	if err := b.purge(ctx, e.Value.Number); err != nil {
		return err
	}
	return ignoreOvertaken(b.opts.Numbers.Delete(ctx, e.Namespace, e.Name, e.Revision))
}

// ignoreOvertaken is for steps that any node may take: whoever comes second has
// nothing to do.
func ignoreOvertaken(err error) error {
	if errors.Is(err, ErrRevision) || errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
