package postgres

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

func TestChange_NamesTheDocumentThatWasMadeMeanwhile(t *testing.T) {
	t.Parallel()
	w := setupWorld(t, true)
	tx, err := w.pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.Cleanup(func() { _ = tx.Rollback(w.Context()) }) // it was committed, unless the test failed
	_, err = tx.Exec(t.Context(), w.store.text(`insert into {s}.documents (kind, namespace, name, revision, value) values ('kind', 1, 'b', nextval('{s}.revisions'), '')`))
	if err != nil {
		t.Fatal(err)
	}
	var changes []queue.DocumentChange
	for _, name := range []string{"a", "b", "c"} {
		changes = append(changes, queue.DocumentChange{
			DocumentGuard: queue.DocumentGuard{Kind: "kind", Namespace: 1, Name: name}, Value: []byte("value"),
		})
	}
	var refusal error
	var change sync.WaitGroup
	change.Go(func() { _, refusal = w.store.Change(t.Context(), changes) })
	w.untilOneWaits()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	change.Wait()
	if !errors.Is(refusal, queue.ErrExists) || !strings.Contains(refusal.Error(), "kind b") {
		t.Errorf("got %v, want ErrExists for b", refusal)
	}
	if _, err := w.store.Get(t.Context(), storage.DocumentKey{Kind: "kind", Namespace: 1, Name: "a"}); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("a: got %v, want ErrNotFound", err)
	}
}
