package queue

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// recordsPerItem bounds what is read of an item's journal, newest first: the ends of
// its copies are among the first.
const recordsPerItem = 100

// Look returns where an item is, one entry for each queue of the namespace that holds
// it, then one for each where it ended. A named queue limits that to itself, and to
// what it buried.
//
// An ending is shown while it is younger than the queue's KeepEnded; where the item
// was pushed, as long as the journal has it. What was buried lives in its dead-letter
// queue.
//
// Errors: [ErrNotFound], if nothing is known of it; those of [Store].
func (b *Broker) Look(ctx context.Context, ns Namespace, id ID, queue string) ([]ItemState, error) {
	q, err := b.namedOrAny(ctx, ns, queue)
	if err != nil {
		return nil, err
	}
	return b.lookFrom(ctx, ns, id, q)
}

// namedOrAny is nil for an empty name.
func (b *Broker) namedOrAny(ctx context.Context, ns Namespace, name string) (*knownQueue, error) {
	if name == "" {
		return nil, nil
	}
	return b.known.named(ctx, ns, name)
}

func (b *Broker) lookFrom(ctx context.Context, ns Namespace, id ID, q *knownQueue) ([]ItemState, error) {
	// Before the journal: what ends in between is found there.
	living, err := b.copiesFrom(ctx, ns, id, q)
	if err != nil {
		return nil, err
	}
	ends, err := b.ends(ctx, ns, id, q, living)
	if err != nil {
		return nil, err
	}
	states := make([]ItemState, 0, len(living)+len(ends))
	for i := range living {
		states = append(states, ItemState{Item: living[i]})
	}
	for i := range ends {
		states = append(states, ItemState{
			Item: Item{Key: ends[i].Key}, Ending: &ends[i].Record, Attempts: ends[i].attempts,
		})
	}
	shown := 0
	for i := range states {
		st := &states[i]
		in, err := b.known.numbered(ctx, st.Item.Queue)
		if errors.Is(err, ErrNotFound) {
			continue // it was deleted, and its items with it
		}
		if err != nil {
			return nil, err
		}
		if st.Now, err = b.storeNow(ctx, in.number); err != nil {
			return nil, err
		}
		st.Queue = *in.settings()
		if i >= len(living) && !ends[i-len(living)].isKept(&st.Queue, st.Now) {
			continue
		}
		states[shown] = *st
		shown++
	}
	if shown == 0 {
		return nil, fmt.Errorf("item %s: %w", id, ErrNotFound)
	}
	return states[:shown], nil
}

// copiesFrom returns the living copies of an item in a namespace, or, with q, those
// that this queue has or has buried.
func (b *Broker) copiesFrom(ctx context.Context, ns Namespace, id ID, q *knownQueue) ([]Item, error) {
	all, err := b.copies(ctx, ns, []ID{id}, nil)
	if err != nil || q == nil {
		return all, err
	}
	kept := all[:0]
	for i := range all {
		if it := &all[i]; it.Queue == q.number || it.Dead != nil && it.Dead.From == q.number {
			kept = append(kept, *it)
		}
	}
	return kept, nil
}

// end is how a copy of an item ended.
type end struct {
	Record
	// pushed says that the journal tells of a push of it, attempts how many counted.
	pushed   bool
	attempts int32
}

// isKept says whether the end is still known to a queue at the store's time now.
func (e *end) isKept(s *Settings, now time.Time) bool {
	return e.pushed || now.Sub(e.At) < s.KeepEnded
}

// ends returns how copies of an item ended that do not live any more, newest first.
func (b *Broker) ends(ctx context.Context, ns Namespace, id ID, q *knownQueue, living []Item) ([]end, error) {
	if b.opts.Records == nil {
		return nil, nil
	}
	records, err := b.opts.Records(ctx, ns, id, recordsPerItem)
	if err != nil {
		return nil, fmt.Errorf("records of %s: %w", id, err)
	}
	newest := map[Key]*end{}
	for i := range living {
		newest[living[i].Key] = nil
	}
	var ended []*end
	for i := range records {
		r := &records[i]
		e, seen := newest[r.Key]
		if !seen {
			e = &end{Record: *r}
			newest[r.Key] = e
			if (r.Next == StepComplete || r.Next == StepCancel) && (q == nil || r.Key.Queue == q.number) {
				ended = append(ended, e)
			}
		}
		if e == nil {
			continue
		}
		if r.Subscription != "" {
			e.pushed = true
		}
		if (r.Type == AttemptRecord || r.Type == OutcomeRecord) && (r.Next == StepRetry || r.Next == StepBury) {
			e.attempts++
		}
	}
	ends := make([]end, len(ended))
	for i, e := range ended {
		ends[i] = *e
	}
	return ends, nil
}

// storeNow is the store's time, which any page of a list tells.
func (b *Broker) storeNow(ctx context.Context, n Number) (time.Time, error) {
	page, err := b.store.ListItems(ctx, ListRequest{Queue: n, Limit: 1})
	if err != nil {
		return time.Time{}, fmt.Errorf("the store's time: %w", err)
	}
	return page.Now, nil
}
