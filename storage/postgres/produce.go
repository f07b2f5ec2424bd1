package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posthaste-io/posthaste/queue"
)

// Parameters of the statements that produce: $1 and $2 are the clock's, $3 the marker.
// With idempotency keys or guards come next the guards, the keys that are asked for, and
// those to take.
var (
	guardsFirst     = 4
	askedFirst      = guardsFirst + len(guardColumns)
	takenFirst      = askedFirst + len(askedColumns)
	itemsFirst      = 4
	keyedItemsFirst = takenFirst + len(keyColumns)
)

// askedColumns are keys of which anything known is wanted; row tells which is which.
var askedColumns = []column{{"row", "bigint"}, {"scope", "bigint"}, {"call", "boolean"}, {"key", "bytea"}}

// missingSQL are the places of items that were not inserted since they live already,
// null if there are none. The arrays are read again, and not fresh: what is read twice
// is kept twice, with the bodies.
func missingSQL(first int) string {
	return fmt.Sprintf(`case when (select count(*) from inserted) < cardinality($%[1]d::uuid[]) then (
		select jsonb_agg(n.ord)
		from unnest($%[1]d::uuid[], $%[2]d::bigint[]) with ordinality as n (id, queue, ord)
		where ((n.id, n.queue) in (select id, queue from inserted)) is not true
	) end`, first, first+1)
}

var produceTexts = [2]string{produceSQL(false), produceSQL(true)}

// produceSQL is for items without idempotency keys, and bound for some that have ordering
// keys.
func produceSQL(bound bool) string {
	insert, behind, check := insertParts(itemsFirst, `true`, bound)
	return `with ` + clockSQL + `, ` + insert + `
insert into {s}.batches (id, at, answer)
select $3::uuid, now, jsonb_build_object('now', ` + micros("now") + `, 'missing', ` + missingSQL(itemsFirst) + behind + `)
from clock where ` + check + `
returning answer`
}

var produceKeyedTexts = [2]string{produceKeyedSQL(false), produceKeyedSQL(true)}

// produceKeyedSQL is for items with idempotency keys, and for guards. If any of the keys is
// known, or any guard does not hold, it writes nothing and returns those. If another transaction was quicker to take one,
// which this statement cannot look at any more, it divides by zero, so that nothing of
// it stays.
func produceKeyedSQL(bound bool) string {
	insert, behind, check := insertParts(keyedItemsFirst, goesOnSQL, bound)
	return `with ` + clockSQL + `, ` + brokenSQL(guardsFirst) + `, known as materialized (
	select k.row, d.hash, d.item
	from ` + unnestSQL(askedFirst, "k", askedColumns) + `
	cross join lateral (
		select d.hash, d.item
		from {s}.dedupe d
		where d.scope = k.scope and d.call = k.call and d.key = k.key and d.until > (select now from clock)
		limit 1
	) d
), stopped as materialized (
	select exists (select from broken) or exists (select from known) as it
), ` + keySQL(takenFirst, goesOnSQL) + `, ` + insert + `, mark as (
	insert into {s}.batches (id, at, answer)
	select $3::uuid, now, jsonb_build_object('now', ` + micros("now") + `, 'missing', ` + missingSQL(keyedItemsFirst) + behind + `)
	from clock
	where ` + goesOnSQL + `
		and 1 / ((select count(*) from taken) = (select count(*) from offered))::integer = 1
		and ` + check + `
	returning answer
)
select (select answer from mark), (select now from clock),
	array(select row from known order by row),
	array(select hash from known order by row),
	array(select item from known order by row),
	array(select row from broken order by row)`
}

// goesOnSQL says that no key is known and every guard holds.
const goesOnSQL = `not (select it from stopped)`

// divisionByZero is the state of a statement that has undone itself, since it came too
// late or was not prepared for what it found.
const divisionByZero = "22012"

// Produce implements [queue.Store]. Which groups are inserted is decided here, by what
// is known of their keys, at first nothing: so that what is new takes one round trip,
// and a repeat one or two.
func (s *Store) Produce(ctx context.Context, groups []queue.ProduceGroup) (queue.ProduceAnswer, error) {
	answer, err := commit(ctx, s, s.production(groups))
	if err == nil {
		s.announce(groups, answer)
	}
	return answer, diskFull(err)
}

// diskFull tells a database without room for new items from one that is away.
func diskFull(err error) error {
	if state, ok := errors.AsType[*pgconn.PgError](err); ok && state.Code == "53100" {
		return fmt.Errorf("%w: %w", queue.ErrDiskFull, state)
	}
	return err
}

func (s *Store) production(groups []queue.ProduceGroup) unit[queue.ProduceAnswer] {
	// The plan whose statement was sent last: no other can have been committed.
	var p *plan
	return unit[queue.ProduceAnswer]{
		run: func(ctx context.Context, conn *pgxpool.Conn, marker uuid.UUID) (queue.ProduceAnswer, error) {
			p = newPlan(groups, nil, nil)
			if !p.keyed && len(p.guards.rows) == 0 {
				at, fixed := s.clock.params()
				var stored []byte
				err := s.insert(ctx, conn, &p.fresh, produceTexts[index(p.fresh.bound)], append([]any{at, fixed, marker}, p.fresh.args()...), &stored)
				if err != nil {
					return queue.ProduceAnswer{}, err
				}
				return s.produced(p, stored)
			}
			for {
				found, err := s.sendKeyed(ctx, conn, marker, p)
				switch {
				case isUndone(err):
					continue // by now the key can be seen
				case err != nil:
					return queue.ProduceAnswer{}, err
				case len(found.keys) == 0 && len(found.broken) == 0:
					return s.produced(p, found.stored)
				}
				p = newPlan(groups, merge(p.stored, found.keys), merge(p.broken, found.broken))
				if p.isEmpty() {
					return p.answer(s.clock.saw(found.now), nil, nil), nil
				}
			}
		},
		replay: func(_ context.Context, _ *pgxpool.Conn, stored []byte) (queue.ProduceAnswer, error) {
			return s.produced(p, stored)
		},
	}
}

// findings are what came of a plan that was sent: the marker's answer; or else keys that
// are known, and groups whose guards do not hold, of which nobody knew.
type findings struct {
	stored []byte
	now    time.Time
	keys   map[dedupeKey]knownKey
	broken map[int]bool
}

func (s *Store) sendKeyed(ctx context.Context, conn *pgxpool.Conn, marker uuid.UUID, p *plan) (f findings, err error) {
	at, fixed := s.clock.params()
	asked, args := p.ask()
	args = slices.Concat([]any{at, fixed, marker}, p.guards.args(), args, p.keys.args(), p.fresh.args())
	var rows, brokenRows []int64
	var hashes [][]byte
	var items [][16]byte
	err = s.insert(ctx, conn, &p.fresh, produceKeyedTexts[index(p.fresh.bound)], args,
		&f.stored, &f.now, &rows, &hashes, &items, &brokenRows)
	if err != nil {
		return f, err
	}
	f.keys = make(map[dedupeKey]knownKey, len(rows))
	for i, row := range rows {
		known := knownKey{id: items[i]}
		copy(known.hash[:], hashes[i])
		f.keys[asked[row]] = known
	}
	f.broken, err = p.guards.broke(brokenRows)
	return f, err
}

// produced makes the answer of what the marker holds, the first time as well as in a
// replay.
func (s *Store) produced(p *plan, stored []byte) (queue.ProduceAnswer, error) {
	var answer struct {
		Now             int64
		Missing, Behind []int
	}
	if err := json.Unmarshal(stored, &answer); err != nil {
		return queue.ProduceAnswer{}, fmt.Errorf("marker: %w", err)
	}
	for _, row := range slices.Concat(answer.Missing, answer.Behind) {
		if row < 1 || row > len(p.places) {
			return queue.ProduceAnswer{}, fmt.Errorf("marker answers item %d of %d", row, len(p.places))
		}
	}
	return p.answer(s.clock.saw(time.UnixMicro(answer.Now)), answer.Missing, answer.Behind), nil
}

// announce tells of the items of a call.
func (s *Store) announce(groups []queue.ProduceGroup, answer queue.ProduceAnswer) {
	var last place
	for g, result := range answer.Groups {
		for i, p := range result.Items {
			if p.Duplicate || p.DueAt.Equal(queue.Forever) {
				continue
			}
			it := &groups[g].Items[i]
			due := !p.DueAt.After(answer.Now)
			for c := range it.Places() {
				to := it.Place(c)
				at := place{to.Queue, to.Partition}
				if due && at == last {
					continue
				}
				if due {
					last = at
				}
				s.placed(to.Queue, to.Partition, p.DueAt, answer.Now)
			}
		}
	}
}
