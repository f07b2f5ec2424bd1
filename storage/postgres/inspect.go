package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posthaste-io/posthaste/queue"
)

// findSQL is by whether content is read.
var findSQL = map[bool]string{
	false: `select ` + itemColumns("i", false) + ` from {s}.items i where i.id = any($1)`,
	true:  `select ` + itemColumns("i", true) + ` from {s}.items i where i.id = any($1)`,
}

// Find implements [queue.Store].
func (s *Store) Find(ctx context.Context, ids []queue.ID, content bool) ([]queue.Item, error) {
	wanted := make([][16]byte, len(ids))
	for i, id := range ids {
		wanted[i] = id
	}
	items, err := s.find(ctx, findSQL[content], wanted)
	if !content {
		withoutContent(items)
	}
	return items, err
}

func (s *Store) find(ctx context.Context, text string, wanted any) ([]queue.Item, error) {
	return read(ctx, s, func(ctx context.Context, conn *pgxpool.Conn) ([]queue.Item, error) {
		rows, err := conn.Query(ctx, s.text(text), wanted)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, func(row pgx.CollectableRow) (queue.Item, error) { return scanItem(rows) })
	})
}

// withoutContent clears the parts of it that are columns, as the other parts are.
func withoutContent(items []queue.Item) {
	for i := range items {
		items[i].Content = queue.Content{}
	}
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
