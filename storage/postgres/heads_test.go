package postgres

import (
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

var here = place{queue: queue.NewNumber(1, 1)}

// from is where the next claim would begin.
func (h *heads) from(p place) time.Time { return h.start(p).from }

func TestHeads_TheNextClaimBeginsBelowTheHead(t *testing.T) {
	t.Parallel()
	var h heads
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	first := h.start(here)
	if !first.from.IsZero() {
		t.Errorf("first: got %v, want a walk", first.from)
	}
	h.finish(first, at)
	if got := h.from(here); !got.Equal(at.Add(-headSlack)) {
		t.Errorf("second: got %v, want %v", got, at.Add(-headSlack))
	}
	h.finish(h.start(here), at.Add(-time.Hour))
	if got := h.from(here); !got.Equal(at.Add(-headSlack)) {
		t.Errorf("after a claim of what was below: got %v, want %v", got, at.Add(-headSlack))
	}
	h.of[here].walk = time.Now()
	if got := h.from(here); !got.IsZero() {
		t.Errorf("when a walk may be: got %v, want a walk", got)
	}
}

func TestHeads_WhatIsPutBelowLowersTheHead(t *testing.T) {
	t.Parallel()
	var h heads
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	h.lower(here.queue, 0, at) // of which nothing is known
	h.finish(h.start(here), at)
	flying := h.start(here)
	low := at.Add(-time.Hour)
	h.lower(here.queue, 0, low)
	h.lower(here.queue, 0, at.Add(time.Hour))
	h.lower(here.queue, 1, at.Add(-2*time.Hour))
	// It may have looked before the item was there.
	h.finish(flying, at.Add(time.Minute))
	if got := h.from(here); !got.Equal(low.Add(-headSlack)) {
		t.Errorf("got %v, want %v", got, low.Add(-headSlack))
	}
	flying = h.start(here)
	h.lower(here.queue, 0, at.Add(time.Minute))
	h.finish(flying, at.Add(time.Hour))
	if got := h.from(here); !got.Equal(at.Add(time.Minute - headSlack)) {
		t.Errorf("above the head, below the claim: got %v, want %v", got, at.Add(time.Minute-headSlack))
	}
}

func TestHeads_AreBoundedInNumber(t *testing.T) {
	t.Parallel()
	var h heads
	for i := range uint32(maxHeads + 10) {
		h.finish(h.start(place{queue: queue.NewNumber(1, i)}), time.Now())
	}
	if len(h.of) != maxHeads {
		t.Errorf("got %d, want %d", len(h.of), maxHeads)
	}
}

func TestStore_LeaseFindsWhatOthersPutBelowTheHeadByAWalk(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, false)
	lease := func() int { return len(w.lease(call(here.queue, taker(5)))[0].Takers[0]) }
	if n := lease(); n != 0 {
		t.Fatalf("empty queue: got %d items", n)
	}
	w.fill(here.queue, 1, time.Now().Add(-time.Hour), "", "")
	w.store.heads.mu.Lock()
	w.store.heads.of[here].walk = time.Now()
	w.store.heads.mu.Unlock()
	if n := lease(); n != 1 {
		t.Errorf("when a walk may be: got %d items, want 1", n)
	}
	old := time.Now().Add(-time.Hour)
	w.fill(here.queue, 1, old, "", "")
	w.store.heads.lower(here.queue, 0, old)
	if n := lease(); n != 1 {
		t.Errorf("after lower: got %d items, want 1", n)
	}
}
