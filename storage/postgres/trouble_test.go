package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
)

// openWorld is setupWorldAt with other options.
func openWorld(t *testing.T, o Options) *world {
	t.Helper()
	o.Migrate = true
	store, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return &world{T: t, store: store}
}

// session is a connection beside the store's.
func session(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func do(t *testing.T, conn *pgx.Conn, text string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// journal keeps what is logged.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (j *journal) count(text string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.text.String(), text)
}

// warm has the pool open all of its connections.
func (w *world) warm() {
	w.Helper()
	var wg sync.WaitGroup
	for range maxConns {
		wg.Go(func() {
			if _, err := w.pool().Exec(w.Context(), `select pg_sleep(0.1)`); err != nil {
				w.Error(err)
			}
		})
	}
	wg.Wait()
	if n := w.pool().Stat().TotalConns(); n != maxConns {
		w.Fatalf("the pool has %d connections, want %d", n, maxConns)
	}
}

func TestP01_ConnectionsThatWereLostWhileIdleAreNotNoticed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		lose func(*testing.T, *pgtest.Proxy, *pgx.Conn)
	}{
		{"reset", func(_ *testing.T, proxy *pgtest.Proxy, _ *pgx.Conn) { proxy.CutAll() }},
		{"ended by the server", func(t *testing.T, _ *pgtest.Proxy, other *pgx.Conn) { terminate(t, other) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			proxy, other := pgtest.NewProxy(t, url), session(t, url)
			w := setupWorldAt(t, proxy.URL(), true)
			for _, v := range w.everyVerb() {
				w.warm()
				test.lose(t, proxy, other)
				if err := v.call(t.Context()); err != nil {
					t.Errorf("%s: %v", v.name, err)
				}
			}
			w.warm()
			test.lose(t, proxy, other)
			w.wantStored(queue.NewNumber(1, 5), 2)
			w.wantEveryVerbOnce()
		})
	}
}

// wantStored compares the number of a queue's items, as the store lists them.
func (w *world) wantStored(q queue.Number, want int) {
	w.Helper()
	if n := len(w.keys(q)); n != want {
		w.Errorf("the queue holds %d items, want %d", n, want)
	}
}

// terminate ends all sessions of the store.
func terminate(t *testing.T, other *pgx.Conn) {
	t.Helper()
	do(t, other, `select pg_terminate_backend(pid) from pg_stat_activity
		where datname = current_database() and application_name = 'posthaste'`)
}

func TestP01_WhatWasAcknowledgedIsThereOnceWhateverSessionsAreEnded(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	w := openWorld(t, Options{URL: url})
	killer := session(t, url)
	const workers, rounds = 8, 15
	q := queue.NewNumber(1, 1)
	var mu sync.Mutex
	// What became of the items, as their callers were told.
	stored, refused, completed := map[queue.ID]bool{}, map[queue.ID]bool{}, map[queue.ID]bool{}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var load sync.WaitGroup
	for worker := range workers {
		load.Go(func() {
			for ctx.Err() == nil {
				it := fresh(q, "", "body")
				_, err := w.store.Produce(t.Context(), []queue.ProduceGroup{group(it)})
				mu.Lock()
				switch {
				case err == nil:
					stored[it.ID] = true
				case errors.Is(err, queue.ErrUnavailable):
					refused[it.ID] = true
				case !errors.Is(err, queue.ErrUnknownOutcome):
					t.Errorf("produce: %v", err)
				}
				mu.Unlock()
				if worker%2 == 0 {
					continue
				}
				answer, err := w.store.Lease(t.Context(), []queue.LeaseCall{call(q, taker(1))})
				if err != nil || len(answer.Calls[0].Takers[0]) == 0 {
					continue
				}
				leased := answer.Calls[0].Takers[0][0]
				settled, err := w.store.Settle(t.Context(), []queue.SettleGroup{{Entries: []queue.Settlement{settlementOf(leased, queue.Complete, 0)}}})
				if err == nil && settled.Groups[0][0].Status == queue.Applied {
					mu.Lock()
					if completed[leased.ID] {
						t.Errorf("%v was completed twice", leased.ID)
					}
					completed[leased.ID] = true
					mu.Unlock()
				}
			}
		})
	}
	for range rounds {
		if err := sleep(t.Context(), 50*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		terminate(t, killer)
	}
	stop()
	load.Wait()
	w.wantNoneIdle()
	there := map[queue.ID]bool{}
	for _, it := range w.list(queue.ListRequest{Queue: q, Limit: 1000}) {
		there[it.ID] = true
	}
	for id := range stored {
		if there[id] == completed[id] {
			t.Errorf("%v: there %v, completed %v", id, there[id], completed[id])
		}
	}
	for id := range refused {
		if there[id] || completed[id] {
			t.Errorf("%v was refused, and stored", id)
		}
	}
	if len(stored) < rounds || len(completed) == 0 {
		t.Errorf("only %d items were stored and %d completed", len(stored), len(completed))
	}
	w.wantCounted()
}

func TestP06_NoSessionIsLeftInATransactionByErrors(t *testing.T) {
	t.Parallel()
	proxy := pgtest.NewProxy(t, pgtest.URL(t))
	w := openWorld(t, Options{URL: proxy.URL()})
	q := queue.NewNumber(1, 1)
	for range 30 {
		w.produce(group(fresh(q, "", strings.Repeat("x", 100))))
	}
	bounded := taker(2)
	bounded.MaxBytes = 150
	var burst sync.WaitGroup
	for i := range 60 {
		burst.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
			defer cancel()
			switch i % 6 {
			case 0: // a name that the database refuses
				_, _ = w.store.Get(t.Context(), document("\x00", 0).DocumentKey)
			case 1: // a transaction of several steps
				_, _ = w.store.Lease(ctx, []queue.LeaseCall{call(q, bounded, bounded)})
			case 2:
				_, _ = w.store.Produce(ctx, []queue.ProduceGroup{group(fresh(q, "key", "body"))})
			case 3:
				_ = w.store.Delete(ctx, document("none", 0).DocumentKey, 1)
			case 4:
				_, _ = w.store.Tidy(ctx, time.Hour)
			case 5:
				proxy.CutAll()
			}
		})
	}
	burst.Wait()
	w.wantNoneIdle()
	w.wantCounted()
}

func TestP12_CallsThatFindNoConnectionEndWithTheirDeadlines(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	w := openWorld(t, Options{URL: url})
	q := queue.NewNumber(1, 1)
	w.produce(group(fresh(q, "", "body")))
	held := w.lease(call(q, taker(1)))[0].Takers[0][0]
	locker := session(t, url)
	do(t, locker, w.store.text(`begin; lock table {s}.dedupe in exclusive mode`))
	slow := func(n int) (verbs []verb) {
		for range n {
			verbs = append(verbs, verb{"produce", func(ctx context.Context) error {
				_, err := w.store.Produce(ctx, []queue.ProduceGroup{group(fresh(q, "key", "body"))})
				return err
			}})
		}
		return verbs
	}
	const bound = time.Second
	var errs []error
	var took time.Duration
	var calls sync.WaitGroup
	// As many as a broker has on their way, and as many as use up the pool.
	for _, n := range []int{4, 2 * maxConns} {
		calls.Go(func() { errs, took = callAll(t.Context(), slow(n), bound) })
		if n < maxConns {
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			if _, err := w.store.Extend(ctx, []queue.Extension{{Key: held.Key, Token: held.Token, TTL: time.Minute}}); err != nil {
				t.Errorf("extend, beside %d slow calls: %v", n, err)
			}
			cancel()
		}
		calls.Wait()
		if took > bound+resolveTime+time.Second {
			t.Errorf("the last of %d slow calls ended after %v", n, took)
		}
		for _, err := range errs {
			if !errors.Is(err, queue.ErrUnavailable) {
				t.Errorf("%d slow calls: got %v, want unavailable", n, err)
			}
		}
	}
	do(t, locker, `rollback`)
	w.wantStored(q, 1)
	w.produce(group(fresh(q, "key", "body")))
	w.wantNoneIdle()
}

func TestP13_ADeadlockIsTriedAgain(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	w := setupWorldAt(t, url, true)
	items := w.leased(queue.NewNumber(1, 1), 2)
	slices.SortFunc(items, func(a, b queue.Item) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	other := session(t, url)
	// The other session looks for a deadlock only when the store's has.
	do(t, other, `set deadlock_timeout = '1min'`)
	lock := w.store.text(`select from {s}.items where id = $1 for update`)
	do(t, other, `begin`)
	do(t, other, lock, [16]byte(items[1].ID))
	var answer queue.SettleAnswer
	var err error
	var settled sync.WaitGroup
	settled.Go(func() {
		answer, err = w.store.Settle(t.Context(), []queue.SettleGroup{{Entries: []queue.Settlement{
			settlementOf(items[0], queue.Complete, 0), settlementOf(items[1], queue.Complete, 0),
		}}})
	})
	w.untilOneWaits()
	do(t, other, lock, [16]byte(items[0].ID))
	do(t, other, `commit`)
	settled.Wait()
	if err != nil || answer.Groups[0][0].Status != queue.Applied || answer.Groups[0][1].Status != queue.Applied {
		t.Errorf("got %+v, %v, want both applied", answer, err)
	}
	w.eventually("a deadlock was counted", func() bool {
		return w.count(`select deadlocks from pg_stat_database where datname = current_database()`) > 0
	})
	w.wantCounted()
}

// faults has writes to a table of the store's fail with a state, so many times.
func (w *world) faults(table, state string, times int) {
	w.Helper()
	// A sequence is not rolled back.
	w.exec(`create sequence if not exists public.faults`)
	w.exec(fmt.Sprintf(`create or replace function public.fault() returns trigger language plpgsql as $$ begin
		if nextval('public.faults') <= %d then raise exception 'fault' using errcode = '%s'; end if;
		return null;
	end $$`, times, state))
	w.exec(`create or replace trigger fault before insert on {s}.` + table + ` execute function public.fault()`)
	w.exec(`alter sequence public.faults restart`)
}

func TestP13_PassingErrorsAreTriedAgainAndLastingOnesChangeNothing(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	verbs := w.everyVerb()
	for i, v := range verbs {
		state := []string{"40001", "40P01", "55P03", "53200", "57014"}[i%5]
		w.faults("batches", state, 100)
		if err := v.call(t.Context()); !errors.Is(err, queue.ErrUnavailable) || errors.Is(err, queue.ErrUnknownOutcome) {
			t.Errorf("%s, with state %s: got %v, want unavailable", v.name, state, err)
		}
		if got := w.count(`select last_value from public.faults`); got != retries+1 {
			t.Errorf("%s, with state %s: it was tried %d times, want %d", v.name, state, got, retries+1)
		}
		w.faults("batches", state, retries)
		if err := v.call(t.Context()); err != nil {
			t.Errorf("%s, with state %s: %v", v.name, state, err)
		}
	}
	w.wantEveryVerbOnce()
}

// cycle leases a few items of a queue and completes them, and returns how long it took.
func (w *world) cycle(q queue.Number, n int) time.Duration {
	w.Helper()
	began := time.Now()
	items := w.lease(call(q, taker(n)))[0].Takers[0]
	if len(items) != n {
		w.Fatalf("%d items were leased, want %d", len(items), n)
	}
	var done queue.SettleGroup
	for _, it := range items {
		done.Entries = append(done.Entries, settlementOf(it, queue.Complete, 0))
	}
	w.settle(done)
	return time.Since(began)
}

func TestP05_AnOldSnapshotDoesNotSlowTheStoreDown(t *testing.T) {
	t.Parallel()
	// A snapshot keeps dead rows of its own database only, so that another one, which is
	// used by turns, shows what is lost by it.
	urls := []string{pgtest.URL(t), pgtest.URL(t)}
	worlds := []*world{openWorld(t, Options{URL: urls[0]}), openWorld(t, Options{URL: urls[1]})}
	q := queue.NewNumber(1, 1)
	const many, each = 20_000, 100
	for _, w := range worlds {
		w.exec(`alter table {s}.items set (autovacuum_enabled = false)`)
		w.fill(q, many, time.Now().Add(-time.Hour), "", "")
	}
	old := session(t, urls[0])
	do(t, old, `begin isolation level repeatable read`)
	do(t, old, worlds[0].store.text(`select count(*) from {s}.items`))
	var took [2][]time.Duration
	for range many / each {
		for i, w := range worlds {
			took[i] = append(took[i], w.cycle(q, each))
		}
	}
	// Dead rows pile up until the end, so that it counts.
	var medians [2]time.Duration
	for i, all := range took {
		last := all[len(all)/2:]
		slices.Sort(last)
		medians[i] = last[len(last)/2]
	}
	if medians[0] > 2*medians[1] {
		t.Errorf("a cycle took %v with an old snapshot, and %v without", medians[0], medians[1])
	}
	const deadSQL = `select n_dead_tup from pg_stat_user_tables where relid = '{s}.items'::regclass`
	worlds[0].eventually("dead rows are counted", func() bool { return worlds[0].count(deadSQL) >= many })
	do(t, old, `rollback`)
	worlds[0].eventually("dead rows are cleared when the snapshot is gone", func() bool { return worlds[0].count(deadSQL) < vacuumAt })
}
