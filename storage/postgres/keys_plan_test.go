package postgres

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/posthaste-io/posthaste/queue"
)

// fillKeys inserts n items with ordering keys, an expression of n, standing at a position;
// counted they are not.
func (w *world) fillKeys(q queue.Number, n int, key, at string) {
	w.Helper()
	w.exec(`insert into {s}.items (id, queue, home, partition, created_at, updated_at, first_due_at, due_at, available_at, size, attributes, body, ordering_key)
		select gen_random_uuid(), $1, $1, 0, $2, $2, $2, $2, `+at+`, 0, $3, '', `+key+` from generate_series(1, $4) n`,
		int64(q), w.clock().Add(-time.Hour), emptyAttributes, n)
}

// first is what stands at the head of a queue.
func (w *world) first(q queue.Number) queue.Item {
	w.Helper()
	page, err := w.store.ListItems(w.Context(), queue.ListRequest{Queue: q, Limit: 1})
	if err != nil || len(page.Items) != 1 {
		w.Fatalf("got %d items, %v, want one", len(page.Items), err)
	}
	return page.Items[0]
}

// keyed is an item with an ordering key.
func keyed(q queue.Number, key string) queue.NewItem {
	it := fresh(q, "", "body")
	it.OrderingKey = key
	return it
}

// hotKey fills a queue with many items behind one head, which it returns, many keys with
// one item each, and a few keys with items behind.
func (w *world) hotKey(q queue.Number, many int) queue.Item {
	w.Helper()
	w.fillKeys(q, 1, "'hot'", "$2")
	head := w.first(q)
	w.fillKeys(q, many, "'hot'", foreverSQL)
	w.fillKeys(q, 100_000, "'key ' || n", "$2::timestamptz + interval '1 second'")
	w.fillKeys(q, 200, "'some ' || n", "$2::timestamptz + interval '2 seconds'")
	w.fillKeys(q, 200, "'some ' || n", foreverSQL)
	return head
}

func TestP10_OrderingKeysCostWhatIsTouched(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	w.exec(`alter table {s}.items set (autovacuum_enabled = false)`)
	q, other := queue.NewNumber(1, 1), queue.NewNumber(1, 2)
	many := 3 * manyItems()
	head := w.hotKey(q, many)
	w.fill(q, 50_000, w.clock().Add(-time.Minute), "", "")
	w.exec(`insert into {s}.deltas (queue, partition, total, held, failing, created, leased) select $1, 0, 1, 0, 0, 1, 0`, int64(q))

	at, fixed := w.store.clock.params()
	marker := uuid.New()
	p := newPlan([]queue.ProduceGroup{group(keyed(q, "hot"), keyed(q, "hot"), keyed(q, "new"), keyed(q, "new"), fresh(q, "", ""))}, nil, nil)
	names := []any{p.fresh.queues, p.fresh.orderings}
	produce := slices.Concat([]any{at, fixed, marker}, p.fresh.args())
	p = newPlan([]queue.ProduceGroup{group(fresh(q, "key", ""), keyed(q, "hot"))}, nil, nil)
	_, asked := p.ask()
	produceKeyed := slices.Concat([]any{at, fixed, marker}, p.guards.args(), asked, p.keys.args(), p.fresh.args())

	w.exec(`update {s}.items set held = true, counter = 1 where id = $1`, [16]byte(head.ID))
	head = w.first(q)
	var all settlements
	all.add(new(settlementOf(head, queue.Complete, 0)), 0, 0, false, map[queue.Key]bool{})
	settle := slices.Concat([]any{at, fixed, marker}, all.args())
	var telling settlements
	tells, told := settlementOf(head, queue.Complete, 0), keyed(0, "hot")
	told.Topic, told.Copies = other, []queue.Copy{{Queue: q}, {Queue: other}}
	told.Payload = payloadOf(told.ID) // which they share
	told.Guard = &queue.DocumentGuard{Kind: "queue", Namespace: 1, Name: "topic", Revision: 1}
	tells.Produce = []queue.NewItem{told}
	telling.add(&tells, 0, 0, false, map[queue.Key]bool{})
	settleAndProduce := slices.Concat([]any{at, fixed, marker}, telling.args(), telling.itemArgs())
	var named found
	named.add(head.Key)
	one, zero := []int64{int64(other)}, []int64{0}
	// A walk goes on after the head, which is due.
	list := []any{at, fixed, int64(q), 0, stateNumbers([]queue.State{queue.Behind}), 101, start.at, start.number, nil}
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			w.exec(`analyze {s}.items`)
		}
		for _, test := range []struct {
			what, text string
			args       []any
			most       int
		}{
			{"locks of what is named", lockKeysSQL, names, 5},
			{"locks of what is found", lockFoundSQL, append(named.args(), []int64{}, []string{}), 2},
			{"produce", produceTexts[1], produce, 5},
			{"produce by key", produceKeyedTexts[1], produceKeyed, 5},
			{"settle", settleTexts[1][0][1], settle, 6},
			{"settle and produce", settleTexts[1][1][1], settleAndProduce, 8},
			{"purge", purgeBoundSQL, []any{at, fixed, named.ids, named.queues, named.homes, 10, "", marker, nil, []int32{}, false, []string{"hot"}}, 2},
			{"names for a move", nameMovesSQL, named.args(), 1},
			{"names for a purge", nameKeysSQL, []any{named.ids, named.queues, named.homes}, 1},
			{"names for a purge of a queue", nameQueueSQL, []any{at, fixed, int64(q), 0, []int32{}, 101}, 101},
			{"move", moveTexts[1], []any{at, fixed, marker, named.ids, named.queues, named.homes, one, []int32{0}, zero, zero, zero, []string{"hot"}}, 3},
			{"list of keys", listKeysSQL, []any{at, fixed, int64(q), "", 100, 50}, 5000},
			{"list of what is behind", listSQL[false], list, 101},
			{"stats", statsOfSomeSQL, []any{at, fixed, 100, []int64{int64(q)}}, 100},
			{"claim", claimSQL, w.claimArgs(q, time.Time{}, 100), 100},
			{"next due", nextDueSQL, []any{at, fixed}, 3},
		} {
			for _, generic := range []bool{false, true} {
				how := ", analyzed: " + strconv.FormatBool(analyzed) + ", generic: " + strconv.FormatBool(generic)
				w.wantPlan(test.what+how, w.plan(generic, test.text, test.args...), test.most)
			}
		}
	}
	w.wantFlat("claim of one", 100, claimSQL, w.claimArgs(q, time.Time{}, 1)...)
	w.wantFlat("produce behind many", 150, produceTexts[1], produce...)
	w.wantFlat("settle of the head of many", 150, settleTexts[1][0][1], settle...)
	w.wantFlat("list of three keys", 150, listKeysSQL, at, fixed, int64(q), "key 5", 3, 10)
}

// The next of a key is looked for after the one that leaves, and whether it lives from its
// end: not among all that have left, which an old snapshot keeps.
func TestP05_AKeyPassesByWhatAnOldSnapshotKeeps(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	w.exec(`alter table {s}.items set (autovacuum_enabled = false)`)
	q, many := queue.NewNumber(1, 1), manyItems()
	old, err := w.pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer old.Rollback(t.Context())
	if _, err := old.Exec(t.Context(), `set transaction isolation level repeatable read; select 1`); err != nil {
		t.Fatal(err)
	}
	w.fillKeys(q, many, "'hot'", "$2")
	w.exec(`delete from {s}.items`)
	w.produce(group(keyed(q, "hot"), keyed(q, "hot"), keyed(q, "hot")))
	head := w.lease(call(q, taker(1)))[0].Takers[0][0]

	at, fixed := w.store.clock.params()
	p := newPlan([]queue.ProduceGroup{group(keyed(q, "hot"))}, nil, nil)
	w.wantFlat("produce", 100, produceTexts[1], slices.Concat([]any{at, fixed, uuid.New()}, p.fresh.args())...)
	var all settlements
	all.add(new(settlementOf(head, queue.Complete, 0)), 0, 0, false, map[queue.Key]bool{})
	w.wantFlat("settle", 150, settleTexts[1][0][1], slices.Concat([]any{at, fixed, uuid.New()}, all.args())...)
}
