package client

import (
	"context"
	"slices"
	"time"
)

// Leases are extended when a third of their time is over, so that two calls may be lost
// before one lapses.
const extendPart = 3

// extend extends what is held until ctx ends.
func (s *shift) extend(ctx context.Context) {
	tick := time.NewTicker(max(s.ttl/extendPart, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asked := time.Now()
		for batch := range slices.Chunk(s.receipts(), maxBatch) {
			s.extendBatch(ctx, batch, asked)
		}
		s.expire()
	}
}

func (s *shift) receipts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]string, 0, len(s.held))
	for receipt := range s.held {
		out = append(out, receipt)
	}
	return out
}

func (s *shift) extendBatch(ctx context.Context, receipts []string, asked time.Time) {
	// Not longer than until the next turn: a call that hangs must not hold that up.
	ctx, cancel := context.WithTimeout(ctx, s.ttl/extendPart)
	defer cancel()
	results, err := s.w.client.Extend(ctx, s.ttl, receipts...)
	if err != nil {
		if context.Cause(ctx) != context.Canceled {
			s.w.log.Warn("leases were not extended; that is tried again", "items", len(receipts), "error", err)
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range results {
		x := s.held[receipts[i]]
		switch {
		case x == nil: // settled meanwhile
		case r.OK():
			x.deadline = asked.Add(s.ttl)
		default:
			s.lose(x, r.Status)
		}
	}
}

// expire gives up what could not be extended in its time.
func (s *shift) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, x := range s.held {
		// What has an outcome is sent as long as it takes: the server still takes it where
		// nobody else was given the item.
		if x.outcome == 0 && now.After(x.deadline) {
			s.lose(x, "not extended in time")
		}
	}
}

// lose ends work on an item that is not ours any more. s.mu is held.
func (s *shift) lose(x *work, why string) {
	delete(s.held, x.it.Receipt)
	if x.outcome != 0 {
		return // its settlement tells of it
	}
	x.lost = true
	s.w.log.Warn("lease lost; somebody else may have the item", "item_id", x.it.ItemID, "reason", why)
	if x.cancel != nil {
		x.cancel(ErrLeaseLost)
		return
	}
	s.line = slices.DeleteFunc(s.line, func(y *work) bool { return y == x })
}
