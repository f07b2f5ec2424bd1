package crash_test

import (
	"context"
	"testing"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/badger"
	"github.com/posthaste-io/posthaste/storage/postgres"
)

// topology is how many nodes work on which store.
type topology struct {
	nodes int
	// url is the --store of each.
	url string
	// open opens the store itself, when all nodes have ended.
	open func(context.Context) (storage.Backend, error)
}

// onBadger is one node on a directory.
func onBadger(t *testing.T) topology {
	dir := t.TempDir()
	return topology{nodes: 1, url: "badger://" + dir, open: func(context.Context) (storage.Backend, error) {
		return badger.Open(badger.Options{Dir: dir})
	}}
}

// onPostgres is three nodes on a database.
func onPostgres(url string) topology {
	return topology{nodes: 3, url: url, open: func(ctx context.Context) (storage.Backend, error) {
		return postgres.Open(ctx, postgres.Options{URL: url, NoListen: true})
	}}
}

// journal reads every record that the nodes left.
func (p topology) journal(t *testing.T) []queue.Record {
	t.Helper()
	store, err := p.open(t.Context())
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
