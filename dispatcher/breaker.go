package dispatcher

import (
	"errors"
	"math"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
)

// When a breaker opens, and when it probes.
const (
	tripInARow    = 10
	tripAtLeast   = 20
	tripWindow    = time.Minute
	tripBucket    = 10 * time.Second
	firstProbe    = 10 * time.Second
	longestProbe  = 5 * time.Minute
	unlimitedRoom = math.MaxInt
)

// breakerClosed is the state in which requests go through.
var breakerClosed = gobreaker.StateClosed.String()

var errIll = errors.New("endpoint is ill")

// breaker keeps a lane from an endpoint that is down: after ten failures in a row,
// or if half of at least twenty within a minute failed. Then one request probes after
// ten seconds; each probe that fails doubles the wait, up to five minutes.
//
// The counting and the states are gobreaker's. The doubling is not in it, so until
// holds the lane, and gobreaker's own wait is kept shorter than the shortest.
type breaker struct {
	mu sync.Mutex
	cb *gobreaker.TwoStepCircuitBreaker[struct{}]
	// opened counts openings in a row, until when the newest one lasts.
	opened int
	until  time.Time
	// era counts changes of state.
	era     int
	probing bool
	// healed says that it closed after it was open, until somebody asks.
	healed bool
}

func newBreaker() *breaker {
	b := &breaker{}
	b.cb = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:  1,
		Interval:     tripWindow,
		BucketPeriod: tripBucket,
		Timeout:      firstProbe / 2,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			judged := c.TotalSuccesses + c.TotalFailures
			return c.ConsecutiveFailures >= tripInARow || judged >= tripAtLeast && c.TotalFailures*2 >= judged
		},
		IsExcluded: func(err error) bool { return errors.Is(err, errSilent) },
		// Called with b.mu held, since every call into cb is made so.
		OnStateChange: func(_ string, _, to gobreaker.State) { b.changed(to) },
	})
	return b
}

var errSilent = errors.New("tells nothing")

func (b *breaker) changed(to gobreaker.State) {
	b.era++
	b.probing = false
	switch to {
	case gobreaker.StateOpen:
		wait := longestProbe
		if b.opened < 6 { // beyond, the doubling would pass the cap, and in the end overflow
			wait = min(firstProbe<<b.opened, longestProbe)
		}
		b.opened++
		b.until = time.Now().Add(wait)
	case gobreaker.StateClosed:
		b.opened = 0
		b.healed = true // it begins closed, so that this follows an outage
	}
}

// recovered says once after each outage that it is over.
func (b *breaker) recovered() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	healed := b.healed
	b.healed = false
	return healed
}

// room says how many requests may start now, and if none, when to ask again; zero
// is when the probe that runs has ended.
func (b *breaker) room(now time.Time) (n int, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.roomLocked(now)
}

func (b *breaker) roomLocked(now time.Time) (int, time.Time) {
	if now.Before(b.until) {
		return 0, b.until
	}
	switch b.cb.State() {
	case gobreaker.StateClosed:
		return unlimitedRoom, time.Time{}
	case gobreaker.StateHalfOpen:
		if b.probing {
			return 0, time.Time{}
		}
		return 1, time.Time{}
	default:
		return 0, b.until
	}
}

// begin says whether a request may start, and returns how to report its outcome.
//
// gobreaker counts a request in the bucket in which it began and forgets it if that
// has left the window, so a request that hangs for longer would never count. Hence
// requests of a closed breaker are counted when they end. A probe is not, since
// there the request itself takes the only place.
func (b *breaker) begin(now time.Time) (report func(health), ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n, _ := b.roomLocked(now); n == 0 {
		return nil, false
	}
	if b.cb.State() == gobreaker.StateClosed {
		era := b.era
		return func(h health) { b.count(era, h) }, true
	}
	done, err := b.cb.Allow()
	if err != nil {
		return nil, false
	}
	b.probing = true
	return func(h health) { b.probed(done, h) }, true
}

func (b *breaker) count(era int, h health) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h == silent || era != b.era {
		return // what began before the state changed says nothing about now
	}
	if done, err := b.cb.Allow(); err == nil {
		done(h.err())
	}
}

func (b *breaker) probed(done func(error), h health) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
	done(h.err())
}

func (h health) err() error {
	switch h {
	case well:
		return nil
	case ill:
		return errIll
	default:
		return errSilent
	}
}

// state returns closed, open or half-open, and when an open one probes.
func (b *breaker) state(now time.Time) (string, time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Before(b.until) {
		return gobreaker.StateOpen.String(), b.until
	}
	return b.cb.State().String(), time.Time{}
}
