package postgres

import (
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
)

func document(name string, revision uint64) storage.Document {
	return storage.Document{DocumentKey: storage.DocumentKey{Kind: "kind", Namespace: 1, Name: name}, Revision: revision, Value: []byte("value")}
}

func TestP01_DocumentsAreAnsweredFromTheirMarkers(t *testing.T) {
	t.Parallel()
	for _, order := range cuts {
		t.Run(order.name, func(t *testing.T) {
			t.Parallel()
			proxy := pgtest.NewProxy(t, pgtest.URL(t))
			w := setupWorldAt(t, proxy.URL(), true)
			q := queue.NewNumber(1, 1)
			var revision uint64
			for i := range 2 {
				cut := order.cut(proxy, "insert into "+w.store.schema+".documents")
				got, err := w.store.Put(t.Context(), document("a", revision), fresh(q, "", "body"), fresh(q, strconv.Itoa(i), "body"))
				<-cut
				if err != nil || got <= revision {
					t.Fatalf("put at %d: got %d, %v, want a higher revision", revision, got, err)
				}
				revision = got
			}
			doc, err := w.store.Get(t.Context(), document("a", 0).DocumentKey)
			if err != nil || doc.Revision != revision {
				t.Errorf("got revision %d, %v, want %d", doc.Revision, err, revision)
			}
			if n := len(w.keys(q)); n != 4 {
				t.Errorf("the queue holds %d items, want those of each put once", n)
			}
			cut := order.cut(proxy, "delete from "+w.store.schema+".documents")
			err = w.store.Delete(t.Context(), doc.DocumentKey, revision)
			<-cut
			if err != nil {
				t.Errorf("delete: got %v, want that it was done", err)
			}
			if _, err := w.store.Get(t.Context(), doc.DocumentKey); !errors.Is(err, queue.ErrNotFound) {
				t.Errorf("got %v, want none", err)
			}
			w.wantCounted()
		})
	}
}

func TestC08_OfTwoNodesOneMakesTheDocument(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	nodes := []*world{setupWorldAt(t, url, false), setupWorldAt(t, url, false)}
	q := queue.NewNumber(1, 1)
	var revision uint64
	const rounds = 20
	for round := range rounds {
		refusal := queue.ErrRevision
		if round == 0 {
			refusal = queue.ErrExists
		}
		revisions, errs := make([]uint64, 2*len(nodes)), make([]error, 2*len(nodes))
		var put sync.WaitGroup
		for i := range errs {
			put.Go(func() {
				revisions[i], errs[i] = nodes[i%len(nodes)].store.Put(t.Context(), document("a", revision), fresh(q, "", "body"), fresh(q, strconv.Itoa(round), "body"))
			})
		}
		put.Wait()
		won := 0
		for i, err := range errs {
			switch {
			case err == nil && revisions[i] > revision:
				won++
			case !errors.Is(err, refusal):
				t.Fatalf("round %d: got %d, %v, want a higher revision, or %v", round, revisions[i], err, refusal)
			}
		}
		if won != 1 {
			t.Fatalf("round %d: %d puts won, want 1", round, won)
		}
		for _, got := range revisions {
			revision = max(revision, got)
		}
	}
	if n := nodes[0].count(`select count(*) from {s}.items`); n != 2*rounds {
		t.Errorf("the queue holds %d items, want those of the winners, %d", n, 2*rounds)
	}
	nodes[0].wantCounted()
}

func TestDocuments_PutLeavesOutAKeyThatIsTakenMeanwhile(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	q := queue.NewNumber(1, 1)
	commit := w.holdKey(fresh(q, "key", "body"))
	other := fresh(q, "other", "body")
	var err error
	var put sync.WaitGroup
	put.Go(func() {
		_, err = w.store.Put(t.Context(), document("a", 0), fresh(q, "key", "another body"), other)
	})
	w.untilOneWaits()
	commit()
	put.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if keys := w.keys(q); len(keys) != 1 || keys[0].ID != other.ID {
		t.Errorf("the queue holds %v, want the item of the other key alone", keys)
	}
	w.wantCounted()
}

func TestP10_DocumentsAreReadInPages(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	w.exec(`insert into {s}.documents (kind, namespace, name, revision, wake_at, value)
		select 'kind', 1, 'name ' || n, n, $1::timestamptz + (n - 1000) * interval '1 second', '' from generate_series(1, 20000) n`, w.clock())
	w.exec(`analyze {s}.documents`)
	at, fixed := w.store.clock.params()
	for _, generic := range []bool{false, true} {
		w.wantPlan("list", w.plan(generic, listDocumentsSQL, "kind", 1, "name 5", 10), 10)
		// One more than the page, to know the order among equals.
		w.wantPlan("due", w.plan(generic, dueDocumentsSQL, at, fixed, "kind", 10), 11)
	}
	due, err := w.store.Due(t.Context(), "kind", 10)
	if err != nil || len(due.Documents) != 10 || !due.Next.Equal(w.clock().Add(time.Second)) {
		t.Errorf("got %d documents, next at %v, %v, want 10 and the one in a second", len(due.Documents), due.Next, err)
	}
}

func TestP09_ProduceAndDocumentsNeedNoPreparedStatements(t *testing.T) {
	t.Parallel()
	w := setupWorldAt(t, pgtest.URL(t)+"&default_query_exec_mode=exec", true)
	q := queue.NewNumber(1, 1)
	first, plain := fresh(q, "key \x00\xff", "body \x00\xff"), fresh(q, "", "")
	w.produce(group(first, plain))
	got := w.produce(group(fresh(q, "key \x00\xff", "body \x00\xff"), plain), group(fresh(q, "key \x00\xff", "another body")))
	for i, id := range []queue.ID{first.ID, plain.ID} {
		if p := got.Groups[0].Items[i]; !p.Duplicate || p.ID != id {
			t.Errorf("got %+v, want a duplicate of %v", p, id)
		}
	}
	if !errors.Is(got.Groups[1].Err, queue.ErrMismatch) {
		t.Errorf("got %v, want a mismatch", got.Groups[1].Err)
	}
	doc := document("a", 0)
	doc.WakeAt, doc.Value = w.clock(), []byte("\x00\xff")
	revision, err := w.store.Put(t.Context(), doc, fresh(q, "key \x00\xff", ""), fresh(q, "other", ""), fresh(q, "", ""))
	if err != nil {
		t.Fatal(err)
	}
	found, err := w.store.Due(t.Context(), doc.Kind, 10)
	due := found.Documents
	if err != nil || len(due) != 1 || string(due[0].Value) != string(doc.Value) || due[0].Revision != revision || !due[0].WakeAt.Equal(doc.WakeAt) {
		t.Errorf("due: got %+v, %v, want the document", due, err)
	}
	if docs, err := w.store.List(t.Context(), doc.Kind, 1, "", 10); err != nil || len(docs) != 1 || docs[0].DocumentKey != doc.DocumentKey {
		t.Errorf("list: got %+v, %v, want the document", docs, err)
	}
	if err := w.store.Delete(t.Context(), doc.DocumentKey, revision); err != nil {
		t.Errorf("delete: %v", err)
	}
	if n := len(w.keys(q)); n != 4 {
		t.Errorf("the queue holds %d items, want 4", n)
	}
	w.wantCounted()
}
