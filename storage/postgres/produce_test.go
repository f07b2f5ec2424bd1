package postgres

import (
	"errors"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
)

// fresh is an item with an idempotency key, or without if that is empty.
func fresh(q queue.Number, key, body string) queue.NewItem {
	it := queue.NewItem{ID: queue.NewID(), Queue: q, Content: queue.Content{Payload: []byte(body)}}
	if key != "" {
		it.Dedupe = &queue.Dedupe{Scope: q, Key: key, TTL: time.Hour}
		copy(it.Dedupe.Hash[:], body)
	}
	return it
}

func group(items ...queue.NewItem) queue.ProduceGroup { return queue.ProduceGroup{Items: items} }

func (w *world) produce(groups ...queue.ProduceGroup) queue.ProduceAnswer {
	w.Helper()
	answer, err := w.store.Produce(w.Context(), groups)
	if err != nil {
		w.Fatal(err)
	}
	return answer
}

// holdKey takes an idempotency key in a transaction that goes on until the returned
// function commits it.
func (w *world) holdKey(it queue.NewItem) (commit func()) {
	w.Helper()
	tx, err := w.pool().Begin(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = tx.Rollback(w.Context()) }) // it was committed, unless the test failed
	_, err = tx.Exec(w.Context(), w.store.text(`insert into {s}.dedupe (scope, call, key, hash, item, until) values ($1, false, $2, $3, $4, $5)`),
		int64(it.Dedupe.Scope), []byte(it.Dedupe.Key), it.Dedupe.Hash[:], [16]byte(it.ID), w.clock().Add(it.Dedupe.TTL))
	if err != nil {
		w.Fatal(err)
	}
	return func() {
		w.Helper()
		if err := tx.Commit(w.Context()); err != nil {
			w.Fatal(err)
		}
	}
}

func TestP01_ProduceIsAnsweredFromItsMarker(t *testing.T) {
	t.Parallel()
	for _, order := range cuts {
		for _, key := range []string{"", "key"} {
			t.Run(order.name+", key "+strconv.Quote(key), func(t *testing.T) {
				t.Parallel()
				proxy := pgtest.NewProxy(t, pgtest.URL(t))
				w := setupWorldAt(t, proxy.URL(), true)
				q := queue.NewNumber(1, 1)
				old := fresh(q, "", "old")
				w.produce(group(old))
				now := w.clock()
				w.advance(time.Second)
				late := fresh(q, key, "late")
				late.Delay = time.Minute
				cut := order.cut(proxy, "insert into "+w.store.schema+".items")
				got := w.produce(group(old, late), group(late))
				<-cut
				now = now.Add(time.Second)
				want := queue.ProduceAnswer{Now: now, Groups: []queue.ProduceResult{
					{Items: []queue.Produced{{ID: old.ID, Duplicate: true}, {ID: late.ID, DueAt: now.Add(time.Minute)}}},
					{Items: []queue.Produced{{ID: late.ID, Duplicate: true}}},
				}}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("got %+v, want %+v", got, want)
				}
				if n := len(w.keys(q)); n != 2 {
					t.Errorf("the queue holds %d items, want 2", n)
				}
				w.wantCounted()
			})
		}
	}
}

func TestP01_ReplayKnowsWhatTheFirstAnswerKnew(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q := queue.NewNumber(1, 1)
	known, lives := fresh(q, "known", "body"), fresh(q, "", "lives")
	w.produce(group(known, lives))
	new1, new2 := fresh(q, "new", "body"), fresh(q, "", "plain")
	unit := w.store.production([]queue.ProduceGroup{
		group(fresh(q, "lost", "body"), fresh(q, "known", "another body")),
		group(fresh(q, "known", "body"), new1, lives),
		group(fresh(q, "new", "body"), new2),
		group(fresh(q, "new", "another body")),
		// Each of the last group's items would fail beside the other.
		group(fresh(q, "known", "another body"), fresh(q, "known", "body")),
	})
	conn, err := w.pool().Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	marker := uuid.New()
	first, err := unit.run(t.Context(), conn, marker)
	if err != nil {
		t.Fatal(err)
	}
	now := w.clock()
	want := queue.ProduceAnswer{Now: now, Groups: []queue.ProduceResult{
		{Err: &queue.MismatchError{Index: 1}},
		{Items: []queue.Produced{{ID: known.ID, Duplicate: true}, {ID: new1.ID, DueAt: now}, {ID: lives.ID, Duplicate: true}}},
		{Items: []queue.Produced{{ID: new1.ID, Duplicate: true}, {ID: new2.ID, DueAt: now}}},
		{Err: &queue.MismatchError{Index: 0}},
		{Err: &queue.MismatchError{Index: 0}},
	}}
	if !reflect.DeepEqual(first, want) {
		t.Errorf("first: got %+v, want %+v", first, want)
	}
	// What comes between must not change what was answered.
	w.advance(2 * time.Hour)
	var stored []byte
	if err := conn.QueryRow(t.Context(), w.store.text(readMarkerSQL), marker).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	replayed, err := unit.replay(t.Context(), conn, stored)
	if err != nil || !reflect.DeepEqual(replayed, want) {
		t.Errorf("replay: got %+v, %v, want %+v", replayed, err, want)
	}
	if n := len(w.keys(q)); n != 4 {
		t.Errorf("the queue holds %d items, want 4", n)
	}
	w.wantCounted()
}

func TestI06_KeyThatIsTakenMeanwhileIsKnown(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q := queue.NewNumber(1, 1)
	quicker := fresh(q, "key", "body")
	commit := w.holdKey(quicker)
	other, plain := fresh(q, "other", "body"), fresh(q, "", "body")
	var answer queue.ProduceAnswer
	var err error
	var produced sync.WaitGroup
	produced.Go(func() {
		answer, err = w.store.Produce(t.Context(), []queue.ProduceGroup{
			group(other, fresh(q, "key", "body")), group(plain, fresh(q, "key", "another body")),
		})
	})
	w.untilOneWaits()
	commit()
	produced.Wait()
	if err != nil {
		t.Fatal(err)
	}
	want := []queue.ProduceResult{
		{Items: []queue.Produced{{ID: other.ID, DueAt: answer.Now}, {ID: quicker.ID, Duplicate: true}}},
		{Err: &queue.MismatchError{Index: 1}},
	}
	if !reflect.DeepEqual(answer.Groups, want) {
		t.Errorf("got %+v, want %+v", answer.Groups, want)
	}
	if keys := w.keys(q); len(keys) != 1 || keys[0].ID != other.ID {
		t.Errorf("the queue holds %v, want the item of the other key alone", keys)
	}
	if n := w.count(`select count(*) from {s}.dedupe`); n != 2 {
		t.Errorf("%d keys are known, want 2", n)
	}
	w.wantCounted()
}

func TestI06_TwoNodesProduceTheSameKeysOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	nodes := []*world{setupWorldAt(t, url, false), setupWorldAt(t, url, false)}
	q := queue.NewNumber(1, 1)
	const many = 40
	// Each goes through the keys in an order of its own.
	strides := []int{1, 3, 7, 9}
	for round := range 10 {
		answers, errs := make([]queue.ProduceAnswer, len(strides)), make([]error, len(strides))
		var produced sync.WaitGroup
		for i, stride := range strides {
			var call []queue.ProduceGroup
			for j := range many {
				call = append(call, group(fresh(q, strconv.Itoa(round*many+j*stride%many), "body")))
			}
			produced.Go(func() { answers[i], errs[i] = nodes[i%len(nodes)].store.Produce(t.Context(), call) })
		}
		produced.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		inserted := 0
		told := map[queue.ID]bool{}
		for _, answer := range answers {
			for _, result := range answer.Groups {
				told[result.Items[0].ID] = true
				if !result.Items[0].Duplicate {
					inserted++
				}
			}
		}
		if inserted != many || len(told) != many {
			t.Errorf("round %d: %d items were inserted, %d ids told, want %d", round, inserted, len(told), many)
		}
	}
	w := nodes[0]
	if items, keys := w.count(`select count(*) from {s}.items`), w.count(`select count(*) from {s}.dedupe`); items != 10*many || keys != items {
		t.Errorf("got %d items and %d keys, want %d", items, keys, 10*many)
	}
	w.wantCounted()
}

func TestProduce_AnswersTheDueTimesOfTheItems(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q := queue.NewNumber(1, 1)
	now := w.clock()
	var call queue.ProduceGroup
	for _, delay := range []time.Duration{
		-time.Hour, 0, 1, queue.Soon - time.Microsecond, queue.Soon - 1, queue.Soon, queue.Soon + 1, time.Minute + 1999, 20 * 365 * 24 * time.Hour,
	} {
		relative, absolute := fresh(q, "", ""), fresh(q, "", "")
		relative.Delay, absolute.DueAt = delay, now.Add(delay).In(time.FixedZone("", 3600))
		call.Items = append(call.Items, relative, absolute)
	}
	for i, p := range w.produce(call).Groups[0].Items {
		var first, due, available time.Time
		err := w.pool().QueryRow(t.Context(), w.store.text(`select first_due_at, due_at, available_at from {s}.items where id = $1`), [16]byte(p.ID)).
			Scan(&first, &due, &available)
		if err != nil {
			t.Fatal(err)
		}
		if !first.Equal(p.DueAt) || !due.Equal(p.DueAt) || !available.Equal(p.DueAt) || p.DueAt.Before(now) {
			t.Errorf("item %d: got %v, the database has %v, %v, %v", i, p.DueAt, first, due, available)
		}
	}
}

func TestP10_ProduceProbesPrimaryKeysAlone(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q := queue.NewNumber(1, 1)
	w.fill(q, 20_000, w.clock(), "", "")
	w.exec(`insert into {s}.dedupe (scope, call, key, hash, item, until)
		select $1, false, int4send(n), '', gen_random_uuid(), $2::timestamptz + interval '1 hour' from generate_series(1, 20000) n`, int64(q), w.clock())
	w.exec(`analyze {s}.items, {s}.dedupe`)
	const many = 500
	var call queue.ProduceGroup
	for i := range many {
		call.Items = append(call.Items, fresh(q, strconv.Itoa(i), "body"))
	}
	w.exec(`insert into {s}.documents (kind, namespace, name, revision, value)
		select 'queue', 1, 'q' || n, n, '' from generate_series(1, 20000) n`)
	w.exec(`analyze {s}.documents`)
	call.Items[0].Guard = &queue.DocumentGuard{Kind: "queue", Namespace: 1, Name: "q7", Revision: 7}
	p := newPlan([]queue.ProduceGroup{call}, nil, nil)
	at, fixed := w.store.clock.params()
	head := []any{at, fixed, uuid.New()}
	_, asked := p.ask()
	plain := slices.Concat(head, p.fresh.args())
	keyed := slices.Concat(head, p.guards.args(), asked, p.keys.args(), p.fresh.args())
	for _, generic := range []bool{false, true} {
		w.wantPlan("produce, generic: "+strconv.FormatBool(generic), w.plan(generic, produceSQL(false), plain...), many)
		w.wantPlan("produce by key, generic: "+strconv.FormatBool(generic), w.plan(generic, produceKeyedSQL(false), keyed...), many)
	}
}
