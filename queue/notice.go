package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// subscriptionOnDone is the queue that the subscription of a queue tells of ends, or empty.
func (b *Broker) subscriptionOnDone(ctx context.Context, q *knownQueue) (string, error) {
	if b.opts.OnDone == nil {
		return "", nil
	}
	name, err := b.opts.OnDone(ctx, q.ns, q.name)
	if err != nil {
		return "", fmt.Errorf("on_done of %s: %w", q.name, err)
	}
	return name, nil
}

// noticeOf returns the notice of an item's end on a queue, or nil if nobody is told.
func (b *Broker) noticeOf(ctx context.Context, it *Item, from *knownQueue, onDone string) (*notice, error) {
	onDone = cmp.Or(it.ownOnDone(), onDone)
	if onDone == "" {
		var err error
		if onDone, err = b.subscriptionOnDone(ctx, from); onDone == "" || err != nil {
			return nil, err
		}
	}
	return newNotice(it, from, onDone), nil
}

// notify gives the targets of some entries their notices, as far as they need one. Items
// that the caller does not have are read, and are left out if they are not there as their
// receipts say: the store will refuse those.
func (b *Broker) notify(ctx context.Context, call *SettleCall, targets []target, of []int) error {
	var unread []ID
	for _, i := range of {
		e := &call.Entries[i]
		if !e.tells() {
			continue
		}
		if e.Item == nil {
			unread = append(unread, e.Receipt.Key.ID)
		} else if err := b.notifyOne(ctx, e, &targets[i], e.Item); err != nil {
			return atEntry("receipts", i, err)
		}
	}
	if len(unread) == 0 {
		return nil
	}
	found, err := b.read(ctx, unread)
	if err != nil {
		return err
	}
	for _, i := range of {
		e := &call.Entries[i]
		if !e.tells() || e.Item != nil {
			continue
		}
		if it := found[e.Receipt.Key]; it != nil && it.Token == e.Receipt.Token {
			if err := b.notifyOne(ctx, e, &targets[i], it); err != nil {
				return atEntry("receipts", i, err)
			}
		}
	}
	return nil
}

func (b *Broker) notifyOne(ctx context.Context, e *SettleEntry, to *target, it *Item) error {
	from, err := b.known.numbered(ctx, it.Queue)
	if errors.Is(err, ErrNotFound) {
		return nil // it was deleted, and its items are being cancelled
	}
	if err != nil {
		return err
	}
	if to.notice, err = b.noticeOf(ctx, it, from, e.OnDone); err != nil {
		return err
	}
	if to.notice == nil && to.record == nil && len(e.Result) > 0 && !e.Receipt.Pushed {
		return errResultLost(from)
	}
	return nil
}

// read returns items with their content, but not their payloads, by their places.
func (b *Broker) read(ctx context.Context, ids []ID) (map[Key]*Item, error) {
	items := make(map[Key]*Item, len(ids))
	for page := range slices.Chunk(distinct(ids), kindPage) {
		found, err := b.store.Find(ctx, page, true)
		if err != nil {
			return nil, fmt.Errorf("find items: %w", err)
		}
		for i := range found {
			found[i].Payload = nil
			items[found[i].Key] = &found[i]
		}
	}
	return items, nil
}

// pinTold pins the queue or topic that a notice is for, or answers nil if it cannot be told:
// then the item ends all the same. Whether the queue is paused does not matter.
func (b *Broker) pinTold(ctx context.Context, n *notice, pinned *pinSet) (*knownQueue, error) {
	if n.item.Hop+1 >= MaxHop {
		b.warnUntold(n, "the item comes from a loop")
		return nil, nil
	}
	to, err := pinned.pin(ctx, b.known, func() (*knownQueue, error) { return b.known.either(ctx, n.from.ns, n.onDone) })
	if errors.Is(err, ErrNotFound) {
		b.warnUntold(n, "it does not exist")
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("on_done of %s: %w", n.from.name, err)
	}
	if to.settings().Topic != nil && n.item.Kind == DoneKind && n.item.Hop > 0 {
		// Topics whose subscriptions tell each other would multiply what they are told.
		b.warnUntold(n, "the item tells of an end itself, of which no topic is told")
		return nil, nil
	}
	return to, nil
}

// warnUntold logs that nobody is told of an end. The reason is one of a few.
func (b *Broker) warnUntold(n *notice, why string) {
	if b.warnings.may(fmt.Sprint("on_done ", n.from.ns, n.onDone, why)) {
		b.log.Warn("ends of items are not told", "reason", why, "on_done", n.onDone, "queue", n.from.name, "item_id", n.item.ID.String())
	}
}
