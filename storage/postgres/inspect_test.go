package postgres

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
)

// world is a store whose rows are written by hand, to make what the verbs would take
// long to make.
type world struct {
	*testing.T
	store *Store

	mu  sync.Mutex
	now time.Time
}

// setupWorld opens a store with a clock of its own; without one it is the database's.
func setupWorld(t *testing.T, ownClock bool) *world {
	t.Helper()
	return setupWorldAt(t, pgtest.URL(t), ownClock)
}

func setupWorldAt(t *testing.T, url string, ownClock bool) *world {
	t.Helper()
	w := &world{T: t, now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
	o := Options{URL: url, Migrate: true}
	if ownClock {
		o.Now = w.clock
	}
	store, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	w.store = store
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// cuts are where a connection may be lost in a commit.
var cuts = []struct {
	name string
	cut  func(*pgtest.Proxy, string) <-chan struct{}
}{
	{"cut before the commit", (*pgtest.Proxy).CutBefore},
	{"cut after the commit", (*pgtest.Proxy).CutAfter},
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) pool() *pgxpool.Pool { return w.store.pool }

func (w *world) exec(text string, args ...any) {
	w.Helper()
	if _, err := w.pool().Exec(w.Context(), w.store.text(text), args...); err != nil {
		w.Fatalf("%s: %v", text, err)
	}
}

// count reads one number.
func (w *world) count(text string, args ...any) (n int) {
	w.Helper()
	if err := w.pool().QueryRow(w.Context(), w.store.text(text), args...).Scan(&n); err != nil {
		w.Fatalf("%s: %v", text, err)
	}
	return n
}

var emptyAttributes = encodeAttributes(&queue.Content{}, false)

// fill inserts n items, which stand a microsecond apart from a time on, with what is
// set besides, as an expression of n, and counts them.
func (w *world) fill(q queue.Number, n int, from time.Time, columns, values string) {
	w.Helper()
	if columns != "" {
		columns, values = ", "+columns, ", "+values
	}
	w.exec(`insert into {s}.items (id, queue, home, partition, created_at, updated_at, first_due_at, due_at, size, attributes, body, available_at`+columns+`)
		select gen_random_uuid(), $1, $1, 0, $2, $2, $2, at, 0, $4, '', at`+values+`
		from (select n, $2::timestamptz + n * interval '1 microsecond' as at from generate_series(1, $3) n) made`,
		int64(q), from, n, emptyAttributes)
}

// behind inserts n items that wait for another one of their ordering key.
func (w *world) behind(q queue.Number, n int) {
	w.Helper()
	w.exec(`insert into {s}.items (id, queue, home, partition, created_at, updated_at, first_due_at, due_at, available_at, size, attributes, body, ordering_key)
		select gen_random_uuid(), $1, $1, 0, $2, $2, $2, $2, $3, 0, $5, '', 'key' from generate_series(1, $4)`,
		int64(q), w.clock(), queue.Forever, n, emptyAttributes)
}

func (w *world) list(req queue.ListRequest) (items []queue.Item) {
	w.Helper()
	for range 100 {
		page, err := w.store.ListItems(w.Context(), req)
		if err != nil {
			w.Fatal(err)
		}
		items = append(items, page.Items...)
		if req.Cursor = page.Next; page.Next == "" {
			return items
		}
	}
	w.Fatal("the list does not end")
	return nil
}

func TestStore_ListDoesNotMissWhatStandsBehind(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q := queue.NewNumber(1, 1)
	w.fill(q, 5, w.clock().Add(-time.Hour), "ordering_key", "'key'")
	w.behind(q, 7)
	w.fill(q, 3, w.clock().Add(time.Hour), "", "")
	w.behind(queue.NewNumber(1, 2), 1)
	for _, limit := range []int{1, 4, 8, 15, 100} {
		items := w.list(queue.ListRequest{Queue: q, Limit: limit})
		sorted := slices.IsSortedFunc(items, func(a, b queue.Item) int {
			if c := a.AvailableAt.Compare(b.AvailableAt); c != 0 {
				return c
			}
			return int(int64(a.Seq) - int64(b.Seq))
		})
		if len(items) != 15 || !sorted {
			t.Errorf("limit %d: got %d items, sorted %v, want 15 sorted", limit, len(items), sorted)
		}
	}
	behind := w.list(queue.ListRequest{Queue: q, States: []queue.State{queue.Behind}, Limit: 3})
	if len(behind) != 7 || behind[0].State(w.clock()) != queue.Behind {
		t.Errorf("behind: got %d items, want 7", len(behind))
	}
	from := w.list(queue.ListRequest{Queue: q, From: behind[4].ID, Limit: 2})
	if len(from) != 3 || from[0].ID != behind[4].ID {
		t.Errorf("from the fifth that is behind: got %d items, want 3", len(from))
	}
	if scheduled := w.list(queue.ListRequest{Queue: q, States: []queue.State{queue.Scheduled}, Limit: 2}); len(scheduled) != 3 {
		t.Errorf("scheduled: got %d items, want 3", len(scheduled))
	}
	answer, err := w.store.Purge(t.Context(), queue.PurgeRequest{Queue: q, States: []queue.State{queue.Behind}, Limit: 7})
	if want := (queue.PurgeAnswer{Purged: 7}); err != nil || answer != want {
		t.Errorf("purge: got %+v, %v, want %+v", answer, err, want)
	}
}

func TestStore_CursorsOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	far := spot{queue.Forever.Add(time.Hour), 1}
	for name, text := range map[string]string{
		"no base64":    "%",
		"nothing":      cursor(cursorList, nil),
		"other format": "AgEAAAAAAAAAAAAAAAAAAAAAAA",
		"out of time":  cursor(cursorList, far.append(nil)),
		"other call":   cursor(cursorRecords+1, start.append(nil)),
	} {
		_, listErr := w.store.ListItems(t.Context(), queue.ListRequest{Cursor: text, Limit: 1})
		_, sweepErr := w.store.Sweep(t.Context(), queue.SweepRequest{Cursor: text, Limit: 1})
		_, recordsErr := w.store.Records(t.Context(), storage.RecordQuery{Cursor: text, Limit: 1})
		for _, err := range []error{listErr, sweepErr, recordsErr} {
			if !errors.Is(err, errCursor) {
				t.Errorf("%s: got %v, want %v", name, err, errCursor)
			}
		}
	}
	stage := binary.BigEndian.AppendUint64([]byte{9}, 0)
	stage = append(stage, make([]byte, sweepPlaceSize-len(stage))...)
	if _, err := w.store.Sweep(t.Context(), queue.SweepRequest{Cursor: cursor(cursorSweep, stage), Limit: 1}); !errors.Is(err, errCursor) {
		t.Errorf("unknown stage: got %v, want %v", err, errCursor)
	}
}

func TestStore_StatsAddUpWhatWasFoldedAndWhatWasNot(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q := queue.NewNumber(1, 1)
	for range 3 {
		w.exec(`insert into {s}.deltas (queue, partition, total, held, failing, created, leased) values ($1, 0, 2, 1, 1, 20000000, 10000000)`, int64(q))
		w.advance(time.Second)
		if _, err := w.store.fold(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.exec(`insert into {s}.deltas (queue, partition, total, held, failing, created, leased) values ($1, 0, 1, 0, 0, 10000000, 0)`, int64(q))
	}
	stats, err := w.store.Stats(t.Context(), nil)
	if err != nil || len(stats) != 1 {
		t.Fatalf("got %+v, %v, want one", stats, err)
	}
	epoch := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	age := w.clock().Sub(epoch) - 10*time.Second
	want := queue.Stats{Queue: q, Total: 9, Held: 3, Failing: 3, MeanAge: age, MeanHeldAge: age}
	if stats[0] != want {
		t.Errorf("got  %+v\nwant %+v", stats[0], want)
	}
	// What came to nothing is not kept.
	w.exec(`insert into {s}.deltas (queue, partition, total, held, failing, created, leased) values ($1, 0, -9, -3, -3, -90000000, -30000000)`, int64(q))
	// The store folds by itself as well, and while it does, a tidy leaves that to it.
	for deadline := time.Now().Add(10 * time.Second); ; {
		w.tidy(time.Hour)
		n := w.count(`select (select count(*) from {s}.counts) + (select count(*) from {s}.deltas)`)
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d rows of counts and deltas are left, want none", n)
		}
	}
}
