package postgres

import (
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// A vacuum of an empty table has the planner believe that it stays so, and then a walk of
// the whole table is as good to it as a look for one row.
func TestP10_ATableThatWasEmptyIsMeasuredWhenItFills(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	w.exec(`alter table {s}.items set (autovacuum_enabled = false)`)
	q := queue.NewNumber(1, 1)
	w.fill(q, 5000, w.clock().Add(-time.Hour), "", "")
	w.exec(`delete from {s}.items`)
	w.exec(`vacuum (truncate off) {s}.items`)
	if n := w.count(`select reltuples::bigint from pg_class where oid = '{s}.items'::regclass`); n != 0 {
		t.Fatalf("the planner believes in %d rows, want 0", n)
	}
	w.fill(q, 20_000, w.clock().Add(-time.Hour), "", "")
	w.eventually("the planner knows of the rows", func() bool {
		return w.count(`select reltuples::bigint from pg_class where oid = '{s}.items'::regclass`) > 15_000
	})
	for _, generic := range []bool{false, true} {
		w.wantPlan("100 of many", w.plan(generic, claimSQL, w.claimArgs(q, time.Time{}, 100)...), 100)
	}
	// What grows by a little is left alone.
	grown, err := w.store.grown(t.Context())
	if err != nil || len(grown) != 0 {
		t.Errorf("got %v, %v, want nothing to be measured any more", grown, err)
	}
}
