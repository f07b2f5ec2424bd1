package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// measureEvery is how often it is asked whether a table outgrew what the planner
	// believes. Until then a burst into a table that was empty is leased slowly.
	measureEvery = time.Second
	// grownBy and grownFrom are how many times, and how many, more rows than the planner
	// believes in are worth it.
	grownBy, grownFrom = 10, 1000
)

// grownSQL lists tables of which the planner believes that they have far fewer rows than
// they have, and which the role may analyze. A table that was vacuumed while it was empty has
// none to the planner, however many come: then it joins items by a walk of the whole index.
const grownSQL = `select c.relname
from pg_stat_user_tables st join pg_class c on c.oid = st.relid
where c.oid = any(array['{s}.items', '{s}.deltas', '{s}.batches', '{s}.dedupe', '{s}.bodies']::regclass[])
	and st.n_live_tup > $1::bigint * greatest(c.reltuples, 0) + $2::bigint
	and pg_has_role(c.relowner, 'usage')
order by c.relname`

// measure has the planner learn of tables that have grown. One that somebody vacuums or
// analyzes at the moment is skipped.
func (s *Store) measure(ctx context.Context) error {
	grown, err := s.grown(ctx)
	if err != nil {
		return err
	}
	for _, name := range grown {
		text := s.text(`analyze (skip_locked) {s}.` + pgx.Identifier{name}.Sanitize())
		if _, err := read(ctx, s, func(ctx context.Context, conn *pgxpool.Conn) (struct{}, error) {
			_, err := conn.Exec(ctx, text, pgx.QueryExecModeExec)
			return struct{}{}, err
		}); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (s *Store) grown(ctx context.Context) ([]string, error) {
	return read(ctx, s, func(ctx context.Context, conn *pgxpool.Conn) ([]string, error) {
		rows, err := conn.Query(ctx, s.text(grownSQL), grownBy, grownFrom)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, pgx.RowTo[string])
	})
}
