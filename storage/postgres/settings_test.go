package postgres

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
)

// set changes a setting of the database for the sessions to come.
func set(t *testing.T, conn *pgx.Conn, name, value string) {
	t.Helper()
	var text string
	err := conn.QueryRow(t.Context(), `select format('alter database %I set %s = %s', current_database(), $1::text, $2::text)`, name, value).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	do(t, conn, text)
}

func TestP04_WhatLosesCommitsIsToldAtTheStart(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url := server.URL(t)
	wantUnsafe := func(url, why string) {
		t.Helper()
		var log journal
		w := openWorld(t, Options{URL: url, Log: log.logger()})
		if durable := w.store.Durable(); durable != (why == "") {
			t.Errorf("durable: got %v, want why not: %q", durable, why)
		}
		if why != "" && log.count(why) != 1 {
			t.Errorf("the log does not say that %s", why)
		}
	}
	wantUnsafe(url, "")
	for _, name := range []string{"fsync", "full_page_writes"} {
		server.Setting(t, name, "off")
		wantUnsafe(url, name+" is off")
		server.Setting(t, name, "on")
	}
	// Sessions have a setting of their own, but for those behind a pooler.
	set(t, session(t, url), "synchronous_commit", "off")
	wantUnsafe(url, "")
	wantUnsafe(url+withoutStatements, "synchronous_commit is off")
}

func TestP11_TextThatTheDatabaseRefusesFailsItsCallAlone(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"", withoutStatements} {
		w := setupWorldAt(t, pgtest.URL(t)+mode, true)
		held, ready := queue.NewNumber(1, 1), queue.NewNumber(1, 2)
		it := w.leased(held, 1)[0]
		w.produce(group(fresh(ready, "", "\x00\xff")))
		retry := func(change func(*queue.Settlement)) error {
			s := settlementOf(it, queue.Retry, 0)
			change(&s)
			_, err := w.store.Settle(t.Context(), []queue.SettleGroup{{Entries: []queue.Settlement{s}}})
			return err
		}
		for _, dirty := range []string{"a\x00b", "a\xffb", "\xed\xa0\x80"} {
			for what, call := range map[string]func() error{
				"last error": func() error {
					return retry(func(s *queue.Settlement) { s.Last.Error = dirty })
				},
				"record": func() error {
					return retry(func(s *queue.Settlement) { s.Record = &queue.Record{Type: queue.AttemptRecord, Error: dirty} })
				},
				"reason": func() error {
					return retry(func(s *queue.Settlement) { s.Outcome, s.DeadQueue, s.Reason = queue.Bury, ready, dirty })
				},
				"owner": func() error {
					_, err := w.store.Lease(t.Context(), []queue.LeaseCall{call(ready, queue.Taker{Limit: 1, TTL: time.Minute, Owner: dirty})})
					return err
				},
				"heir": func() error {
					_, err := w.store.Extend(t.Context(), []queue.Extension{{Key: it.Key, Token: it.Token, TTL: time.Hour, Handover: &queue.Handover{Owner: dirty}}})
					return err
				},
				"kind": func() error {
					bad := fresh(ready, "", "body")
					bad.Kind = dirty
					_, err := w.store.Produce(t.Context(), []queue.ProduceGroup{group(fresh(ready, "", "body")), group(bad)})
					return err
				},
				"reason of a purge": func() error {
					_, err := w.store.Purge(t.Context(), queue.PurgeRequest{Keys: []queue.Key{it.Key}, Limit: 1, Reason: dirty})
					return err
				},
				"document": func() error {
					_, err := w.store.Put(t.Context(), document(dirty, 0))
					return err
				},
				"name": func() error {
					_, err := w.store.Get(t.Context(), storage.DocumentKey{Kind: "kind", Name: dirty})
					return err
				},
			} {
				err := call()
				if err == nil || errors.Is(err, queue.ErrUnavailable) || errors.Is(err, queue.ErrUnknownOutcome) || errors.Is(err, queue.ErrNotFound) {
					t.Errorf("%s %q: got %v, want that it was refused", what, dirty, err)
				}
			}
		}
		// Nothing of it was done, and cleaned text goes on from there.
		if got := w.count(`select count(*) from {s}.items`); got != 2 {
			t.Errorf("%d items are there, want 2", got)
		}
		if err := w.isHeld(t.Context(), it); err != nil {
			t.Errorf("the lease: %v", err)
		}
		var status queue.SettleStatus
		s := settlementOf(it, queue.Retry, 0)
		s.Last.Error = strings.ToValidUTF8("a\xffb", "\uFFFD")
		s.Record = &queue.Record{Type: queue.AttemptRecord, Error: s.Last.Error, Response: []byte("\x00\xff")}
		if status = w.settle(queue.SettleGroup{Entries: []queue.Settlement{s}}).Groups[0][0].Status; status != queue.Applied {
			t.Errorf("cleaned: got status %d, want applied", status)
		}
		if got := string(w.lease(call(ready, taker(1)))[0].Takers[0][0].Payload); got != "\x00\xff" {
			t.Errorf("payload: got %q", got)
		}
		w.wantCounted()
	}
}

func TestP14_NodesThatStartAtOnceMigrateOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	if _, err := Open(t.Context(), Options{URL: url}); err == nil || !strings.Contains(err.Error(), "migrate up") {
		t.Errorf("an empty database: got %v, want what to do", err)
	}
	errs := make([]error, 4)
	var opened sync.WaitGroup
	for i := range errs {
		opened.Go(func() {
			store, err := Open(t.Context(), Options{URL: url, Migrate: true})
			if errs[i] = err; err == nil {
				errs[i] = store.Close()
			}
		})
	}
	opened.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	w := setupWorldAt(t, url, true)
	all, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	if got := w.count(`select count(*) from {s}.migrations`); got != len(all) {
		t.Errorf("%d steps were applied, want %d", got, len(all))
	}
}

func TestP14_AnInterruptedMigrationIsBegunAgain(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		// migrated is how many steps were applied when it was interrupted.
		migrated int
	}{
		{"in the middle", "create sequence", 0},
		{"before the commit", `.migrations (version, name)`, 0},
		{"after the commit", "commit\x00", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			proxy := pgtest.NewProxy(t, url)
			cut := proxy.CutAfter(test.text)
			if store, err := Open(t.Context(), Options{URL: proxy.URL(), Migrate: true}); err == nil {
				t.Error("the interruption was not told")
				_ = store.Close()
			}
			wait(t, "the connection is cut", cut)
			steps, err := Migrations(t.Context(), Options{URL: url}, false)
			if err != nil {
				t.Fatal(err)
			}
			migrated := 0
			for _, step := range steps {
				if !step.At.IsZero() {
					migrated++
				}
			}
			if migrated != test.migrated {
				t.Errorf("%d steps were applied, want %d", migrated, test.migrated)
			}
			w := setupWorldAt(t, proxy.URL(), true)
			w.produce(group(fresh(queue.NewNumber(1, 1), "", "body")))
		})
	}
}

func TestP14_AnOlderNodeWorksOnTheSchemaOfANewerOne(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	w := setupWorldAt(t, url, true)
	w.exec(`insert into {s}.migrations (version, name) values (99, 'later')`)
	// Steps only ever add.
	w.exec(`alter table {s}.items add column later text not null default ''`)
	w.exec(`create table {s}.later (id bigint primary key)`)
	for _, migrate := range []bool{false, true} {
		store, err := Open(t.Context(), Options{URL: url, Migrate: migrate})
		if err != nil {
			t.Fatalf("migrate %v: %v", migrate, err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, v := range w.everyVerb() {
		if err := v.call(t.Context()); err != nil {
			t.Errorf("%s: %v", v.name, err)
		}
	}
	w.wantEveryVerbOnce()
}

func TestP15_NothingDependsOnTheSettingsOfTheDatabase(t *testing.T) {
	t.Parallel()
	odd := map[string]string{
		"timezone":                    `'Asia/Kathmandu'`,
		"datestyle":                   `'SQL, DMY'`,
		"intervalstyle":               `'sql_standard'`,
		"search_path":                 `nowhere`,
		"client_encoding":             `'LATIN1'`,
		"standard_conforming_strings": `off`,
		"extra_float_digits":          `-15`,
		"transform_null_equals":       `on`,
		"enable_indexscan":            `off`,
		"plan_cache_mode":             `'force_generic_plan'`,
		"quote_all_identifiers":       `on`,
	}
	// What a pooler does not let pass has to be left alone.
	direct := map[string]string{
		"default_transaction_isolation":       `'serializable'`,
		"default_transaction_read_only":       `on`,
		"default_transaction_deferrable":      `on`,
		"statement_timeout":                   `1`,
		"lock_timeout":                        `1`,
		"idle_in_transaction_session_timeout": `1`,
		"jit_above_cost":                      `0`,
		"array_nulls":                         `off`,
		"bytea_output":                        `'escape'`,
	}
	for _, test := range []struct {
		mode     string
		settings []map[string]string
	}{
		{"", []map[string]string{odd, direct}},
		{withoutStatements, []map[string]string{odd}},
	} {
		t.Run("mode "+test.mode, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			other := session(t, url)
			var german bool
			if err := other.QueryRow(t.Context(), `select exists (select from pg_collation where collname = 'de_DE.utf8')`).Scan(&german); err != nil {
				t.Fatal(err)
			}
			if german {
				set(t, other, "lc_numeric", `'de_DE.utf8'`)
			}
			for _, settings := range test.settings {
				for name, value := range settings {
					set(t, other, name, value)
				}
			}
			w := setupWorldAt(t, url+test.mode, true)
			for _, v := range w.everyVerb() {
				if err := v.call(t.Context()); err != nil {
					t.Errorf("%s: %v", v.name, err)
				}
			}
			w.wantEveryVerbOnce()
			w.tidy(time.Hour)

			doc := document("ü€ \\'", 0)
			doc.Value, doc.WakeAt = []byte("\x00\xff\\"), w.clock().Add(-time.Microsecond)
			if _, err := w.store.Put(t.Context(), doc); err != nil {
				t.Fatal(err)
			}
			found, err := w.store.Due(t.Context(), doc.Kind, 10)
			due := found.Documents
			if err != nil || len(due) != 1 || due[0].DocumentKey != doc.DocumentKey || string(due[0].Value) != string(doc.Value) || !due[0].WakeAt.Equal(doc.WakeAt) {
				t.Errorf("due: got %+v, %v, want %+v", due, err, doc)
			}
			if n := w.count(`select char_length(name) from {s}.documents where name like 'ü%'`); n != 5 {
				t.Errorf("the name has %d characters, want 5", n)
			}
			stats, err := w.store.Stats(t.Context(), []queue.Number{queue.NewNumber(1, 5)})
			if err != nil || len(stats) != 1 || stats[0].Total != 2 {
				t.Errorf("stats: got %+v, %v, want 2 items", stats, err)
			}
		})
	}
}

func TestP15_WhatAPoolerLeavesOutIsToldAtTheStart(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{"bytea_output": "escape", "default_transaction_read_only": "on"} {
		url := pgtest.URL(t)
		set(t, session(t, url), name, value)
		_, err := Open(t.Context(), Options{URL: url + withoutStatements, Migrate: true})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s = %s: got %v, want what is wrong", name, value, err)
		}
	}
}

func TestP15_ADatabaseThatCannotHoldAllTextIsRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	other := session(t, url)
	var name string
	if err := other.QueryRow(t.Context(), `select current_database()`).Scan(&name); err != nil {
		t.Fatal(err)
	}
	latin := name + "_latin1"
	do(t, other, `create database `+latin+` encoding 'LATIN1' lc_collate 'C' lc_ctype 'C' template template0`)
	_, err := Open(t.Context(), Options{URL: strings.Replace(url, name, latin, 1), Migrate: true})
	if err == nil || !strings.Contains(err.Error(), "want UTF8") {
		t.Errorf("got %v, want what is wrong", err)
	}
	do(t, other, `drop database `+latin+` with (force)`)
}
