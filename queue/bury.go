package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Reasons with which the broker buries by itself.
const (
	// ReasonMaxAttempts: the budget is used up.
	ReasonMaxAttempts = "max_attempts"
	// ReasonPoison: whoever worked on the item ended without an outcome, several
	// times in a row.
	ReasonPoison = "poison"
	// ReasonExpired: the item was not done in its time.
	ReasonExpired = "expired"
)

// doomedItem is an item that is to be buried by us.
type doomedItem struct {
	// item has its content where read says so, and counts as after its lapse.
	item   Item
	read   bool
	queue  *knownQueue
	reason string
}

// reasonToBury judges an item of the queue that nobody is working on, and returns
// "" if it may be given out. limit is the one in force for those without their
// own; 0 takes the queue's.
func (s *Settings) reasonToBury(it *Item, limit int32, now time.Time) string {
	if s.DeadLetter {
		return ""
	}
	if limit == 0 {
		limit = s.MaxAttempts
	}
	if it.MaxAttempts != 0 {
		limit = it.MaxAttempts
	}
	switch {
	case it.Expired(now):
		return ReasonExpired
	case limit > 0 && it.Attempts >= limit:
		return ReasonMaxAttempts
	case s.MaxRecoveries > 0 && it.Recoveries >= s.MaxRecoveries:
		return ReasonPoison
	default:
		return ""
	}
}

// bury moves items to the dead-letter queues of theirs, each by itself, and
// returns how many were still as they were found. An error of one queue leaves its
// items where they are, and not those of others. It goes past the batcher, whose
// bounds are for callers.
func (b *Broker) bury(doomed []doomedItem, guard Guard) (buried int, err error) {
	for batch := range slices.Chunk(doomed, MaxBatchEntries) {
		n, batchErr := b.buryBatch(batch, guard)
		buried += n
		err = errors.Join(err, batchErr)
	}
	return buried, err
}

func (b *Broker) buryBatch(doomed []doomedItem, guard Guard) (int, error) {
	doomed, err := b.readDoomed(doomed)
	if err != nil {
		return 0, fmt.Errorf("bury: %w", err)
	}
	f := burial{b: b, guard: guard, queues: map[*knownQueue]*graveyard{}}
	defer f.pinned.unpin()
	var errs error
	for i := range doomed {
		errs = errors.Join(errs, f.add(&doomed[i]))
	}
	errs = errors.Join(errs, f.flush())
	for q := range f.queues {
		if b.ordered.has(q.number) {
			b.Wake(q.number)
		}
	}
	return f.buried, errs
}

// readDoomed reads the contents of items that were found without: they say who is told of
// their ends. Those that are not as they were found are left out.
func (b *Broker) readDoomed(doomed []doomedItem) ([]doomedItem, error) {
	var unread []ID
	for i := range doomed {
		if !doomed[i].read {
			unread = append(unread, doomed[i].item.ID)
		}
	}
	if len(unread) == 0 {
		return doomed, nil
	}
	found := make(map[Key]*Item, len(unread))
	for page := range slices.Chunk(unread, kindPage) {
		// Each has its own time: there may be much in them.
		ctx, cancel := b.storeContext()
		items, err := b.read(ctx, page)
		cancel()
		if err != nil {
			return nil, err
		}
		maps.Copy(found, items)
	}
	kept := doomed[:0]
	for i := range doomed {
		d := doomed[i]
		if !d.read {
			it := found[d.item.Key]
			if it == nil || it.Token != d.item.Token {
				continue
			}
			d.item.Content = it.Content
		}
		kept = append(kept, d)
	}
	return kept, nil
}

// burial makes the settlements of one call of the store that buries.
type burial struct {
	b      *Broker
	guard  Guard
	pinned pinSet
	queues map[*knownQueue]*graveyard

	// groups are the settlements of going that wait for a flush, and of is what they are to
	// the store.
	groups []SettleGroup
	going  []*doomedItem
	of     burden
	buried int
}

// add buries an item with others, some of them now if they are many.
func (f *burial) add(d *doomedItem) error {
	s, err := f.settlement(d)
	if s == nil {
		return err
	}
	of := burdenOf([]Settlement{*s})
	if f.of.entries+of.entries > MaxBatchEntries || f.of.bytes+of.bytes > MaxBatchBytes {
		err = f.flush()
	}
	f.push(d, s, of)
	return err
}

func (f *burial) push(d *doomedItem, s *Settlement, of burden) {
	f.groups = append(f.groups, SettleGroup{Entries: []Settlement{*s}})
	f.going = append(f.going, d)
	f.of.entries, f.of.bytes = f.of.entries+of.entries, f.of.bytes+of.bytes
}

// flush has the store bury what waits, and what a topic is told of by what it is now. What is
// refused otherwise stays as it was found.
func (f *burial) flush() error {
	for range topicRounds {
		if len(f.groups) == 0 {
			return nil
		}
		if err := f.flushOnce(); err != nil {
			return err
		}
	}
	f.groups, f.going, f.of = nil, nil, burden{}
	return overtakenTooOften("a topic that is told")
}

// flushOnce does so once. What was made by what a topic is no more waits again.
func (f *burial) flushOnce() error {
	groups, going := f.groups, f.going
	f.groups, f.going, f.of = nil, nil, burden{}
	ctx, cancel := f.b.storeContext()
	defer cancel()
	answer, err := f.b.settleApart(ctx, groups)
	if err != nil {
		return fmt.Errorf("bury: %w", err)
	}
	var wakes wakes
	var overtaken []*doomedItem
	for i, group := range answer.Groups {
		s, d := &groups[i].Entries[0], going[i]
		switch {
		case group == nil && len(s.Produce) > 0:
			f.b.log.Warn("end of an item is not told: the copies for the topic do not fit into one transaction",
				"item_id", d.item.ID.String(), "queue", d.queue.name)
			s.Produce = nil
			f.push(d, s, burdenOf([]Settlement{*s}))
		case group == nil:
		case group[0].Status == Overtaken:
			overtaken = append(overtaken, d)
		case group[0].Status == Applied:
			f.buried++
			wakes.add(s.DeadQueue)
			wakes.addProduced(s)
			f.b.endings.wake(d.item.ID)
			f.b.log.Debug("item buried", "item_id", d.item.ID.String(), "queue", d.queue.name, "reason", d.reason)
		}
	}
	f.b.leases.wake(wakes)
	if len(overtaken) == 0 {
		return nil
	}
	if err := f.b.rereadTopics(ctx, f.pinned.queues); err != nil {
		return err
	}
	var errs error
	for _, d := range overtaken {
		s, err := f.settlement(d)
		errs = errors.Join(errs, err)
		if s != nil {
			f.push(d, s, burdenOf([]Settlement{*s}))
		}
	}
	return errs
}

// graveyard is where the items of a queue go, and who is told of it where they do not say.
// A nil dead is of a queue whose items stay.
type graveyard struct {
	dead   *knownQueue
	onDone string
}

// settlement buries an item, and is nil for one that stays. The error of a queue is told
// with the first of its items.
func (f *burial) settlement(d *doomedItem) (*Settlement, error) {
	ctx, cancel := f.b.storeContext()
	defer cancel()
	to, known := f.queues[d.queue]
	if !known {
		var err error
		if to, err = f.open(ctx, d.queue); err != nil {
			f.queues[d.queue] = &graveyard{}
			return nil, err
		}
		f.queues[d.queue] = to
	}
	if to.dead == nil {
		return nil, nil
	}
	s := &Settlement{
		Key: d.item.Key, Token: d.item.Token, Guard: f.guard, Outcome: Bury,
		DeadQueue: to.dead.number, Reason: d.reason,
		Record: &Record{Type: EndingRecord, Verdict: d.reason},
	}
	onDone := cmp.Or(d.item.ownOnDone(), to.onDone)
	if onDone == "" {
		return s, nil
	}
	n := newNotice(&d.item, d.queue, onDone)
	done := n.end(s, to.dead, &Record{})
	var err error
	if s.Produce, err = f.b.tell(ctx, n, &done, &f.pinned); err != nil {
		f.queues[d.queue] = &graveyard{}
		return nil, err
	}
	return s, nil
}

func (f *burial) open(ctx context.Context, q *knownQueue) (*graveyard, error) {
	dead, err := f.b.pinDead(ctx, q, &f.pinned)
	if err != nil {
		return nil, fmt.Errorf("dead-letter queue of %s: %w", q.name, err)
	}
	onDone, err := f.b.subscriptionOnDone(ctx, q)
	if err != nil {
		return nil, err
	}
	return &graveyard{dead: dead, onDone: onDone}, nil
}

// release gives items back to their places, each by itself. What cannot be given
// back lapses.
func (b *Broker) release(items []Item) {
	for batch := range slices.Chunk(items, MaxBatchEntries) {
		groups := make([]SettleGroup, len(batch))
		for i := range batch {
			groups[i].Entries = []Settlement{{Key: batch[i].Key, Token: batch[i].Token, Outcome: Release}}
		}
		ctx, cancel := b.storeContext()
		_, err := b.store.Settle(ctx, groups)
		cancel()
		if err != nil {
			b.log.Warn("items whose taker had left were not given back; their leases lapse", "items", len(batch), "error", err)
			continue
		}
		for i := range batch {
			b.Wake(batch[i].Queue)
		}
	}
}
