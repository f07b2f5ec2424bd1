package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// daysAhead is how many days have a partition of the journal made for them after
	// today.
	daysAhead = 2
	// dayLayout names a day's partition.
	dayLayout = "attempts_20060102"
)

const (
	daysSQL = `select c.relname, clock_timestamp()
from pg_class c join pg_inherits i on i.inhrelid = c.oid
where i.inhparent = '{s}.attempts'::regclass`

	// Both lock the journal for a moment, so they rather give up than have writers
	// queue behind them.
	dayTimeoutSQL = `set local lock_timeout = '500ms'`
	makeDaySQL    = `create table {s}.%s partition of {s}.attempts for values from ('%s') to ('%s')`
	dropDaySQL    = `drop table {s}.%s`
)

// makeDays makes partitions of the journal for today and the days to come. What fails is
// told and left to the next call: records of a day without a partition go into the
// default one, which is why the first call comes before any record.
//
// With a clock that is not the database's it does nothing, since nobody knows which
// days will come.
func (s *Store) makeDays(ctx context.Context) error {
	if s.clock.now != nil {
		return nil
	}
	days, now, err := s.days(ctx)
	if err != nil {
		return err
	}
	today := now.Truncate(24 * time.Hour)
	for n := range daysAhead + 1 {
		from := today.AddDate(0, 0, n)
		name, to := from.Format(dayLayout), from.AddDate(0, 0, 1)
		if !days[name] {
			s.changeDay(ctx, name, fmt.Sprintf(makeDaySQL, name, from.Format(time.RFC3339), to.Format(time.RFC3339)))
		}
	}
	return nil
}

// dropDays drops the partitions that are older than keep as a whole.
func (s *Store) dropDays(ctx context.Context, keep time.Duration) error {
	if s.clock.now != nil {
		return nil
	}
	days, now, err := s.days(ctx)
	if err != nil {
		return err
	}
	for name := range days {
		day, err := time.Parse(dayLayout, name)
		if err == nil && !day.AddDate(0, 0, 1).After(now.Add(-keep)) {
			s.changeDay(ctx, name, fmt.Sprintf(dropDaySQL, name))
		}
	}
	return nil
}

// days returns the names of the journal's partitions, and the database's now.
func (s *Store) days(ctx context.Context) (days map[string]bool, now time.Time, err error) {
	days, err = read(ctx, s, func(ctx context.Context, conn *pgxpool.Conn) (map[string]bool, error) {
		rows, err := conn.Query(ctx, s.text(daysSQL))
		if err != nil {
			return nil, err
		}
		days := map[string]bool{}
		var name string
		_, err = pgx.ForEachRow(rows, []any{&name, &now}, func() error {
			days[name] = true
			return nil
		})
		return days, err
	})
	return days, now.UTC(), err
}

// changeDay makes or drops a day's partition. Another node may have done it before.
func (s *Store) changeDay(ctx context.Context, name, text string) {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, dayTimeoutSQL); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, s.text(text))
		return err
	})
	if err == nil {
		s.log.Info("journal partition changed", "partition", name, "statement", text[:len("create")])
		return
	}
	state, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok:
		s.log.Warn("journal partition left as it is", "partition", name, "error", err)
	case state.Code == "42P07", state.Code == "42P01", state.Code == "23505":
		// It was made or dropped meanwhile; the last is of two that made it at once.
	case state.Code == "55P03":
		s.log.Debug("journal partition is for later: others are at it", "partition", name)
	case state.Code == "23514":
		s.log.Debug("journal partition is not made: records of its day are in the default one", "partition", name)
	case state.Code == "42501":
		s.noOwner.Do(func() {
			s.log.Warn("role may not make partitions of the journal; old records are deleted row by row", "error", err)
		})
	default:
		s.log.Warn("journal partition left as it is", "partition", name, "error", err)
	}
}
