package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posthaste-io/posthaste/queue"
)

const (
	// cleanEvery is how often counts are folded and tables looked at.
	cleanEvery = 5 * time.Second
	// restShare is how much longer than it took the pause after it is, at least: with
	// an old snapshot about, a vacuum removes nothing and would run all the time.
	restShare = 3
	// vacuumAt is from how many dead rows on a table is worth it.
	vacuumAt = 5000
)

// vacuumDueSQL lists what another node has not just done, and whether the role may.
const vacuumDueSQL = `select c.relname, pg_has_role(c.relowner, 'usage')
from pg_stat_user_tables st join pg_class c on c.oid = st.relid
where c.oid = any(array['{s}.items', '{s}.deltas', '{s}.batches', '{s}.dedupe', '{s}.bodies']::regclass[])
	and st.n_dead_tup > $1
	and coalesce(st.last_vacuum < clock_timestamp() - $2::bigint * interval '1 microsecond', true)
order by c.relname`

// keepClean folds counts and clears dead rows away until the context ends. A busy
// store cannot wait for the next Tidy, nor for the server, which looks at tables once a
// minute by default: leasing moves each item in its index several times, and by then a
// lease would walk over a hundred thousand entries that lead nowhere.
func (s *Store) keepClean(ctx context.Context) {
	s.repeat(ctx, "clean up", cleanEvery, s.clean)
}

// repeat does something every so often until the context ends.
func (s *Store) repeat(ctx context.Context, what string, every time.Duration, do func(context.Context) error) {
	for {
		begun := time.Now()
		// Whether the database answers at all is told elsewhere.
		if err := do(ctx); err != nil && !errors.Is(err, queue.ErrUnavailable) && ctx.Err() == nil {
			s.log.Warn(what, "error", err)
		}
		timer := time.NewTimer(max(every, restShare*time.Since(begun)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

func (s *Store) clean(ctx context.Context) error {
	for more := true; more; {
		var err error
		if more, err = s.fold(ctx); err != nil {
			return fmt.Errorf("fold counts: %w", err)
		}
	}
	if err := s.vacuum(ctx); err != nil {
		return fmt.Errorf("vacuum: %w", err)
	}
	return nil
}

// vacuum clears the tables that need it, one after another, on a connection of its own,
// where no statement is cancelled for taking long. A table that is being vacuumed
// already is skipped.
func (s *Store) vacuum(ctx context.Context) error {
	config := s.pool.Config().ConnConfig
	if isPooled(config) {
		s.noVacuum.Do(func() {
			s.log.Info("behind a pooler the tables are vacuumed by the server alone; its autovacuum has to keep up")
		})
		return nil
	}
	due, err := s.vacuumDue(ctx)
	if err != nil || len(due) == 0 {
		return err
	}
	config.RuntimeParams["statement_timeout"] = "0"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, name := range due {
		// Truncation would take a lock against everybody. The simple protocol puts no
		// transaction around it, which it would not stand.
		text := `vacuum (skip_locked, index_cleanup on, truncate off) {s}.` + pgx.Identifier{name}.Sanitize()
		if _, err := conn.Exec(ctx, s.text(text), pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// vacuumDue lists the tables that need it and that the role may vacuum.
func (s *Store) vacuumDue(ctx context.Context) ([]string, error) {
	return read(ctx, s, func(ctx context.Context, conn *pgxpool.Conn) (due []string, err error) {
		rows, err := conn.Query(ctx, s.text(vacuumDueSQL), vacuumAt, cleanEvery.Microseconds())
		if err != nil {
			return nil, err
		}
		var name string
		var may bool
		_, err = pgx.ForEachRow(rows, []any{&name, &may}, func() error {
			if may {
				due = append(due, name)
				return nil
			}
			s.noVacuum.Do(func() {
				s.log.Warn("role may not vacuum; leases grow slow between the server's own vacuums", "table", name)
			})
			return nil
		})
		return due, err
	})
}
