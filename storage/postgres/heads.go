package postgres

import (
	"sync"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

const (
	// walkEvery is how often a partition's claims go through its index from the very
	// beginning, at most.
	walkEvery = time.Second
	// walkShare bounds what such walks take: one in so many parts of the time, where
	// an old snapshot keeps dead entries in the index.
	walkShare = 20
	// headSlack is how far below the head a claim begins: what was stamped before the
	// head may be committed after it.
	headSlack = 50 * time.Millisecond
	// maxHeads bounds the map. What is forgotten costs a walk.
	maxHeads = 10_000
)

// heads remembers for each partition how far this node's claims have come, so that
// the next one passes by the dead index entries below. The zero value is ready.
type heads struct {
	mu sync.Mutex
	of map[place]*head
}

// place is a partition of a queue.
type place struct {
	queue     queue.Number
	partition int32
}

type head struct {
	// at is the position below which nothing is left that this node knows of.
	at time.Time
	// walk is when the next walk may be, by this process's clock.
	walk time.Time
	// low is the lowest position that was told of since the newest claim began, zero if
	// there was none: the claim may have looked before the item was there.
	low time.Time
}

// outset is from where a claim looks; finish wants it back.
type outset struct {
	place
	// from is zero for a walk.
	from  time.Time
	began time.Time
}

// start says where a claim begins. A walk is the only way to learn of what others put
// below the head, so it is taken as soon as it may be. Where two claims of one place run
// at once, what was put down between them may wait for a walk.
func (h *heads) start(p place) outset {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.of[p]
	if known == nil {
		for other := range h.of {
			if len(h.of) < maxHeads {
				break
			}
			delete(h.of, other)
		}
		if h.of == nil {
			h.of = map[place]*head{}
		}
		known = &head{}
		h.of[p] = known
	}
	known.low = time.Time{}
	s := outset{place: p, began: time.Now()}
	if !known.at.IsZero() && s.began.Before(known.walk) {
		s.from = known.at.Add(-headSlack)
	}
	return s
}

// finish takes note of a claim that was committed and left nothing below at, or
// learned nothing, which is zero.
func (h *heads) finish(s outset, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.of[s.place]
	if known == nil {
		return
	}
	if s.from.IsZero() {
		now := time.Now()
		known.walk = now.Add(max(walkEvery, walkShare*now.Sub(s.began)))
	}
	if !known.low.IsZero() && known.low.Before(at) {
		at = known.low
	}
	// A walk knows where the first item is, also if that is below the head: others put
	// it there, and there may be more. Another claim knows nothing of what is between the
	// head as it was and as a walk has found it since.
	walked := s.from.IsZero() && !at.IsZero()
	if walked || at.After(known.at) && !s.from.Add(headSlack).After(known.at) {
		known.at = at
	}
}

// lower is told of whatever this node puts at a position that may be below the head.
func (h *heads) lower(q queue.Number, partition int32, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.of[place{q, partition}]
	if known == nil {
		return
	}
	if known.low.IsZero() || at.Before(known.low) {
		known.low = at
	}
	if at.Before(known.at) {
		known.at = at
	}
}
