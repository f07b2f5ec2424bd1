package crash_test

import (
	"testing"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/badger"
)

// journal reads every record of a stopped server's store.
func journal(t *testing.T, dir string) []queue.Record {
	t.Helper()
	store, err := badger.Open(badger.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	var records []queue.Record
	for q := (storage.RecordQuery{Namespace: queue.DefaultNamespace, Limit: 1000}); ; {
		page, err := store.Records(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, page.Records...)
		if q.Cursor = page.Next; q.Cursor == "" {
			return records
		}
	}
}
