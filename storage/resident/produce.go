package resident

import (
	"context"
	"fmt"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// arrival is an item on its way in, with its content encoded: that is done before
// the lock is taken.
type arrival struct {
	*queue.NewItem
	content []byte
	body    uint64 // of the content that its copies share, once there is one
}

// Produce implements [queue.Store]. A group over a bound of the disk fails alone,
// with a [queue.TooLargeError].
func (s *Store) Produce(ctx context.Context, groups []queue.ProduceGroup) (queue.ProduceAnswer, error) {
	answer := queue.ProduceAnswer{Groups: make([]queue.ProduceResult, len(groups))}
	arrivals := make([][]arrival, len(groups))
	for i := range groups {
		var size int
		if arrivals[i], size, answer.Groups[i].Err = s.prepare(groups[i].Items, "items"); answer.Groups[i].Err == nil {
			answer.Groups[i].Err = s.checkSize(size, "items")
		}
	}
	now, err := s.begin(ctx, grows)
	if err != nil {
		return queue.ProduceAnswer{}, err
	}
	answer.Now = instant(now)
	for i := range groups {
		if answer.Groups[i].Err == nil {
			answer.Groups[i].Err = s.checkGuards(arrivals[i])
		}
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

// What is written at most beside texts and contents, by a new item and by an entry
// of a settlement: keys, states, and what an engine adds to each write, in bytes.
const (
	itemOverhead  = 512
	entryOverhead = 800
)

// prepare encodes the contents of what comes in together, and measures what it
// writes at most.
func (s *Store) prepare(items []queue.NewItem, field string) (arrivals []arrival, size int, err error) {
	arrivals = make([]arrival, len(items))
	for i := range items {
		content := encodeContent(&items[i].Content)
		if bound := s.options.MaxContent; bound > 0 && len(content) > bound {
			return nil, 0, &queue.TooLargeError{Field: fmt.Sprintf("%s[%d]", field, i), Limit: bound, Unit: "bytes"}
		}
		size += contents(&items[i])*len(content) + items[i].Places()*(len(items[i].OrderingKey)+itemOverhead)
		if d := items[i].Dedupe; d != nil {
			size += 2 * len(d.Key) // the key, and when it ends
		}
		arrivals[i] = arrival{NewItem: &items[i], content: content}
	}
	return arrivals, size, nil
}

// checkSize judges what is written together. An engine that was given more would
// refuse it when it is too late to say so.
func (s *Store) checkSize(size int, field string) error {
	if bound := s.options.MaxGroup; bound > 0 && size > bound {
		return &queue.TooLargeError{Field: field, Limit: bound, Unit: "bytes"}
	}
	return nil
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

// checkGuards says whether the documents by which items were made are as they were. Items
// that were made together share theirs.
func (s *Store) checkGuards(items []arrival) error {
	var held *queue.DocumentGuard
	for i := range items {
		g := items[i].Guard
		if g == nil || g == held {
			continue
		}
		stored := s.documents.get(storage.DocumentKey{Kind: g.Kind, Namespace: g.Namespace, Name: g.Name})
		if stored == nil || stored.Revision != g.Revision {
			return queue.ErrOvertaken
		}
		held = g
	}
	return nil
}

// insert adds an item in all of its places, unless its key or the item itself is known:
// then it names the first one.
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
	due := dueTime(a.DueAt, a.Delay, now)
	places, inserted, at := a.Places(), 0, forever
	for i := range places {
		place := a.Place(i)
		lives, err := s.lives(queue.Key{ID: a.ID, Queue: place.Queue, Home: place.Queue})
		if err != nil {
			return queue.Produced{}, err
		}
		if lives {
			continue
		}
		if i == 0 && a.Dedupe != nil {
			s.remember(a.Dedupe, a.ID, now)
		}
		at = min(at, s.insertCopy(&a, place, due, now))
		inserted++
	}
	switch {
	case places == 0:
		at = due
		if a.Dedupe != nil {
			s.remember(a.Dedupe, a.ID, now)
		}
	case inserted == 0:
		return queue.Produced{ID: a.ID, Duplicate: true}, nil
	}
	return queue.Produced{ID: a.ID, DueAt: instant(at)}, nil
}

// insertCopy adds an item in one of its places, and returns where it stands there.
func (s *Store) insertCopy(a *arrival, place queue.Copy, due, now int64) (at int64) {
	seq := s.next()
	topic, nth := s.putContent(a, place, seq)
	sl := s.occupy(entry{
		id:      a.ID,
		at:      due,
		seq:     seq,
		created: now,
		part:    s.ensure(place.Queue, place.Partition).index,
		origin:  s.origins.index(origin{place.Queue, topic}),
		nth:     nth,
		size:    uint32(a.Size()),
	})
	e := s.entries.get(sl)
	expires := expiry(due, place.ExpireTTL)
	if !a.ExpiresAt.IsZero() {
		expires = a.ExpiresAt.UnixMicro()
	}
	if expires != 0 || a.Attempts != 0 || a.MaxAttempts != 0 || a.OrderingKey != "" {
		x := s.touch(e)
		x.attempts = a.Attempts
		x.maxAttempts = a.MaxAttempts
		x.expires = expires
		x.orderingKey = a.OrderingKey
		s.bind(sl)
	}
	if s.options.Volatile {
		*s.contents.reach(sl) = a.content // which all copies share, since nothing changes it
	}
	at = e.at
	s.lower(sl, now)
	return at
}
