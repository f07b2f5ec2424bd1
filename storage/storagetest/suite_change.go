package storagetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// changeOf is the change that makes a document what doc is.
func changeOf(doc storage.Document) queue.DocumentChange {
	return queue.DocumentChange{
		DocumentGuard: queue.DocumentGuard{Kind: doc.Kind, Namespace: doc.Namespace, Name: doc.Name, Revision: doc.Revision},
		WakeAt:        doc.WakeAt, Value: doc.Value,
	}
}

// wantDocument reads a document and compares its value; "" is that there is none.
func (f *fixture) wantDocument(name, want string) {
	f.Helper()
	got, err := f.store.Get(f.Context(), document(1, name, 0).DocumentKey)
	switch {
	case want == "" && errors.Is(err, queue.ErrNotFound):
	case err != nil || string(got.Value) != want:
		f.Errorf("%s: got %q, %v, want %q", name, got.Value, err, want)
	}
}

var changeCases = []testCase{
	{"Change_AllDocumentsAtOnce", func(f *fixture) {
		old := document(1, "old", 0)
		old.Revision = f.put(old)
		before := old.Revision
		old.Value, old.WakeAt = []byte("changed"), f.clock.Now().Add(time.Minute)
		made, other := document(1, "new", 0), document(2, "elsewhere", 0)
		other.Kind, other.Value = "other", nil
		revisions, err := f.store.Change(f.Context(), []queue.DocumentChange{
			changeOf(old), changeOf(made), changeOf(other),
		})
		if err != nil {
			f.Fatal(err)
		}
		if len(revisions) != 3 {
			f.Fatalf("got revisions %v, want three", revisions)
		}
		for i, doc := range []storage.Document{old, made, other} {
			got, err := f.store.Get(f.Context(), doc.DocumentKey)
			if err != nil || got.Revision != revisions[i] || string(got.Value) != string(doc.Value) {
				f.Errorf("%s: got %q at %d, %v, want %q at %d", doc.Name, got.Value, got.Revision, err, doc.Value, revisions[i])
			}
			f.wantTime(doc.Name, got.WakeAt, doc.WakeAt)
			if revisions[i] <= before {
				f.Errorf("%s: got revision %d, want it above the earlier ones", doc.Name, revisions[i])
			}
		}
		docs, err := f.store.List(f.Context(), "kind", 1, "", 10)
		if err != nil || namesOf(docs) != "new old" {
			f.Errorf("list: got %q, %v, want both", namesOf(docs), err)
		}
		due, err := f.store.Due(f.Context(), "kind", 10)
		if err != nil || !due.Next.Equal(old.WakeAt) {
			f.Errorf("due next: got %v, %v, want %v", due.Next, err, old.WakeAt)
		}
		// What was written is there for a single change as well.
		old.Revision = revisions[0]
		f.put(old)
		made.Revision = revisions[1]
		if err := f.store.Delete(f.Context(), made.DocumentKey, made.Revision); err != nil {
			f.Errorf("delete: %v", err)
		}
	}},
	{"Change_OneThatIsRefusedKeepsAllFromBeingDone", func(f *fixture) {
		there, also := document(1, "there", 0), document(1, "also", 0)
		there.Revision, also.Revision = f.put(there), f.put(also)
		also.Value = []byte("changed")
		off := func(doc storage.Document) storage.Document {
			doc.Revision += 1_000_000
			return doc
		}
		missing := document(1, "missing", there.Revision)
		for what, test := range map[string]struct {
			change queue.DocumentChange
			want   []error
		}{
			"put over what is there":  {changeOf(document(1, "there", 0)), []error{queue.ErrExists}},
			"put at a wrong revision": {changeOf(off(there)), []error{queue.ErrRevision}},
			"put over what is not":    {changeOf(missing), []error{queue.ErrNotFound, queue.ErrRevision}},
		} {
			for _, place := range []int{0, 1, 2} {
				changes := []queue.DocumentChange{changeOf(also), changeOf(document(1, "new", 0))}
				changes = slices.Insert(changes, place, test.change)
				_, err := f.store.Change(f.Context(), changes)
				if !slices.ContainsFunc(test.want, func(w error) bool { return errors.Is(err, w) }) {
					f.Errorf("%s, at %d: got %v, want %v", what, place, err, test.want)
				}
			}
		}
		twice := []queue.DocumentChange{changeOf(also), changeOf(also)}
		if _, err := f.store.Change(f.Context(), twice); err == nil {
			f.Errorf("one document twice: got no error")
		}
		f.wantDocument("there", "value of there")
		f.wantDocument("also", "value of also")
		f.wantDocument("new", "")
		if got, err := f.store.Get(f.Context(), also.DocumentKey); err != nil || got.Revision != also.Revision {
			f.Errorf("revision: got %d, %v, want %d as before", got.Revision, err, also.Revision)
		}
		if _, err := f.store.Change(f.Context(), nil); err != nil {
			f.Errorf("no change: %v", err)
		}
	}},
	{"Change_HoldsUpWhatIsGuarded", func(f *fixture) {
		q := f.queue()
		doc := document(1, "topic", 0)
		doc.Revision = f.put(doc)
		guard := changeOf(doc).DocumentGuard
		if _, err := f.store.Change(f.Context(), []queue.DocumentChange{changeOf(doc), changeOf(document(1, "b", 0))}); err != nil {
			f.Fatal(err)
		}
		f.wantOvertaken("produce by the old revision", f.produceGroups(guarded(&guard, f.item(q)))[0])
	}},
	{"Change_OfManyAtATimeOneIsDone", func(f *fixture) {
		const many, rounds = 8, 20
		a, b := document(1, "a", 0), document(1, "b", 0)
		a.Revision, b.Revision = f.put(a), f.put(b)
		for round := range rounds {
			revisions, errs := make([][]uint64, many), make([]error, many)
			var all sync.WaitGroup
			for i := range many {
				all.Go(func() {
					mine := []queue.DocumentChange{changeOf(a), changeOf(b), changeOf(document(1, fmt.Sprint("made ", round), 0))}
					value := []byte(fmt.Sprint("of ", i))
					for k := range mine {
						mine[k].Value = value
					}
					if i%2 == 0 {
						slices.Reverse(mine) // the order of the changes does not matter
					}
					revisions[i], errs[i] = f.store.Change(f.Context(), mine)
					if i%2 == 0 {
						slices.Reverse(revisions[i])
					}
				})
			}
			all.Wait()
			done := -1
			for i, err := range errs {
				switch {
				case err == nil && done >= 0:
					f.Fatalf("round %d: %d and %d were done, want one", round, done, i)
				case err == nil:
					done = i
				case !errors.Is(err, queue.ErrRevision) && !errors.Is(err, queue.ErrExists):
					f.Fatalf("round %d: got %v, want ErrRevision or ErrExists", round, err)
				}
			}
			if done < 0 {
				f.Fatalf("round %d: none was done: %v", round, errs)
			}
			want := fmt.Sprint("of ", done)
			f.wantDocument("a", want)
			f.wantDocument("b", want)
			f.wantDocument(fmt.Sprint("made ", round), want)
			a.Revision, b.Revision = revisions[done][0], revisions[done][1]
		}
	}},
}
