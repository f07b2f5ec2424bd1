package resident

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// The copies of a topic's item share their content, which is stored once: under the topic,
// the id, and the number of the first copy. By that number a later insert of the same item
// to the same topic, as a repeat or a redrive is, has a content of its own. So nothing is
// ever written over, and what was dropped never comes back to life.
//
// Nobody counts the copies. Every end of one asks whether another refers to the content,
// in the commit that ends it:
//
//   - The index knows those in memory, however they were moved: the content stays.
//   - If there is none and nothing is on the disk only, it goes.
//   - Else a copy may be on the disk. It is not looked for there and then, since a read that
//     fails in the middle of a group would end the store; a mark is left in space o.
//
// Tidy looks at what is marked, under the lock, and drops what no item refers to. What lives
// loses its mark: the end of the copy that was found decides anew. What cannot be told, since
// a part of the disk cannot be read, keeps content and mark.

// sharers is how many copies have one content at most: an entry has 16 bits for which of
// them it is.
const sharers = 1 << 16

// shares says whether an item's content is stored for all of its copies. However small it
// is, that is less than one for each: every other one would be a key more.
func shares(it *queue.NewItem) bool { return it.Topic != 0 && len(it.Copies) > 1 }

// contents is how many times an item's content is stored at most.
func contents(it *queue.NewItem) int {
	if shares(it) {
		return 1 + (len(it.Copies)-1)/sharers
	}
	return it.Places()
}

// putContent stores what an item in one of its places needs, and returns the topic whose
// copies share it, if any, and which of them this one is.
func (s *Store) putContent(a *arrival, place queue.Copy, seq uint64) (topic queue.Number, nth uint16) {
	if s.options.Volatile {
		return 0, 0
	}
	name := contentName{body: seq}
	if shares(a.NewItem) {
		if a.body != 0 && seq-a.body < sharers {
			return a.Topic, uint16(seq - a.body)
		}
		name.topic, a.body = a.Topic, seq
	}
	key := appendContentKey(s.arena.bytes(contentKeySize), queue.Key{ID: a.ID, Home: place.Queue}, name)
	s.put(key, a.content, false)
	return name.topic, 0
}

// dropContent takes away what an item that ends leaves behind.
func (s *Store) dropContent(sl slot, e *entry) {
	if s.options.Volatile {
		return
	}
	name := s.name(e)
	switch {
	case name.topic != 0 && s.refers(e.id, name, sl):
	case name.topic != 0 && s.away > 0:
		s.suspect(e.id, name)
	default:
		s.del(appendContentKey(s.arena.bytes(contentKeySize), s.key(e), name), false)
	}
}

// refers says whether an item in memory has a content, other than the one that ends.
func (s *Store) refers(id queue.ID, name contentName, ends slot) bool {
	found := false
	s.each(id, func(sl slot, e *entry) bool {
		found = sl != ends && s.name(e) == name
		return !found
	})
	return found
}

// refersCold is refers for items that are on the disk only.
func (s *Store) refersCold(id queue.ID, name contentName) (found bool, err error) {
	if s.away == 0 {
		return false, nil
	}
	prefix := append([]byte{spacePointer}, id[:]...)
	var broken error
	err = s.disk.Scan(Range{From: prefix, To: after(prefix), Reread: true}, func(_, at []byte) bool {
		var value []byte
		var st state
		if value, broken = s.disk.Get(at); broken == nil {
			st, broken = decodeState(value)
		}
		found = broken == nil && st.name() == name
		return broken == nil && !found
	})
	return found, firstError(err, broken)
}

// reaping is how far [Store.reap] got. A mark is never before the place from which it goes
// on, so that it need not pass again what it deleted, which the disk only knows as deleted.
type reaping struct {
	busy sync.Mutex // held by the one that reaps

	// The rest is under the store's lock, and is keys of marks; nil is behind all of them.
	from   []byte // what is before it was judged
	marked []byte // the first that was put since somebody went on from there
	kept   []byte // the first that could not be judged, for the next round
}

// earlier is the first of two keys of marks.
func earlier(a, b []byte) []byte {
	if a == nil || b != nil && bytes.Compare(b, a) < 0 {
		return b
	}
	return a
}

// suspect marks a shared content, to be judged by [Store.reap].
func (s *Store) suspect(id queue.ID, name contentName) {
	key := appendSharedKey(s.arena.bytes(contentKeySize), spaceSuspect, id, name)
	s.put(key, nil, true)
	if first := earlier(s.reaping.marked, key); bytes.Equal(first, key) {
		s.reaping.marked = bytes.Clone(key)
	}
}

const (
	// reapPage is how many contents are judged for one call of [Store.Tidy].
	reapPage = 100
	// reapHold is after how long the lock is let go between two of them: what leads to cold
	// copies may be many keys, of which most were deleted.
	reapHold = 5 * time.Millisecond
)

// reap drops a page of shared contents that are marked and that no item refers to.
func (s *Store) reap(ctx context.Context) (more bool, err error) {
	if s.options.Volatile || !s.reaping.busy.TryLock() {
		return false, nil
	}
	defer s.reaping.busy.Unlock()
	if _, err := s.begin(ctx, writes); err != nil {
		return false, err
	}
	r := &s.reaping
	r.from, r.marked = earlier(r.from, r.marked), nil
	from := r.from
	s.mu.Unlock()
	if from == nil {
		return false, nil
	}
	// Without the lock: a content is judged by what refers to it when the lock is held,
	// whatever led to it.
	var page [][]byte
	marks := Range{From: from, To: []byte{spaceSuspect + 1}, Reread: true, KeysOnly: true}
	err = s.disk.Scan(marks, func(key, _ []byte) bool {
		if more = len(page) == reapPage; more {
			return false
		}
		page = append(page, bytes.Clone(key))
		return true
	})
	if err != nil {
		return false, fmt.Errorf("scan shared contents: %w", err)
	}
	for {
		if page, err = s.judgeMarks(ctx, page, !more); err != nil {
			return false, err
		}
		if len(page) == 0 {
			return more, nil
		}
	}
}

// judgeMarks judges the first marks of a page in one hold of the lock, and returns those that
// are left. The last page ends a round.
func (s *Store) judgeMarks(ctx context.Context, page [][]byte, last bool) (rest [][]byte, err error) {
	if _, err := s.begin(ctx, writes); err != nil {
		return nil, err
	}
	r := &s.reaping
	for start := time.Now(); len(page) > 0 && time.Since(start) < reapHold; page = page[1:] {
		if !s.judgeShared(page[0]) {
			r.kept = earlier(r.kept, page[0])
		}
		r.from = append(bytes.Clone(page[0]), 0)
	}
	if last && len(page) == 0 {
		r.from, r.kept = r.kept, nil
	}
	s.seal()
	return page, s.leave(ctx)
}

// judgeShared drops the shared content that a mark names, if no item refers to it, and the
// mark in any case, unless it cannot be told.
func (s *Store) judgeShared(mark []byte) (told bool) {
	id, name, ok := parseSharedKey(mark)
	if !ok {
		return true
	}
	used, err := s.refers(id, name, 0), error(nil)
	if !used {
		used, err = s.refersCold(id, name)
	}
	if err != nil {
		s.log.Error("content of a topic's item is kept, since it cannot be told whether a copy needs it", "item", id, "err", err)
		return false
	}
	if !used {
		s.del(appendSharedKey(nil, spaceShared, id, name), false)
	}
	s.del(mark, true)
	return true
}
