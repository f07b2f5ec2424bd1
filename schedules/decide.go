package schedules

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/posthaste-io/posthaste/cron"
)

// maxCounted bounds how many missed times are counted one by one.
const maxCounted = 10_000

// decision is what becomes of the times of a schedule that are due.
type decision struct {
	// times have an item each, oldest first.
	times []time.Time
	// newest is the last of those that are due, next the one after it, zero if there is none.
	newest, next    time.Time
	missed, skipped int
	// lag is how long after the newest time that is, jitter included.
	lag time.Duration
	// reason is why nothing could be produced, where something should have been.
	reason string
}

// letGo leaves all times out, as missed.
func (d *decision) letGo(reason string) {
	d.times, d.missed, d.reason = nil, d.missed+len(d.times), reason
}

// leave lets the newest n times be, so that they are due as before.
func (d *decision) leave(n int) {
	d.next = d.times[len(d.times)-n]
	d.times = d.times[:len(d.times)-n]
	newest := d.times[len(d.times)-1]
	d.lag, d.newest = d.lag+d.newest.Sub(newest), newest
}

// skip leaves the oldest n times out because of the overlap.
func (d *decision) skip(n int) { d.times, d.skipped = d.times[n:], d.skipped+n }

// decide says what becomes of what is due at an instant; the next time is.
func (s *Schedule) decide(now time.Time) (decision, error) {
	spec, clock, err := s.times()
	if err != nil {
		return decision{}, err
	}
	until := now.Add(-s.shift())
	newest := s.newest(spec, clock, until)
	d := decision{
		times: s.madeUp(spec, clock, newest, until), newest: newest, next: s.next(spec, clock, newest), lag: until.Sub(newest),
	}
	d.missed = s.count(spec, clock, newest) - len(d.times)
	return d, nil
}

// follow moves a schedule on as was decided.
func (s *Schedule) follow(d *decision) {
	s.MissedCount += int64(d.missed)
	s.SkippedCount += int64(d.skipped)
	s.DecidedAt, s.NominalAt = d.newest, d.next
	if len(d.times) > 0 || d.reason != "" {
		s.LastError = d.reason
	}
}

// newest is the last time that is due at an instant, from the next one on.
func (s *Schedule) newest(spec cron.Spec, clock cron.Clock, until time.Time) time.Time {
	if !s.EndAt.IsZero() && !until.Before(s.EndAt) {
		until = s.EndAt.Add(-time.Nanosecond)
	}
	if last, ok := spec.Latest(s.NominalAt, until, clock); ok {
		return last.At.UTC()
	}
	return s.NominalAt
}

// count is how many times there are from the next one to the newest, up to maxCounted.
func (s *Schedule) count(spec cron.Spec, clock cron.Clock, newest time.Time) int {
	n := 1
	for at := s.NominalAt; at.Before(newest) && n < maxCounted; n++ {
		fire, ok := spec.Next(at, clock)
		if !ok {
			break
		}
		at = fire.At
	}
	return n
}

// madeUp are the times that items are produced for, oldest first, by what the schedule says
// of those that were missed.
func (s *Schedule) madeUp(spec cron.Spec, clock cron.Clock, newest, until time.Time) []time.Time {
	tooLate := func(at time.Time) bool {
		late := until.Sub(at)
		return s.Missed.Policy == MissSkip && late > OnTime || s.Missed.Grace > 0 && late > max(s.Missed.Grace, OnTime)
	}
	most := 1
	switch {
	case until.Sub(s.NominalAt) <= OnTime, s.Missed.Policy == MissSkip:
		most = MaxMissed // as many as are on time: a hiccup drops none of a schedule that fires each second
	case s.Missed.Policy == MissAll:
		most = s.Missed.Max
	}
	var times []time.Time
	for at := newest; len(times) < most && !tooLate(at); {
		times = append(times, at)
		before, ok := spec.Latest(s.NominalAt.Add(-time.Second), at.Add(-time.Second), clock)
		if !ok {
			break
		}
		at = before.At.UTC()
	}
	slices.Reverse(times)
	return times
}

// shift is by how much all fires are moved.
func (s *Schedule) shift() time.Duration {
	seconds := uint64(s.Jitter / time.Second)
	if seconds == 0 {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(s.ID))
	return time.Duration(h.Sum64()%(seconds+1)) * time.Second
}
