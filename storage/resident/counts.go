package resident

import "time"

// counts are a partition's running totals, so that nothing need be walked.
type counts struct {
	total   int
	held    int
	behind  int
	failing int
	created stamps
	leased  stamps
}

// add counts an item in, or out with -1.
func (c *counts) add(e *entry, x *ext, n int) {
	c.total += n
	c.created.add(e.created, n)
	if e.at == forever {
		c.behind += n
	}
	if x == nil {
		return
	}
	if e.is(held) {
		c.held += n
		c.leased.add(x.updated, n)
	}
	if x.attempts > 0 {
		c.failing += n
	}
}

// stamps is a sum of stamps, in two parts, since one of microseconds would
// overflow with a few thousand of them.
type stamps struct{ seconds, micros int64 }

func (s *stamps) add(us int64, n int) {
	s.seconds += int64(n) * (us / 1e6)
	s.micros += int64(n) * (us % 1e6)
}

// meanAge is how long ago the n stamps of the sum were, on average.
func (s stamps) meanAge(now int64, n int) time.Duration {
	if n == 0 {
		return 0
	}
	count := int64(n)
	seconds := count*(now/1e6) - s.seconds
	nanos := (count*(now%1e6) - s.micros) * 1000
	rest := seconds%count*1e9 + nanos
	mean := seconds/count*1e9 + rest/count
	if rest < 0 && rest%count != 0 {
		mean-- // rounded down, as the whole would be
	}
	return time.Duration(mean)
}
