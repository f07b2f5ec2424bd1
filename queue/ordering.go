package queue

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// ReasonSkipped is why a head is buried that somebody let the others of its key pass.
const ReasonSkipped = "skipped"

// orderedQueues are those of which this broker has seen items with an ordering key: what
// ends there may let another item go. Who ends an item got it from a lease, here or at
// another node, which tells of it as of any other item that can be leased.
type orderedQueues struct{ numbers sync.Map }

func (o *orderedQueues) saw(q Number, c *Content) {
	if c.OrderingKey == "" {
		return
	}
	if _, known := o.numbers.Load(q); !known {
		o.numbers.Store(q, struct{}{})
	}
}

func (o *orderedQueues) has(q Number) bool {
	_, known := o.numbers.Load(q)
	return known
}

// KeysQuery asks for the ordering keys of a queue that have items behind their head, after
// the one named.
type KeysQuery struct {
	Namespace Namespace
	Queue     string
	After     string
	// Limit is 1 to 1,000.
	Limit int
}

// Keys lists ordering keys with what they wait for. A page that is shorter than its limit is
// the last.
//
// Errors: [InvalidError]; [ErrNotFound]; those of [Store].
func (b *Broker) Keys(ctx context.Context, query KeysQuery) (KeysPage, error) {
	if query.Limit < 1 || query.Limit > DefaultMaxItems {
		return KeysPage{}, Invalid("limit", "is %d; want 1 to %d", query.Limit, DefaultMaxItems)
	}
	if !isStorable(query.After) {
		return KeysPage{}, Invalid("cursor", "is not UTF-8 without NUL")
	}
	q, err := b.known.named(ctx, query.Namespace, query.Queue)
	if err != nil {
		return KeysPage{}, err
	}
	return b.store.ListKeys(ctx, KeysRequest{Queue: q.number, After: query.After, Limit: query.Limit})
}

// UnblockCall names the head of an ordering key, which keeps the others from going.
type UnblockCall struct {
	Namespace Namespace
	Queue     string
	Item      ID
	// Skip buries it, so that the next goes; else it is tried again at once.
	Skip bool
}

// Unblock lets an ordering key go on: its head is tried again at once, or buried. Its counters
// stay.
//
// Errors: [ErrNotFound]; [ErrNotBlocking], if the item is being worked on, or is not the head
// of a key; those of [Store].
func (b *Broker) Unblock(ctx context.Context, call UnblockCall) error {
	q, err := b.pin(ctx, func() (*knownQueue, error) { return b.known.named(ctx, call.Namespace, call.Queue) })
	if err != nil {
		return err
	}
	defer q.unpin()
	head, err := b.blockingHead(ctx, q, call.Item)
	if err != nil {
		return err
	}
	changed := notBlocking(call.Item, "has changed meanwhile; look at queue.keys again")
	if call.Skip {
		buried, err := b.bury([]doomedItem{{item: *head, read: true, queue: q, reason: ReasonSkipped}}, NotLive)
		if err == nil && buried == 0 {
			err = changed
		}
		return err
	}
	answer, err := b.store.Settle(ctx, []SettleGroup{{Entries: []Settlement{{
		Key: head.Key, Token: head.Token, Guard: NotLive, Outcome: Release,
		DueAt: time.UnixMicro(1), // which is past, and so now
	}}}})
	if err != nil {
		return err
	}
	if answer.Groups[0][0].Status != Applied {
		return changed
	}
	b.Wake(q.number)
	return nil
}

// blockingHead returns an item that keeps others of its key from going.
func (b *Broker) blockingHead(ctx context.Context, q *knownQueue, id ID) (*Item, error) {
	found, err := b.read(ctx, []ID{id})
	if err != nil {
		return nil, err
	}
	now, err := b.storeNow(ctx, q.number)
	if err != nil {
		return nil, err
	}
	for key, it := range found {
		if key.Queue != q.number {
			continue
		}
		switch state := it.State(now); {
		case it.OrderingKey == "" || it.Dead != nil:
			return nil, notBlocking(id, "has no ordering key that binds it, so nothing stands behind it")
		case state == Leased:
			return nil, notBlocking(id, "is being worked on; what stands behind it follows when that has ended")
		case state == Behind:
			return nil, notBlocking(id, "stands behind another of its key; name the head, as queue.keys tells it")
		}
		return it, nil
	}
	return nil, fmt.Errorf("item %s in queue %s: %w", id, q.name, ErrNotFound)
}

func notBlocking(id ID, why string) error {
	return fmt.Errorf("item %s %s: %w", id, why, ErrNotBlocking)
}

// parkedFor is for how long a parked head is put off: a century, far longer than anybody may
// ask for, so that its place alone says that it is parked. What ends it is [Broker.Unblock].
const parkedFor = 10 * maxAhead

// IsParked says whether an item is the head of an ordering key that waits for somebody. It is
// so whatever the queue's settings say meanwhile.
func (it *Item) IsParked(now time.Time) bool {
	// Twice what callers may ask for, since their clocks are not the store's.
	return it.State(now) == Retrying && it.AvailableAt.Sub(now) > 2*maxAhead
}

// park marks the retries of a call that are the last that a key has by itself. Items that the
// caller does not have are read; those that are not as their receipts say the store refuses.
func (b *Broker) park(ctx context.Context, call *SettleCall, targets []target) error {
	var unread []ID
	may := func(i int) bool {
		s := targets[i].settings
		return call.Entries[i].Outcome == Retry && s != nil && s.ParkAfter > 0 && !s.DeadLetter
	}
	for i := range call.Entries {
		switch e := &call.Entries[i]; {
		case !may(i):
		case e.Item == nil:
			unread = append(unread, e.Receipt.Key.ID)
		default:
			targets[i].parked = parks(e.Item, targets[i].settings)
		}
	}
	if len(unread) == 0 {
		return nil
	}
	found, err := b.read(ctx, unread)
	if err != nil {
		return err
	}
	for i := range call.Entries {
		e := &call.Entries[i]
		if it := found[e.Receipt.Key]; may(i) && e.Item == nil && it != nil {
			targets[i].parked = parks(it, targets[i].settings)
		}
	}
	return nil
}

// parks says whether one more failure of an item parks its key.
func parks(it *Item, s *Settings) bool { return it.OrderingKey != "" && it.Attempts+1 >= s.ParkAfter }
