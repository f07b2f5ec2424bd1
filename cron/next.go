package cron

import (
	"fmt"
	"math/bits"
	"time"
)

// searchYears is how far the next fire is looked for: the 29th of February on a Sunday
// comes after 40 years at most, where the turn of a century is no leap year.
const searchYears = 50

// Forward says what becomes of times that clocks go forward over.
type Forward int

// The policies; the first is the default.
const (
	// RunAfter fires once when the clocks have gone forward.
	RunAfter Forward = iota
	// SkipForward does not fire.
	SkipForward
)

// Back says what becomes of times that come twice.
type Back int

// The policies; the first is the default.
const (
	// First fires at the first of the two.
	First Back = iota
	// Second fires at the second.
	Second
	// Both fires at both.
	Both
)

// Clock is in which zone, and how, a spec fires.
type Clock struct {
	// Zone must not be nil.
	Zone    *time.Location
	Forward Forward
	Back    Back
	// Anchor is from when on the distances of @every count.
	Anchor time.Time
}

// Fire is an instant at which a spec fires, in its zone.
type Fire struct {
	At time.Time
	// Note says, in words, what is odd about it because the clocks change; mostly nothing.
	Note string
}

// Next returns the first fire after an instant, or false if there is none within fifty
// years. Fires are at whole seconds.
func (s Spec) Next(after time.Time, c Clock) (Fire, bool) {
	if s.every > 0 {
		return Fire{At: s.nextEvery(after, c).In(c.Zone)}, true
	}
	t := time.Unix(after.Unix()+1, 0)
	limit := t.AddDate(searchYears, 0, 0)
	for t.Before(limit) {
		p := periodOf(t, c.Zone, limit)
		if fire, ok := s.nextIn(t, p, c); ok {
			return fire, true
		}
		t = p.end
	}
	return Fire{}, false
}

// Every is the distance of an @every, and 0 for other expressions.
func (s Spec) Every() time.Duration { return s.every }

// nextEvery counts in seconds: a [time.Duration] ends after 292 years, and the anchor may
// be the zero time.
func (s Spec) nextEvery(after time.Time, c Clock) time.Time {
	anchor := c.Anchor.Unix()
	if after.Unix() < anchor {
		return time.Unix(anchor, 0)
	}
	every := int64(s.every / time.Second)
	n := (after.Unix()-anchor)/every + 1
	return time.Unix(anchor+n*every, 0)
}

// period is a time in which a zone has one offset from UTC.
type period struct {
	start, end time.Time
	offset     time.Duration
	// before and after are the offsets of its neighbours; open sides have its own.
	before, after time.Duration
}

func periodOf(t time.Time, zone *time.Location, limit time.Time) period {
	t = t.In(zone)
	p := period{offset: offsetAt(t), end: limit}
	p.before, p.after = p.offset, p.offset
	start, end := t.ZoneBounds()
	if !end.IsZero() && !end.After(t) {
		// Where a zone's table has ended, mostly in 2037, ZoneBounds goes by rules and takes
		// each year to have 365 days: on the last of a leap year it answers its beginning,
		// and a search that goes on from there would stay.
		end = end.Add(24 * time.Hour)
	}
	if p.start = start; !start.IsZero() {
		p.before = offsetAt(start.Add(-time.Second))
	}
	if !end.IsZero() && end.Before(limit) {
		p.end, p.after = end, offsetAt(end)
	}
	return p
}

func offsetAt(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// naive is what a clock with an offset shows, as if it were UTC.
func naive(t time.Time, offset time.Duration) time.Time { return t.UTC().Add(offset) }

// nextIn returns the first fire of a period from t on.
func (s Spec) nextIn(t time.Time, p period, c Clock) (Fire, bool) {
	from, to := naive(t, p.offset), naive(p.end, p.offset)
	if s.elapsed {
		at, ok := s.nextNaive(from, to)
		return Fire{At: at.Add(-p.offset).In(c.Zone)}, ok
	}
	if !t.After(p.start) && p.before < p.offset {
		if fire, ok := s.afterGap(p, c); ok {
			return fire, true
		}
	}
	// What comes twice came first until the clocks went back at the start, and comes first
	// before they go back at the end.
	again := naive(p.start, p.offset) // the end of what comes again at the start
	if p.before > p.offset {
		again = again.Add(p.before - p.offset)
		if c.Back == First && from.Before(again) {
			from = again
		}
	}
	comes := to // the start of what will come again
	if p.after < p.offset {
		comes = to.Add(p.after - p.offset)
		if c.Back == Second {
			to = comes
		}
	}
	at, ok := s.nextNaive(from, to)
	if !ok {
		return Fire{}, false
	}
	fire := Fire{At: at.Add(-p.offset).In(c.Zone)}
	switch {
	case p.before > p.offset && at.Before(again):
		fire.Note = fmt.Sprintf("clocks go back: %s comes twice, and this is the second", at.Format(time.TimeOnly))
	case p.after < p.offset && !at.Before(comes):
		fire.Note = fmt.Sprintf("clocks go back: %s comes twice, and this is the first", at.Format(time.TimeOnly))
	}
	return fire, true
}

// afterGap returns the fire for times that clocks went forward over at the start of a
// period. If the time that they went to matches as well, it is one fire.
func (s Spec) afterGap(p period, c Clock) (Fire, bool) {
	missing, ok := s.nextNaive(naive(p.start, p.before), naive(p.start, p.offset))
	if !ok || c.Forward == SkipForward {
		return Fire{}, false
	}
	at := p.start.In(c.Zone)
	return Fire{At: at, Note: fmt.Sprintf("clocks go forward: runs at %s instead of %s",
		at.Format(time.TimeOnly), missing.Format(time.TimeOnly))}, true
}

// Latest returns the last fire after one instant and not after another, false if there is
// none. It asks for some thirty fires, however many there are between.
func (s Spec) Latest(after, until time.Time, c Clock) (last Fire, ok bool) {
	// Fires are at whole seconds. No fire comes after hi and up to until.
	for lo, hi := after.Unix(), until.Unix(); lo < hi; {
		middle := lo + (hi-lo)/2
		fire, found := s.Next(time.Unix(middle, 0), c)
		if found && !fire.At.After(until) {
			last, ok, lo = fire, true, fire.At.Unix()
		} else {
			hi = middle
		}
	}
	return last, ok
}

// nextNaive returns the first time that matches, from one on and before another, both on a
// clock that never changes.
func (s Spec) nextNaive(from, to time.Time) (time.Time, bool) {
	for day := from; day.Before(to); {
		year, month, dom := day.Date()
		if !has(s.month, int(month)) {
			day = time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
			continue
		}
		if s.matchesDay(day) {
			if at, ok := s.timeOfDay(day); ok {
				return at, at.Before(to)
			}
		}
		day = time.Date(year, month, dom+1, 0, 0, 0, 0, time.UTC)
	}
	return time.Time{}, false
}

func (s Spec) matchesDay(day time.Time) bool {
	dom, dow := has(s.dayOfMonth, day.Day()), has(s.dayOfWeek, int(day.Weekday()))
	if s.both {
		return dom && dow
	}
	return dom || dow
}

// timeOfDay returns the first time that matches on a day, not before the one that it shows.
func (s Spec) timeOfDay(t time.Time) (time.Time, bool) {
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	at := func(h, m, s int) (time.Time, bool) { return time.Date(year, month, day, h, m, s, 0, time.UTC), true }
	if has(s.hour, hour) {
		if has(s.minute, minute) {
			if next, ok := from(s.second, second); ok {
				return at(hour, minute, next)
			}
		}
		if next, ok := from(s.minute, minute+1); ok {
			return at(hour, next, first(s.second))
		}
	}
	if next, ok := from(s.hour, hour+1); ok {
		return at(next, first(s.minute), first(s.second))
	}
	return time.Time{}, false
}

func has(set uint64, n int) bool { return set&(1<<n) != 0 }

func first(set uint64) int { return bits.TrailingZeros64(set) }

// from returns the first of a set that is not below n.
func from(set uint64, n int) (int, bool) {
	if set >>= n; set == 0 {
		return 0, false
	}
	return n + bits.TrailingZeros64(set), true
}
