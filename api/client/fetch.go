package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

const (
	// fetchWait is how long a lease waits for items. Longer ones save requests of idle
	// workers; proxies tend to cut those beyond a minute.
	fetchWait = 30 * time.Second
	// When a worker stops, the lease that is on its way has four times as long as one takes,
	// within bounds, to bring what the server may have given it already.
	leastGrace = 100 * time.Millisecond
	mostGrace  = time.Second
	// emptyPause follows a lease that brought nothing long before its wait was over:
	// whoever answers so would be asked without end.
	emptyPause = time.Second
	// What is leased before a handler is free for it is what ends in leastAheadTime, and
	// while two leases are on their way, up to bounds in time and items.
	leastAheadTime = 20 * time.Millisecond
	mostAheadTime  = 250 * time.Millisecond
	mostAhead      = 900
	// mostLine and mostAnswer bound the payloads in line and those that one lease brings,
	// in bytes.
	mostLine   = 16_000_000
	mostAnswer = 4_000_000
	// rateEvery is how often it is reckoned how quickly items end.
	rateEvery = 50 * time.Millisecond
	// mostUnsent is how many outcomes may wait for the server before no more is leased.
	mostUnsent = 1000
	// maxBatch is the most that one call may name.
	maxBatch = 1000
)

// fetch leases items until ctx ends, or the queue cannot be worked on.
func (s *shift) fetch(ctx context.Context) error {
	polling, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		s.stopping = true
		grace := min(max(4*s.trip, leastGrace), mostGrace)
		s.mu.Unlock()
		time.AfterFunc(grace, cut)
	})()
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
		bounded, done := context.WithTimeout(polling, fetchWait+callTimeout)
		items, err := s.w.client.Lease(bounded, LeaseParams{
			Queue: s.w.opts.Queue, BatchSize: n, Wait: fetchWait, LeaseTimeout: s.ttl, ClientID: s.id, MaxBytes: mostAnswer,
		})
		done()
		switch {
		case err == nil:
			failures = 0
			took := time.Since(asked)
			s.rate(len(items), took)
			if hook := s.w.opts.Hooks.Leased; hook != nil {
				hook(len(items), took)
			}
			s.take(ctx, items, time.Now())
			if len(items) == 0 && took < emptyPause {
				pause(ctx, emptyPause)
			}
		case ctx.Err() != nil:
		case n > 1 && s.tooMany(n, err):
			s.w.log.Info("the server gives fewer items in one call; fewer are asked for", "items", n)
		case isFinal(err):
			return fmt.Errorf("worker: %w", err)
		default:
			// The client has tried several times already.
			wait := backoff(DefaultMinWait, DefaultMaxWait, failures, nil)
			failures++
			s.w.log.Warn("lease failed; it is tried again", "wait", wait.String(), "error", err)
			pause(ctx, wait)
		}
	}
	return nil
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, wait time.Duration) {
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
}

// tooMany says whether a call was refused because it named n items or asked for them, and
// has later ones name fewer: a server may be told to take less than others.
func (s *shift) tooMany(n int, err error) bool {
	refusal, ok := errors.AsType[*Error](err)
	if !ok {
		return false
	}
	ofLease := refusal.CodeText == CodeInvalid && refusal.Details["field"] == "batch_size"
	ofReceipts := refusal.CodeText == CodeTooLarge && refusal.Details["unit"] == "receipts"
	if !ofLease && !ofReceipts {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = max(min(s.most, n/2), 1)
	return true
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
	n := min(target-s.running-len(s.line), s.most)
	if n <= 0 || len(s.line) > 0 && n < min(target/4, s.most) {
		return 0
	}
	size := 0
	for _, x := range s.line {
		size += len(x.it.Payload)
	}
	if size > mostLine-mostAnswer {
		return 0
	}
	return n
}

// rate reckons how quickly items end and how long a lease takes. One that waited for
// the first item tells nothing of the way.
func (s *shift) rate(n int, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reckon()
	if n > 0 && took < mostAheadTime {
		s.trip += (took - s.trip) / 4
	}
}

// reckon moves the pace toward what it was since it was last reckoned: half of the way
// after rateEvery, and all of it after a while. s.mu is held.
func (s *shift) reckon() {
	since := time.Since(s.rated)
	if since < rateEvery {
		return
	}
	weight := 1 - math.Exp2(-since.Seconds()/rateEvery.Seconds())
	s.pace += (float64(s.ended)/since.Seconds() - s.pace) * weight
	s.rated, s.ended = time.Now(), 0
}
