package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// tidyPage bounds the rows that one statement of a Tidy removes.
	tidyPage = 1000
	// foldPage is larger: deltas are small, and there is one or more for each commit.
	foldPage = 10_000
	// keepMarkers is how long a marker stays. Nobody asks for one for longer than a
	// call takes.
	keepMarkers = "1 hour"
)

// What Tidy removes is locked first, and what is locked by another is left to it. A
// row's place finds it without a join, for which the planner might read a whole table;
// a row that was changed meanwhile has another place, and stays.
const (
	forgetKeysSQL = `with ` + clockSQL + `
delete from {s}.dedupe where ctid = any(array(
	select ctid from {s}.dedupe
	where until <= (select now from clock)
	order by until limit $3 for update skip locked
))`

	// Markers are by the database's own clock, whatever the store's is.
	dropMarkersSQL = `delete from {s}.batches where ctid = any(array(
	select ctid from {s}.batches
	where at < (select clock_timestamp() - interval '` + keepMarkers + `')
		and at < (select max(at) from {s}.batches) -- the newest tells the clock of the next start
	order by at limit $1 for update skip locked
))`

	// $4 is how long records are kept, in microseconds. These are the records of days
	// that have no partition of their own.
	trimJournalSQL = `with ` + clockSQL + `
delete from {s}.attempts_other where ctid = any(array(
	select ctid from {s}.attempts_other
	where at < (select now - $4::bigint * interval '1 microsecond' from clock)
	limit $3 for update skip locked
))`

	// One node folds at a time: two would wait for each other's rows.
	foldSQL = `with one as materialized (
	select pg_try_advisory_xact_lock(hashtextextended('posthaste fold of {s}', 0)) as mine
), folded as (
	delete from {s}.deltas where (select mine from one) and ctid = any(array(
		select ctid from {s}.deltas order by number limit $1
	))
	returning queue, partition, total, held, failing, created, leased
), added as (
	insert into {s}.counts as c (queue, partition, total, held, failing, created, leased)
	select queue, partition, sum(total), sum(held), sum(failing), sum(created), sum(leased)
	from folded group by queue, partition order by queue, partition
	on conflict (queue, partition) do update set
		total = c.total + excluded.total, held = c.held + excluded.held, failing = c.failing + excluded.failing,
		created = c.created + excluded.created, leased = c.leased + excluded.leased
)
select count(*) from folded`

	dropZerosSQL = `delete from {s}.counts
where total = 0 and held = 0 and failing = 0 and created = 0 and leased = 0`
)

// Tidy implements [queue.Store]. Each step may be repeated, so that it does not matter
// whether one was committed that nobody saw the end of.
func (s *Store) Tidy(ctx context.Context, keep time.Duration) (more bool, err error) {
	for _, step := range []struct {
		what string
		run  func(context.Context) (more bool, err error)
	}{
		{"forget idempotency keys", s.forgetKeys},
		{"drop markers", s.dropMarkers},
		{"trim journal", func(ctx context.Context) (bool, error) { return s.trimJournal(ctx, keep) }},
		{"fold counts", s.fold},
		{"drop counts of nothing", s.dropZeros},
		{"drop payloads", s.dropBodies},
		{"make days", func(ctx context.Context) (bool, error) { return false, s.makeDays(ctx) }},
		{"drop days", func(ctx context.Context) (bool, error) { return false, s.dropDays(ctx, keep) }},
	} {
		again, err := step.run(ctx)
		if err != nil {
			return false, fmt.Errorf("%s: %w", step.what, err)
		}
		more = more || again
	}
	return more, nil
}

func (s *Store) forgetKeys(ctx context.Context) (more bool, err error) {
	at, fixed := s.clock.params()
	n, err := s.remove(ctx, forgetKeysSQL, at, fixed, tidyPage)
	return n == tidyPage, err
}

func (s *Store) dropMarkers(ctx context.Context) (more bool, err error) {
	n, err := s.remove(ctx, dropMarkersSQL, foldPage)
	return n == foldPage, err
}

func (s *Store) trimJournal(ctx context.Context, keep time.Duration) (more bool, err error) {
	at, fixed := s.clock.params()
	n, err := s.remove(ctx, trimJournalSQL, at, fixed, tidyPage, keep.Microseconds())
	return n == tidyPage, err
}

func (s *Store) fold(ctx context.Context) (more bool, err error) {
	n, err := read(ctx, s, func(ctx context.Context, conn *pgxpool.Conn) (n int, err error) {
		err = conn.QueryRow(ctx, s.text(foldSQL), foldPage).Scan(&n)
		return n, err
	})
	return n == foldPage, err
}

func (s *Store) dropZeros(ctx context.Context) (more bool, err error) {
	_, err = s.remove(ctx, dropZerosSQL)
	return false, err
}

// remove runs a statement that may be repeated, and says how many rows it met.
func (s *Store) remove(ctx context.Context, text string, args ...any) (int64, error) {
	return read(ctx, s, func(ctx context.Context, conn *pgxpool.Conn) (int64, error) {
		tag, err := conn.Exec(ctx, s.text(text), args...)
		return tag.RowsAffected(), err
	})
}
