package queue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Reasons in the ending records of items that a call ended.
const (
	// ReasonCleared: [Broker.Clear].
	ReasonCleared = "cleared"
	// ReasonCancelled: [Broker.Cancel].
	ReasonCancelled = "cancelled"
)

const (
	// kindPage bounds a page of items that are read with their content, of which their
	// kind is a part.
	kindPage = 50
	// findPage bounds how many items are looked for before what was found is ended.
	findPage = 500
	// cancelLooks bounds how often what moves meanwhile is looked for again.
	cancelLooks = 10
	// spareTime is what a call leaves of its time, so that its answer still arrives.
	spareTime = 50 * time.Millisecond
)

// Clear ends a queue's items by their state, without delivering them. Receipts of
// leased ones turn stale; idempotency keys stay known. A call whose time is nearly up
// answers what it has done, with More: the same call again goes on.
//
// Errors: [InvalidError]; [ErrNotFound]; those of [Store]. After an error some items
// may be gone; a repeat is safe.
func (b *Broker) Clear(ctx context.Context, call ClearCall) (Cancelled, error) {
	var states []State
	if call.Scheduled {
		states = append(states, Scheduled, Retrying)
	}
	if call.Ready {
		states = append(states, Ready, Lapsed, Behind)
	}
	if call.Leased {
		states = append(states, Leased)
	}
	if len(states) == 0 {
		return Cancelled{}, Invalid("queue", "is not set, nor scheduled or destructive; set one of them at least")
	}
	// Read again, so that partitions count that another node added.
	q, err := b.known.reread(ctx, call.Namespace, call.Queue)
	if err != nil {
		return Cancelled{}, err
	}
	done, err := b.purgeStates(ctx, q, states, ReasonCleared)
	if err != nil {
		return done, fmt.Errorf("clear %s: %w", call.Queue, err)
	}
	b.log.Info("queue cleared", "queue", call.Queue, "items", done.Count, "more", done.More)
	return done, nil
}

// Cancel ends items without delivering them, leased ones and buried ones too, and
// erases them. Items that change while a filter is applied may be missed, or ended in
// a state that they have entered since. A call whose time is nearly up answers what it
// has done, with More.
//
// Errors: [InvalidError]; [TooLargeError]; [ErrNotFound], for the queue; those of
// [Store]. After an error some items may be gone; a repeat is safe.
func (b *Broker) Cancel(ctx context.Context, call CancelCall) (Cancelled, error) {
	if err := checkCancel(&call); err != nil {
		return Cancelled{}, err
	}
	var q *knownQueue
	if call.Queue != "" {
		var err error
		if q, err = b.known.reread(ctx, call.Namespace, call.Queue); err != nil {
			return Cancelled{}, err
		}
	}
	var done Cancelled
	var err error
	switch {
	case q != nil && call.Partition != 0:
		err = b.checkPartition(ctx, q, call.Partition)
	case call.Partition != 0:
		err = Invalid("partition", "goes with a queue")
	}
	if err != nil {
		return Cancelled{}, err
	}
	switch {
	case len(call.IDs) > 0:
		done, err = b.cancelNamed(ctx, &call, q)
	case call.Kind == "" && call.Before.IsZero():
		var states []State
		if call.State != 0 {
			states = []State{call.State}
		}
		done, err = b.purgeStates(ctx, q, states, ReasonCancelled)
	default:
		done, err = b.cancelMatching(ctx, &call, q)
	}
	if err != nil {
		return done, fmt.Errorf("cancel: %w", err)
	}
	if done.Count > 0 {
		b.log.Info("items cancelled", "queue", call.Queue, "items", done.Count, "more", done.More)
	}
	return done, nil
}

func checkCancel(call *CancelCall) error {
	filtered := call.Kind != "" || call.State != 0 || !call.Before.IsZero()
	switch n := len(call.IDs); {
	case n > DefaultMaxItems:
		return &TooLargeError{Field: "item_ids", Limit: DefaultMaxItems, Unit: "ids"}
	case n > 0 && filtered:
		return Invalid("filter", "goes without item_ids; give one of them")
	case n == 0 && call.Queue == "":
		return Invalid("filter.queue_name", "is missing; name the queue, or items by item_ids")
	case call.State < 0 || call.State > Behind:
		return Invalid("filter.state", "is none; want ready, scheduled, retrying, leased, lapsed or behind")
	default:
		return nil
	}
}

// cancelNamed ends the copies of items that a namespace has, in one queue or in all.
func (b *Broker) cancelNamed(ctx context.Context, call *CancelCall, q *knownQueue) (done Cancelled, err error) {
	ids := distinct(call.IDs)
	moving := false
	more, err := inPages(ctx, func() (more bool, err error) {
		page := ids[:min(len(ids), findPage)]
		ids = ids[len(page):]
		left, err := b.cancelPage(ctx, call, q, page, &done)
		moving = moving || left
		return len(ids) > 0, err
	})
	done.More = more || moving
	return done, err
}

// cancelPage ends the copies of some items. What moves to another queue between the look
// and the end of it is looked for again; left says that some of it went on moving.
func (b *Broker) cancelPage(ctx context.Context, call *CancelCall, q *knownQueue, page []ID, done *Cancelled) (left bool, err error) {
	for look := range cancelLooks {
		copies, err := b.copies(ctx, call.Namespace, page, q)
		if err != nil {
			return false, err
		}
		keys := make([]Key, len(copies))
		there := make(map[ID]bool, len(copies))
		for i := range copies {
			keys[i] = copies[i].Key
			there[copies[i].ID] = true
		}
		if look == 0 {
			for _, id := range page {
				if !there[id] {
					done.NotFound = append(done.NotFound, id)
				}
			}
		}
		n, err := b.purgeKeys(ctx, keys, ReasonCancelled)
		done.Count += n
		if err != nil || n == len(keys) {
			return false, err
		}
		page = slices.Collect(maps.Keys(there))
	}
	return true, nil
}

func distinct(ids []ID) []ID {
	seen := make(map[ID]bool, len(ids))
	var once []ID
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			once = append(once, id)
		}
	}
	return once
}

// copies returns the living copies of items in a namespace, or, with q, in one queue,
// without their content.
func (b *Broker) copies(ctx context.Context, ns Namespace, ids []ID, q *knownQueue) ([]Item, error) {
	found, err := b.store.Find(ctx, ids, false)
	if err != nil {
		return nil, fmt.Errorf("find items: %w", err)
	}
	kept := found[:0]
	for i := range found {
		if it := &found[i]; it.Queue.Namespace() == ns && (q == nil || it.Queue == q.number) {
			kept = append(kept, *it)
		}
	}
	return kept, nil
}

// cancelMatching ends the items of a queue to which a filter applies.
func (b *Broker) cancelMatching(ctx context.Context, call *CancelCall, q *knownQueue) (done Cancelled, err error) {
	list := ListRequest{Queue: q.number, Limit: purgePage}
	if call.State != 0 {
		list.States = []State{call.State}
	}
	if call.Kind != "" {
		list.Content, list.Limit = true, kindPage
	}
	behind, err := b.hasBehind(ctx, q)
	if err != nil {
		return done, err
	}
	if behind {
		return b.purgeFound(ctx, list, q.extent(), call.matches, ReasonCancelled)
	}
	done.More, err = inPages(ctx, func() (more bool, err error) {
		page, err := b.store.ListItems(ctx, list)
		if err != nil {
			return false, err
		}
		more = list.next(page.Next, q.extent())
		n, err := b.purgeKeys(ctx, matching(page.Items, call.matches), ReasonCancelled)
		done.Count += n
		return more, err
	})
	return done, err
}

func matching(items []Item, matches func(*Item) bool) (keys []Key) {
	for i := range items {
		if matches(&items[i]) {
			keys = append(keys, items[i].Key)
		}
	}
	return keys
}

// hasBehind says whether a queue has items behind others of their ordering keys. Whoever ends
// the heads page by page meets them as heads then.
func (b *Broker) hasBehind(ctx context.Context, q *knownQueue) (bool, error) {
	stats, err := b.store.Stats(ctx, []Number{q.number})
	return slices.ContainsFunc(stats, func(s Stats) bool { return s.Behind > 0 }), err
}

// maxFound bounds what purgeFound remembers: 32 bytes each.
const maxFound = 200_000

// purgeFound finds all that is asked for, in as many partitions from that of list on, before
// it ends any of it, so that what takes the place of a head by that is not taken for it.
func (b *Broker) purgeFound(ctx context.Context, list ListRequest, partitions int32, matches func(*Item) bool, reason string) (done Cancelled, err error) {
	var keys []Key
	var left bool
	_, err = inPages(ctx, func() (more bool, err error) {
		page, err := b.store.ListItems(ctx, list)
		if err != nil {
			return false, err
		}
		keys = append(keys, matching(page.Items, matches)...)
		left = list.next(page.Next, partitions)
		return left && len(keys) < maxFound, nil
	})
	if err != nil {
		return done, err
	}
	over, err := inPages(ctx, func() (more bool, err error) {
		page := keys[:min(len(keys), purgePage)]
		keys = keys[len(page):]
		n, err := b.purgeKeys(ctx, page, reason)
		done.Count += n
		return len(keys) > 0, err
	})
	done.More = left || over
	return done, err
}

func (c *CancelCall) matches(it *Item) bool {
	return (c.Kind == "" || it.Kind == c.Kind) && (c.Before.IsZero() || it.CreatedAt.Before(c.Before))
}

// purgeKeys ends items by their keys, and returns how many were still there.
func (b *Broker) purgeKeys(ctx context.Context, keys []Key, reason string) (int, error) {
	if len(keys) == 0 {
		return 0, nil
	}
	answer, err := b.store.Purge(ctx, PurgeRequest{Keys: keys, Limit: len(keys), Reason: reason})
	for _, key := range keys {
		b.endings.wake(key.ID)
		if b.ordered.has(key.Queue) {
			b.Wake(key.Queue)
		}
	}
	return answer.Purged, err
}

// purgeStates ends the items of a queue that are in some states, or in any.
func (b *Broker) purgeStates(ctx context.Context, q *knownQueue, states []State, reason string) (done Cancelled, err error) {
	defer b.endings.wakeAll()
	behind, err := b.hasBehind(ctx, q)
	if err != nil {
		return done, err
	}
	if behind && len(states) > 0 && !slices.Contains(states, Behind) {
		list := ListRequest{Queue: q.number, States: states, Limit: purgePage}
		return b.purgeFound(ctx, list, q.extent(), func(*Item) bool { return true }, reason)
	}
	for partition := range q.extent() {
		done.More, err = inPages(ctx, func() (more bool, err error) {
			answer, err := b.store.Purge(ctx, PurgeRequest{
				Queue: q.number, Partition: partition, States: states, Limit: purgePage, Reason: reason,
			})
			done.Count += answer.Purged
			// What took the place of a head may stand where the store has been already.
			return answer.More || behind && answer.Purged > 0, err
		})
		if err != nil || done.More {
			break
		}
	}
	if b.ordered.has(q.number) {
		b.Wake(q.number)
	}
	return done, err
}

// inPages works page by page, until one was the last or the time of ctx is nearly up:
// then there is more. One page is done in any case.
func inPages(ctx context.Context, page func() (more bool, err error)) (more bool, err error) {
	deadline, bounded := ctx.Deadline()
	for {
		started := time.Now()
		if more, err = page(); err != nil || !more {
			return false, err
		}
		// The next page may well take longer than this one.
		if bounded && time.Until(deadline) < spareTime+2*time.Since(started) {
			return true, nil
		}
	}
}
