package resident

import (
	"context"
	"fmt"

	"github.com/posthaste-io/posthaste/queue"
)

// arrival is an item on its way in, with its content encoded: that is done before
// the lock is taken.
type arrival struct {
	*queue.NewItem
	content []byte
}

// Produce implements [queue.Store]. A group over a bound of the disk fails alone,
// with a [queue.TooLargeError].
func (s *Store) Produce(ctx context.Context, groups []queue.ProduceGroup) (queue.ProduceAnswer, error) {
	answer := queue.ProduceAnswer{Groups: make([]queue.ProduceResult, len(groups))}
	arrivals := make([][]arrival, len(groups))
	for i := range groups {
		arrivals[i], answer.Groups[i].Err = s.prepare(groups[i].Items, "items")
	}
	now, err := s.begin(ctx, grows)
	if err != nil {
		return queue.ProduceAnswer{}, err
	}
	answer.Now = instant(now)
	for i := range groups {
		if answer.Groups[i].Err != nil {
			continue
		}
		if answer.Groups[i], err = s.produce(arrivals[i], now); err != nil {
			return queue.ProduceAnswer{}, s.abandon(err)
		}
		s.seal()
	}
	if err := s.leave(ctx); err != nil {
		return queue.ProduceAnswer{}, err
	}
	return answer, nil
}

// itemOverhead is what an item writes beside its content and its dedupe key,
// generously, in bytes: keys, state, and what an engine adds to each write.
const itemOverhead = 480

// prepare encodes the contents of what comes in together, and measures it.
func (s *Store) prepare(items []queue.NewItem, field string) ([]arrival, error) {
	arrivals := make([]arrival, len(items))
	total := 0
	for i := range items {
		content := encodeContent(&items[i].Content)
		if bound := s.options.MaxContent; bound > 0 && len(content) > bound {
			return nil, &queue.TooLargeError{Field: fmt.Sprintf("%s[%d]", field, i), Limit: bound, Unit: "bytes"}
		}
		total += len(content) + itemOverhead
		if d := items[i].Dedupe; d != nil {
			total += 2 * len(d.Key) // the key, and when it ends
		}
		arrivals[i] = arrival{&items[i], content}
	}
	if bound := s.options.MaxGroup; bound > 0 && total > bound {
		return nil, &queue.TooLargeError{Field: field, Limit: bound, Unit: "bytes"}
	}
	return arrivals, nil
}

// produce judges a group before it inserts any of it.
func (s *Store) produce(items []arrival, now int64) (queue.ProduceResult, error) {
	var seen map[string][32]byte
	for i := range items {
		d := items[i].Dedupe
		if d == nil {
			continue
		}
		key := appendDedupeKey(nil, d)
		known, err := s.known(key, now)
		if err != nil {
			return queue.ProduceResult{}, err
		}
		hash, repeated := known.hash, known.id != (queue.ID{})
		if !repeated {
			hash, repeated = seen[string(key)]
		}
		if !repeated {
			if seen == nil {
				seen = map[string][32]byte{}
			}
			seen[string(key)] = d.Hash
		} else if hash != d.Hash {
			return queue.ProduceResult{Err: &queue.MismatchError{Index: i}}, nil
		}
	}
	result := queue.ProduceResult{Items: make([]queue.Produced, len(items))}
	for i := range items {
		var err error
		if result.Items[i], err = s.insert(items[i], now); err != nil {
			return queue.ProduceResult{}, err
		}
	}
	return result, nil
}

// insert adds an item, unless its key or the item itself is known: then it names
// the first one.
func (s *Store) insert(a arrival, now int64) (queue.Produced, error) {
	if d := a.Dedupe; d != nil {
		known, err := s.known(appendDedupeKey(nil, d), now)
		if err != nil {
			return queue.Produced{}, err
		}
		if known.id != (queue.ID{}) {
			return queue.Produced{ID: known.id, Duplicate: true}, nil
		}
	}
	key := queue.Key{ID: a.ID, Queue: a.Queue, Home: a.Queue}
	if lives, err := s.lives(key); err != nil || lives {
		return queue.Produced{ID: a.ID, Duplicate: true}, err
	}
	if a.Dedupe != nil {
		s.remember(a.Dedupe, a.ID, now)
	}
	due := dueTime(a.DueAt, a.Delay, now)
	sl := s.occupy(entry{
		id:      a.ID,
		at:      due,
		seq:     s.next(),
		created: now,
		part:    s.ensure(a.Queue, a.Partition).index,
		home:    s.homes.index(a.Queue),
		size:    uint32(a.Size()),
	})
	e := s.entries.get(sl)
	if a.ExpireTTL != 0 || a.MaxAttempts != 0 || a.OrderingKey != "" {
		x := s.touch(e)
		x.maxAttempts = a.MaxAttempts
		x.expires = expiry(due, a.ExpireTTL)
		x.orderingKey = a.OrderingKey
	}
	if s.options.Volatile {
		*s.contents.reach(sl) = a.content
	} else {
		s.put(appendContentKey(s.arena.bytes(contentKeySize), a.Queue, e.seq), a.content, false)
	}
	s.lower(sl, now)
	return queue.Produced{ID: a.ID, DueAt: instant(due)}, nil
}
