package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// rescue puts back what came to a queue after it was deleted: a node that did not know
// of the deletion yet has told its callers that it is kept. The queue is there again; or,
// if its name is used anew, its items go to the new one, unless that is a topic: then they
// wait. It answers false if nothing
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
	if namesake.Topic != nil {
		// A topic holds nothing, and its subscriptions were not promised these.
		b.log.Error("items came to a queue after it was deleted, and its name is a topic's now; they are there again once the name is free",
			"queue", e.Value.Queue, "number", e.Value.Number.Own())
		return true, b.keepNumber(ctx, e, stamp().Add(lingerAfterDelete))
	}
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
	at := time.Now()
	revision, err := b.opts.Queues.Put(ctx, s.Namespace, s.Name, s, 0, time.Time{})
	if errors.Is(err, ErrExists) {
		return true, nil // made anew just now: the next look hands its items on
	}
	if err != nil {
		return true, err
	}
	b.known.changed(s, revision, at)
	b.log.Warn("a deleted queue is there again: another node had put items on it before it knew", "queue", s.Name, "number", s.Number.Own())
	e.Value.Deleted = nil
	if s.Drains() {
		return true, b.keepNumber(ctx, e, stamp().Add(lingerAfterDelete)) // until its partitions are empty
	}
	return true, b.keepNumber(ctx, e, time.Time{})
}

// handOn moves all items of a deleted queue to the one that has its name now. What is
// leased is moved at a later look.
func (b *Broker) handOn(ctx context.Context, e *Versioned[NumberEntry], to *Settings) error {
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
	moved, err := b.handOnFrom(ctx, e.Value.Number, parts, to, targets)
	if err != nil {
		return fmt.Errorf("hand on to %s: %w", to.Name, err)
	}
	b.Wake(to.Number)
	if moved == 0 {
		return b.keepNumber(ctx, e, stamp().Add(lingerAfterDelete)) // all of it is leased
	}
	b.log.Warn("items came to a queue after it was deleted; the one of its name has them now", "queue", to.Name, "items", moved)
	return b.keepNumber(ctx, e, stamp().Add(lingerAfterDelete))
}

// handOnFrom moves what is not leased, nor behind what is, in the order of the queue as a
// whole: the items of a key may lie in several partitions. After each page that moved
// something it begins anew: what took the place of a head may stand before the page.
func (b *Broker) handOnFrom(ctx context.Context, from Number, parts []int32, to *Settings, targets map[Number]*knownQueue) (moved int, err error) {
	stuck, err := b.leasedKeys(ctx, from)
	if err != nil {
		return 0, err
	}
	list := b.listMerged(from, parts)
	for {
		page, more, err := list.next(ctx)
		if err != nil {
			return moved, err
		}
		var moves []Move
		for i := range page {
			if it := &page[i]; !stuck[it.OrderingKey] {
				moves = append(moves, Move{Key: it.Key, Target: to.Number, ExpireTTL: to.ExpireTTL})
			}
		}
		if err := b.placeMoves(ctx, moves, targets); err != nil {
			return moved, err
		}
		statuses, err := b.store.Move(ctx, moves)
		if err != nil {
			return moved, err
		}
		before := moved
		for _, status := range statuses {
			if status == Moved {
				moved++
			}
		}
		switch {
		case moved > before:
			list = b.listMerged(from, parts)
		case !more:
			return moved, nil
		}
	}
}

// mergedList lists several partitions of a queue as if they were one.
type mergedList struct {
	b     *Broker
	parts []partitionList
}

// partitionList is what was read of a partition and not given yet; all says that the rest
// of it is there.
type partitionList struct {
	list  ListRequest
	items []Item
	all   bool
}

func (b *Broker) listMerged(n Number, parts []int32) *mergedList {
	m := &mergedList{b: b}
	for _, partition := range parts {
		m.parts = append(m.parts, partitionList{list: ListRequest{
			Queue: n, Partition: partition, Limit: redrivePage/len(parts) + 1, Content: true,
		}})
	}
	return m
}

// next returns the next items, and whether there are more: in order for as long as it is
// known of every partition what comes next.
func (m *mergedList) next(ctx context.Context) (items []Item, more bool, err error) {
	for i := range m.parts {
		p := &m.parts[i]
		if len(p.items) > 0 || p.all {
			continue
		}
		page, err := m.b.store.ListItems(ctx, p.list)
		if err != nil {
			return nil, false, err
		}
		p.items, p.list.Cursor, p.all = page.Items, page.Next, page.Next == ""
	}
	for len(items) < redrivePage {
		var first *partitionList
		for i := range m.parts {
			p := &m.parts[i]
			switch {
			case len(p.items) == 0 && !p.all:
				return items, true, nil
			case len(p.items) > 0 && (first == nil || inOrder(&p.items[0], &first.items[0]) < 0):
				first = p
			}
		}
		if first == nil {
			return items, false, nil
		}
		items = append(items, first.items[0])
		first.items = first.items[1:]
	}
	return items, true, nil
}

// inOrder compares items by their places in a queue.
func inOrder(a, b *Item) int {
	return cmp.Or(a.AvailableAt.Compare(b.AvailableAt), cmp.Compare(a.Seq, b.Seq))
}

// leasedKeys are the ordering keys of a queue whose heads are leased.
func (b *Broker) leasedKeys(ctx context.Context, from Number) (map[string]bool, error) {
	keys := make(map[string]bool)
	for req := (KeysRequest{Queue: from, Limit: redrivePage}); ; {
		page, err := b.store.ListKeys(ctx, req)
		if err != nil {
			return nil, err
		}
		for i := range page.Keys {
			if page.Keys[i].Head.Held {
				keys[page.Keys[i].Key] = true
			}
		}
		if len(page.Keys) < req.Limit {
			return keys, nil
		}
		req.After = page.Keys[len(page.Keys)-1].Key
	}
}

// keepNumber has a number looked at again at wakeAt, or, if that is zero, not any more.
func (b *Broker) keepNumber(ctx context.Context, e *Versioned[NumberEntry], wakeAt time.Time) error {
	_, err := b.opts.Numbers.Put(ctx, e.Namespace, e.Name, e.Value, e.Revision, wakeAt)
	return ignoreOvertaken(err)
}
