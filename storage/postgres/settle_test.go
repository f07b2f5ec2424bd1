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
)

// leased inserts n items under leases that end in a minute, and counts them.
func (w *world) leased(q queue.Number, n int) []queue.Item {
	w.Helper()
	now := w.clock()
	w.exec(`insert into {s}.items (id, queue, home, partition, created_at, updated_at, first_due_at, due_at, available_at, size, attributes, body,
			held, owner, counter, random, deliveries)
		select gen_random_uuid(), $1, $1, 0, $2, $2, $2, $2, $3, 0, $4, '', true, 'consumer', 1, n, 1 from generate_series(1, $5) n`,
		int64(q), now, now.Add(time.Minute), emptyAttributes, n)
	w.exec(`insert into {s}.deltas (queue, partition, total, held, failing, created, leased)
		select $1, 0, n, n, 0, n * at, n * at from (select $3::bigint as n, `+sinceEpoch("$2::timestamptz")+` as at) made`,
		int64(q), now, n)
	items := w.list(queue.ListRequest{Queue: q, Limit: 10_000})
	if len(items) < n {
		w.Fatalf("list: got %d items, want at least %d", len(items), n)
	}
	return items[len(items)-n:]
}

func settlementOf(it queue.Item, outcome queue.Outcome, dead queue.Number) queue.Settlement {
	return queue.Settlement{Key: it.Key, Token: it.Token, Outcome: outcome, DeadQueue: dead, Reason: "reason"}
}

func (w *world) settle(groups ...queue.SettleGroup) queue.SettleAnswer {
	w.Helper()
	answer, err := w.store.Settle(w.Context(), groups)
	if err != nil {
		w.Fatal(err)
	}
	return answer
}

// wantCounted compares the counts with the items.
func (w *world) wantCounted() {
	w.Helper()
	var wrong []string
	err := w.pool().QueryRow(w.Context(), w.store.text(`with counted as (
		select queue, partition, sum(total) as total, sum(held) as held, sum(failing) as failing, sum(created) as created, sum(leased) as leased
		from (
			select queue, partition, total, held, failing, created, leased from {s}.deltas
			union all
			select * from {s}.counts
		) all_counts
		group by queue, partition
	), there as (
		select queue, partition, count(*) as total, count(*) filter (where held) as held, count(*) filter (where attempts > 0) as failing,
			sum(`+sinceEpoch("created_at")+`) as created, coalesce(sum(`+sinceEpoch("updated_at")+`) filter (where held), 0) as leased
		from {s}.items group by queue, partition
	)
	select array_agg(format('counted %s, there %s', c, t)) from counted c full join there t using (queue, partition)
	where (coalesce(c.total, 0), coalesce(c.held, 0), coalesce(c.failing, 0), coalesce(c.created, 0), coalesce(c.leased, 0))
		<> (coalesce(t.total, 0), coalesce(t.held, 0), coalesce(t.failing, 0), coalesce(t.created, 0), coalesce(t.leased, 0))`)).Scan(&wrong)
	if err != nil || len(wrong) > 0 {
		w.Errorf("got %v, want none: %q", err, wrong)
	}
}

// mixed makes groups of ten settlements of all outcomes.
func mixed(items []queue.Item, dead queue.Number) []queue.SettleGroup {
	var groups []queue.SettleGroup
	for chunk := range slices.Chunk(items, 10) {
		var group queue.SettleGroup
		for i, it := range chunk {
			s := settlementOf(it, queue.Outcome(1+i%4), dead)
			if i%3 == 0 {
				s.Record = &queue.Record{Type: queue.AttemptRecord, Verdict: "verdict", StartedAt: time.Unix(1, 0), Response: []byte("\x00")}
			}
			if s.Outcome == queue.Retry {
				s.Delay = time.Duration(i) * time.Second
				s.MaxAttempts = int32(i % 2)
			}
			group.Entries = append(group.Entries, s)
		}
		groups = append(groups, group)
	}
	return groups
}

func TestD17_MixedBatchUndoesTheGroupsOfItsStaleEntriesOnly(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q, dead := queue.NewNumber(1, 1), queue.NewNumber(1, 2)
	groups := mixed(w.leased(q, 1000), dead)
	groups[3].Entries[5].Token.Counter++
	groups[70].Entries[0].Token.Random++
	w.advance(time.Second)
	answer := w.settle(groups...)

	var statuses [6]int
	buried := 0
	for i, group := range answer.Groups {
		for j, settled := range group {
			statuses[settled.Status]++
			s := groups[i].Entries[j]
			if settled.Status == queue.Applied && (s.Outcome == queue.Bury || settled.Buried) {
				buried++
			}
			if undone := i == 3 || i == 70; undone == (settled.Status == queue.Applied) {
				t.Errorf("group %d, entry %d: got %+v", i, j, settled)
			}
		}
	}
	if want := [6]int{queue.Applied: 980, queue.Stale: 2, queue.Undone: 18}; statuses != want {
		t.Errorf("statuses: got %v, want %v", statuses, want)
	}
	if got := w.count(`select count(*) from {s}.items where queue = $1`, int64(dead)); got != buried || buried == 0 {
		t.Errorf("the dead-letter queue holds %d items, want the %d that were buried", got, buried)
	}
	if got := w.count(`select count(*) from {s}.items where held`); got != 20 {
		t.Errorf("%d items are held, want the 20 of two groups", got)
	}
	if got := w.count(`select count(*) from {s}.attempts`); got != 98*4 {
		t.Errorf("got %d records, want %d", got, 98*4)
	}
	w.wantCounted()
}

func TestSettle_MarkerAnswersAsTheFirstTime(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q, dead := queue.NewNumber(1, 1), queue.NewNumber(1, 2)
	items := w.leased(q, 40)
	groups := mixed(items, dead)
	groups[1].Entries[2].Key.ID[0]++
	// These need statements of their own.
	groups = append(groups, queue.SettleGroup{Entries: []queue.Settlement{settlementOf(items[2], queue.Complete, 0)}}, groups[2])
	first := w.settle(groups...)
	var stored []byte
	if err := w.pool().QueryRow(t.Context(), w.store.text(`select answer from {s}.batches`)).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	w.advance(time.Hour)
	again, err := w.store.settled(groups, stored)
	if err != nil || !reflect.DeepEqual(again, first) {
		t.Errorf("got  %+v, %v\nwant %+v", again, err, first)
	}
	if _, err := w.store.settled(groups[:2], stored); err == nil {
		t.Error("a marker of a longer batch was taken")
	}
	if _, err := w.store.settled(groups, []byte(`[{"now": 1, "entries": [["x"]]}]`)); err == nil {
		t.Error("a damaged marker was taken")
	}
}

func TestSettle_GroupsAboutOnePlaceSeeEachOther(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q, dead := queue.NewNumber(1, 1), queue.NewNumber(1, 2)
	items := w.leased(q, 2)
	there := settlementOf(items[0], queue.Complete, 0)
	there.Key.Queue = dead
	answer := w.settle(
		queue.SettleGroup{Entries: []queue.Settlement{settlementOf(items[0], queue.Bury, dead)}},
		queue.SettleGroup{Entries: []queue.Settlement{there}},
		queue.SettleGroup{Entries: []queue.Settlement{settlementOf(items[0], queue.Complete, 0)}},
		queue.SettleGroup{Entries: []queue.Settlement{settlementOf(items[1], queue.Complete, 0)}},
		queue.SettleGroup{Entries: []queue.Settlement{settlementOf(items[1], queue.Complete, 0)}},
	)
	for i, want := range []queue.SettleStatus{queue.Applied, queue.Stale, queue.Gone, queue.Applied, queue.Gone} {
		if got := answer.Groups[i][0].Status; got != want {
			t.Errorf("group %d: got status %d, want %d", i, got, want)
		}
	}
	if got := w.count(`select count(*) from {s}.batches`); got != 1 {
		t.Errorf("got %d markers, want one", got)
	}
	w.wantCounted()
}

// copySQL makes a copy of an item in the next queue.
const copySQL = `insert into {s}.items (id, queue, home, partition, created_at, updated_at, first_due_at, due_at, available_at, size, attributes)
	select id, queue + 1, home, partition, created_at, updated_at, first_due_at, due_at, available_at, size, attributes from {s}.items where id = $1`

func TestSettle_EarlierCopyGivesWayInTheSameStatement(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q, dead := queue.NewNumber(1, 1), queue.NewNumber(1, 2)
	it := w.leased(q, 1)[0]
	w.exec(copySQL, [16]byte(it.ID))
	w.exec(`insert into {s}.deltas (queue, partition, total, held, failing, created, leased)
		select queue, partition, 1, 0, 0, `+sinceEpoch("created_at")+`, 0 from {s}.items where queue = $1`, int64(dead))
	answer := w.settle(queue.SettleGroup{Entries: []queue.Settlement{settlementOf(it, queue.Bury, dead)}})
	if got := answer.Groups[0][0].Status; got != queue.Applied {
		t.Errorf("got status %d, want applied", got)
	}
	if got := w.count(`select count(*) from {s}.items where dead_at is not null`); got != 1 {
		t.Errorf("%d items are buried, want 1", got)
	}
	w.wantCounted()
}

func TestSettle_TwoStoresNeverWaitForEachOther(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q := queue.NewNumber(1, 1)
	other, err := Open(t.Context(), Options{URL: w.pool().Config().ConnString(), Now: w.clock})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for range 5 {
		items := w.leased(q, 400)
		backwards := slices.Clone(items)
		slices.Reverse(backwards)
		var tasks sync.WaitGroup
		var answers [2]queue.SettleAnswer
		var errs [2]error
		for i, store := range []*Store{w.store, other} {
			var groups []queue.SettleGroup
			for _, it := range [][]queue.Item{items, backwards}[i] {
				groups = append(groups, queue.SettleGroup{Entries: []queue.Settlement{settlementOf(it, queue.Outcome(1+i), 0)}})
			}
			tasks.Go(func() { answers[i], errs[i] = store.Settle(t.Context(), groups) })
		}
		tasks.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
		applied := 0
		for _, answer := range answers {
			for _, group := range answer.Groups {
				if group[0].Status == queue.Applied {
					applied++
				}
			}
		}
		if applied != 400 {
			t.Errorf("%d settlements were applied, want each item's first one, 400", applied)
		}
	}
	if got := w.count(`select deadlocks from pg_stat_database where datname = current_database()`); got != 0 {
		t.Errorf("got %d deadlocks, want none", got)
	}
	w.wantCounted()
}

func TestSettle_SeesWhatHappenedWhileItWaited(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q, dead := queue.NewNumber(1, 1), queue.NewNumber(1, 2)
	const whole = ` where id = $1`
	for _, test := range []struct {
		what, text string
		outcome    queue.Outcome
		want       queue.SettleStatus
	}{
		{"extended", `update {s}.items set available_at = available_at + interval '1 hour'`, queue.Complete, queue.Applied},
		{"extended, then retried", `update {s}.items set available_at = available_at + interval '1 hour'`, queue.Retry, queue.Applied},
		{"leased again", `update {s}.items set counter = counter + 1, random = random + 1`, queue.Complete, queue.Stale},
		{"released", `update {s}.items set counter = counter + 1, held = false`, queue.Retry, queue.Stale},
		{"completed", `delete from {s}.items`, queue.Complete, queue.Gone},
		{"buried", `update {s}.items set queue = queue + 1`, queue.Bury, queue.Gone},
	} {
		it := w.leased(q, 1)[0]
		answer := w.settleDuring(test.text+whole, it, settlementOf(it, test.outcome, dead))
		if got := answer.Groups[0][0].Status; got != test.want {
			t.Errorf("%s: got status %d, want %d", test.what, got, test.want)
		}
		left := w.count(`select count(*) from {s}.items where id = $1 and queue = $2`, [16]byte(it.ID), int64(q))
		if want := test.want != queue.Gone && test.outcome != queue.Complete || test.want == queue.Stale; (left == 1) != want {
			t.Errorf("%s: %d items are left in the queue", test.what, left)
		}
	}
}

// settleDuring settles while another transaction changes the item, which is committed
// when the settlement waits for it.
func (w *world) settleDuring(text string, it queue.Item, s queue.Settlement) (answer queue.SettleAnswer) {
	w.Helper()
	tx, err := w.pool().Begin(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	defer tx.Rollback(w.Context())
	if _, err := tx.Exec(w.Context(), w.store.text(text), [16]byte(it.ID)); err != nil {
		w.Fatal(err)
	}
	var settled sync.WaitGroup
	settled.Go(func() {
		answer, err = w.store.Settle(w.Context(), []queue.SettleGroup{{Entries: []queue.Settlement{s}}})
	})
	w.untilOneWaits()
	if err := tx.Commit(w.Context()); err != nil {
		w.Fatal(err)
	}
	settled.Wait()
	if err != nil {
		w.Fatal(err)
	}
	return answer
}

// untilOneWaits returns when a statement waits for a lock.
func (w *world) untilOneWaits() {
	w.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if w.count(`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) > 0 {
			return
		}
	}
	w.Fatal("no statement waits for a lock")
}

func TestSettle_CopyThatComesMeanwhileGivesWay(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q, dead := queue.NewNumber(1, 1), queue.NewNumber(1, 2)
	it := w.leased(q, 1)[0]
	answer := w.settleDuring(copySQL, it, settlementOf(it, queue.Bury, dead))
	if got := answer.Groups[0][0].Status; got != queue.Applied {
		t.Errorf("got status %d, want applied", got)
	}
	if got := w.count(`select count(*) from {s}.items`); got != 1 {
		t.Errorf("%d copies live, want the one that was buried last", got)
	}
}

func TestSettle_ProducesOnceByKey(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q, done := queue.NewNumber(1, 1), queue.NewNumber(1, 3)
	items := w.leased(q, 4)
	made := func(key string) queue.NewItem {
		it := queue.NewItem{ID: queue.NewID(), Queue: done}
		if key != "" {
			it.Dedupe = &queue.Dedupe{Scope: done, Key: key, TTL: time.Hour}
		}
		return it
	}
	var groups []queue.SettleGroup
	for i, it := range items[:3] {
		s := settlementOf(it, queue.Complete, 0)
		s.Produce = []queue.NewItem{made("a"), made("a"), made(strconv.Itoa(i)), made("")}
		groups = append(groups, queue.SettleGroup{Entries: []queue.Settlement{s}})
	}
	groups[1].Entries[0].Token.Random--
	w.settle(groups...)
	if got := w.count(`select count(*) from {s}.items where queue = $1`, int64(done)); got != 5 {
		t.Errorf("got %d items, want those of two keys of their own, two without, and one of the common key", got)
	}
	w.advance(time.Hour)
	s := settlementOf(items[3], queue.Complete, 0)
	s.Produce = []queue.NewItem{made("a"), groups[0].Entries[0].Produce[3]}
	w.settle(queue.SettleGroup{Entries: []queue.Settlement{s}})
	if got := w.count(`select count(*) from {s}.items where queue = $1`, int64(done)); got != 6 {
		t.Errorf("got %d items, want one more when the key's time is over", got)
	}
	w.wantCounted()
}

func TestP10_SettleProbesThePrimaryKeyAlone(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q, other, dead := queue.NewNumber(1, 1), queue.NewNumber(1, 2), queue.NewNumber(1, 3)
	w.fill(other, 30_000, w.clock().Add(-time.Hour), "", "")
	const many = 500
	items := w.leased(q, many)
	var all settlements
	var leases leases
	var none records
	zeros, texts, bools := make([]int64, many), make([]*string, many), make([]bool, many)
	for i, group := range mixed(items, dead) {
		for j := range group.Entries {
			s := &group.Entries[j]
			s.Produce = []queue.NewItem{{ID: queue.NewID(), Queue: other, Dedupe: &queue.Dedupe{Scope: other, Key: strconv.Itoa(len(all.places))}}}
			leases.add(len(all.places), s.Key, s.Token)
			all.add(s, len(all.places), i, false, map[queue.Key]bool{})
		}
	}
	at, fixed := w.store.clock.params()
	head := []any{at, fixed, uuid.New()}
	settle := slices.Concat(head, all.args())
	produce := slices.Concat(settle, all.itemArgs())
	extend := slices.Concat(head, leases.args(), []any{zeros, texts, bools}, none.args())
	for _, generic := range []bool{false, true} {
		w.wantPlan("settle, generic: "+strconv.FormatBool(generic), w.plan(generic, settleTexts[1][0][0], settle...), 2*many)
		w.wantPlan("settle and produce, generic: "+strconv.FormatBool(generic), w.plan(generic, settleTexts[1][1][0], produce...), 2*many)
		w.wantPlan("extend, generic: "+strconv.FormatBool(generic), w.plan(generic, extendFirstSQL, extend...), 2*many)
	}
}
