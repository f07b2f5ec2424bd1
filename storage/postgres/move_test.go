package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
)

// keys returns the keys of a queue's items, in order.
func (w *world) keys(q queue.Number) (keys []queue.Key) {
	w.Helper()
	for _, it := range w.list(queue.ListRequest{Queue: q, Limit: 100}) {
		keys = append(keys, it.Key)
	}
	return keys
}

// counted is the sum of a count, of all queues or of one. Deltas may be folded into the
// counts at any time.
func (w *world) counted(what string, queues ...queue.Number) int {
	w.Helper()
	numbers := make([]int64, len(queues))
	for i, q := range queues {
		numbers[i] = int64(q)
	}
	return w.count(`select coalesce(sum(`+what+`), 0)::bigint from (
		select queue, `+what+` from {s}.deltas union all select queue, `+what+` from {s}.counts
	) c where cardinality($1::bigint[]) = 0 or queue = any($1)`, numbers)
}

// wantTotals compares what was counted for queues.
func (w *world) wantTotals(want map[queue.Number]int) {
	w.Helper()
	for q, total := range want {
		if got := w.counted("total", q); got != total {
			w.Errorf("total of queue %d: got %d, want %d", q.Own(), got, total)
		}
	}
}

func TestStore_MoveSeesWhatItsEarlierEntriesDid(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	dead, a, b := queue.NewNumber(1, 1), queue.NewNumber(1, 2), queue.NewNumber(1, 3)
	w.fill(dead, 3, w.clock().Add(-time.Hour), "attempts", "1")
	keys := w.keys(dead)
	inA := keys[0]
	inA.Queue = a
	got, err := w.store.Move(t.Context(), []queue.Move{
		{Key: keys[1], Target: a},
		{Key: keys[0], Target: a},
		{Key: keys[0], Target: b},
		{Key: inA, Target: b},
		{Key: keys[2], Target: dead},
		{Key: keys[2], Target: b},
	})
	want := []queue.MoveStatus{queue.Moved, queue.Moved, queue.MoveGone, queue.Moved, queue.MoveTaken, queue.Moved}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for q, want := range map[queue.Number]int{dead: 0, a: 1, b: 2} {
		if got := len(w.keys(q)); got != want {
			t.Errorf("queue %d holds %d items, want %d", q.Own(), got, want)
		}
	}
	w.wantTotals(map[queue.Number]int{dead: -3, a: 1, b: 2})
	// Attempts were forgotten with the first move of each.
	if n := w.counted("failing"); n != -3 {
		t.Errorf("failing: got %d, want -3", n)
	}
}

func TestP01_WhatWasCommittedUnseenIsAnsweredFromItsMarker(t *testing.T) {
	t.Parallel()
	for _, order := range cuts {
		t.Run(order.name, func(t *testing.T) {
			t.Parallel()
			proxy := pgtest.NewProxy(t, pgtest.URL(t))
			w := setupWorldAt(t, proxy.URL(), true)
			dead, target := queue.NewNumber(1, 1), queue.NewNumber(1, 2)
			w.fill(dead, 4, w.clock().Add(-time.Hour), "", "")
			keys := w.keys(dead)

			cut := order.cut(proxy, "nextval")
			statuses, err := w.store.Move(t.Context(), []queue.Move{
				{Key: keys[0], Target: target}, {Key: keys[0], Target: dead}, {Key: keys[1], Target: target},
			})
			<-cut
			want := []queue.MoveStatus{queue.Moved, queue.MoveGone, queue.Moved}
			if err != nil || !slices.Equal(statuses, want) {
				t.Errorf("move: got %v, %v, want %v", statuses, err, want)
			}

			cut = order.cut(proxy, "delete from "+w.store.schema+".items")
			answer, err := w.store.Purge(t.Context(), queue.PurgeRequest{Queue: dead, Limit: 1, Reason: "cancelled"})
			<-cut
			if want := (queue.PurgeAnswer{Purged: 1, More: true}); err != nil || answer != want {
				t.Errorf("purge: got %+v, %v, want %+v", answer, err, want)
			}
			cut = order.cut(proxy, "delete from "+w.store.schema+".items")
			answer, err = w.store.Purge(t.Context(), queue.PurgeRequest{Keys: keys, Limit: 10, Reason: "cancelled"})
			<-cut
			if want := (queue.PurgeAnswer{Purged: 1}); err != nil || answer != want {
				t.Errorf("purge by key: got %+v, %v, want %+v", answer, err, want)
			}

			page, err := w.store.Records(t.Context(), storage.RecordQuery{Namespace: 1, Limit: 10})
			if err != nil || len(page.Records) != 2 {
				t.Errorf("got %d records, %v, want one for each purged item", len(page.Records), err)
			}
			w.wantTotals(map[queue.Number]int{dead: -4, target: 2})
			if got := w.keys(target); len(got) != 2 {
				t.Errorf("the target holds %d items, want 2", len(got))
			}
		})
	}
}

func TestP09_NothingNeedsPreparedStatements(t *testing.T) {
	t.Parallel()
	w := setupWorldAt(t, pgtest.URL(t)+"&default_query_exec_mode=exec", true)
	dead, target := queue.NewNumber(1, 1), queue.NewNumber(1, 2)
	w.fill(dead, 3, w.clock().Add(-time.Hour), "held, counter", "true, 1")
	w.fill(dead, 2, w.clock().Add(-time.Hour), "expires_at", "$2::timestamptz")
	swept, err := w.store.Sweep(t.Context(), queue.SweepRequest{Limit: 4})
	if err != nil || len(swept.Items) != 4 {
		t.Fatalf("sweep: got %d items, %v, want 4", len(swept.Items), err)
	}
	swept, err = w.store.Sweep(t.Context(), queue.SweepRequest{Limit: 4, Cursor: swept.Next})
	if err != nil || len(swept.Items) != 1 || swept.Next != "" {
		t.Errorf("sweep: got %d items, %v, want the last", len(swept.Items), err)
	}
	moved := swept.Items[0].Key
	statuses, err := w.store.Move(t.Context(), []queue.Move{{Key: moved, Target: target}})
	if err != nil || statuses[0] != queue.Moved {
		t.Errorf("move: got %v, %v", statuses, err)
	}
	if found, err := w.store.Find(t.Context(), []queue.ID{moved.ID}, true); err != nil || len(found) != 1 || found[0].Queue != target {
		t.Errorf("find: got %+v, %v, want it in the target", found, err)
	}
	if stats, err := w.store.Stats(t.Context(), []queue.Number{target}); err != nil || len(stats) != 1 {
		t.Errorf("stats: got %+v, %v, want one", stats, err)
	}
	if from := w.list(queue.ListRequest{Queue: dead, Limit: 3, From: w.keys(dead)[1].ID}); len(from) != 3 {
		t.Errorf("list: got %d items, want 3", len(from))
	}
	if answer, err := w.store.Purge(t.Context(), queue.PurgeRequest{Keys: w.keys(dead), Limit: 10}); err != nil || answer.Purged != 4 {
		t.Errorf("purge by key: got %+v, %v, want 4", answer, err)
	}
	if answer, err := w.store.Purge(t.Context(), queue.PurgeRequest{Queue: target, States: []queue.State{queue.Ready}, Limit: 10}); err != nil || answer.Purged != 1 {
		t.Errorf("purge: got %+v, %v, want 1", answer, err)
	}
	page, err := w.store.Records(t.Context(), storage.RecordQuery{Namespace: 1, Item: moved.ID, Limit: 10})
	if err != nil || len(page.Records) != 1 {
		t.Errorf("records: got %d, %v, want 1", len(page.Records), err)
	}
	topical := toTopic(queue.NewID(), dead, target)
	topical.OrderingKey = "key"
	w.produce(group(topical, toTopic(queue.NewID(), dead)))
	wantPayload(t, "lease", w.lease(call(target, taker(5)))[0].Takers[0], 1)
	w.advance(time.Hour)
	w.tidy(time.Hour)
	w.wantBodies("two copies share one", 1, 2)
}
