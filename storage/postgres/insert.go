package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

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
	// shares are the places in shared of the rows' payloads, 0 for those that have their own.
	shares []int32
	shared bodies
	// bound says that any of them has an ordering key.
	bound bool
}

// addPlaces appends an item in its places but for those that are named, and names them. It
// returns how many rows that makes, and the row of the item's first place, 0 if that is not
// among them.
func (in *insertion) addPlaces(it *queue.NewItem, group int, named map[queue.Key]bool) (first, n int) {
	places := make([]queue.Copy, 0, 1) // most items have one: it is not on the heap
	for i := range it.Places() {
		place := it.Place(i)
		key := queue.Key{ID: it.ID, Queue: place.Queue, Home: place.Queue}
		if named[key] {
			continue // a duplicate of itself
		}
		named[key] = true
		places = append(places, place)
		if i == 0 {
			first = len(in.ids) + 1
		}
	}
	c := copied{body: it.Payload}
	switch {
	case len(places) > 1 && len(it.Payload) >= sharedFrom:
		c.share, c.body = in.shared.add(it), nil
	case c.body == nil:
		c.body = []byte{}
	}
	c.attributes = encodeAttributes(&it.Content, c.share != 0)
	for _, place := range places {
		in.addCopy(it, c, place, group)
	}
	return first, len(places)
}

// copied is what all copies of an item have.
type copied struct {
	attributes, body []byte
	share            int32
}

// addCopy appends an item in one of its places. Rows are told apart by their place, from 1,
// and carry group, for the statement's own use.
func (in *insertion) addCopy(it *queue.NewItem, c copied, place queue.Copy, group int) {
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
	in.bound = in.bound || it.OrderingKey != ""
	in.sources = append(in.sources, it.SourceID)
	in.attributes = append(in.attributes, c.attributes)
	in.bodies = append(in.bodies, c.body)
	in.groups = append(in.groups, int32(group))
	in.shares = append(in.shares, c.share)
}

// args are the parameters, as many as [insertSQL] takes.
func (in *insertion) args() []any {
	return append([]any{
		in.ids, in.queues, in.homes, in.partitions, in.due, in.delays, in.ends, in.expiries, in.attempts, in.maxAttempts, in.sizes,
		in.kinds, in.orderings, in.sources, in.attributes, in.bodies, in.groups, in.shares,
	}, in.shared.args()...)
}

// insertSQL are the common table expressions that insert what an insertion has whose
// parameters begin at $first. They need clock. where is a condition on the rows of
// fresh, such as "grp in (select grp from good)", or "true".
//
//   - fresh: all rows with ord (their place), grp, and due: the time at which each
//     would be available
//   - inserted: id, queue, home, partition, attempts, created_at, ordering_key and body_ref
//     of those that were inserted; one that lives already is not
//   - inserted_deltas writes their counts, and inserted_bodies what they share
func insertSQL(first int, where string) string {
	return insertAtSQL(first, where, nextSQL, `f.due`, `f.ord`)
}

// insertBoundSQL is insertSQL for items of which some have ordering keys, whose locks are
// held. Of a key that lives all stand behind, of another one all but the first.
//
//   - arriving: those with a key that will be inserted
//   - arranged: which of them stand behind
//
// seq is the expression for the place of fresh f in the order of arrival, order that in which
// they are inserted; gone, if any, has items that leave in the same statement.
func insertBoundSQL(first int, where, seq, order, gone string) string {
	return fmt.Sprintf(`arriving as materialized (
	select f.ord, f.queue, f.key, row_number() over (partition by f.queue, f.key order by f.ord) as nth
	from unnest($%d::uuid[], $%d::bigint[], $%d::text[], $%d::integer[]) with ordinality as f (id, queue, key, grp, ord)
	where f.key <> '' and `, first, first+1, first+orderingColumn, first+groupColumn) + where + `
		and (select i.id from {s}.items i where i.id = f.id and i.queue = f.queue and i.home = f.queue) is null
), arranged as materialized (
	select a.ord, a.nth > 1 or (` + livesSQL("a.queue", "a.key", gone) + `) is not null as behind from arriving a
), ` + insertAtSQL(first, where, seq, `case when f.ord in (select ord from arranged where behind) then `+foreverSQL+` else f.due end`, order)
}

// The places among the arrays of an insertion of the ordering keys and of the groups.
const (
	orderingColumn = 12
	groupColumn    = 16
)

// nextSQL is a place in the order of arrival for any new item.
const nextSQL = `nextval('{s}.seqs')`

// livesSQL looks for an item that a key binds, from its end: at the beginning of a key is
// where those were that have left. gone, if any, has items that do not count.
func livesSQL(queue, key, gone string) string {
	text := `select i.seq from {s}.items i where ` + boundBySQL(queue, key)
	if gone != "" {
		text += ` and ((i.id, i.queue, i.home) in (select id, queue, home from ` + gone + `)) is not true`
	}
	return text + ` order by i.seq desc limit 1`
}

// arrivedSQL is a condition that undoes the statement if another transaction was quicker
// to insert one of arriving: others of its key may stand behind it.
const arrivedSQL = `1 / ((select count(*) from inserted where ordering_key <> '') = (select count(*) from arriving))::integer = 1`

// insertParts are insertSQL or insertBoundSQL, what the answer tells of the latter, as the
// end of a JSON object, and a condition for it to be true.
func insertParts(first int, where string, bound bool) (insert, answer, check string) {
	if bound {
		return insertBoundSQL(first, where, nextSQL, `f.ord`, ""), `, 'behind', (select jsonb_agg(ord) from arranged where behind)`, arrivedSQL
	}
	return insertSQL(first, where), ``, `true`
}

// insert sends a statement that inserts items, after one that takes the locks of their
// ordering keys if any has one, and reads the one row that it answers.
func (s *Store) insert(ctx context.Context, conn *pgxpool.Conn, in *insertion, text string, args []any, answer ...any) error {
	if !in.bound {
		return conn.QueryRow(ctx, s.text(text), args...).Scan(answer...)
	}
	var batch pgx.Batch
	batch.Queue(s.text(lockKeysSQL), in.queues, in.orderings)
	batch.Queue(s.text(text), args...)
	return pipeline(ctx, conn, &batch, func(results pgx.BatchResults) error {
		var locks int
		if err := results.QueryRow().Scan(&locks); err != nil {
			return err
		}
		return results.QueryRow().Scan(answer...)
	})
}

// insertAtSQL is insertSQL with expressions on fresh f for each item's seq and position, and
// for the order in which they are inserted.
func insertAtSQL(first int, where, seq, at, order string) string {
	types := []string{
		"uuid", "bigint", "bigint", "integer", "timestamptz", "bigint", "timestamptz", "bigint", "integer", "integer", "integer",
		"text", "text", "text", "bytea", "bytea", "integer", "integer",
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
		(id, queue, home, partition, due_at, delay, expires_at, expire_ttl, attempts, max_attempts, size, kind, ordering_key, source_id, attributes, body, grp, share, ord)
), inserted as (
	insert into {s}.items (id, queue, home, partition, seq, created_at, updated_at, first_due_at, due_at, available_at,
		attempts, max_attempts, expires_at, size, kind, ordering_key, source_id, attributes, body, body_ref)
	select f.id, f.queue, f.home, f.partition, ` + seq + `, clock.now, clock.now, f.due, f.due, ` + at + `,
		f.attempts, f.max_attempts,
		coalesce(f.expires_at, case when f.expire_ttl > 0 then f.due + f.expire_ttl * interval '1 microsecond' end),
		f.size, f.kind, f.ordering_key, f.source_id, f.attributes, f.body, ($` + strconv.Itoa(first+len(types)) + `::uuid[])[f.share]
	from fresh f cross join clock
	where ` + where + `
	order by ` + order + `
	on conflict (id, queue, home) do nothing
	returning id, queue, home, partition, attempts, created_at, ordering_key, body_ref
), inserted_deltas as (
	insert into {s}.deltas (queue, partition, total, held, failing, created, leased)
	select queue, partition, count(*), 0, count(*) filter (where attempts > 0), sum(` + sinceEpoch("created_at") + `), 0
	from inserted group by queue, partition
), ` + insertBodiesSQL(first+len(types))
}

const soonMicros = "100000" // queue.Soon

// sinceEpoch is a time as the counts sum it: microseconds since 2020, which a double
// has exactly for 285 years, and much quicker than a numeric.
func sinceEpoch(column string) string {
	return `(date_part('epoch', ` + column + ` - timestamptz '2020-01-01 00:00:00+00') * 1000000)::bigint`
}
