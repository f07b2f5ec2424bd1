package client

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// Leases are extended when a third of their time is over, so that two calls may be
	// lost before one lapses.
	extendPart = 3
	// holdTime is how far the line may reach: what will not have begun until then is for
	// others to work on.
	holdTime = time.Second
)

// extend extends what is held, and gives back what is too much, until ctx ends.
func (s *shift) extend(ctx context.Context) {
	tick := time.NewTicker(max(s.ttl/extendPart, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.shorten()
		receipts, most := s.receipts()
		var calls sync.WaitGroup
		for batch := range slices.Chunk(receipts, most) {
			calls.Go(func() { s.extendBatch(ctx, batch) })
		}
		calls.Wait()
	}
}

// shorten gives back the tail of the line, if handlers have become slow since it was
// leased: another worker may be idle.
func (s *shift) shorten() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reckon()
	keep := max(int(s.pace*holdTime.Seconds()), s.w.opts.Concurrency-s.running)
	if keep < len(s.line) {
		s.giveBack(s.line[keep:])
		s.line = slices.Delete(s.line, keep, len(s.line))
	}
}

// receipts are what is to be extended, and how many of them a call may name.
func (s *shift) receipts() (receipts []string, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.held)), s.most
}

func (s *shift) extendBatch(ctx context.Context, receipts []string) {
	asked := time.Now()
	// Not longer than until the next turn: a call that hangs must not hold that up.
	ctx, cancel := context.WithTimeout(ctx, s.ttl/extendPart)
	defer cancel()
	results, err := s.w.client.Extend(ctx, s.ttl, receipts...)
	switch {
	case len(receipts) > 1 && s.tooMany(len(receipts), err):
		for half := range slices.Chunk(receipts, (len(receipts)+1)/2) {
			s.extendBatch(ctx, half)
		}
		return
	case err != nil:
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

// expire gives up what could not be extended in its time, until ctx ends. No lease that
// begins while it sleeps is over before it wakes.
func (s *shift) expire(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(s.loseExpired(), time.Millisecond)):
		}
	}
}

// loseExpired returns when to look again.
func (s *shift) loseExpired() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	next := now.Add(s.ttl)
	for _, x := range s.held {
		switch {
		case x.outcome != 0:
			// It is sent as long as it takes: the server still takes it where nobody else was
			// given the item.
		case now.After(x.deadline):
			s.lose(x, "not extended in time")
		case x.deadline.Before(next):
			next = x.deadline
		}
	}
	return next.Sub(now)
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
