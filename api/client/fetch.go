package client

import (
	"context"
	"fmt"
	"time"
)

const (
	// fetchWait is how long a lease waits for items. Longer ones save requests of idle
	// workers; proxies tend to cut those beyond a minute.
	fetchWait = 30 * time.Second
	// What is leased before a handler is free for it is what ends in leastAheadTime, and
	// while two leases are on their way, up to bounds in time and items.
	leastAheadTime = 20 * time.Millisecond
	mostAheadTime  = 250 * time.Millisecond
	mostAhead      = 900
	// rateEvery is how often it is reckoned how quickly items end.
	rateEvery = 50 * time.Millisecond
	// mostUnsent is how many outcomes may wait for the server before no more is leased.
	mostUnsent = 1000
	// maxBatch is the most that one call may name.
	maxBatch = 1000
)

// fetch leases items until ctx ends, or the queue cannot be worked on.
func (s *shift) fetch(ctx context.Context) error {
	failures := 0
	for ctx.Err() == nil {
		n := s.wanted()
		if n == 0 {
			select {
			case <-s.changed:
			case <-ctx.Done():
			}
			continue
		}
		asked := time.Now()
		items, err := s.w.client.Lease(ctx, LeaseParams{
			Queue: s.w.opts.Queue, BatchSize: n, Wait: fetchWait, LeaseTimeout: s.ttl,
		})
		switch {
		case err == nil:
			failures = 0
			took := time.Since(asked)
			s.rate(len(items), took)
			if hook := s.w.opts.Hooks.Leased; hook != nil {
				hook(len(items), took)
			}
			s.take(context.WithoutCancel(ctx), items, asked)
		case ctx.Err() != nil:
		case isFinal(err):
			return fmt.Errorf("worker: %w", err)
		default:
			// The client has tried several times already.
			wait := backoff(DefaultMinWait, DefaultMaxWait, failures, nil)
			failures++
			s.w.log.Warn("lease failed; it is tried again", "wait", wait.String(), "error", err)
			select {
			case <-time.After(wait):
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// isFinal says that repeating a lease is of no use.
func isFinal(err error) bool {
	for _, word := range []string{CodeInvalid, CodeUnauthenticated, CodeForbidden, CodeNotFound, CodeNotSupported} {
		if Is(err, word) {
			return true
		}
	}
	return false
}

// wanted is how many items to lease now. As many as handlers are free; and ahead of
// them as many as end while a lease is on its way, so that quick handlers do not wait
// for it, in batches of some size.
func (s *shift) wanted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.outcomes) > mostUnsent {
		return 0
	}
	ahead := int(s.pace * min(leastAheadTime+2*s.trip, mostAheadTime).Seconds())
	target := s.w.opts.Concurrency + min(ahead, mostAhead)
	want := min(target-s.running-len(s.line), maxBatch)
	if want <= 0 || len(s.line) > 0 && want < target/4 {
		return 0
	}
	return want
}

// rate reckons how quickly items end and how long a lease takes. One that waited for
// the first item tells nothing of the way.
func (s *shift) rate(n int, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since := time.Since(s.rated); since >= rateEvery {
		s.pace += (float64(s.ended)/since.Seconds() - s.pace) / 2
		s.rated, s.ended = time.Now(), 0
	}
	if n > 0 && took < mostAheadTime {
		s.trip += (took - s.trip) / 4
	}
}
