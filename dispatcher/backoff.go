package dispatcher

import (
	"math"
	"time"

	"github.com/posthaste-io/posthaste/subscriptions"
)

// backoff returns the wait before the n-th retry, counted from 1; rnd is in [0, 1).
//
// The exponential wait has full jitter, so that items which failed together do not
// come back together, but never under a tenth of the step, so that no retry is
// immediate. An explicit schedule was chosen by somebody, and moves by a fifth at most.
func backoff(p *subscriptions.Policy, n int32, rnd float64) time.Duration {
	n = max(n, 1)
	if steps := p.Schedule; len(steps) > 0 {
		step := steps[min(int(n), len(steps))-1]
		return time.Duration(float64(step) * (0.8 + 0.4*rnd))
	}
	// The power may be infinite, and the cap brings it back before it is a Duration.
	step := min(float64(p.MaxBackoff), float64(p.MinBackoff)*math.Pow(p.Multiplier, float64(n-1)))
	return time.Duration(step * (0.1 + 0.9*rnd))
}

// longest returns the wait at the back-off's cap.
func longest(p *subscriptions.Policy, rnd float64) time.Duration {
	return backoff(p, math.MaxInt32, rnd)
}
