package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

var changeColumns = []column{
	{"row", "bigint"},
	{"kind", "text"},
	{"namespace", "bigint"},
	{"name", "text"},
	{"revision", "bigint"},
	{"wake_at", "timestamptz"},
	{"value", "bytea"},
}

// changesOf are changes as the parameters of changeSQL.
func changesOf(changes []queue.DocumentChange) []any {
	n := len(changes)
	rows, namespaces, revisions := make([]int64, n), make([]int64, n), make([]int64, n)
	kinds, names := make([]string, n), make([]string, n)
	wakes, values := make([]*time.Time, n), make([][]byte, n)
	for i := range changes {
		c := &changes[i]
		rows[i], kinds[i], namespaces[i], names[i], revisions[i] = int64(i), c.Kind, int64(c.Namespace), c.Name, int64(c.Revision)
		wakes[i], values[i] = optional(c.WakeAt.UTC()), c.Value
		if values[i] == nil {
			values[i] = []byte{}
		}
	}
	return []any{rows, kinds, namespaces, names, revisions, wakes, values}
}

// changeSQL writes documents if the revisions of all are right. As with guards, the lock
// waits for whoever changes one of them and shows what that made of it, and the order in
// which they are locked is the same for everybody. One that was made since the statement
// began is not seen by it: then the insertion of ours breaks the key, all is undone, and
// the next look shows which it is.
//
// It returns nothing for the answer if the changes were refused, and one of those that
// were: its row, and the revision that there is, or -1.
var changeSQL = `with ` + clockSQL + `, change as materialized (
	select * from ` + unnestSQL(4, "c", changeColumns) + `
), broken as materialized (
	select c.row, coalesce(d.revision, -1) as found
	from (select * from change order by kind, namespace, name) c
	left join lateral (
		select d.revision
		from {s}.documents d
		where d.kind = c.kind and d.namespace = c.namespace and d.name = c.name
		for update
	) d on true
	where coalesce(d.revision, 0) <> c.revision
), made as (
	insert into {s}.documents (kind, namespace, name, revision, wake_at, value)
	select kind, namespace, name, nextval('{s}.revisions'), wake_at, value
	from change
	where revision = 0 and not exists (select from broken)
	returning kind, namespace, name, revision
), changed as (
	update {s}.documents d
	set revision = nextval('{s}.revisions'), wake_at = c.wake_at, value = c.value
	from change c
	where d.kind = c.kind and d.namespace = c.namespace and d.name = c.name and d.revision = c.revision
		and not exists (select from broken)
	returning d.kind, d.namespace, d.name, d.revision
), written as (
	select * from made union all select * from changed
), mark as (
	insert into {s}.batches (id, at, answer)
	select $3::uuid, clock.now, (
		select coalesce(jsonb_agg(w.revision order by c.row), '[]')
		from change c
		join written w using (kind, namespace, name)
	)
	from clock
	where not exists (select from broken)
	returning answer
)
select (select answer from mark), b.row, b.found
from (select) one
left join (select * from broken order by row limit 1) b on true`

const uniqueViolation = "23505"

// Change implements [storage.Documents].
func (s *Store) Change(ctx context.Context, changes []queue.DocumentChange) ([]uint64, error) {
	if err := storage.CheckChanges(changes); err != nil {
		return nil, err
	}
	parameters := changesOf(changes)
	for try := 0; ; try++ {
		revisions, err := s.change(ctx, changes, parameters)
		state, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || state.Code != uniqueViolation {
			return revisions, err
		}
		if try == retries {
			return nil, &refused{queue.ErrExists}
		}
	}
}

// change is Change as one look at what is there, which does not see what is made meanwhile.
func (s *Store) change(ctx context.Context, changes []queue.DocumentChange, parameters []any) ([]uint64, error) {
	read := func(stored []byte) ([]uint64, error) {
		revisions := make([]uint64, 0, len(changes))
		if err := json.Unmarshal(stored, &revisions); err != nil {
			return nil, fmt.Errorf("marker: %w", err)
		}
		return revisions, nil
	}
	return commit(ctx, s, unit[[]uint64]{
		run: func(ctx context.Context, conn *pgxpool.Conn, marker uuid.UUID) ([]uint64, error) {
			at, fixed := s.clock.params()
			var stored []byte
			var row, found *int64
			err := conn.QueryRow(ctx, s.text(changeSQL), append([]any{at, fixed, marker}, parameters...)...).Scan(&stored, &row, &found)
			switch {
			case err != nil:
				return nil, err
			case row == nil:
				return read(stored)
			case *row < 0 || int(*row) >= len(changes):
				return nil, fmt.Errorf("answer is about document %d of %d", *row, len(changes))
			}
			return nil, &refused{storage.ChangeError(&changes[*row], brokenBy(&changes[*row], *found))}
		},
		replay: func(_ context.Context, _ *pgxpool.Conn, stored []byte) ([]uint64, error) { return read(stored) },
	})
}

// brokenBy is why a change cannot be done where a document has the revision found, or -1
// for none.
func brokenBy(c *queue.DocumentChange, found int64) error {
	switch {
	case found < 0:
		return queue.ErrNotFound
	case c.Revision == 0:
		return queue.ErrExists
	default:
		return queue.ErrRevision
	}
}
