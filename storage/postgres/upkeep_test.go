package postgres

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

func (w *world) tidy(keep time.Duration) (pages int) {
	w.Helper()
	for pages = 1; pages < 100; pages++ {
		more, err := w.store.Tidy(w.Context(), keep)
		if err != nil {
			w.Fatal(err)
		}
		if !more {
			return pages
		}
	}
	w.Fatal("Tidy does not end")
	return 0
}

func TestStore_TidyWorksInPages(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	now := w.clock()
	w.exec(`insert into {s}.dedupe (scope, call, key, hash, item, until)
		select 1, false, int4send(n), '', gen_random_uuid(), case when n <= 2500 then $1::timestamptz else $1 + interval '1 second' end from generate_series(1, 2600) n`, now)
	w.exec(`insert into {s}.attempts (at, namespace, type, next, item, queue, home, delivery)
		select $1::timestamptz - n * interval '1 minute', 1, 1, 1, gen_random_uuid(), 1, 1, 1 from generate_series(1, 1500) n`, now)
	w.exec(`insert into {s}.batches (id, at) select gen_random_uuid(), clock_timestamp() - case when n <= 100 then interval '61 minutes' else interval '59 minutes' end from generate_series(1, 150) n`)
	if pages := w.tidy(time.Hour); pages != 3 {
		t.Errorf("it took %d pages, want 3", pages)
	}
	for what, test := range map[string]struct {
		text string
		want int
	}{
		"idempotency keys": {`select count(*) from {s}.dedupe`, 100},
		"records":          {`select count(*) from {s}.attempts`, 60},
		"markers":          {`select count(*) from {s}.batches`, 50},
	} {
		if got := w.count(test.text); got != test.want {
			t.Errorf("%s: %d are left, want %d", what, got, test.want)
		}
	}
}

func TestStore_FoldLosesNoCountToAnother(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	const writers, each = 4, 200
	var wg sync.WaitGroup
	for n := range writers {
		wg.Go(func() {
			for i := range each {
				if _, err := w.pool().Exec(t.Context(), w.store.text(`insert into {s}.deltas (queue, partition, total, held, failing, created, leased) values ($1, 0, 1, 0, 0, 1, 0)`), i%7+1); err != nil {
					t.Error(err)
					return
				}
				if n < 2 && i%10 == 0 {
					if _, err := w.store.fold(t.Context()); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	w.tidy(time.Hour)
	if n := w.count(`select count(*) from {s}.deltas`); n != 0 {
		t.Errorf("%d deltas are left, want none", n)
	}
	if n := w.count(`select sum(total)::bigint from {s}.counts`); n != writers*each {
		t.Errorf("counted %d, want %d", n, writers*each)
	}
}

func TestStore_JournalHasPartitionsOfADay(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, false)
	days := func() []string {
		found, _, err := w.store.days(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for name := range found {
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}
	// Twice, since midnight may come in between.
	_, now, err := w.store.days(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for n := range daysAhead {
		if name := now.AddDate(0, 0, n).Format(dayLayout); !slices.Contains(days(), name) {
			t.Errorf("%s is missing among %v", name, days())
		}
	}
	// A day whose records are in the default partition gets none, and nothing fails.
	ahead := now.Truncate(24*time.Hour).AddDate(0, 0, 40)
	insert := `insert into {s}.attempts (at, namespace, type, next, item, queue, home, delivery) values ($1, 1, 1, 1, gen_random_uuid(), 1, 1, 1)`
	w.exec(insert, ahead.Add(time.Hour))
	w.store.changeDay(t.Context(), "attempts_x", fmt.Sprintf(makeDaySQL, "attempts_x", ahead.Format(time.RFC3339), ahead.AddDate(0, 0, 1).Format(time.RFC3339)))
	if slices.Contains(days(), "attempts_x") {
		t.Error("a partition was made over records of the default one")
	}

	old := now.Truncate(24*time.Hour).AddDate(0, 0, -4)
	for n := range 3 {
		from := old.AddDate(0, 0, n)
		name := from.Format(dayLayout)
		w.store.changeDay(t.Context(), name, fmt.Sprintf(makeDaySQL, name, from.Format(time.RFC3339), from.AddDate(0, 0, 1).Format(time.RFC3339)))
		w.exec(insert, from.Add(23*time.Hour))
	}
	// The first two days are past as a whole, the third is not.
	w.tidy(now.Sub(old.AddDate(0, 0, 2)) - time.Hour)
	for n, want := range []bool{false, false, true} {
		if name := old.AddDate(0, 0, n).Format(dayLayout); slices.Contains(days(), name) != want {
			t.Errorf("%s is there: %v, want %v", name, !want, want)
		}
	}
	if n := w.count(`select count(*) from {s}.attempts`); n != 2 {
		t.Errorf("%d records are left, want 2", n)
	}
}

func TestStore_VacuumClearsDeadRows(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	w.exec(`alter table {s}.items set (autovacuum_enabled = false)`)
	q := queue.NewNumber(1, 1)
	w.fill(q, 2*vacuumAt, w.clock(), "", "")
	w.exec(`update {s}.items set available_at = available_at + interval '1 hour'`)
	// The store does it by itself, as soon as the server has counted the dead rows.
	deadline := time.Now().Add(30 * time.Second)
	for w.count(`select count(*) from pg_stat_user_tables where relid = '{s}.items'::regclass and vacuum_count > 0 and n_dead_tup = 0`) == 0 {
		if time.Now().After(deadline) {
			t.Fatal("the table was not vacuumed")
		}
		select {
		case <-t.Context().Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	// Who has just done it has nothing to do.
	w.exec(`update {s}.items set available_at = available_at + interval '1 hour'`)
	w.exec(`select pg_stat_force_next_flush()`)
	due, err := w.store.vacuumDue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(due, "items") {
		t.Error("a table is due right after it was vacuumed")
	}
}
