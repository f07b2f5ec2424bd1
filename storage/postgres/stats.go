package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posthaste-io/posthaste/queue"
)

var (
	statsOfAllSQL = statsText("")
	// Queues are $4.
	statsOfSomeSQL = statsText(" where queue = any($4)")
)

// statsText adds up what was counted, and looks at the index for what time changes. $3
// is up to where is counted.
func statsText(where string) string {
	return `with ` + clockSQL + `, counted as materialized (
	select queue, partition, sum(total) as total, sum(held) as held, sum(failing) as failing,
		sum(created) as created, sum(leased) as leased
	from (
		select queue, partition, total, held, failing, created, leased
		from {s}.counts` + where + `
		union all
		select queue, partition, total, held, failing, created, leased
		from {s}.deltas` + where + `
	) changes
	group by queue, partition
	having sum(total) > 0
)
select clock.now, c.queue, c.partition, c.total::bigint, c.held::bigint, c.failing::bigint,
	round(` + sinceEpoch("clock.now") + ` - c.created / c.total)::bigint,
	case when c.held > 0 then round(` + sinceEpoch("clock.now") + ` - c.leased / c.held)::bigint else 0 end,
	scheduled.count, behind.count, oldest.due_at
from counted c cross join clock
cross join lateral (
	select count(*) from (
		select from {s}.items i
		where i.queue = c.queue and i.partition = c.partition and i.available_at < ` + foreverSQL + `
			and i.available_at > (select now from clock) and not i.held
		limit $3
	) few
) scheduled
cross join lateral (
	select count(*) from (
		select from {s}.items i
		where i.queue = c.queue and i.partition = c.partition and i.available_at >= ` + foreverSQL + `
		order by i.seq limit $3
	) few
) behind
left join lateral (
	select i.due_at from {s}.items i
	where i.queue = c.queue and i.partition = c.partition and i.available_at < ` + foreverSQL + `
		and i.available_at <= (select now from clock) and not i.held
	order by i.available_at, i.seq limit 1
) oldest on true`
}

// Stats implements [queue.Store].
func (s *Store) Stats(ctx context.Context, queues []queue.Number) ([]queue.Stats, error) {
	text := statsOfAllSQL
	var numbers []any
	if len(queues) > 0 {
		text = statsOfSomeSQL
		some := make([]int64, len(queues))
		for i, n := range queues {
			some[i] = int64(n)
		}
		numbers = append(numbers, some)
	}
	return read(ctx, s, func(ctx context.Context, conn *pgxpool.Conn) ([]queue.Stats, error) {
		at, fixed := s.clock.params()
		rows, err := conn.Query(ctx, s.text(text), append([]any{at, fixed, queue.StatsCap}, numbers...)...)
		if err != nil {
			return nil, err
		}
		var now time.Time
		all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (queue.Stats, error) { return scanStats(row, &now) })
		if err == nil && len(all) > 0 {
			s.clock.saw(now)
		}
		return all, err
	})
}

func scanStats(row pgx.CollectableRow, now *time.Time) (queue.Stats, error) {
	var st queue.Stats
	var number, age, heldAge int64 // ages are microseconds
	var oldest *time.Time
	err := row.Scan(now, &number, &st.Partition, &st.Total, &st.Held, &st.Failing, &age, &heldAge, &st.Scheduled, &st.Behind, &oldest)
	if err != nil {
		return st, err
	}
	st.Queue = queue.Number(number)
	if st.Scheduled >= queue.StatsCap {
		st.Scheduled, st.Capped = queue.StatsCap, true
	}
	st.OldestReady = instant(oldest)
	st.MeanAge = time.Duration(age) * time.Microsecond
	st.MeanHeldAge = time.Duration(heldAge) * time.Microsecond
	return st, nil
}
