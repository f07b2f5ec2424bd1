package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posthaste-io/posthaste/queue"
)

// extendColumns are an entry's arrays, from $4. owner is null without a handover.
var extendColumns = append(append(entryColumns[:len(entryColumns):len(entryColumns)],
	column{"ttl", "bigint"}, column{"owner", "text"}, column{"lapse_counts", "boolean"},
), recordColumns...)

// extendSQL extends leases, no two of which are one. first says whether it is the
// first statement of its batch.
func extendSQL(first bool) string {
	return `with ` + clockSQL + `, entry as materialized (
	select * from ` + unnestSQL(4, "e", extendColumns) + `
), locked as materialized (
	` + lockSQL(`i.available_at, i.deliveries, i.partition, i.updated_at`) + `
), judged as materialized (
	select l.*, clock.now, greatest(l.available_at, clock.now + l.ttl * interval '1 microsecond') as until, case
		when l.held is null then ` + statusGone + `
		when l.has_counter <> l.counter or l.has_random <> l.random or not l.held then ` + statusStale + `
		else ` + statusApplied + ` end as verdict_of
	from locked l cross join clock
), applied as materialized (
	select * from judged where verdict_of = ` + statusApplied + `
), extended as (
	update {s}.items i set
		available_at = a.until, updated_at = a.now, owner = coalesce(a.owner, i.owner),
		lapse_counts = case when a.owner is null then i.lapse_counts else a.lapse_counts end
	from applied a
	where i.id = a.id and i.queue = a.queue and i.home = a.home
), deltas as (
	insert into {s}.deltas (queue, partition, total, held, failing, created, leased)
	select queue, partition, 0, 0, 0, 0, sum(` + sinceEpoch("now") + ` - ` + sinceEpoch("updated_at") + `) as leased
	from applied group by queue, partition
	having sum(` + sinceEpoch("now") + ` - ` + sinceEpoch("updated_at") + `) <> 0
), recorded as (
	` + recordSQL(`
		select place, 1 as turn, now, record_type as type, `+stepHold+` as next, id, queue, home, deliveries, until as next_at,
			subscription, started_at, duration, verdict, status_code, error, response, node
		from applied where record_type is not null
	`) + `
), answered as materialized (
	select jsonb_build_object('now', ` + micros("clock.now") + `, 'entries', (
		select jsonb_agg(jsonb_build_array(place, verdict_of, false,
			case when verdict_of = ` + statusApplied + ` then ` + micros("until") + ` end, partition))
		from judged
	)) as answer
	from clock
), mark as (
	` + markSQL(first) + `
)
select answer from mark`
}

var extendFirstSQL, extendNextSQL = extendSQL(true), extendSQL(false)

// Extend implements [queue.Store]. The batch is one statement, or, where it names an
// item more than once, several in one transaction.
func (s *Store) Extend(ctx context.Context, entries []queue.Extension) (queue.ExtendAnswer, error) {
	rounds := extendRounds(entries)
	return commit(ctx, s, unit[queue.ExtendAnswer]{
		run: func(ctx context.Context, conn *pgxpool.Conn, marker uuid.UUID) (queue.ExtendAnswer, error) {
			var batch pgx.Batch
			for i, round := range rounds {
				text := extendFirstSQL
				if i > 0 {
					text = extendNextSQL
				}
				batch.Queue(s.text(text), s.extendArgs(marker, entries, round)...)
			}
			stored, err := lastAnswer(ctx, conn, &batch)
			if err != nil {
				return queue.ExtendAnswer{}, err
			}
			return s.extended(entries, stored)
		},
		replay: func(_ context.Context, _ *pgxpool.Conn, stored []byte) (queue.ExtendAnswer, error) {
			return s.extended(entries, stored)
		},
	})
}

// extendRounds divides entries, by index, so that no round has two about one item.
// There is at least one round.
func extendRounds(entries []queue.Extension) [][]int {
	rounds := make([][]int, 1)
	seen := make(map[queue.Key]int, len(entries))
	for i := range entries {
		n := seen[entries[i].Key]
		seen[entries[i].Key]++
		if n == len(rounds) {
			rounds = append(rounds, nil)
		}
		rounds[n] = append(rounds[n], i)
	}
	return rounds
}

func (s *Store) extendArgs(marker uuid.UUID, entries []queue.Extension, round []int) []any {
	var all leases
	var records records
	ttls, owners, counts := make([]int64, len(round)), make([]*string, len(round)), make([]bool, len(round))
	for i, place := range round {
		e := &entries[place]
		all.add(place, e.Key, e.Token)
		ttls[i] = e.TTL.Microseconds()
		var record *queue.Record
		if h := e.Handover; h != nil {
			owners[i], counts[i], record = &h.Owner, h.LapseCounts, h.Record
		}
		records.add(record)
	}
	at, fixed := s.clock.params()
	args := append([]any{at, fixed, marker}, all.args()...)
	return append(append(args, ttls, owners, counts), records.args()...)
}

// extended makes the answer of what the statements left in the marker.
func (s *Store) extended(entries []queue.Extension, stored []byte) (queue.ExtendAnswer, error) {
	now, said, _, err := readAnswers(stored)
	if err != nil {
		return queue.ExtendAnswer{}, err
	}
	answer := queue.ExtendAnswer{Now: s.clock.saw(now), Entries: make([]queue.Extended, len(entries))}
	for _, o := range said {
		if o.place >= len(entries) {
			return queue.ExtendAnswer{}, fmt.Errorf("marker answers entry %d of %d", o.place, len(entries))
		}
		answer.Entries[o.place] = queue.Extended{Status: o.status, Deadline: o.at}
	}
	return answer, nil
}
