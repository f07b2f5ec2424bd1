package storagetest

import (
	"sync"
	"time"
)

// Clock is a clock that moves when it is told to: a store's now under test.
// Its methods may be called concurrently.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// Start is where a [NewClock] stands: an odd microsecond, so that a store that
// rounds gives itself away.
var Start = time.Date(2026, 3, 1, 12, 0, 0, 123_457_000, time.UTC)

// NewClock returns a clock that stands at [Start].
func NewClock() *Clock { return &Clock{now: Start} }

// Now returns where the clock stands.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock; a negative d is an operator who corrects the time.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
