package postgres

import (
	"encoding/json"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/posthaste-io/posthaste/queue"
)

// manyItems is enough for a wrong plan to show.
func manyItems() int {
	if os.Getenv("CI") != "" {
		return 1_000_000
	}
	return 100_000
}

// claimArgs are the parameters of a claim of limit items.
func (w *world) claimArgs(q queue.Number, from time.Time, limit int, turns ...int32) []any {
	at, fixed := w.store.clock.params()
	c := &claim{call: call(q, taker(limit)), turns: turns}
	return append(c.args(at, fixed, from, limit, uuid.New()), []int64{1 << 30})
}

// blocks is how many pages a statement looks at, as it is run by the store.
func (w *world) blocks(text string, args ...any) int {
	w.Helper()
	ctx := w.Context()
	tx, err := w.pool().Begin(ctx)
	if err != nil {
		w.Fatal(err)
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, probingSQL); err != nil {
		w.Fatal(err)
	}
	var answer []byte
	if err := tx.QueryRow(ctx, "explain (analyze, buffers, format json) "+w.store.text(text), args...).Scan(&answer); err != nil {
		w.Fatal(err)
	}
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal(answer, &plans); err != nil {
		w.Fatal(err)
	}
	return plans[0].Plan.Hit + plans[0].Plan.Read
}

// wantFlat compares what a statement looks at with a bound that knows nothing of
// how much there is.
func (w *world) wantFlat(what string, most int, text string, args ...any) {
	w.Helper()
	w.blocks(text, args...) // which may have to warm up
	if got := w.blocks(text, args...); got > most {
		w.Errorf("%s: looked at %d pages, want at most %d", what, got, most)
	}
}

func TestP10_ALeaseReadsWhatItLeases(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	w.exec(`alter table {s}.items set (autovacuum_enabled = false)`)
	now, many := w.clock(), manyItems()
	full, few, lapsed := queue.NewNumber(1, 1), queue.NewNumber(1, 2), queue.NewNumber(1, 3)
	w.fill(full, many, now.Add(-time.Hour), "", "")
	w.fill(few, 10, now.Add(-time.Hour), "", "")
	w.fill(few, many, now.Add(time.Hour), "", "")
	w.fill(lapsed, many/10, now.Add(-time.Hour), "held, counter, lapse_counts, deliveries", "true, 1, n % 2 = 0, 1")
	w.fill(lapsed, many/10, now.Add(time.Hour), "held, counter, deliveries", "true, 1, 1")
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			w.exec(`analyze {s}.items`)
		}
		for _, generic := range []bool{false, true} {
			how := ", analyzed: " + strconv.FormatBool(analyzed) + ", generic: " + strconv.FormatBool(generic)
			w.wantPlan("100 of many"+how, w.plan(generic, claimSQL, w.claimArgs(full, time.Time{}, 100)...), 100)
			w.wantPlan("10 before many"+how, w.plan(generic, claimSQL, w.claimArgs(few, time.Time{}, 100)...), 10)
			w.wantPlan("lapsed"+how, w.plan(generic, claimSQL, w.claimArgs(lapsed, time.Time{}, 100)...), 100)
			at, fixed := w.store.clock.params()
			w.wantPlan("peek"+how, w.plan(generic, peekSQL, at, fixed, int64(full), 0, time.Time{}, 100), 100)
			w.wantPlan("next due"+how, w.plan(generic, nextDueSQL, at, fixed), 3)
		}
	}
	// One item takes some 10 pages of indexes and tables, several times.
	w.wantFlat("one of many", 100, claimSQL, w.claimArgs(full, time.Time{}, 1)...)
	at, fixed := w.store.clock.params()
	w.wantFlat("next due", 50, nextDueSQL, at, fixed)
}

func TestP10_APlanThatWasMadeForASmallTableIsGoodForALargeOne(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	w.exec(`alter table {s}.items set (autovacuum_enabled = false)`)
	q := queue.NewNumber(1, 1)
	conn, err := w.pool().Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Conn().Prepare(t.Context(), "claim", w.store.text(claimSQL)); err != nil {
		t.Fatal(err)
	}
	// execute runs it under the plan that is kept.
	execute := func(before string) []string {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(t.Context())
		for _, text := range []string{"set local plan_cache_mode = force_generic_plan", before} {
			if _, err := tx.Exec(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
		rows, err := tx.Query(t.Context(), "explain (analyze, costs off, timing off) execute claim ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
			append([]any{pgx.QueryExecModeSimpleProtocol}, w.claimArgs(q, time.Time{}, 10)...)...)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	w.fill(q, 3, w.clock().Add(-time.Hour), "", "")
	w.exec(`analyze {s}.items`)
	execute(probingSQL)
	w.fill(q, 50_000, w.clock().Add(-time.Hour), "", "")
	wrong := regexp.MustCompile(`(Seq Scan|Bitmap Heap Scan) on items|Hash Join|Merge Join|Rows Removed by Filter: \d{3}`)
	plan := execute("select 1")
	for _, line := range plan {
		if wrong.MatchString(line) {
			t.Errorf("got %q", line)
		}
	}
}

func TestP05_ALeasePassesByWhatAnOldSnapshotKeeps(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, false)
	w.exec(`alter table {s}.items set (autovacuum_enabled = false)`)
	q, many := queue.NewNumber(1, 1), manyItems()*3/10
	old, err := w.pool().BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer old.Rollback(t.Context())
	if _, err := old.Exec(t.Context(), w.store.text(`select count(*) from {s}.items`)); err != nil {
		t.Fatal(err)
	}
	w.fill(q, many, time.Now().Add(-time.Hour), "", "")
	w.exec(`delete from {s}.items`)
	w.fill(q, 100, time.Now().Add(-time.Second), "", "")
	if n := len(w.lease(call(q, taker(1)))[0].Takers[0]); n != 1 {
		t.Fatalf("got %d items, want 1", n)
	}
	from := w.store.heads.start(place{queue: q}).from
	if from.IsZero() {
		t.Fatal("the second claim walks")
	}
	w.wantFlat("below the head", 100, claimSQL, w.claimArgs(q, from, 1)...)
	if got := w.blocks(claimSQL, w.claimArgs(q, time.Time{}, 1)...); got < many/100 {
		t.Errorf("a walk looked at %d pages: the snapshot kept nothing", got)
	}
}
