package resident

import (
	"crypto/rand"
	"encoding/binary"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// clock gives out the store's time, in microseconds. It follows the wall, but
// never runs backwards: after a step back it goes on from where it was, by the
// monotonic part of the readings, so that no lease is given twice because
// somebody corrected the time.
type clock struct {
	now     func() time.Time
	anchor  time.Time // a reading, and
	base    int64     // the stamp that it stands for
	elapsed time.Duration
	last    int64
}

// newClock returns a clock that does not give out anything below floor.
func newClock(now func() time.Time, floor int64) clock {
	t := now()
	base := max(t.UnixMicro(), floor)
	return clock{now: now, anchor: t, base: base, last: base}
}

func (c *clock) stamp() int64 {
	t := c.now()
	elapsed := t.Sub(c.anchor)
	if elapsed < c.elapsed {
		// Readings without a monotonic part were put back: time goes on from here.
		c.anchor, c.base, elapsed = t, c.last, 0
	}
	c.elapsed = elapsed
	stamp := c.base + elapsed.Microseconds()
	if wall := t.UnixMicro(); wall > stamp {
		c.anchor, c.base, c.elapsed = t, wall, 0
		stamp = wall
	}
	c.last = max(c.last, stamp)
	return c.last
}

// forever is [queue.Forever] in microseconds.
var forever = queue.Forever.UnixMicro()

// instant is a stamp as the contract speaks of it.
func instant(us int64) time.Time { return time.UnixMicro(us).UTC() }

// optional is instant for stamps that may be missing.
func optional(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return instant(us)
}

// dueTime is where a caller's words put an item: see [queue.NewItem].
func dueTime(at time.Time, delay time.Duration, now int64) int64 {
	due := now + delay.Microseconds()
	if !at.IsZero() {
		due = at.UnixMicro()
	}
	if due < now+queue.Soon.Microseconds() {
		return now
	}
	return due
}

// expiry is when an item that is due then expires; 0 is never.
func expiry(due int64, ttl time.Duration) int64 {
	if ttl == 0 {
		return 0
	}
	return due + ttl.Microseconds()
}

// dice gives out unguessable numbers; it asks the system for many at a time.
type dice struct {
	buffer [512]byte
	left   int
}

func (d *dice) roll() uint64 {
	if d.left == 0 {
		// It never returns an error: a system without randomness ends the program.
		_, _ = rand.Read(d.buffer[:])
		d.left = len(d.buffer)
	}
	d.left -= 8
	return binary.LittleEndian.Uint64(d.buffer[d.left:])
}
