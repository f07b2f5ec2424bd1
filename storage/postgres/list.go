package postgres

import (
	"context"
	"encoding/binary"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posthaste-io/posthaste/queue"
)

// foreverSQL is [queue.Forever]. Conditions of indexes name it, so it is written out:
// of a parameter the planner could not prove that they hold.
const foreverSQL = `'294247-01-01 00:00:00+00'`

// stateSQL is the state of items i, as numbered by [queue.State].
const stateSQL = `case
		when i.held and i.available_at <= (select now from clock) then 5
		when i.held then 4
		when i.available_at <= (select now from clock) then 1
		when i.available_at >= ` + foreverSQL + ` then 6
		when i.deliveries > 0 and i.available_at <> i.first_due_at then 3
		else 2 end`

// walkSQL are common table expressions that walk one partition by position. They
// need clock, and after (at, seq), after which the walk begins. Parameters are $3
// queue, $4 partition, $5 states (none: all) and $6, how many items at most.
//
// walked has the columns and the position. States bound the part of the index that is
// looked at. What stands behind another item is not in that index, but in one of its own.
func walkSQL(columns string) string {
	return `wanted as materialized (
	select a.*,
		cardinality($5::integer[]) = 0 or $5 && '{1,5}' as due,
		cardinality($5::integer[]) = 0 or $5 && '{2,3,4}' as later,
		cardinality($5::integer[]) = 0 or $5 && '{6}' as behind
	from after a
), bounds as materialized (
	select case when due or (at, seq) > (now, 9223372036854775807) then at else now end as at,
		case when due or (at, seq) > (now, 9223372036854775807) then seq else 9223372036854775807 end as seq,
		case when later then ` + foreverSQL + ` when due then now else '-infinity' end as until, behind
	from wanted cross join clock
), finite as materialized (
	select ` + columns + `, i.available_at as walk_at, i.seq as walk_seq
	from {s}.items i
	where i.queue = $3 and i.partition = $4 and i.available_at < ` + foreverSQL + `
		and (i.available_at, i.seq) > ((select at from bounds), (select seq from bounds))
		and i.available_at <= (select until from bounds)
		and (cardinality($5::integer[]) = 0 or ` + stateSQL + ` = any($5))
	order by i.available_at, i.seq limit $6
), endless as (
	select ` + columns + `, i.available_at as walk_at, i.seq as walk_seq
	from {s}.items i
	where i.queue = $3 and i.partition = $4 and i.available_at >= ` + foreverSQL + `
		and i.seq > (select case when at < ` + foreverSQL + ` then -1 else seq end from bounds)
	order by i.seq limit (select case when behind then $6 - (select count(*) from finite) else 0 end from bounds)
), walked as (
	select * from finite union all select * from endless
)`
}

var listSQL = map[bool]string{true: listText(true), false: listText(false)}

// listText begins at the item with id $9, if it is there, and else after ($7, $8).
func listText(content bool) string {
	walked, attributes := itemColumns("i", content)+" as body", "null::bytea"
	if content {
		attributes = "w.attributes"
	}
	return `with ` + clockSQL + `, found as materialized (
	select i.available_at as at, i.seq - 1 as seq
	from {s}.items i
	where i.id = $9::uuid and i.queue = $3 and i.partition = $4
	order by i.available_at, i.seq limit 1
), after as (
	select at, seq from found
	union all
	select $7::timestamptz, $8::bigint where not exists (select from found)
), ` + walkSQL(walked) + `
select (select now from clock), ` + stateOf("w") + `, ` + attributes + `, w.body
from walked w order by w.walk_at, w.walk_seq`
}

// ListItems implements [queue.Store].
func (s *Store) ListItems(ctx context.Context, req queue.ListRequest) (queue.ListPage, error) {
	after, from, err := listStart(req)
	if err != nil {
		return queue.ListPage{}, err
	}
	return read(ctx, s, func(ctx context.Context, conn *pgxpool.Conn) (queue.ListPage, error) {
		at, fixed := s.clock.params()
		// One more than asked for tells whether there is a next page.
		items, now, err := s.items(ctx, conn, listSQL[req.Content], at, fixed, int64(req.Queue), req.Partition,
			stateNumbers(req.States), req.Limit+1, after.at, after.number, from)
		if err != nil {
			return queue.ListPage{}, err
		}
		page := queue.ListPage{Now: now, Items: items}
		if len(items) > req.Limit {
			page.Items = items[:req.Limit]
			last := page.Items[req.Limit-1]
			page.Next = cursor(cursorList, spot{last.AvailableAt, int64(last.Seq)}.append(nil))
		}
		if !req.Content {
			withoutContent(page.Items)
		}
		return page, nil
	})
}

// listStart is where a list begins: at the item with an id, if it is there, else after
// a place.
func listStart(req queue.ListRequest) (after spot, from *[16]byte, err error) {
	switch {
	case req.Cursor != "":
		b, err := parseCursor(req.Cursor, cursorList, spotSize)
		if err != nil {
			return start, nil, err
		}
		after, err = readSpot(b)
		return after, nil, err
	case !req.From.IsZero():
		id := [16]byte(req.From)
		// A UUIDv7 begins with its time, 48 bits of milliseconds.
		made := time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16)).UTC()
		return spot{made, math.MaxInt64}, &id, nil
	default:
		return start, nil, nil
	}
}

func stateNumbers(states []queue.State) []int32 {
	numbers := make([]int32, len(states))
	for i, state := range states {
		numbers[i] = int32(state)
	}
	return numbers
}
