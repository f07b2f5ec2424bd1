package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posthaste-io/posthaste/queue"
)

var findSQL = `select ` + itemColumns("i", true) + ` from {s}.items i where i.id = $1`

// Find implements [queue.Store].
func (s *Store) Find(ctx context.Context, id queue.ID) ([]queue.Item, error) {
	return read(ctx, s, func(ctx context.Context, conn *pgxpool.Conn) ([]queue.Item, error) {
		rows, err := conn.Query(ctx, s.text(findSQL), [16]byte(id))
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, func(row pgx.CollectableRow) (queue.Item, error) { return scanItem(rows) })
	})
}

// items reads rows of the store's now and an item. The now is asked for once more if
// there is no row.
func (s *Store) items(ctx context.Context, conn *pgxpool.Conn, text string, args ...any) (items []queue.Item, now time.Time, err error) {
	rows, err := conn.Query(ctx, s.text(text), args...)
	if err != nil {
		return nil, now, err
	}
	items, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (queue.Item, error) { return scanItem(rows, &now) })
	if err != nil {
		return nil, now, err
	}
	if len(items) == 0 {
		at, fixed := s.clock.params()
		err = conn.QueryRow(ctx, `with `+clockSQL+` select now from clock`, at, fixed).Scan(&now)
	}
	return items, s.clock.saw(now), err
}
