package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posthaste-io/posthaste/queue"
)

// purgeSQL removes what named lists, (id, queue, home, ord), in that order and up to a
// limit. where is a condition on items i, looked at again when they are locked; more
// says whether there would be more. The next numbers after those of named are of the
// limit, the reason and the marker.
func purgeSQL(named, where, more, limit, reason, marker string) string {
	return `with ` + clockSQL + `, ` + named + `, locked as materialized (
	select i.id, i.queue, i.home, n.ord
	from named n join {s}.items i on i.id = n.id and i.queue = n.queue and i.home = n.home
	where ` + where + `
	order by i.id, i.queue, i.home
	for update of i
), chosen as materialized (
	select id, queue, home, ord from locked order by ord limit ` + limit + `
), purged as (
	delete from {s}.items i using chosen c
	where i.id = c.id and i.queue = c.queue and i.home = c.home
	returning i.id, i.queue, i.home, i.partition, i.deliveries, i.held, i.attempts, i.created_at, i.updated_at, c.ord
), endings as (
	insert into {s}.attempts (at, namespace, type, next, item, queue, home, delivery, verdict)
	select clock.now, (p.queue >> 32) & 4294967295, ` + endingRecord + `, ` + stepCancel + `, p.id, p.queue, p.home, p.deliveries, ` + reason + `
	from purged p cross join clock order by p.ord
), deltas as (
	insert into {s}.deltas (queue, partition, total, held, failing, created, leased)
	select queue, partition, -count(*), -count(*) filter (where held), -count(*) filter (where attempts > 0),
		-sum(` + sinceEpoch("created_at") + `), -coalesce(sum(` + sinceEpoch("updated_at") + `) filter (where held), 0)
	from purged group by queue, partition
), answer as materialized (
	select (select count(*) from purged) as purged, ` + more + ` as more
), mark as (
	insert into {s}.batches (id, at, answer)
	select ` + marker + `, (select now from clock), jsonb_build_object('Purged', purged, 'More', more) from answer
)
select purged, more, (select now from clock) from answer`
}

const (
	endingRecord = "3" // queue.EndingRecord
	stepCancel   = "6" // queue.StepCancel
)

// purgeKeysSQL takes items by key.
var purgeKeysSQL = purgeSQL(`named as materialized (
	select * from unnest($3::uuid[], $4::bigint[], $5::bigint[]) with ordinality as n (id, queue, home, ord)
)`, `true`, `(select count(*) from locked) > $6`, `$6`, `$7::text`, `$8::uuid`)

// purgeQueueSQL walks a partition, one item further than the limit. Another queue's
// items are never reached by it, even if one moved on before it was locked: then its
// key is another one.
var purgeQueueSQL = purgeSQL(`after as (
	select '-infinity'::timestamptz as at, 0::bigint as seq
), `+walkSQL("i.id, i.queue, i.home")+`, named as materialized (
	select id, queue, home, row_number() over (order by walk_at, walk_seq) as ord from walked
)`, `i.partition = $4 and (cardinality($5::integer[]) = 0 or `+stateSQL+` = any($5))`,
	`(select count(*) from named) >= $6`, `$6::bigint - 1`, `$7::text`, `$8::uuid`)

// Purge implements [queue.Store].
func (s *Store) Purge(ctx context.Context, req queue.PurgeRequest) (queue.PurgeAnswer, error) {
	return commit(ctx, s, unit[queue.PurgeAnswer]{
		run: func(ctx context.Context, conn *pgxpool.Conn, marker uuid.UUID) (answer queue.PurgeAnswer, err error) {
			text, args := s.purgeArgs(req, marker)
			var now time.Time
			err = conn.QueryRow(ctx, s.text(text), args...).Scan(&answer.Purged, &answer.More, &now)
			if err == nil {
				s.clock.saw(now)
			}
			return answer, err
		},
		replay: func(_ context.Context, _ *pgxpool.Conn, stored []byte) (answer queue.PurgeAnswer, err error) {
			return answer, json.Unmarshal(stored, &answer)
		},
	})
}

func (s *Store) purgeArgs(req queue.PurgeRequest, marker uuid.UUID) (text string, args []any) {
	at, fixed := s.clock.params()
	if len(req.Keys) == 0 {
		return purgeQueueSQL, []any{at, fixed, int64(req.Queue), req.Partition, stateNumbers(req.States), req.Limit + 1, req.Reason, marker}
	}
	var ids [][16]byte
	var queues, homes []int64
	seen := make(map[queue.Key]bool, len(req.Keys))
	for _, key := range req.Keys {
		if seen[key] {
			continue
		}
		seen[key] = true
		ids = append(ids, key.ID)
		queues = append(queues, int64(key.Queue))
		homes = append(homes, int64(key.Home))
	}
	return purgeKeysSQL, []any{at, fixed, ids, queues, homes, req.Limit, req.Reason, marker}
}
