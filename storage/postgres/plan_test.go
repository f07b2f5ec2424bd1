package postgres

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/posthaste-io/posthaste/queue"
)

// plan runs a statement, under a plan made for its arguments or for any, and returns
// how the database went about it. What it changed is undone.
func (w *world) plan(generic bool, text string, args ...any) string {
	w.Helper()
	ctx := w.Context()
	tx, err := w.pool().Begin(ctx)
	if err != nil {
		w.Fatal(err)
	}
	defer tx.Rollback(ctx)
	const explain = "explain (analyze, costs off, timing off, summary off) "
	text = w.store.text(text)
	if generic {
		name := "plan" + strings.ReplaceAll(uuid.NewString(), "-", "")
		if _, err := tx.Conn().Prepare(ctx, name, text); err != nil {
			w.Fatal(err)
		}
		if _, err := tx.Exec(ctx, "set local plan_cache_mode = force_generic_plan"); err != nil {
			w.Fatal(err)
		}
		places := make([]string, len(args))
		for i := range args {
			places[i] = "$" + strconv.Itoa(i+1)
		}
		// The simple protocol writes the arguments into the text.
		text = "execute " + name + "(" + strings.Join(places, ", ") + ")"
		args = append([]any{pgx.QueryExecModeSimpleProtocol}, args...)
	}
	rows, err := tx.Query(ctx, explain+text, args...)
	if err != nil {
		w.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		w.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

var planned = regexp.MustCompile(`Seq Scan on (items|dedupe|batches|counts|bodies)|actual rows=(\d+)|Rows Removed by (?:Filter|Join Filter|Index Recheck): (\d+)`)

// wantPlan fails on a scan of a whole table, and where a step of the plan met more rows
// than most.
func (w *world) wantPlan(what, plan string, most int) {
	w.Helper()
	for _, match := range planned.FindAllStringSubmatch(plan, -1) {
		rows, _ := strconv.Atoi(match[2] + match[3])
		if match[1] != "" || rows > most {
			w.Errorf("%s: %q, want no scan of a table and no step with more than %d rows:\n%s", what, match[0], most, plan)
			return
		}
	}
}

func TestP10_WhatLooksAtItemsReadsWhatItReturns(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	now := w.clock()
	q, other := queue.NewNumber(1, 1), queue.NewNumber(1, 2)
	const many = 30_000
	w.fill(q, many, now.Add(-time.Hour), "", "")
	w.fill(q, many, now.Add(time.Hour), "deliveries, expires_at", "n % 2, $2::timestamptz")
	w.fill(other, 100, now.Add(-time.Minute), "held, counter, deliveries", "true, 1, 1")
	w.fill(other, many, now.Add(time.Minute), "held, counter, deliveries", "true, 1, 1")
	w.fill(other, 100, now.Add(2*time.Hour), "expires_at", "$2::timestamptz - interval '3 hours'")
	w.behind(other, 100)

	w.exec(`insert into {s}.deltas (queue, partition, total, held, failing, created, leased) select n, 0, 1, 0, 0, 1, 0 from unnest($1::bigint[]) n`, []int64{int64(q), int64(other)})

	at, fixed := w.store.clock.params()
	page, err := w.store.ListItems(t.Context(), queue.ListRequest{Queue: q, Limit: 50})
	if err != nil || len(page.Items) != 50 {
		t.Fatalf("got %d items, %v, want 50", len(page.Items), err)
	}
	var ids [][16]byte
	var queues []int64
	for _, it := range page.Items {
		ids, queues = append(ids, it.ID), append(queues, int64(it.Queue))
	}
	zeros, partitions := make([]int64, len(ids)), make([]int32, len(ids))
	list := func(q queue.Number, states ...queue.State) []any {
		return []any{at, fixed, int64(q), 0, stateNumbers(states), 101, start.at, start.number, nil}
	}
	sweep := []any{at, fixed, start.at, [16]byte{}, int64(0), int64(0), 101}
	for _, test := range []struct {
		what, text string
		args       []any
		most       int
	}{
		{"list", listSQL[true], list(q), 101},
		{"list of what is ready", listSQL[true], list(q, queue.Ready), 101},
		{"list of what is scheduled", listSQL[false], list(q, queue.Scheduled), 202},
		{"list of what is behind", listSQL[false], list(other, queue.Behind), 101},
		{"sweep of what lapsed", sweepSQL[sweepLapsed], sweep, 101},
		{"sweep of what expired", sweepSQL[sweepExpired], sweep, 101},
		{"stats", statsOfSomeSQL, []any{at, fixed, queue.StatsCap, []int64{int64(q)}}, queue.StatsCap},
		{"stats past what is held", statsOfSomeSQL, []any{at, fixed, queue.StatsCap, []int64{int64(other)}}, many},
		{"find all", findSQL[false], []any{ids}, 50},
		{"purge of a queue", purgeQueueSQL, []any{at, fixed, int64(q), 0, stateNumbers(nil), 101, "", uuid.New()}, 101},
		{"purge by state", purgeQueueSQL, []any{at, fixed, int64(q), 0, stateNumbers([]queue.State{queue.Scheduled}), 101, "", uuid.New()}, 202},
		{"purge by key", purgeKeysSQL, []any{at, fixed, ids, queues, queues, 50, "", uuid.New()}, 101},
		{"move", moveTexts[1], []any{at, fixed, uuid.New(), ids, queues, queues, zeros, partitions, zeros, zeros, zeros, make([]string, len(ids))}, 202},
	} {
		for _, generic := range []bool{false, true} {
			w.wantPlan(test.what+", generic: "+strconv.FormatBool(generic), w.plan(generic, test.text, test.args...), test.most)
		}
	}
}

func TestP10_TidyReadsWhatItRemoves(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	const many = 20_000
	w.exec(`insert into {s}.dedupe (scope, call, key, hash, item, until)
		select 1, false, int4send(n), '', gen_random_uuid(), $1::timestamptz + (n - 50) * interval '1 second' from generate_series(1, $2) n`, w.clock(), many)
	w.exec(`insert into {s}.batches (id, at)
		select gen_random_uuid(), clock_timestamp() - interval '1 hour' + (n - 50) * interval '1 minute' from generate_series(1, $1) n`, many)
	w.exec(`insert into {s}.deltas (queue, partition, total, held, failing, created, leased)
		select n, 0, 1, 0, 0, 1, 0 from generate_series(1, $1) n`, many)
	at, fixed := w.store.clock.params()
	for _, generic := range []bool{false, true} {
		w.wantPlan("forget idempotency keys", w.plan(generic, forgetKeysSQL, at, fixed, 100), 50)
		w.wantPlan("drop markers", w.plan(generic, dropMarkersSQL, 100), 50)
		w.wantPlan("fold", w.plan(generic, foldSQL, 100), 100)
	}
}
