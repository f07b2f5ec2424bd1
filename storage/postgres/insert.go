package postgres

import (
	"fmt"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// insertion are new items on their way into the table, as parallel arrays for one
// statement.
type insertion struct {
	ids                       [][16]byte
	queues, homes             []int64
	partitions                []int32
	due, ends                 []*time.Time
	delays, expiries          []int64 // microseconds
	attempts, maxAttempts     []int32
	sizes                     []int32
	kinds, orderings, sources []string
	attributes, bodies        [][]byte
	groups                    []int32
}

// add appends an item that goes to one queue. Rows are told apart by their place, from 1,
// and carry group, for the statement's own use.
func (in *insertion) add(it *queue.NewItem, group int) { in.addCopy(it, it.Place(0), group) }

// addCopy appends an item in one of its places.
func (in *insertion) addCopy(it *queue.NewItem, place queue.Copy, group int) {
	in.ids = append(in.ids, it.ID)
	in.queues = append(in.queues, int64(place.Queue))
	in.homes = append(in.homes, int64(place.Queue))
	in.partitions = append(in.partitions, place.Partition)
	in.due = append(in.due, optional(it.DueAt.UTC()))
	in.delays = append(in.delays, it.Delay.Microseconds())
	in.ends = append(in.ends, optional(it.ExpiresAt.UTC()))
	in.expiries = append(in.expiries, place.ExpireTTL.Microseconds())
	in.attempts = append(in.attempts, it.Attempts)
	in.maxAttempts = append(in.maxAttempts, it.MaxAttempts)
	in.sizes = append(in.sizes, int32(it.Size()))
	in.kinds = append(in.kinds, it.Kind)
	in.orderings = append(in.orderings, it.OrderingKey)
	in.sources = append(in.sources, it.SourceID)
	in.attributes = append(in.attributes, encodeAttributes(&it.Content))
	body := it.Payload
	if body == nil {
		body = []byte{}
	}
	in.bodies = append(in.bodies, body)
	in.groups = append(in.groups, int32(group))
}

// args are the parameters, as many as [insertSQL] takes.
func (in *insertion) args() []any {
	return []any{
		in.ids, in.queues, in.homes, in.partitions, in.due, in.delays, in.ends, in.expiries, in.attempts, in.maxAttempts, in.sizes,
		in.kinds, in.orderings, in.sources, in.attributes, in.bodies, in.groups,
	}
}

// insertSQL are the common table expressions that insert what an insertion has whose
// parameters begin at $first. They need clock. where is a condition on the rows of
// fresh, such as "grp in (select grp from good)", or "true".
//
//   - fresh: all rows with ord (their place), grp, and due: the time at which each
//     would be available
//   - inserted: id, queue, home, partition of those that were inserted; one that lives
//     already is not
//   - inserted_deltas writes their counts
func insertSQL(first int, where string) string {
	return insertAtSQL(first, where, `nextval('{s}.seqs')`)
}

// insertAtSQL is insertSQL with an expression on fresh f for each item's seq.
func insertAtSQL(first int, where, seq string) string {
	types := []string{
		"uuid", "bigint", "bigint", "integer", "timestamptz", "bigint", "timestamptz", "bigint", "integer", "integer", "integer",
		"text", "text", "text", "bytea", "bytea", "integer",
	}
	params := make([]string, len(types))
	for i, typ := range types {
		params[i] = fmt.Sprintf("$%d::%s[]", first+i, typ)
	}
	return `fresh as (
	select n.*, case
		when n.due_at is null and n.delay < ` + soonMicros + ` then clock.now
		when n.due_at is null then clock.now + n.delay * interval '1 microsecond'
		when n.due_at < clock.now + interval '` + soonMicros + ` microseconds' then clock.now
		else n.due_at end as due
	from clock cross join unnest(` + strings.Join(params, ", ") + `) with ordinality as n
		(id, queue, home, partition, due_at, delay, expires_at, expire_ttl, attempts, max_attempts, size, kind, ordering_key, source_id, attributes, body, grp, ord)
), inserted as (
	insert into {s}.items (id, queue, home, partition, seq, created_at, updated_at, first_due_at, due_at, available_at,
		attempts, max_attempts, expires_at, size, kind, ordering_key, source_id, attributes, body)
	select f.id, f.queue, f.home, f.partition, ` + seq + `, clock.now, clock.now, f.due, f.due, f.due,
		f.attempts, f.max_attempts,
		coalesce(f.expires_at, case when f.expire_ttl > 0 then f.due + f.expire_ttl * interval '1 microsecond' end),
		f.size, f.kind, f.ordering_key, f.source_id, f.attributes, f.body
	from fresh f cross join clock
	where ` + where + `
	order by f.ord
	on conflict (id, queue, home) do nothing
	returning id, queue, home, partition, attempts, created_at
), inserted_deltas as (
	insert into {s}.deltas (queue, partition, total, held, failing, created, leased)
	select queue, partition, count(*), 0, count(*) filter (where attempts > 0), sum(` + sinceEpoch("created_at") + `), 0
	from inserted group by queue, partition
)`
}

const soonMicros = "100000" // queue.Soon

// sinceEpoch is a time as the counts sum it: microseconds since 2020, which a double
// has exactly for 285 years, and much quicker than a numeric.
func sinceEpoch(column string) string {
	return `(date_part('epoch', ` + column + ` - timestamptz '2020-01-01 00:00:00+00') * 1000000)::bigint`
}
