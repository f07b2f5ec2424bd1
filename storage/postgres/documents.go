package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

const getSQL = `select revision, wake_at, value
from {s}.documents
where kind = $1 and namespace = $2 and name = $3`

// Get implements [storage.Documents].
func (s *Store) Get(ctx context.Context, key storage.DocumentKey) (storage.Document, error) {
	return read(ctx, s, func(ctx context.Context, conn *pgxpool.Conn) (storage.Document, error) {
		r := documentRow{doc: storage.Document{DocumentKey: key}}
		err := conn.QueryRow(ctx, s.text(getSQL), key.Kind, int64(key.Namespace), key.Name).
			Scan(&r.revision, &r.wakeAt, &r.doc.Value)
		if errors.Is(err, pgx.ErrNoRows) {
			return storage.Document{}, &refused{queue.ErrNotFound}
		}
		if err != nil {
			return storage.Document{}, err
		}
		return r.document(), nil
	})
}

// documentRow is a document as pgx reads it.
type documentRow struct {
	doc       storage.Document
	namespace int64
	revision  int64
	wakeAt    *time.Time
}

func (r *documentRow) document() storage.Document {
	r.doc.Revision = uint64(r.revision)
	r.doc.WakeAt = instant(r.wakeAt)
	return r.doc
}

// $10 is the first of the guards, which the keys follow.
const putGuards = 10

var putKeys = putGuards + len(guardColumns)

// putSQL writes the document if its revision is right and the guards hold, and only then
// anything else. Revisions begin at 1, so that no document has that of one to be made. It
// returns nothing for the answer if the document was refused, then the revision that was
// there, 0 for none, and whether a guard does not hold.
func putSQL(bound bool) string {
	insert, _, check := insertParts(putKeys+len(keyColumns), `exists (select from written) and `+keyedSQL, bound)
	return `with ` + clockSQL + `, ` + brokenSQL(putGuards) + `, made as (
	insert into {s}.documents (kind, namespace, name, revision, wake_at, value)
	select $4::text, $5::bigint, $6::text, nextval('{s}.revisions'), $8::timestamptz, $9::bytea
	where $7::bigint = 0 and not exists (select from broken)
	on conflict (kind, namespace, name) do nothing
	returning revision
), changed as (
	update {s}.documents
	set revision = nextval('{s}.revisions'), wake_at = $8, value = $9
	where kind = $4 and namespace = $5 and name = $6 and revision = $7 and not exists (select from broken)
	returning revision
), written as materialized (
	select revision from made union all select revision from changed
), ` + keySQL(putKeys, `exists (select from written)`) + `, ` + insert + `, mark as (
	insert into {s}.batches (id, at, answer)
	select $3::uuid, clock.now, jsonb_build_object('now', ` + micros("clock.now") + `, 'revision', written.revision)
	from clock cross join written
	where ` + check + `
	returning answer
)
select (select answer from mark), coalesce((
	select revision from {s}.documents where kind = $4 and namespace = $5 and name = $6
), 0), exists (select from broken)`
}

var putTexts = [2]string{putSQL(false), putSQL(true)}

// Put implements [storage.Documents].
func (s *Store) Put(ctx context.Context, doc storage.Document, items ...queue.NewItem) (revision uint64, err error) {
	var fresh insertion
	var taken keys
	var gs guards
	named := map[queue.Key]bool{}
	for i := range items {
		it := &items[i]
		gs.add(0, it.Guard)
		row, n := fresh.addPlaces(it, i, named)
		taken.add(it, row, n, i)
	}
	if doc.Value == nil {
		doc.Value = []byte{}
	}
	return commit(ctx, s, unit[uint64]{
		run: func(ctx context.Context, conn *pgxpool.Conn, marker uuid.UUID) (uint64, error) {
			at, fixed := s.clock.params()
			args := []any{
				at, fixed, marker, doc.Kind, int64(doc.Namespace), doc.Name, int64(doc.Revision),
				optional(doc.WakeAt.UTC()), doc.Value,
			}
			args = slices.Concat(args, gs.args(), taken.args(), fresh.args())
			var stored []byte
			var found int64
			var broken bool
			err := s.insert(ctx, conn, &fresh, putTexts[index(fresh.bound)], args, &stored, &found, &broken)
			switch {
			case err != nil:
				return 0, err
			case stored != nil:
				return s.wasPut(stored, items)
			case broken && uint64(found) == doc.Revision:
				return 0, &refused{queue.ErrOvertaken}
			case doc.Revision == 0:
				return 0, &refused{queue.ErrExists}
			}
			return 0, wrongRevision(found != 0)
		},
		replay: func(_ context.Context, _ *pgxpool.Conn, stored []byte) (uint64, error) {
			return s.wasPut(stored, items)
		},
	})
}

// wasPut reads a Put's marker, and tells of its items that can be leased now. Which of
// them were left out it does not know: a word too many does no harm.
func (s *Store) wasPut(stored []byte, items []queue.NewItem) (revision uint64, err error) {
	var answer struct{ Now, Revision int64 }
	if err := json.Unmarshal(stored, &answer); err != nil {
		return 0, fmt.Errorf("marker: %w", err)
	}
	now := s.clock.saw(time.UnixMicro(answer.Now))
	for i := range items {
		s.placedAll(&items[i], now)
	}
	return uint64(answer.Revision), nil
}

// wrongRevision is why a document could not be changed.
func wrongRevision(existed bool) error {
	if existed {
		return &refused{queue.ErrRevision}
	}
	return &refused{queue.ErrNotFound}
}

const deleteSQL = `with ` + clockSQL + `, gone as (
	delete from {s}.documents
	where kind = $4 and namespace = $5 and name = $6 and revision = $7
	returning revision
), mark as (
	insert into {s}.batches (id, at, answer) select $3::uuid, clock.now, 'true' from gone cross join clock
)
select exists (select from gone), exists (
	select from {s}.documents where kind = $4 and namespace = $5 and name = $6
)`

// Delete implements [storage.Documents].
func (s *Store) Delete(ctx context.Context, key storage.DocumentKey, revision uint64) error {
	_, err := commit(ctx, s, unit[struct{}]{
		run: func(ctx context.Context, conn *pgxpool.Conn, marker uuid.UUID) (none struct{}, err error) {
			var deleted, existed bool
			at, fixed := s.clock.params()
			err = conn.QueryRow(ctx, s.text(deleteSQL), at, fixed, marker, key.Kind, int64(key.Namespace), key.Name, int64(revision)).
				Scan(&deleted, &existed)
			if err == nil && !deleted {
				err = wrongRevision(existed)
			}
			return none, err
		},
		// Its marker says nothing but that it is there.
		replay: func(context.Context, *pgxpool.Conn, []byte) (none struct{}, err error) { return none, nil },
	})
	return err
}

const listDocumentsSQL = `select namespace, name, revision, wake_at, value
from {s}.documents
where kind = $1 and namespace = $2 and name > $3
order by name
limit $4`

// List implements [storage.Documents].
func (s *Store) List(ctx context.Context, kind string, ns queue.Namespace, after string, limit int) ([]storage.Document, error) {
	return read(ctx, s, func(ctx context.Context, conn *pgxpool.Conn) ([]storage.Document, error) {
		rows, err := conn.Query(ctx, s.text(listDocumentsSQL), kind, int64(ns), after, limit)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, func(rows pgx.CollectableRow) (storage.Document, error) {
			var r documentRow
			if err := rows.Scan(&r.namespace, &r.doc.Name, &r.revision, &r.wakeAt, &r.doc.Value); err != nil {
				return storage.Document{}, err
			}
			r.doc.Kind, r.doc.Namespace = kind, queue.Namespace(r.namespace)
			return r.document(), nil
		})
	})
}

// dueDocumentsSQL returns one row without a document if none is due.
const dueDocumentsSQL = `with ` + clockSQL + `, due as (
	select namespace, name, revision, wake_at, value
	from {s}.documents
	where kind = $3 and wake_at <= (select now from clock)
	order by wake_at, namespace, name
	limit $4
)
select clock.now, (
	select min(wake_at) from {s}.documents where kind = $3 and wake_at > (select now from clock)
), due.*
from clock left join due on true
order by due.wake_at, due.namespace, due.name`

// Due implements [storage.Documents].
func (s *Store) Due(ctx context.Context, kind string, limit int) (storage.DueDocuments, error) {
	return read(ctx, s, func(ctx context.Context, conn *pgxpool.Conn) (due storage.DueDocuments, err error) {
		at, fixed := s.clock.params()
		rows, err := conn.Query(ctx, s.text(dueDocumentsSQL), at, fixed, kind, limit)
		if err != nil {
			return due, err
		}
		var now time.Time
		var coming, wakeAt *time.Time
		var namespace, revision *int64
		var name *string
		var value []byte
		_, err = pgx.ForEachRow(rows, []any{&now, &coming, &namespace, &name, &revision, &wakeAt, &value}, func() error {
			if name == nil {
				return nil
			}
			due.Documents = append(due.Documents, storage.Document{
				DocumentKey: storage.DocumentKey{Kind: kind, Namespace: queue.Namespace(*namespace), Name: *name},
				Revision:    uint64(*revision),
				WakeAt:      instant(wakeAt),
				Value:       value,
			})
			return nil
		})
		if err != nil {
			return storage.DueDocuments{}, err
		}
		due.Now, due.Next = s.clock.saw(now), instant(coming)
		return due, nil
	})
}
