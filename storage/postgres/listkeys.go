package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posthaste-io/posthaste/queue"
)

// listKeysSQL goes from key to key of a queue, $3, by one probe each of what stands behind
// another item, after the key $4 and for $5 of them at most. It counts up to $6 of a key.
var listKeysSQL = `with recursive ` + clockSQL + `, waiting as (
	(` + nextKeySQL("$4::text") + `)
	union all
	select n.key from waiting w cross join lateral (` + nextKeySQL("w.key") + `) n
), page as materialized (
	select key from waiting limit $5
)
select clock.now, p.key, behind.count, h.*
from clock
cross join page p
cross join lateral (
	select count(*) from (
		select from {s}.items i
		where i.queue = $3 and i.ordering_key collate "C" = p.key and i.available_at >= ` + foreverSQL + `
		limit $6
	) few
) behind
cross join lateral (
	select ` + itemColumns("i", false) + ` from {s}.items i
	where ` + boundBySQL("$3", "p.key") + `
	order by i.seq limit 1
) h
order by p.key`

// nextKeySQL is the key after another one, which is an expression.
func nextKeySQL(after string) string {
	return `select i.ordering_key collate "C" as key from {s}.items i
		where i.queue = $3::bigint and i.ordering_key collate "C" > ` + after + ` and i.available_at >= ` + foreverSQL + `
		order by i.ordering_key collate "C" limit 1`
}

// ListKeys implements [queue.Store].
func (s *Store) ListKeys(ctx context.Context, req queue.KeysRequest) (queue.KeysPage, error) {
	return read(ctx, s, func(ctx context.Context, conn *pgxpool.Conn) (page queue.KeysPage, err error) {
		at, fixed := s.clock.params()
		rows, err := conn.Query(ctx, s.text(listKeysSQL), at, fixed, int64(req.Queue), req.After, req.Limit, queue.KeyCap)
		if err != nil {
			return queue.KeysPage{}, err
		}
		defer rows.Close()
		for rows.Next() {
			var k queue.KeyState
			if k.Head, err = scanItem(rows, &page.Now, &k.Key, &k.Behind); err != nil {
				return queue.KeysPage{}, err
			}
			k.Head.Content = queue.Content{}
			page.Keys = append(page.Keys, k)
		}
		rows.Close()
		if err = rows.Err(); err == nil && len(page.Keys) == 0 {
			page.Now, err = s.askNow(ctx, conn)
		}
		page.Now = s.clock.saw(page.Now)
		return page, err
	})
}
