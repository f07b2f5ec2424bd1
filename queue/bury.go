package queue

import (
	"errors"
	"fmt"
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
	key    Key
	token  Token
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
	ctx, cancel := b.storeContext()
	defer cancel()
	var pinned []*knownQueue
	defer func() { unpinAll(pinned) }()
	var errs error
	dead := map[*knownQueue]*knownQueue{} // nil for a queue whose items stay
	var groups []SettleGroup
	var going []doomedItem
	for _, d := range doomed {
		to, known := dead[d.queue]
		if !known {
			var err error
			if to, err = b.pinDead(ctx, d.queue); err != nil {
				errs = errors.Join(errs, fmt.Errorf("dead-letter queue of %s: %w", d.queue.name, err))
			} else {
				pinned = append(pinned, to)
			}
			dead[d.queue] = to
		}
		if to == nil {
			continue
		}
		going = append(going, d)
		groups = append(groups, SettleGroup{Entries: []Settlement{{
			Key: d.key, Token: d.token, Guard: guard, Outcome: Bury,
			DeadQueue: to.number, Reason: d.reason,
			Record: &Record{Type: EndingRecord, Verdict: d.reason},
		}}})
	}
	if len(groups) == 0 {
		return 0, errs
	}
	answer, err := b.store.Settle(ctx, groups)
	if err != nil {
		return 0, errors.Join(errs, fmt.Errorf("bury: %w", err))
	}
	buried := 0
	for i, group := range answer.Groups {
		if group[0].Status == Applied {
			buried++
			b.endings.wake(going[i].key.ID)
			b.log.Debug("item buried", "item_id", going[i].key.ID.String(), "queue", going[i].queue.name, "reason", going[i].reason)
		}
	}
	for _, q := range pinned {
		b.Wake(q.number)
	}
	return buried, errs
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
