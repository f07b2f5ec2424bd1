package postgres

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
)

// The server has room for some thousands of locks.
func TestKeys_TheLargestBatchTakesFewLocks(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q := queue.NewNumber(1, 1)
	items := make([]queue.NewItem, queue.MaxBatchEntries)
	for i := range items {
		items[i] = keyed(q, strconv.Itoa(i/2))
	}
	w.produce(group(items...))
	w.wantHeads()
	for range 2 {
		var groups []queue.SettleGroup
		for _, it := range w.lease(call(q, taker(len(items))))[0].Takers[0] {
			groups = append(groups, queue.SettleGroup{Entries: []queue.Settlement{settlementOf(it, queue.Complete, 0)}})
		}
		if len(groups) != len(items)/2 {
			t.Fatalf("leased %d, want one of each key", len(groups))
		}
		began := time.Now()
		w.settle(groups...)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%d heads were settled in %v", len(groups), took)
		}
	}
	w.wantTotals(map[queue.Number]int{q: 0})
}

func TestKeys_LocksOfManyKeysAreOneThatShutsOutAllOthers(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	queues := func(n int) (numbers []int64, names []string) {
		for i := range n {
			numbers, names = append(numbers, 1), append(names, "key "+strconv.Itoa(i))
		}
		return numbers, names
	}
	lock := func(tx pgx.Tx, n int) {
		t.Helper()
		var got int
		numbers, names := queues(n)
		// Named twice, and some without a key.
		numbers, names = append(append(numbers, numbers...), 1), append(append(names, names...), "")
		if err := tx.QueryRow(t.Context(), w.store.text(lockKeysSQL), numbers, names).Scan(&got); err != nil || got != n {
			t.Fatalf("got %d, %v, want %d", got, err, n)
		}
	}
	for _, test := range []struct{ keys, locks, shared int }{
		{0, 0, 0}, {1, 2, 1}, {keyLocks, keyLocks + 1, 1}, {keyLocks + 1, 1, 0},
	} {
		tx, err := w.pool().Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		lock(tx, test.keys)
		const held = `select count(*) from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`
		if n := w.count(held); n != test.locks {
			t.Errorf("%d keys: %d locks, want %d", test.keys, n, test.locks)
		}
		if n := w.count(held + ` and mode = 'ShareLock'`); n != test.shared {
			t.Errorf("%d keys: %d locks are shared, want %d", test.keys, n, test.shared)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// A key that nobody else names waits for one who has many, and the other way round.
	for _, first := range []int{1, keyLocks + 1} {
		tx, err := w.pool().Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		lock(tx, first)
		other, err := w.pool().Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		numbers, names := queues(keyLocks + 2 - first)
		for i := range names {
			names[i] = uuid.NewString()
		}
		done := make(chan error, 1)
		go func() {
			_, err := other.Exec(t.Context(), w.store.text(lockKeysSQL), numbers, names)
			done <- err
		}()
		w.untilOneWaits()
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if err := other.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever verb it is, the answer that nobody saw is found again, with who stands behind
// and who was promoted.
func TestP01_VerbsWithKeysAreDoneOnceWhereverTheConnectionIsCut(t *testing.T) {
	t.Parallel()
	for _, order := range cuts {
		t.Run(order.name, func(t *testing.T) {
			t.Parallel()
			proxy := pgtest.NewProxy(t, pgtest.URL(t))
			w := setupWorldAt(t, proxy.URL(), true)
			e := w.listen()
			q, dead, target := queue.NewNumber(1, 1), queue.NewNumber(1, 2), queue.NewNumber(1, 3)
			cut := func(what string, call func()) {
				t.Helper()
				e.forget()
				done := order.cut(proxy, "insert into "+w.store.schema+".batches")
				call()
				wait(t, what+": the connection is cut", done)
				w.wantHeads()
			}
			a, b := keyed(q, "k"), keyed(q, "k")
			known := keyed(q, "k")
			known.Dedupe = &queue.Dedupe{Scope: q, Key: "key", TTL: time.Hour}
			cut("produce", func() {
				got := w.produce(group(a, b), group(a)).Groups
				if at := got[0].Items; !at[0].DueAt.Equal(w.clock()) || !at[1].DueAt.Equal(queue.Forever) || !got[1].Items[0].Duplicate {
					t.Errorf("produced %+v, want a head, one behind and a duplicate", got)
				}
			})
			cut("produce by key", func() {
				got := w.produce(group(known), group(known)).Groups
				if !got[0].Items[0].DueAt.Equal(queue.Forever) || !got[1].Items[0].Duplicate {
					t.Errorf("produced %+v, want one behind and a duplicate", got)
				}
			})
			cut("put", func() {
				if _, err := w.store.Put(t.Context(), document("new", 0), keyed(q, "k"), keyed(q, "other"), keyed(q, "other")); err != nil {
					t.Error(err)
				}
			})
			head := w.first(q)
			cut("settle", func() {
				s := settlementOf(head, queue.Bury, dead)
				s.Guard = queue.NotLive
				w.settle(queue.SettleGroup{Entries: []queue.Settlement{s}})
			})
			if !e.has(q) {
				t.Error("settle: nobody was told")
			}
			w.produce(group(keyed(target, "k")))
			cut("move", func() {
				back := queue.Key{ID: head.ID, Queue: dead, Home: q}
				statuses, err := w.store.Move(t.Context(), []queue.Move{{Key: back, Target: target}, {Key: w.first(q).Key, Target: target}, {Key: back, Target: q}})
				if err != nil || !slices.Equal(statuses, []queue.MoveStatus{queue.Moved, queue.Moved, queue.MoveGone}) {
					t.Errorf("move: %v, %v", statuses, err)
				}
			})
			if !e.has(q) {
				t.Error("move: nobody was told")
			}
			for _, req := range []queue.PurgeRequest{{Keys: []queue.Key{w.first(target).Key}, Limit: 9}, {Queue: target, Limit: 1}} {
				cut("purge", func() {
					if answer, err := w.store.Purge(t.Context(), req); err != nil || answer.Purged != 1 || answer.More != (req.Limit == 1) {
						t.Errorf("purge: %+v, %v", answer, err)
					}
				})
				if !e.has(target) {
					t.Error("purge: nobody was told")
				}
			}
			w.wantTotals(map[queue.Number]int{q: 4, target: 1})
			w.wantCounted()
			w.wantNoneIdle()
		})
	}
}

func (e *ears) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = nil
}

// Whatever is named twice in a Put is there once, and not in its own way.
func TestKeys_ADocumentsItemNamedTwiceIsOne(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q := queue.NewNumber(1, 1)
	it := keyed(q, "k")
	for i, name := range []string{"first", "second"} {
		if _, err := w.store.Put(t.Context(), document(name, 0), it, it, keyed(q, "k")); err != nil {
			t.Fatal(err)
		}
		w.wantHeads()
		if n := w.count(`select count(*) from {s}.items`); n != i+2 {
			t.Errorf("%d items after the %s, want %d", n, name, i+2)
		}
	}
}

// As texts, times are not what they are otherwise.
func TestP09_KeysNeedNoPreparedStatements(t *testing.T) {
	t.Parallel()
	w := openWorld(t, Options{URL: pgtest.URL(t) + withoutStatements, NoListen: true})
	q := queue.NewNumber(1, 1)
	head, next := keyed(q, "k"), keyed(q, "k")
	next.ExpireTTL = queue.Soon
	w.produce(group(head, next))
	for what, items := range map[string]func() ([]queue.Item, error){
		"list": func() ([]queue.Item, error) {
			page, err := w.store.ListItems(t.Context(), queue.ListRequest{Queue: q, States: []queue.State{queue.Behind}, Limit: 9})
			return page.Items, err
		},
		"find": func() ([]queue.Item, error) { return w.store.Find(t.Context(), []queue.ID{next.ID}, true) },
		"sweep": func() (items []queue.Item, err error) {
			w.eventually("the next one expires", func() bool {
				page, sweepErr := w.store.Sweep(t.Context(), queue.SweepRequest{Limit: 9})
				items, err = page.Items, sweepErr
				return err != nil || len(items) > 0
			})
			return items, err
		},
	} {
		got, err := items()
		if err != nil || len(got) != 1 || got[0].ID != next.ID || !got[0].AvailableAt.Equal(queue.Forever) {
			t.Errorf("%s: got %+v, %v, want what is behind", what, got, err)
		}
	}
	page, err := w.store.ListKeys(t.Context(), queue.KeysRequest{Queue: q, Limit: 9})
	if err != nil || len(page.Keys) != 1 || page.Keys[0].Head.ID != head.ID {
		t.Errorf("keys: got %+v, %v, want the head", page.Keys, err)
	}
}
