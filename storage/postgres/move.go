package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posthaste-io/posthaste/queue"
)

// moveSQL judges entries and moves the items of the good ones to the tail of their
// targets, in the order of the entries. Statuses are numbered by [queue.MoveStatus].
// No two entries may be about one item: see [moveRounds]. first says whether it is the
// first round. The locks of the ordering keys that entries name are held, where their items
// are and where they go; an item with another one has come since, and is gone.
//
//   - arranged: where the items go, and whether they stand behind others there
func moveSQL(first bool) string {
	return `with ` + clockSQL + `, entry as materialized (
	select * from unnest($4::uuid[], $5::bigint[], $6::bigint[], $7::bigint[], $8::integer[], $9::bigint[], $10::bigint[], $11::bigint[], $12::text[])
		with ordinality as e (id, queue, home, target, partition, expire_ttl, delay, random, key, ord)
), locked as materialized (
	` + lockSQL(`i.partition as source, i.attempts, i.created_at, i.ordering_key, i.seq as was_seq, i.available_at as stood_at, `+boundSQL+` as bound`) + `
), judged as materialized (
	select l.*, case
		when l.held is null or l.held or l.ordering_key <> l.key then 2
		when exists (select from {s}.items t where t.id = l.id and t.queue = l.target and t.home = l.home) then 3
		else 1 end as status
	from locked l
), placed as materialized (
	select good.*, nextval('{s}.seqs') as seq,
		case when good.delay < ` + soonMicros + ` then clock.now else clock.now + good.delay * interval '1 microsecond' end as due
	from (select * from judged where status = 1 order by ord) good cross join clock
), arranged as materialized (
	select p.*, p.ordering_key <> '' and (
		p.nth > 1 or (` + livesSQL("p.target", "p.ordering_key", "placed") + `) is not null
	) as behind
	from (select *, row_number() over (partition by target, ordering_key order by seq) as nth from placed) p
), ` + promoteSQL(`select queue, ordering_key, was_seq as seq from placed where bound and stood_at < `+foreverSQL,
		`select id, queue, home from placed where bound`, ``) + `, moved as (
	update {s}.items i set
		queue = p.target, partition = p.partition, seq = p.seq,
		generation = i.generation + 1, attempts = 0, recoveries = 0,
		dead_from = null, dead_reason = null, dead_at = null, dead_status = null, dead_attempts = null, dead_recoveries = null,
		first_due_at = p.due, due_at = p.due, available_at = case when p.behind then ` + foreverSQL + ` else p.due end, updated_at = clock.now,
		expires_at = case when p.expire_ttl > 0 then p.due + p.expire_ttl * interval '1 microsecond' end,
		counter = i.counter + 1, random = p.random, owner = '', lapse_counts = false
	from arranged p cross join clock
	where i.id = p.id and i.queue = p.queue and i.home = p.home
), changed as (
	select queue, source as partition, -1 as total, case when attempts > 0 then -1 else 0 end as failing, -` + sinceEpoch("created_at") + ` as created from placed
	union all
	select target, partition, 1, 0, ` + sinceEpoch("created_at") + ` from placed
), deltas as (
	insert into {s}.deltas (queue, partition, total, held, failing, created, leased)
	select queue, partition, sum(total), 0, sum(failing), sum(created), 0
	from changed group by queue, partition
), answered as materialized (
	select jsonb_build_object('now', ` + micros("clock.now") + `,
		'statuses', (select jsonb_agg(status order by ord) from judged),
		'promoted', ` + promotionsSQL(`select queue, partition, at from promoted`) + `) as answer
	from clock
), mark as (
	` + markSQL(first) + `
)
select answer from mark`
}

var moveTexts = [2]string{moveSQL(false), moveSQL(true)}

// Move implements [queue.Store].
func (s *Store) Move(ctx context.Context, entries []queue.Move) ([]queue.MoveStatus, error) {
	if len(entries) == 0 {
		return nil, ctx.Err()
	}
	rounds := moveRounds(entries)
	earliest, _ := s.clock.params() // nothing moves to before it
	for try := 0; ; try++ {
		statuses, err := commit(ctx, s, unit[[]queue.MoveStatus]{
			run: func(ctx context.Context, conn *pgxpool.Conn, marker uuid.UUID) ([]queue.MoveStatus, error) {
				stored, err := s.move(ctx, conn, marker, entries, rounds)
				if err != nil {
					return nil, err
				}
				return s.moved(entries, rounds, stored)
			},
			replay: func(_ context.Context, _ *pgxpool.Conn, stored []byte) ([]queue.MoveStatus, error) {
				return s.moved(entries, rounds, stored)
			},
		})
		// The target was taken between the look at it and the move: look again.
		state, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || state.Code != "23505" || try == retries {
			for i, status := range statuses {
				if status == queue.Moved {
					at := earliest
					if entries[i].Delay >= queue.Soon {
						at = earliest.Add(entries[i].Delay)
					}
					s.placed(entries[i].Target, entries[i].Partition, at, earliest)
				}
			}
			return statuses, err
		}
	}
}

// moveRounds divides entries, by index, so that no round has two about one item,
// wherever it lies: the second one has to see what became of it. Most times there is
// one round.
func moveRounds(entries []queue.Move) (rounds [][]int) {
	seen := make(map[copyName]int, len(entries))
	for i := range entries {
		of := nameOf(entries[i].Key)
		n := seen[of]
		seen[of]++
		if n == len(rounds) {
			rounds = append(rounds, nil)
		}
		rounds[n] = append(rounds[n], i)
	}
	return rounds
}

func (s *Store) move(ctx context.Context, conn *pgxpool.Conn, marker uuid.UUID, entries []queue.Move, rounds [][]int) ([]byte, error) {
	var all found
	for i := range entries {
		all.add(entries[i].Key)
	}
	there, keys, err := s.named(ctx, conn, nameMovesSQL, all.args()...)
	if err != nil {
		return nil, err
	}
	// An item that is moved on has the key that it has here.
	of := make(map[copyName]string, len(keys))
	for i, key := range keys {
		of[copyName{there.ids[i], queue.Number(there.homes[i])}] = key
	}
	keys = make([]string, len(entries))
	var queues []int64
	var locks []string
	for i := range entries {
		e := &entries[i]
		if keys[i] = of[nameOf(e.Key)]; keys[i] != "" {
			queues = append(queues, int64(e.Key.Queue), int64(e.Target))
			locks = append(locks, keys[i], keys[i])
		}
	}
	var batch pgx.Batch
	if len(locks) > 0 {
		batch.Queue(s.text(lockKeysSQL), queues, locks)
	}
	for n, round := range rounds {
		batch.Queue(s.text(moveTexts[index(n == 0)]), s.moveArgs(marker, entries, keys, round)...)
	}
	if len(locks) == 0 {
		return lastAnswer(ctx, conn, &batch)
	}
	stored, _, err := lockedAnswer(ctx, conn, &batch)
	return stored, err
}

// copyName names an item wherever it lies.
type copyName struct {
	id   queue.ID
	home queue.Number
}

func nameOf(key queue.Key) copyName { return copyName{key.ID, key.Home} }

func (s *Store) moveArgs(marker uuid.UUID, entries []queue.Move, keys []string, round []int) []any {
	n := len(round)
	ids, partitions := make([][16]byte, n), make([]int32, n)
	queues, homes, targets := make([]int64, n), make([]int64, n), make([]int64, n)
	named := make([]string, n)
	ttls, delays, randoms := make([]int64, n), make([]int64, n), make([]int64, n)
	for i, at := range round {
		e := &entries[at]
		ids[i], queues[i], homes[i] = e.Key.ID, int64(e.Key.Queue), int64(e.Key.Home)
		named[i] = keys[at]
		targets[i], partitions[i] = int64(e.Target), e.Partition
		// The random number is in no receipt: the next lease makes another, hard to guess.
		ttls[i], delays[i], randoms[i] = e.ExpireTTL.Microseconds(), e.Delay.Microseconds(), int64(rand.Uint64())
	}
	at, fixed := s.clock.params()
	return []any{at, fixed, marker, ids, queues, homes, targets, partitions, ttls, delays, randoms, named}
}

// moved makes the answer of what the rounds left in the marker.
func (s *Store) moved(entries []queue.Move, rounds [][]int, stored []byte) ([]queue.MoveStatus, error) {
	var answers []struct {
		Now      int64
		Statuses []queue.MoveStatus
		Promoted []promotion
	}
	if err := json.Unmarshal(stored, &answers); err != nil {
		return nil, fmt.Errorf("marker: %w", err)
	}
	statuses := make([]queue.MoveStatus, len(entries))
	for n, answer := range answers {
		if n >= len(rounds) || len(answer.Statuses) != len(rounds[n]) {
			return nil, errors.New("marker answers another batch")
		}
		for i, at := range rounds[n] {
			statuses[at] = answer.Statuses[i]
		}
		s.promoted(answer.Promoted, s.clock.saw(time.UnixMicro(answer.Now)))
	}
	return statuses, nil
}
