package queue

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// rescue puts back what came to a queue after it was deleted: a node that did not know
// of the deletion yet has told its callers that it is kept. The queue is there again; or,
// if its name is used anew, its items go to the new one. It answers false if nothing
// came. namesake is the queue of its name, zero if there is none.
func (b *Broker) rescue(ctx context.Context, e *Versioned[NumberEntry], namesake Settings) (rescued bool, err error) {
	stats, err := b.store.Stats(ctx, []Number{e.Value.Number})
	if err != nil || len(stats) == 0 {
		return false, err
	}
	leave, err := b.enterAdmin(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	if namesake.Number != 0 {
		return true, b.handOn(ctx, e, &namesake)
	}
	s := *e.Value.Deleted
	s.UpdatedAt = stamp()
	if err := b.takeDead(ctx, &s); err != nil {
		if _, refused := errors.AsType[*InvalidError](err); !refused {
			return true, err
		}
		s.DeadQueue = "" // it went as well, or is used for something else
	}
	revision, err := b.opts.Queues.Put(ctx, s.Namespace, s.Name, s, 0, time.Time{})
	if errors.Is(err, ErrExists) {
		return true, nil // made anew just now: the next look hands its items on
	}
	if err != nil {
		return true, err
	}
	b.known.changed(s, revision)
	b.log.Warn("a deleted queue is there again: another node had put items on it before it knew", "queue", s.Name, "number", s.Number.Own())
	e.Value.Deleted = nil
	return true, b.keepNumber(ctx, e, time.Time{})
}

// handOn moves all items of a deleted queue to the one that has its name now. What is
// leased is moved at a later look.
func (b *Broker) handOn(ctx context.Context, e *Versioned[NumberEntry], to *Settings) error {
	moved := 0
	parts, err := b.partitionsOf(ctx, e.Value.Number)
	if err != nil {
		return err
	}
	targets := map[Number]*knownQueue{}
	if to.Partitions > 1 {
		if targets[to.Number], err = b.known.numbered(ctx, to.Number); err != nil {
			return err
		}
	}
	for _, partition := range parts {
		list := ListRequest{Queue: e.Value.Number, Partition: partition, Limit: redrivePage}
		for more := true; more; more = list.Cursor != "" {
			page, err := b.store.ListItems(ctx, list)
			if err != nil {
				return err
			}
			list.Cursor = page.Next
			moves := make([]Move, len(page.Items))
			for i := range page.Items {
				moves[i] = Move{Key: page.Items[i].Key, Target: to.Number, ExpireTTL: to.ExpireTTL}
			}
			if err := b.placeMoves(ctx, moves, targets); err != nil {
				return err
			}
			statuses, err := b.store.Move(ctx, moves)
			if err != nil {
				return fmt.Errorf("hand on to %s: %w", to.Name, err)
			}
			for _, status := range statuses {
				if status == Moved {
					moved++
				}
			}
		}
	}
	b.Wake(to.Number)
	if moved == 0 {
		return b.keepNumber(ctx, e, stamp().Add(lingerAfterDelete)) // all of it is leased
	}
	b.log.Warn("items came to a queue after it was deleted; the one of its name has them now", "queue", to.Name, "items", moved)
	return b.keepNumber(ctx, e, stamp().Add(lingerAfterDelete))
}

// keepNumber has a number looked at again at wakeAt, or, if that is zero, not any more.
func (b *Broker) keepNumber(ctx context.Context, e *Versioned[NumberEntry], wakeAt time.Time) error {
	_, err := b.opts.Numbers.Put(ctx, e.Namespace, e.Name, e.Value, e.Revision, wakeAt)
	return ignoreOvertaken(err)
}
