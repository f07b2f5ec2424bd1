package postgres

import (
	"sync"
	"time"
)

// clock is the database's, or a test's. What a statement is told of it are two
// parameters, $1 and $2: see clockSQL.
type clock struct {
	now func() time.Time

	mu   sync.Mutex
	last time.Time // the newest that was seen
}

// clockSQL is the store's now within a statement: a test's clock, or the database's,
// but not before what this node has seen. A common table expression, so that it is
// looked at once and bounds an index.
const clockSQL = `clock as materialized (
	select case when $2::boolean then $1::timestamptz else greatest($1::timestamptz, clock_timestamp()) end as now
)`

// params are $1 and $2 of every statement that has a clock.
func (c *clock) params() (at time.Time, fixed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == nil {
		return c.last, false
	}
	if now := c.now().UTC().Truncate(time.Microsecond); now.After(c.last) {
		c.last = now
	}
	return c.last, true
}

// saw takes note of a time that a statement answered.
func (c *clock) saw(at time.Time) time.Time {
	at = at.UTC()
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.After(c.last) {
		c.last = at
	}
	return at
}
