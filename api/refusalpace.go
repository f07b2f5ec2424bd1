package api

import (
	"context"
	"sync"
	"time"
)

// refusalPace paces the answers of 429. One costs nearly as much as the call that it
// refuses, and whoever takes no notice of Retry-After is back at once: without a pace
// the refused would leave little of the processor to those that are let in.
type refusalPace struct {
	mu sync.Mutex
	// next is when the next one may go out.
	next time.Time
}

const (
	// refusalInterval is the time between two refusals; the first one is not held up.
	refusalInterval = 500 * time.Microsecond
	// longestHold is the least that Retry-After asks for.
	longestHold = time.Second
)

// wait returns when a refusal may go out, or ctx has ended.
func (r *refusalPace) wait(ctx context.Context) {
	hold := r.hold(time.Now())
	if hold <= 0 {
		return
	}
	timer := time.NewTimer(hold)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// hold takes the next place in the order of refusals, as long as that is not too late.
func (r *refusalPace) hold(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	hold := max(r.next.Sub(now), 0)
	if hold >= longestHold {
		return longestHold
	}
	r.next = now.Add(hold + refusalInterval)
	return hold
}
