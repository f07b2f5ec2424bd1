package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posthaste-io/posthaste/queue"
)

// purgeSQL removes what named lists, (id, queue, home, ord), in that order and up to a
// limit. where is a condition on items i, looked at again when they are locked; more
// says whether there would be more. limit, reason and marker are parameters. bound says
// whether the locks are held of the ordering keys of all that is named; without them the
// statement is undone if it meets a key.
func purgeSQL(named, where, more, limit, reason, marker string, bound bool) string {
	removed, promote, promoted, check := ``, ``, `null::jsonb`, unboundSQL(`select from purged where bound`)
	if bound {
		removed = `, i.ordering_key, i.seq, i.available_at`
		promote = promoteSQL(`select queue, ordering_key, seq from purged where bound and available_at < `+foreverSQL,
			`select id, queue, home from purged where bound`, ``) + `, `
		promoted, check = promotionsSQL(`select queue, partition, at from promoted`), `true`
	}
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
	returning i.id, i.queue, i.home, i.partition, i.deliveries, i.held, i.attempts, i.created_at, i.updated_at, c.ord, ` + boundSQL + ` as bound` + removed + `
), ` + promote + `endings as (
	insert into {s}.attempts (at, namespace, type, next, item, queue, home, delivery, verdict)
	select clock.now, (p.queue >> 32) & 4294967295, ` + endingRecord + `, ` + stepCancel + `, p.id, p.queue, p.home, p.deliveries, ` + reason + `
	from purged p cross join clock order by p.ord
), deltas as (
	insert into {s}.deltas (queue, partition, total, held, failing, created, leased)
	select queue, partition, -count(*), -count(*) filter (where held), -count(*) filter (where attempts > 0),
		-sum(` + sinceEpoch("created_at") + `), -coalesce(sum(` + sinceEpoch("updated_at") + `) filter (where held), 0)
	from purged group by queue, partition
)
insert into {s}.batches (id, at, answer)
select ` + marker + `, clock.now, jsonb_build_object('now', ` + micros("clock.now") + `, 'purged', (select count(*) from purged),
	'more', ` + more + `, 'promoted', ` + promoted + `)
from clock where ` + check + `
returning answer`
}

const (
	endingRecord = "3" // queue.EndingRecord
	stepCancel   = "6" // queue.StepCancel
)

// purgeKeysSQL takes items by key.
var purgeKeysSQL = purgeSQL(`named as materialized (
	select * from unnest($3::uuid[], $4::bigint[], $5::bigint[]) with ordinality as n (id, queue, home, ord)
)`, `true`, `(select count(*) from locked) > $6`, `$6`, `$7::text`, `$8::uuid`, false)

// fromStartSQL has a walk begin at the beginning of a partition.
const fromStartSQL = `after as (
	select '-infinity'::timestamptz as at, 0::bigint as seq
)`

// wantedSQL are the items that a purge of a partition is for.
const wantedSQL = `i.partition = $4 and (cardinality($5::integer[]) = 0 or ` + stateSQL + ` = any($5))`

// purgeQueueSQL walks a partition, one item further than the limit. Another queue's
// items are never reached by it, even if one moved on before it was locked: then its
// key is another one.
var purgeQueueSQL = purgeSQL(fromStartSQL+`, `+walkSQL("i.id, i.queue, i.home")+`, named as materialized (
	select id, queue, home, row_number() over (order by walk_at, walk_seq) as ord from walked
)`, wantedSQL, `(select count(*) from named) >= $6`, `$6::bigint - 1`, `$7::text`, `$8::uuid`, false)

// boundKeySQL is the ordering key that binds an item, or nothing.
const boundKeySQL = `case when i.dead_from is null then i.ordering_key else '' end as bound_by`

// These name items that are there, each with an ordering key: what a purge is about with
// the key that binds it, by key or as purgeQueueSQL would walk, and what a move is about.
var (
	nameKeysSQL  = namesSQL(boundKeySQL)
	nameMovesSQL = namesSQL(`i.ordering_key`)
	nameQueueSQL = `with ` + clockSQL + `, ` + fromStartSQL + `, ` + walkSQL("i.id, i.queue, i.home, "+boundKeySQL) + `
select id, queue, home, bound_by from walked order by walk_at, walk_seq`
)

func namesSQL(key string) string {
	return `select i.* from unnest($1::uuid[], $2::bigint[], $3::bigint[]) with ordinality as n (id, queue, home, ord)
cross join lateral (
	select i.id, i.queue, i.home, ` + key + ` from {s}.items i
	where i.id = n.id and i.queue = n.queue and i.home = n.home
	limit 1
) i
order by n.ord`
}

// purgeBoundSQL takes items by key, of which $12 are the ordering keys that were locked: it
// passes by what is bound by another one, which has come since. $9 and $10 are the partition
// that they have to be in and the states, or null and nothing. $11 says that there are more.
var purgeBoundSQL = purgeSQL(`named as materialized (
	select * from unnest($3::uuid[], $4::bigint[], $5::bigint[], $12::text[]) with ordinality as n (id, queue, home, bound_by, ord)
)`, `(i.ordering_key = '' or i.dead_from is not null or i.ordering_key = n.bound_by)
		and ($9::integer is null or i.partition = $9)
		and (cardinality($10::integer[]) = 0 or `+stateSQL+` = any($10))`,
	`$11::boolean or (select count(*) from locked) > $6`, `$6`, `$7::text`, `$8::uuid`, true)

// Purge implements [queue.Store]. Where there are ordering keys it names the items before
// it takes the locks of their keys, and purges those: what comes after them is left to
// the next call.
func (s *Store) Purge(ctx context.Context, req queue.PurgeRequest) (queue.PurgeAnswer, error) {
	queues := map[queue.Number]bool{req.Queue: true}
	if len(req.Keys) > 0 {
		queues = map[queue.Number]bool{}
		for _, key := range req.Keys {
			queues[key.Queue] = true
		}
	}
	bound := s.keyed.any(queues)
	return commit(ctx, s, unit[queue.PurgeAnswer]{
		run: func(ctx context.Context, conn *pgxpool.Conn, marker uuid.UUID) (answer queue.PurgeAnswer, err error) {
			var stored []byte
			if !bound {
				text, args := s.purgeArgs(req, marker)
				err = conn.QueryRow(ctx, s.text(text), args...).Scan(&stored)
				bound = isUndone(err)
			}
			if bound {
				var locks int
				if stored, locks, err = s.purgeBound(ctx, conn, req, marker); locks > 0 {
					s.keyed.note(queues)
				}
			}
			if err != nil {
				return answer, err
			}
			return s.purged(stored)
		},
		replay: func(_ context.Context, _ *pgxpool.Conn, stored []byte) (answer queue.PurgeAnswer, err error) {
			return s.purged(stored)
		},
	})
}

// purged makes the answer of what the marker holds.
func (s *Store) purged(stored []byte) (queue.PurgeAnswer, error) {
	var answer struct {
		Now      int64
		Purged   int
		More     bool
		Promoted []promotion
	}
	if err := json.Unmarshal(stored, &answer); err != nil {
		return queue.PurgeAnswer{}, fmt.Errorf("marker: %w", err)
	}
	s.promoted(answer.Promoted, s.clock.saw(time.UnixMicro(answer.Now)))
	return queue.PurgeAnswer{Purged: answer.Purged, More: answer.More}, nil
}

func (s *Store) purgeArgs(req queue.PurgeRequest, marker uuid.UUID) (text string, args []any) {
	at, fixed := s.clock.params()
	if len(req.Keys) == 0 {
		return purgeQueueSQL, []any{at, fixed, int64(req.Queue), req.Partition, stateNumbers(req.States), req.Limit + 1, req.Reason, marker}
	}
	named := purgeNames(req)
	return purgeKeysSQL, []any{at, fixed, named.ids, named.queues, named.homes, req.Limit, req.Reason, marker}
}

// purgeNames are the keys of a request, each of them once.
func purgeNames(req queue.PurgeRequest) (named found) {
	seen := make(map[queue.Key]bool, len(req.Keys))
	for _, key := range req.Keys {
		if !seen[key] {
			seen[key] = true
			named.add(key)
		}
	}
	return named
}

// purgeBound purges with the locks of the ordering keys, which it counts.
func (s *Store) purgeBound(ctx context.Context, conn *pgxpool.Conn, req queue.PurgeRequest, marker uuid.UUID) (
	stored []byte, locks int, err error,
) {
	named := purgeNames(req)
	var partition *int32
	states := []int32{}
	at, fixed := s.clock.params()
	text, args := nameKeysSQL, []any{named.ids, named.queues, named.homes}
	if len(req.Keys) == 0 {
		partition, states = &req.Partition, stateNumbers(req.States)
		text, args = nameQueueSQL, []any{at, fixed, int64(req.Queue), req.Partition, states, req.Limit + 1}
	}
	named, keys, err := s.named(ctx, conn, text, args...)
	if err != nil {
		return nil, 0, err
	}
	more := len(req.Keys) == 0 && len(named.ids) > req.Limit
	var batch pgx.Batch
	batch.Queue(s.text(lockKeysSQL), named.queues, keys)
	batch.Queue(s.text(purgeBoundSQL), at, fixed, named.ids, named.queues, named.homes, req.Limit, req.Reason, marker, partition, states, more, keys)
	return lockedAnswer(ctx, conn, &batch)
}

// named reads the names of items that are there, and an ordering key of each.
func (s *Store) named(ctx context.Context, conn *pgxpool.Conn, text string, args ...any) (named found, keys []string, err error) {
	rows, err := conn.Query(ctx, s.text(text), args...)
	if err != nil {
		return named, nil, err
	}
	var id [16]byte
	var in, home int64
	var key string
	_, err = pgx.ForEachRow(rows, []any{&id, &in, &home, &key}, func() error {
		named.add(queue.Key{ID: id, Queue: queue.Number(in), Home: queue.Number(home)})
		keys = append(keys, key)
		return nil
	})
	return named, keys, err
}
