package dispatcher

import (
	"context"
	"slices"
	"sync"
)

// slots bound what one process pushes at a time, in requests and in bytes, and
// share it between lanes. A slot is held from before the request until its
// outcome is settled, so a store that is slow slows the pushes down, too.
//
// A lane may hold a tenth of the slots, and more only while over a quarter of all is free.
// So one endpoint that hangs uses what nobody needs, and never the last quarter,
// which the others find free when they need it.
type slots struct {
	total    int
	tenth    int
	quarter  int
	maxBytes int

	mu      sync.Mutex
	used    int
	bytes   int
	waiting []*waiter // in the order of their arrival
}

// holder is a lane's account; slots.mu guards it.
type holder struct{ held int }

// grant is what a lane may lease: items, and bytes, of which the first item needs none.
type grant struct{ n, bytes int }

// maxAnswer bounds the bytes of one grant, so that one lane does not block the
// others while it asks.
const maxAnswer = 4 << 20

type waiter struct {
	h       *holder
	want    int
	granted chan grant
}

func newSlots(total, maxBytes int) *slots {
	return &slots{total: total, tenth: max(1, total/10), quarter: total / 4, maxBytes: maxBytes}
}

// allowed is what of want the holder may take now. The size of an item is known only
// once it is leased, so the bound of bytes may be passed by one item of each lane.
func (s *slots) allowed(h *holder, want int) grant {
	bytes := min(s.maxBytes-s.bytes, maxAnswer)
	if bytes <= 0 {
		return grant{}
	}
	free := s.total - s.used
	n := max(min(want, free, s.tenth-h.held), min(want, free-s.quarter))
	if n <= 0 {
		return grant{}
	}
	return grant{n, bytes}
}

// room is what could be taken now. Nothing is taken: a lane that waits for items
// would otherwise keep slots from those that have some.
func (s *slots) room(h *holder, want int) grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.allowed(h, want)
}

// take takes a slot for an item of that size, or says that there is none.
func (s *slots) take(h *holder, bytes int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.allowed(h, 1).n == 0 {
		return false
	}
	s.used++
	h.held++
	s.bytes += bytes
	return true
}

// grab takes up to want slots that are free now, which may be none.
func (s *slots) grab(h *holder, want int) grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.allowed(h, want)
	s.used += g.n
	h.held += g.n
	s.bytes += g.bytes
	return g
}

// wait takes up to want slots, at least one unless ctx ends first. Waiting lanes
// are served in turn.
func (s *slots) wait(ctx context.Context, h *holder, want int) grant {
	w := &waiter{h: h, want: want, granted: make(chan grant, 1)}
	s.mu.Lock()
	s.waiting = append(s.waiting, w)
	s.serve()
	s.mu.Unlock()
	select {
	case g := <-w.granted:
		return g
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, w); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
		return grant{}
	}
	return <-w.granted // granted meanwhile; the channel holds it
}

// put gives slots and bytes back.
func (s *slots) put(h *holder, n, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= n
	h.held -= n
	s.bytes -= bytes
	s.serve()
}

// serve grants what waits, in turn; who may not have more yet does not hold up those behind.
func (s *slots) serve() {
	s.waiting = slices.DeleteFunc(s.waiting, func(w *waiter) bool {
		g := s.allowed(w.h, w.want)
		if g.n == 0 {
			return false
		}
		s.used += g.n
		w.h.held += g.n
		s.bytes += g.bytes
		w.granted <- g
		return true
	})
}
