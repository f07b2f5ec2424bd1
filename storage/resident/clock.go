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
// somebody corrected the time. A step forward is taken at once, since what has
// become due by it is due; [clock.takeStep] tells of it, so that live leases
// are not ended by it.
type clock struct {
	read    func() (wall int64, elapsed time.Duration)
	anchor  time.Duration // a reading, and
	base    int64         // the stamp that it stands for
	elapsed time.Duration
	last    int64
	step    int64 // how far the wall stepped forward since somebody asked
}

// smallStep is how much the wall may be corrected without being said to step.
const smallStep = 1_000_000 // µs

// newClock returns a clock that does not give out anything below floor.
func newClock(now func() time.Time, floor int64) clock {
	start := now()
	read := func() (int64, time.Duration) {
		t := now()
		return t.UnixMicro(), t.Sub(start)
	}
	wall, elapsed := read()
	base := max(wall, floor)
	return clock{read: read, anchor: elapsed, base: base, last: base}
}

func (c *clock) stamp() int64 {
	wall, reading := c.read()
	elapsed := reading - c.anchor
	if elapsed < c.elapsed {
		// Readings without a monotonic part were put back: time goes on from here.
		c.anchor, c.base, elapsed = reading, c.last, 0
	}
	c.elapsed = elapsed
	stamp := c.base + elapsed.Microseconds()
	if ahead := wall - stamp; ahead > 0 {
		if ahead > smallStep {
			c.step += ahead
		}
		c.anchor, c.base, c.elapsed = reading, wall, 0
		stamp = wall
	}
	c.last = max(c.last, stamp)
	return c.last
}

// takeStep returns how far the wall stepped forward since it was called last.
func (c *clock) takeStep() int64 {
	step := c.step
	c.step = 0
	return step
}

// carryLeases moves the deadlines of live leases along with a step of the wall
// that led to now: whoever works has as much time left as before. It costs a walk
// over what is held, when somebody sets the clock or a machine wakes up. The new
// deadlines are written when the leases change next; a process that dies before
// lets them lapse early, which fencing makes harmless.
func (s *Store) carryLeases(now, step int64) {
	carried := 0
	for _, p := range s.sorted {
		live := make([]ref, 0, p.held.Len())
		p.held.Ascend(s.pivot(position{at: now - step + 1}), func(r ref) bool {
			live = append(live, r)
			return true
		})
		for _, r := range live {
			p.held.Delete(r)
		}
		for _, r := range live {
			s.entries.get(r.slot).at += step
			p.held.Set(ref{r.at + step, r.slot})
		}
		carried += len(live)
	}
	s.log.Warn("the wall clock stepped forward; live leases keep the time they had left",
		"step", time.Duration(step)*time.Microsecond, "leases", carried)
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
