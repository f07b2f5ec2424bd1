package storagetest

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

func document(ns queue.Namespace, name string, revision uint64) storage.Document {
	return storage.Document{
		DocumentKey: storage.DocumentKey{Kind: "kind", Namespace: ns, Name: name},
		Revision:    revision,
		Value:       []byte("value of " + name),
	}
}

// put writes a document, which must work, and returns its revision.
func (f *fixture) put(doc storage.Document, items ...queue.NewItem) uint64 {
	f.Helper()
	revision, err := f.store.Put(f.Context(), doc, items...)
	if err != nil {
		f.Fatalf("Put %s: %v", doc.Name, err)
	}
	return revision
}

// wantPutError writes a document, which must be refused with one of the errors.
func (f *fixture) wantPutError(doc storage.Document, items []queue.NewItem, want ...error) {
	f.Helper()
	_, err := f.store.Put(f.Context(), doc, items...)
	if !slices.ContainsFunc(want, func(w error) bool { return errors.Is(err, w) }) {
		f.Errorf("Put %s at %d: got %v, want %v", doc.Name, doc.Revision, err, want)
	}
}

func namesOf(docs []storage.Document) string {
	names := make([]string, len(docs))
	for i, doc := range docs {
		names[i] = doc.Name
	}
	return strings.Join(names, " ")
}

var documentCases = []testCase{
	{"Documents_ReturnWhatWasPut", func(f *fixture) {
		for name, value := range map[string][]byte{
			"text": []byte("value"), "bytes": {0, 0xff, 0}, "none": nil, "large": bytes.Repeat([]byte("x"), storage.MaxValue),
		} {
			doc := document(1, name, 0)
			doc.Value, doc.WakeAt = value, f.clock.Now().Add(time.Hour)
			revision := f.put(doc)
			got, err := f.store.Get(f.Context(), doc.DocumentKey)
			if err != nil {
				f.Fatal(err)
			}
			if revision == 0 || got.Revision != revision || got.DocumentKey != doc.DocumentKey || !bytes.Equal(got.Value, value) {
				f.Errorf("%s: got %s at %d with %d bytes, want what was put at %d", name, got.Name, got.Revision, len(got.Value), revision)
			}
			f.wantTime(name, got.WakeAt, doc.WakeAt)
		}
	}},
	{"Documents_RevisionsAreChecked", func(f *fixture) {
		first := f.put(document(1, "a", 0))
		f.wantPutError(document(1, "a", 0), nil, queue.ErrExists)
		f.wantPutError(document(1, "a", first+1), nil, queue.ErrRevision)
		f.wantPutError(document(1, "b", first), nil, queue.ErrNotFound, queue.ErrRevision)
		second := f.put(document(1, "a", first))
		if second <= first {
			f.Errorf("revision went from %d to %d, want it to rise", first, second)
		}
		f.wantPutError(document(1, "a", first), nil, queue.ErrRevision)
		key := document(1, "a", 0).DocumentKey
		if err := f.store.Delete(f.Context(), key, first); !errors.Is(err, queue.ErrRevision) {
			f.Errorf("Delete at an old revision: got %v, want ErrRevision", err)
		}
		if err := f.store.Delete(f.Context(), key, second); err != nil {
			f.Errorf("Delete: %v", err)
		}
		if err := f.store.Delete(f.Context(), key, second); !errors.Is(err, queue.ErrNotFound) {
			f.Errorf("Delete again: got %v, want ErrNotFound", err)
		}
		if _, err := f.store.Get(f.Context(), key); !errors.Is(err, queue.ErrNotFound) {
			f.Errorf("Get: got %v, want ErrNotFound", err)
		}
		// Who holds a revision of the deleted one must not meet it in the new one.
		if third := f.put(document(1, "a", 0)); third <= second {
			f.Errorf("made anew at revision %d, want it above %d", third, second)
		}
	}},
	{"Documents_ListByNameInPages", func(f *fixture) {
		for _, name := range []string{"b", "a", "c/1", "c", "é", "C", "~", "a.b"} {
			f.put(document(1, name, 0))
		}
		f.put(document(2, "elsewhere", 0))
		other := document(1, "other kind", 0)
		other.Kind = "kin" // A prefix of the first.
		f.put(other)
		for _, test := range []struct {
			after string
			limit int
			want  string
		}{
			{"", 100, "C a a.b b c c/1 ~ é"},
			{"", 3, "C a a.b"},
			{"a.b", 3, "b c c/1"},
			{"bb", 3, "c c/1 ~"},
			{"~", 3, "é"},
			{"é", 3, ""},
		} {
			docs, err := f.store.List(f.Context(), "kind", 1, test.after, test.limit)
			if err != nil {
				f.Fatal(err)
			}
			if got := namesOf(docs); got != test.want {
				f.Errorf("after %q: got %q, want %q", test.after, got, test.want)
			}
			for _, doc := range docs {
				if string(doc.Value) != "value of "+doc.Name || doc.Revision == 0 {
					f.Errorf("got %+v, want its value and revision", doc)
				}
			}
		}
	}},
	{"Documents_LongNames", func(f *fixture) {
		long := storage.Document{DocumentKey: storage.DocumentKey{
			Kind: strings.Repeat("k", 255), Namespace: 1<<32 - 1, Name: strings.Repeat("é", 250),
		}, Value: []byte("v")}
		f.put(long)
		docs, err := f.store.List(f.Context(), long.Kind, long.Namespace, "", 10)
		if err != nil || len(docs) != 1 || docs[0].DocumentKey != long.DocumentKey {
			f.Errorf("List: got %+v, %v, want the one document", docs, err)
		}
	}},
	{"Documents_DueInOrderOverAllNamespaces", func(f *fixture) {
		now := f.clock.Now()
		for i, minutes := range []int{3, 1, 2, 60, 0} {
			doc := document(queue.Namespace(1+i%2), strings.Repeat("x", i+1), 0)
			if minutes > 0 {
				doc.WakeAt = now.Add(time.Duration(minutes) * time.Minute)
			}
			f.put(doc)
		}
		other := document(1, "other", 0)
		other.Kind, other.WakeAt = "other", now
		f.put(other)
		want := func(limit int, names string, next time.Time) {
			f.Helper()
			due, err := f.store.Due(f.Context(), "kind", limit)
			if err != nil {
				f.Fatal(err)
			}
			if got := namesOf(due.Documents); got != names {
				f.Errorf("Due: got %q, want %q", got, names)
			}
			f.wantTime("next", due.Next, next)
			f.wantTime("now", due.Now, f.clock.Now())
		}
		want(10, "", now.Add(time.Minute))
		f.clock.Advance(2*time.Minute - time.Microsecond)
		want(10, "xx", now.Add(2*time.Minute))
		f.clock.Advance(time.Minute)
		want(10, "xx xxx", now.Add(3*time.Minute))
		want(0, "", now.Add(3*time.Minute)) // only what time it is
		f.clock.Advance(time.Minute)
		want(2, "xx xxx", now.Add(time.Hour))
		want(10, "xx xxx x", now.Add(time.Hour))
		f.clock.Advance(time.Hour)
		want(10, "xx xxx x xxxx", time.Time{})
	}},
	{"Documents_WakeTimeFollowsThePut", func(f *fixture) {
		doc := document(1, "a", 0)
		doc.WakeAt = f.clock.Now()
		doc.Revision = f.put(doc)
		doc.WakeAt = f.clock.Now().Add(time.Hour)
		doc.Revision = f.put(doc)
		due, err := f.store.Due(f.Context(), "kind", 10)
		if err != nil || len(due.Documents) != 0 || !due.Next.Equal(doc.WakeAt) {
			f.Errorf("moved: got %q, %v, %v, want nothing due before %v", namesOf(due.Documents), due.Next, err, doc.WakeAt)
		}
		doc.WakeAt = time.Time{}
		doc.Revision = f.put(doc)
		f.clock.Advance(2 * time.Hour)
		if due, err := f.store.Due(f.Context(), "kind", 10); err != nil || len(due.Documents) != 0 || !due.Next.IsZero() {
			f.Errorf("cleared: got %q, %v, %v, want nothing", namesOf(due.Documents), due.Next, err)
		}
		doc.WakeAt = f.clock.Now()
		revision := f.put(doc)
		if err := f.store.Delete(f.Context(), doc.DocumentKey, revision); err != nil {
			f.Fatal(err)
		}
		if due, err := f.store.Due(f.Context(), "kind", 10); err != nil || len(due.Documents) != 0 || !due.Next.IsZero() {
			f.Errorf("deleted: got %q, %v, %v, want nothing", namesOf(due.Documents), due.Next, err)
		}
	}},
	{"C08_PutFiresOnce", func(f *fixture) {
		q := f.queue()
		doc := document(1, "schedule", 0)
		revision := f.put(doc)
		doc.Revision = revision
		won, lost := f.item(q), f.item(q)
		f.put(doc, won)
		// Whoever loses the check of the revision produces nothing.
		f.wantPutError(doc, []queue.NewItem{lost}, queue.ErrRevision)
		f.wantIDs("queue", f.list(q), won.ID)
		if got := f.lease(q, 1); len(got) != 1 || string(got[0].Payload) != string(won.Payload) {
			f.Errorf("lease: got %+v, want the item of the put", got)
		}
	}},
	{"Documents_PutLeavesOutKnownKeys", func(f *fixture) {
		q := f.queue()
		known := f.keyed(q, "k", "body")
		f.produce(known)
		fresh := f.keyed(q, "fresh", "body")
		f.put(document(1, "a", 0), f.keyed(q, "k", "body"), fresh)
		f.wantIDs("queue", f.list(q), known.ID, fresh.ID)
		f.wantDuplicate("key of the put", f.produce(f.keyed(q, "fresh", "body"))[0], fresh.ID)
	}},
}
