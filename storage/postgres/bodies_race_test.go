package postgres

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
)

// Whatever comes and goes while payloads are dropped: nobody reads an item without its own.
func TestP05_NoItemIsEverWithoutItsPayload(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	nodes := []*world{setupWorldAt(t, url, false), setupWorldAt(t, url, false)}
	all, dead := queues(6), queue.NewNumber(1, 9)
	const many = 8 // few ids, so that all do the same things to the same ones
	ids := make([]queue.ID, many)
	for i := range ids {
		ids[i] = queue.NewID()
	}
	duration := 6 * time.Second
	if testing.Short() {
		duration = 2 * time.Second
	}
	until := time.Now().Add(duration)
	var reads, looks, redriven atomic.Int64
	check := func(items []queue.Item) {
		for _, it := range items {
			reads.Add(1)
			if !bytes.Equal(it.Payload, payloadOf(it.ID)) {
				t.Errorf("item %s has %d bytes", it.ID, len(it.Payload))
			}
		}
	}
	some := func() []queue.Number {
		picked := slices.Clone(all)
		rand.Shuffle(len(picked), func(i, j int) { picked[i], picked[j] = picked[j], picked[i] })
		return picked[:2+rand.IntN(len(picked)-1)]
	}
	// Who meets others at the same few items too often is told so, and nothing was done.
	failed := func(what string, err error) bool {
		if errors.Is(err, queue.ErrUnavailable) && isUndone(err) {
			return false
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		return err != nil
	}
	produce := func(w *world) bool {
		it := toTopic(ids[rand.IntN(many)], some()...)
		if rand.IntN(3) == 0 {
			it.OrderingKey = "key"
		}
		_, err := w.store.Produce(t.Context(), []queue.ProduceGroup{group(it)})
		return failed("produce", err)
	}
	// Most are completed, others buried, or redriven to the topic in the same transaction.
	consume := func(w *world) bool {
		from := append(slices.Clone(all), dead)[rand.IntN(len(all)+1)]
		answer, err := w.store.Lease(t.Context(), []queue.LeaseCall{call(from, taker(3))})
		if failed("lease", err) {
			return true
		}
		if answer.Calls[0].Corrupt != 0 {
			t.Errorf("%d items cannot be read", answer.Calls[0].Corrupt)
		}
		items := answer.Calls[0].Takers[0]
		check(items)
		var groups []queue.SettleGroup
		for _, it := range items {
			s := settlementOf(it, queue.Complete, 0)
			switch n := rand.IntN(6); {
			case n == 0 && from != dead:
				s = settlementOf(it, queue.Bury, dead)
			case n < 3:
				s.Produce = []queue.NewItem{toTopic(it.ID, some()...)}
				redriven.Add(1)
			}
			groups = append(groups, queue.SettleGroup{Entries: []queue.Settlement{s}})
		}
		_, err = w.store.Settle(t.Context(), groups)
		return failed("settle", err)
	}
	move := func(w *world) bool {
		page, err := w.store.ListItems(t.Context(), queue.ListRequest{Queue: dead, Limit: 5, Content: true})
		if failed("list", err) {
			return true
		}
		check(page.Items)
		var entries []queue.Move
		for _, it := range page.Items {
			entries = append(entries, queue.Move{Key: it.Key, Target: all[rand.IntN(len(all))]})
		}
		_, err = w.store.Move(t.Context(), entries)
		return failed("move", err)
	}
	purge := func(w *world) bool {
		_, err := w.store.Purge(t.Context(), queue.PurgeRequest{Queue: all[rand.IntN(len(all))], Limit: 5})
		return failed("purge", err)
	}
	find := func(w *world) bool {
		items, err := w.store.Find(t.Context(), ids, true)
		check(items)
		return failed("find", err)
	}
	drop := func(w *world) bool {
		tag, err := w.pool().Exec(t.Context(), w.store.text(`update {s}.bodies set look_at = '-infinity'
			where ref = any(array(select ref from {s}.bodies for update skip locked))`))
		if failed("let the time come", err) {
			return true
		}
		looks.Add(tag.RowsAffected())
		_, err = w.store.dropBodies(t.Context())
		return failed("drop", err)
	}
	var running sync.WaitGroup
	for i, do := range []func(*world) bool{produce, produce, consume, consume, consume, move, purge, find, drop, drop} {
		running.Go(func() {
			for n := i; time.Now().Before(until) && !do(nodes[n%len(nodes)]); n++ {
			}
		})
	}
	running.Wait()
	w := nodes[0]
	w.wantNoneMissing()
	t.Logf("%d reads, %d looks, %d redriven", reads.Load(), looks.Load(), redriven.Load())
	if reads.Load() == 0 || looks.Load() == 0 || redriven.Load() == 0 {
		t.Error("something did not happen at all")
	}
	w.exec(`delete from {s}.items`)
	w.exec(`update {s}.bodies set look_at = '-infinity'`)
	w.tidy(time.Hour)
	w.wantBodies("in the end", 0, 0)
}

// A statement that began before a copy was inserted does not see it, but then it does
// not see the payload either.
func TestP05_DroppingWaitsForNobodyAndTakesNothingThatComes(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	all := queues(2)
	first := toTopic(queue.NewID(), all...)
	w.produce(group(first))
	for _, q := range all {
		if _, err := w.store.Purge(t.Context(), queue.PurgeRequest{Queue: q, Limit: 10}); err != nil {
			t.Fatal(err)
		}
	}
	w.advance(2 * time.Hour)
	// The same item comes again in a transaction that is not committed while the payload that
	// it had is dropped.
	tx, err := w.pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	p := newPlan([]queue.ProduceGroup{group(first)}, nil, nil)
	at, fixed := w.store.clock.params()
	if _, err := tx.Exec(t.Context(), w.store.text(produceTexts[0]), append([]any{at, fixed, uuid.New()}, p.fresh.args()...)...); err != nil {
		t.Fatal(err)
	}
	w.tidy(24 * time.Hour)
	w.wantBodies("the old one is dropped", 0, 0)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wantBodies("the new one is there", 1, 2)
	w.look()
	found, err := w.store.Find(t.Context(), []queue.ID{first.ID}, true)
	if err != nil {
		t.Fatal(err)
	}
	wantPayload(t, "find", found, 2)
}

// A copy that moves on between the beginning of a look and its end is not overlooked.
func TestP05_DroppingKeepsWhatIsOnTheMove(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	all := queues(2)
	it := toTopic(queue.NewID(), all...)
	w.produce(group(it))
	w.exec(`delete from {s}.items where queue = $1`, int64(all[0]))
	w.advance(2 * time.Hour)
	tx, err := w.pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), w.store.text(`update {s}.items set queue = $1 where queue = $2`), int64(all[0]), int64(all[1])); err != nil {
		t.Fatal(err)
	}
	w.tidy(24 * time.Hour)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wantBodies("one moved", 1, 1)
}

// fillShared inserts n items without payloads of their own, of which each few share one.
func (w *world) fillShared(q queue.Number, n, few int) {
	w.Helper()
	w.fill(q, n, w.clock().Add(-time.Hour), "", "")
	w.exec(`with numbered as (
		select id, (row_number() over () - 1) / $2 as n from {s}.items where queue = $1
	), named as (
		select n, gen_random_uuid() as ref, min(id::text)::uuid as item from numbered group by n
	), made as (
		insert into {s}.bodies (ref, item, made_at, look_at, body)
		select ref, item, $3, $3::timestamptz + n * interval '1 second', convert_to(repeat('x', 300), 'UTF8') from named
	)
	update {s}.items i set body = null, body_ref = m.ref from numbered u join named m on m.n = u.n where i.id = u.id and i.queue = $1`,
		int64(q), few, w.clock())
}

func TestP10_SharedPayloadsAreLookedUpByPrimaryKey(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	w.exec(`alter table {s}.items set (autovacuum_enabled = false)`)
	w.exec(`alter table {s}.bodies set (autovacuum_enabled = false)`)
	all := queues(3)
	w.fillShared(all[0], 20_000, 1)
	w.fillShared(all[1], 20_000, 100)
	at, fixed := w.store.clock.params()
	page, err := w.store.ListItems(t.Context(), queue.ListRequest{Queue: all[0], Limit: 50})
	if err != nil {
		t.Fatal(err)
	}
	var ids [][16]byte
	homes, counters := make([]int64, len(page.Items)), make([]int64, len(page.Items))
	turns := make([]int32, len(page.Items))
	for i, it := range page.Items {
		ids, homes[i], turns[i] = append(ids, it.ID), int64(it.Home), 1
	}
	var items []queue.NewItem
	for range 20 {
		items = append(items, toTopic(queue.NewID(), queues(30)...))
	}
	p := newPlan([]queue.ProduceGroup{group(items...)}, nil, nil)
	items[0].Dedupe = &queue.Dedupe{Scope: topic, Key: "key", TTL: time.Hour}
	items[1].OrderingKey = "key"
	byKey := newPlan([]queue.ProduceGroup{group(items...)}, nil, nil)
	_, asked := byKey.ask()
	head := []any{at, fixed, uuid.New()}
	c := &claim{call: call(all[0], taker(50)), turns: turns}
	list := func(q queue.Number) []any {
		return []any{at, fixed, int64(q), 0, stateNumbers(nil), 101, start.at, start.number, nil}
	}
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			w.exec(`analyze {s}.items, {s}.bodies`)
		}
		for _, test := range []struct {
			what, text string
			args       []any
			most       int
		}{
			{"claim", claimSQL, w.claimArgs(all[0], time.Time{}, 100), 100},
			{"claim of what shares few", claimSQL, w.claimArgs(all[1], time.Time{}, 100), 100},
			{"claim in the second step", dealtSQL, c.args(at, fixed, ids, homes, uuid.New()), 50},
			{"read again", againSQL, []any{int64(all[0]), ids, homes, counters}, 50},
			{"list", listSQL[true], list(all[0]), 101},
			{"find", findSQL[true], []any{ids}, 50},
			{"produce", produceTexts[0], slices.Concat(head, p.fresh.args()), 600},
			{"produce by key", produceKeyedTexts[1], slices.Concat(head, byKey.guards.args(), asked, byKey.keys.args(), byKey.fresh.args()), 600},
			{"drop", dropBodiesSQL, []any{at.Add(30 * time.Second), fixed, 100}, 100},
		} {
			for _, generic := range []bool{false, true} {
				how := fmt.Sprintf("%s, analyzed: %v, generic: %v", test.what, analyzed, generic)
				plan := w.plan(generic, test.text, test.args...)
				w.wantPlan(how, plan, test.most)
				if !strings.HasPrefix(test.what, "produce") && !strings.Contains(plan, "bodies_pkey") {
					t.Errorf("%s: payloads are not looked up by primary key:\n%s", how, plan)
				}
			}
		}
	}
	// Where nothing is due, nothing is looked at.
	w.exec(`update {s}.bodies set look_at = look_at + interval '1 day'`)
	w.exec(`vacuum {s}.bodies`)
	w.wantFlat("nothing to drop", 20, dropBodiesSQL, at, fixed, 100)
}
