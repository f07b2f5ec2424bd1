package postgres

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/posthaste-io/posthaste/queue"
)

// Whoever puts an item where its ordering key lives, or takes the head of a key out,
// holds the lock of the key: else a producer that finds the head and a settlement that
// finds nobody behind it pass by each other, and an item waits for ever. The locks are
// taken by a statement before the one that needs them, since a statement sees only what
// was committed when it began; before any lock of a row, and in the order of their numbers.
// They end with the transaction.

// keyHashSQL is the number of a key's lock.
func keyHashSQL(queue, key string) string {
	return `hashtextextended('posthaste ordering key of {s} ' || ` + queue + `::text || ' ' || ` + key + `, 0)`
}

// keyLocks is how many locks of keys a transaction takes at most: all transactions of a
// server share room for some thousands. One that needs more shuts out all others of the
// schema that have keys, by the gate, which those share.
const keyLocks = 256

// lockHashesSQL takes the locks of the keys whose hashes are selected, and counts the keys. The
// gate comes before them.
func lockHashesSQL(hashes string) string {
	const gate = `hashtextextended('posthaste ordering keys of {s}', 0)`
	return fmt.Sprintf(`with hashes as materialized (
	%s
), many as materialized (
	select count(*) as n from hashes
), passed as materialized (
	select n, case when n > %[2]d then pg_advisory_xact_lock(%[3]s)::text when n > 0 then pg_advisory_xact_lock_shared(%[3]s)::text end as gate
	from many
)
select case when p.n > %[2]d then p.n else (
	select count(pg_advisory_xact_lock(h.hash))
	from (select hash from hashes where p.gate is not null order by hash) h
) end from passed p`, hashes, keyLocks, gate)
}

// lockKeysSQL takes the locks of keys that are named.
var lockKeysSQL = lockHashesSQL(`select distinct ` + keyHashSQL("k.queue", "k.key") + ` as hash
	from unnest($1::bigint[], $2::text[]) as k (queue, key)
	where k.key <> ''`)

// lockFoundSQL takes the locks of the keys that bind items, and of keys that are named. What
// an item's key is never changes, nor whether it binds, as long as its token does not.
var lockFoundSQL = lockHashesSQL(`select ` + keyHashSQL("e.queue", "i.ordering_key") + ` as hash
	from unnest($1::uuid[], $2::bigint[], $3::bigint[]) as e (id, queue, home)
	cross join lateral (
		select i.ordering_key, i.dead_from from {s}.items i
		where i.id = e.id and i.queue = e.queue and i.home = e.home
		limit 1
	) i
	where ` + boundSQL + `
	union
	select ` + keyHashSQL("k.queue", "k.key") + ` from unnest($4::bigint[], $5::text[]) as k (queue, key)`)

// boundSQL says of items i whether their key binds them. Conditions of an index name it.
const boundSQL = `i.ordering_key <> '' and i.dead_from is null`

// boundBySQL are the items i that a key of a queue binds.
func boundBySQL(queue, key string) string {
	return boundSQL + ` and i.queue = ` + queue + ` and i.ordering_key collate "C" = ` + key
}

// promoteSQL puts those at their due times whose heads leave. left has the heads, as
// (queue, ordering_key, seq), gone whatever leaves that a key binds, as (id, queue, home):
// the statement still sees it. Only what comes after the head is looked at, and so no
// dead index entries of those before it.
//
//   - next: who becomes a head. kept, if any, has items that are changed elsewhere in the
//     statement, where their new position is up to that.
//   - promoted: queue, partition and position of the others.
func promoteSQL(left, gone, kept string) string {
	others := `true`
	if kept != "" {
		others = `((id, queue, home) in (select id, queue, home from ` + kept + `)) is not true`
	}
	return `gone as materialized (
	` + gone + `
), next as materialized (
	select n.* from (
		` + left + `
	) h cross join lateral (
		select i.id, i.queue, i.home, i.available_at from {s}.items i
		where ` + boundBySQL("h.queue", "h.ordering_key") + ` and i.seq > h.seq
			and ((i.id, i.queue, i.home) in (select id, queue, home from gone)) is not true
		order by i.seq limit 1
	) n
	where n.available_at >= ` + foreverSQL + `
), promoted as (
	update {s}.items i set available_at = i.due_at
	from (select id, queue, home from next where ` + others + `) n
	where i.id = n.id and i.queue = n.queue and i.home = n.home
	returning i.queue, i.partition, i.available_at as at
)`
}

// promotionsSQL is what an answer tells of rows with queue, partition and at.
func promotionsSQL(rows string) string {
	return `(select jsonb_agg(jsonb_build_array(queue, partition, ` + micros("at") + `)) from (` + rows + `) p)`
}

// unboundSQL undoes the statement that it is a condition of, by dividing by zero, unless
// there are no such rows. So a batch without keys does not have to look for them: it is
// sent again with locks if it was wrong.
func unboundSQL(rows string) string {
	return `1 / (not exists (` + rows + `))::integer = 1`
}

// promotion is what a marker says about an item that became the head of its key, as the
// array [queue, partition, at].
type promotion struct {
	place
	at time.Time
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *promotion) UnmarshalJSON(b []byte) error {
	var number, at int64
	if err := json.Unmarshal(b, &[]any{&number, &p.partition, &at}); err != nil {
		return err
	}
	p.queue, p.at = queue.Number(number), time.UnixMicro(at).UTC()
	return nil
}

// promoted tells of items that became heads. That is after the commit. They may be due
// for long, and nobody on this node knows of them either.
func (s *Store) promoted(all []promotion, now time.Time) {
	var due []queue.Number
	for _, p := range all {
		s.placed(p.queue, p.partition, p.at, now)
		if !p.at.After(now) && (len(due) == 0 || due[len(due)-1] != p.queue) {
			due = append(due, p.queue)
		}
	}
	s.hints.tell(due)
}

const (
	// keyedFor is how long a queue is taken for one with ordering keys after an item with
	// one was seen.
	keyedFor = time.Minute
	// maxKeyed bounds the map. What is forgotten costs a batch that is undone.
	maxKeyed = 10_000
)

// keyedQueues remembers in which queues this node met ordering keys: settlements do not
// say. The zero value is ready.
type keyedQueues struct {
	mu    sync.Mutex
	until map[queue.Number]time.Time
}

// note takes note of queues with keys.
func (k *keyedQueues) note(queues map[queue.Number]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	until := time.Now().Add(keyedFor)
	for q := range queues {
		if k.until == nil || len(k.until) >= maxKeyed {
			k.until = map[queue.Number]time.Time{}
		}
		k.until[q] = until
	}
}

// any says whether any of the queues is known to have keys.
func (k *keyedQueues) any(queues map[queue.Number]bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.until) == 0 {
		return false
	}
	now := time.Now()
	for q := range queues {
		until, known := k.until[q]
		if known && until.After(now) {
			return true
		}
		delete(k.until, q)
	}
	return false
}

// found are the arrays that name items.
type found struct {
	ids           [][16]byte
	queues, homes []int64
}

func (f *found) add(key queue.Key) {
	f.ids = append(f.ids, key.ID)
	f.queues = append(f.queues, int64(key.Queue))
	f.homes = append(f.homes, int64(key.Home))
}

func (f *found) args() []any { return []any{f.ids, f.queues, f.homes} }

// isUndone says that a statement found that it must not be done, and is of no effect.
func isUndone(err error) bool {
	state, ok := errors.AsType[*pgconn.PgError](err)
	return ok && state.Code == divisionByZero
}
