package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posthaste-io/posthaste/queue"
)

// sharedFrom is from which size on, in bytes, the copies of an item share their payload.
// Below it a row for the payload, and the look for it when a copy is leased, cost more
// than they spare.
const sharedFrom = 256

// bodies are payloads that rows of an insertion share, as parallel arrays for the same
// statement.
type bodies struct {
	refs, items [][16]byte
	payloads    [][]byte
}

// add appends an item's payload under a name that nothing had before, and returns its place
// among the others, from 1.
func (b *bodies) add(it *queue.NewItem) int32 {
	b.refs = append(b.refs, queue.NewID())
	b.items = append(b.items, it.ID)
	b.payloads = append(b.payloads, it.Payload)
	return int32(len(b.refs))
}

func (b *bodies) args() []any { return []any{b.refs, b.items, b.payloads} }

const (
	// bodyPage is smaller than other pages: what is dropped is large.
	bodyPage = 200
	// The first look for a row that refers to a payload is soon after it came, and each of
	// the next ones when it is twice as old, but no later than longestLook after the last.
	firstLook, longestLook = `interval '1 minute'`, `interval '1 hour'`
)

// insertBodiesSQL writes what rows that were inserted refer to; what none does, since all
// of them live already or their key is known, is left out. Parameters begin at $first.
func insertBodiesSQL(first int) string {
	return fmt.Sprintf(`inserted_bodies as (
	insert into {s}.bodies (ref, item, made_at, look_at, body)
	select b.ref, b.item, clock.now, clock.now + `+firstLook+`, b.body
	from unnest($%d::uuid[], $%d::uuid[], $%d::bytea[]) as b (ref, item, body) cross join clock
	where (b.ref in (select body_ref from inserted)) is true
)`, first, first+1, first+2)
}

// bodySQL is the payload of items under an alias, its own or the one that it shares. It is
// null if that is gone, which is damage.
func bodySQL(alias string) string {
	return `coalesce(` + alias + `.body, (select b.body from {s}.bodies b where b.ref = ` + alias + `.body_ref))`
}

// dropBodiesSQL looks at payloads whose time has come, $3 of them at most, and drops those
// that no row refers to. doc.go says why none can come to refer to one of them. Two nodes
// that look at one time take different ones.
const dropBodiesSQL = `with ` + clockSQL + `, due as materialized (
	select b.ref, b.item
	from {s}.bodies b
	where b.look_at <= (select now from clock)
	order by b.look_at limit $3 for update skip locked
), judged as materialized (
	select d.ref, (select i.id from {s}.items i where i.id = d.item and i.body_ref = d.ref limit 1) is null as unused
	from due d
), dropped as (
	delete from {s}.bodies where ref = any(array(select ref from judged where unused))
), kept as (
	update {s}.bodies b set look_at = clock.now + least(greatest(clock.now - b.made_at, ` + firstLook + `), ` + longestLook + `)
	from clock
	where b.ref = any(array(select ref from judged where not unused))
)
select count(*) from due`

func (s *Store) dropBodies(ctx context.Context) (more bool, err error) {
	at, fixed := s.clock.params()
	n, err := read(ctx, s, func(ctx context.Context, conn *pgxpool.Conn) (n int, err error) {
		err = conn.QueryRow(ctx, s.text(dropBodiesSQL), at, fixed, bodyPage).Scan(&n)
		return n, err
	})
	return n == bodyPage, err
}
