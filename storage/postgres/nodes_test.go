package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
)

// What another node puts below the head that this one remembers is not drained by the
// one walk of each second.
func TestStore_WhatOtherNodesPutBelowTheHeadIsLeasedAtOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	a := openWorld(t, Options{URL: url, NoListen: true})
	b := openWorld(t, Options{URL: url, NoListen: true})
	q := queue.NewNumber(1, 1)
	const many = 2000
	items := make([]queue.NewItem, many)
	for i := range items {
		items[i] = fresh(q, "", "body")
	}
	a.produce(group(items...))
	held := a.lease(queue.LeaseCall{Queue: q, Takers: []queue.Taker{{Limit: many, TTL: time.Minute}}})[0].Takers[0]
	b.produce(group(fresh(q, "", "body")))
	one := queue.LeaseCall{Queue: q, Takers: []queue.Taker{{Limit: 10, TTL: time.Minute}}}
	if got := b.lease(one)[0].Takers[0]; len(got) != 1 {
		t.Fatalf("leased %d, want the one that is left", len(got))
	}
	groups := make([]queue.SettleGroup, many)
	for i, it := range held {
		groups[i].Entries = []queue.Settlement{{Key: it.Key, Token: it.Token, Outcome: queue.Release}}
	}
	a.settle(groups...)
	began := time.Now()
	got := 0
	for got < many && time.Since(began) < 30*time.Second {
		got += len(b.lease(one)[0].Takers[0])
	}
	// By walks alone it would take 200 s.
	if got != many {
		t.Errorf("leased %d of %d in %v", got, many, time.Since(began))
	}
}

// Hints say where things were put, so that nothing waits for a walk.
func TestHints_LowerTheHead(t *testing.T) {
	t.Parallel()
	speaker, listener := newHints(), newHints()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	var heard []queue.Number
	listener.heard = func(queues ...queue.Number) { heard = append(heard, queues...) }
	var h heads
	h.finish(h.start(here), at.Add(time.Hour))
	speaker.add(here, at.Add(time.Minute))
	speaker.add(here, at)
	text := speaker.take()
	speaker.hear(text, &h)
	if got := h.from(here); got.Before(at.Add(time.Minute)) || len(heard) != 0 {
		t.Error("a node heard itself")
	}
	listener.hear(text, &h)
	listener.hear("other 1 .. x.y.z 1.2", &h) // of another version, or noise
	if got := h.from(here); !got.Equal(at.Add(-headSlack)) || len(heard) != 1 || heard[0] != here.queue {
		t.Errorf("claims begin at %v, heard %v; want %v and %v", got, heard, at.Add(-headSlack), here.queue)
	}
	if text := speaker.take(); text != "" {
		t.Errorf("told again: %q", text)
	}
	speaker.off = true
	speaker.add(here, at)
	if text := speaker.take(); text != "" {
		t.Errorf("gathered although nobody sends: %q", text)
	}
}

// A plan that was made while the table was small is kept, and must not walk through
// a queue for each item once it is large.
func TestP10_PlansMadeOnASmallTableStayGood(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	w.exec(`alter table {s}.items set (autovacuum_enabled = false)`)
	q := queue.NewNumber(1, 1)
	cycle := func(limit int) time.Duration {
		w.produce(group(fresh(q, "", "body")))
		began := time.Now()
		items := w.lease(queue.LeaseCall{Queue: q, Takers: []queue.Taker{{Limit: limit, TTL: time.Minute}}})[0].Takers[0]
		entries := make([]queue.Settlement, len(items))
		extensions := make([]queue.Extension, len(items))
		for i, it := range items {
			entries[i] = queue.Settlement{Key: it.Key, Token: it.Token, Outcome: queue.Complete}
			extensions[i] = queue.Extension{Key: it.Key, Token: it.Token, TTL: time.Minute}
		}
		if _, err := w.store.Extend(t.Context(), extensions); err != nil {
			t.Fatal(err)
		}
		w.settle(queue.SettleGroup{Entries: entries})
		return time.Since(began)
	}
	for range 12 { // on each connection that the pool may take
		cycle(1)
	}
	w.fill(q, 40_000, w.clock().Add(-time.Hour), "", "")
	quickest := time.Hour // of several: a busy machine makes any of them late
	for range 3 {
		quickest = min(quickest, cycle(100))
	}
	// 3 ms with probes, several seconds with a walk for each item.
	if quickest > time.Second {
		t.Errorf("a hundred items took %v", quickest)
	}
}

func TestP13_SeverityIsReadInAnyLanguage(t *testing.T) {
	t.Parallel()
	err := &pgconn.PgError{Code: "57P01", Severity: "ВАЖНО", SeverityUnlocalized: "FATAL"}
	if got := judge(err); got != unknown {
		t.Errorf("got %d, want %d: it may come between the commit and its answer", got, unknown)
	}
}

// One item that cannot be read is told of as such, and not as a database that is away.
func TestStore_DamagedAttributesAreNotTakenForAnOutage(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	it := fresh(queue.NewNumber(1, 1), "", "body")
	w.produce(group(it))
	w.exec(`update {s}.items set attributes = '\xff'`)
	_, err := w.store.Find(t.Context(), []queue.ID{it.ID}, true)
	if !errors.Is(err, errDamaged) || errors.Is(err, queue.ErrUnavailable) {
		t.Errorf("got %v, want what is damaged", err)
	}
}

func TestStore_BuryIntoTheItemsOwnQueueKeepsIt(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q := queue.NewNumber(1, 1)
	it := w.leased(q, 1)[0]
	w.settle(queue.SettleGroup{Entries: []queue.Settlement{{Key: it.Key, Token: it.Token, Outcome: queue.Bury, DeadQueue: q, Reason: "test"}}})
	if n := w.count(`select count(*) from {s}.items where dead_reason = 'test'`); n != 1 {
		t.Errorf("%d items are left, want the one", n)
	}
}

// Another machine may have taken over, whose clock is behind: time goes on. A clock that
// was set wrong and mended must not stop everything until it is right again.
func TestD05_ClockGoesOnFromTheNewestCommitUnlessThatWasFarAhead(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		ahead string
		goOn  bool
	}{
		"ten minutes": {"10 minutes", true},
		"a day":       {"1 day", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			w := openWorld(t, Options{URL: url})
			w.exec(`insert into {s}.batches (id, at) values (gen_random_uuid(), clock_timestamp() + $1::interval)`, tt.ahead)
			if _, err := w.store.Tidy(t.Context(), time.Hour); err != nil { // which leaves it
				t.Fatal(err)
			}
			again := openWorld(t, Options{URL: url})
			now := again.produce(group(fresh(queue.NewNumber(1, 1), "", "body"))).Now
			if ahead := time.Until(now); (ahead > 5*time.Minute) != tt.goOn || ahead > time.Hour {
				t.Errorf("the store's now is %v ahead", ahead)
			}
		})
	}
}

// After an idle hour the newest marker is still there to tell the time.
func TestStore_TidyKeepsTheNewestMarker(t *testing.T) {
	t.Parallel()
	w := openWorld(t, Options{URL: pgtest.URL(t), NoListen: true})
	w.exec(`insert into {s}.batches (id, at) select gen_random_uuid(), clock_timestamp() - n * interval '2 hours' from generate_series(1, 3) n`)
	if _, err := w.store.Tidy(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if n := w.count(`select count(*) from {s}.batches where at > clock_timestamp() - interval '3 hours'`); n != 1 {
		t.Errorf("%d of the newest are left", n)
	}
	if n := w.count(`select count(*) from {s}.batches`); n != 1 {
		t.Errorf("%d markers are left, want the newest alone", n)
	}
}

// That all connections are in use says nothing about the database.
func TestP12_BusyPoolIsNotALostDatabase(t *testing.T) {
	t.Parallel()
	w := openWorld(t, Options{URL: pgtest.URL(t) + "&pool_max_conns=2", NoListen: true})
	for range 2 {
		conn, err := w.pool().Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
	}
	w.store.look(t.Context())
	if err := w.store.Reachable(); err != nil {
		t.Errorf("got %v", err)
	}
}

// A role that owns its schema need not be allowed to make others.
func TestP14_MigratesASchemaThatItOwns(t *testing.T) {
	t.Parallel()
	owner := pgtest.URL(t)
	w := openWorld(t, Options{URL: owner})
	role := "role_" + strings.ToLower(rand.Text()[:10])
	w.exec(`create role ` + role + ` login; create schema mine authorization ` + role)
	t.Cleanup(func() { // before the database is dropped, whose objects it owns
		if _, err := w.pool().Exec(context.WithoutCancel(t.Context()), `drop owned by `+role+` cascade; drop role `+role); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(owner)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(role)
	store, err := Open(t.Context(), Options{URL: u.String(), Schema: "mine", Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}
