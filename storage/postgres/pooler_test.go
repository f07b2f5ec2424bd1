package postgres

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

const withoutStatements = "&default_query_exec_mode=exec"

func TestP09_EveryVerbIsDoneThroughAPooler(t *testing.T) {
	t.Parallel()
	w := openWorld(t, Options{URL: pgtest.Bouncer(t, pgtest.URL(t)) + withoutStatements, NoListen: true})
	if !w.store.Durable() {
		t.Error("not durable")
	}
	w.now = time.Now()
	errs, _ := callAll(t.Context(), w.everyVerb(), 10*time.Second)
	for i, err := range errs {
		if err != nil {
			t.Errorf("verb %d: %v", i, err)
		}
	}
	w.wantEveryVerbOnce()
	w.tidy(time.Hour)
}

func TestP09_StoreConformsThroughAPooler(t *testing.T) {
	t.Parallel()
	url := pgtest.Bouncer(t, pgtest.URL(t)) + withoutStatements
	var cases atomic.Int32
	storagetest.Run(t, func(t *testing.T) storagetest.Harness {
		schema := fmt.Sprintf("case_%d", cases.Add(1))
		return storagetest.Harness{
			Open: func(now func() time.Time) (storage.Backend, error) {
				return Open(t.Context(), Options{URL: url, Schema: schema, Migrate: true, NoListen: true, Now: now})
			},
			Sequences: 1,
		}
	})
}

// ears hear a store's hints.
type ears struct {
	mu    sync.Mutex
	heard []queue.Number
}

func (w *world) listen() *ears {
	var e ears
	w.store.OnHint(func(queues ...queue.Number) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.heard = append(e.heard, queues...)
	})
	return &e
}

func (e *ears) has(q queue.Number) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Contains(e.heard, q)
}

// untilHeard has a speaker produce for a queue until a hint of it is heard: one that is
// sent while nobody listens is lost.
func (w *world) untilHeard(speaker *world, e *ears, q queue.Number) {
	w.Helper()
	w.eventually(fmt.Sprintf("a hint of queue %d is heard", q.Own()), func() bool {
		speaker.produce(group(fresh(q, "", "body")))
		return e.has(q)
	})
}

func TestP07_HintsArriveAgainAfterTheConnectionWasLost(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	proxy := pgtest.NewProxy(t, url)
	var log journal
	direct := openWorld(t, Options{URL: url})
	proxied := openWorld(t, Options{URL: proxy.URL(), Log: log.logger()})
	hears, answers := proxied.listen(), direct.listen()
	direct.untilHeard(proxied, answers, queue.NewNumber(1, 1))
	proxied.untilHeard(direct, hears, queue.NewNumber(1, 1))

	proxy.CutAll()
	direct.untilHeard(proxied, answers, queue.NewNumber(1, 2))
	proxied.untilHeard(direct, hears, queue.NewNumber(1, 2))

	// A connection of which only half is there is quiet.
	const unsent, again = "hint not sent", "listening for hints ended"
	notSent, ended := log.count(unsent), log.count(again)
	proxy.Blackhole(true)
	proxied.store.hints.add(place{queue: queue.NewNumber(1, 3)}, time.Now())
	proxied.eventually("a hint is given up", func() bool { return log.count(unsent) > notSent })
	proxied.eventually("the connection is given up", func() bool { return log.count(again) > ended })
	proxy.Blackhole(false)
	direct.untilHeard(proxied, answers, queue.NewNumber(1, 4))
	proxied.untilHeard(direct, hears, queue.NewNumber(1, 4))
}

func TestP08_WithoutHintsNothingIsMissing(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	var log journal
	speaker := openWorld(t, Options{URL: url, Log: log.logger()})
	silent := openWorld(t, Options{URL: url, NoListen: true})
	listener := openWorld(t, Options{URL: url})
	e := listener.listen()
	first, second, third := queue.NewNumber(1, 1), queue.NewNumber(1, 2), queue.NewNumber(1, 3)
	listener.untilHeard(speaker, e, first)
	// Had it sent a hint, that one would be there before the next.
	silent.produce(group(fresh(second, "", "body")))
	listener.untilHeard(speaker, e, queue.NewNumber(1, 4))
	if e.has(second) {
		t.Error("a store that does not listen sent a hint")
	}

	// From now on hints cannot be sent.
	other := session(t, url)
	do(t, other, `create schema faulty`)
	do(t, other, `create function faulty.pg_notify(text, text) returns void language plpgsql as $$ begin raise exception 'too many notifications' using errcode = '54000'; end $$`)
	var name string
	if err := other.QueryRow(t.Context(), `select quote_ident(current_database())`).Scan(&name); err != nil {
		t.Fatal(err)
	}
	do(t, other, `alter database `+name+` set search_path = faulty, pg_catalog`)
	speaker.pool().Reset()
	speaker.eventually("a hint is refused", func() bool {
		speaker.produce(group(fresh(third, "", "body")))
		return log.count("hint not sent") > 0
	})
	if e.has(third) {
		t.Error("a hint was heard that could not be sent")
	}
	speaker.produce(group(fresh(third, "", "body")))
	// Whoever asks gets it.
	for _, w := range []*world{listener, silent} {
		if got := len(w.lease(call(third, taker(1)))[0].Takers[0]); got != 1 {
			t.Errorf("%d items were leased, want 1", got)
		}
	}
	speaker.wantCounted()
}
