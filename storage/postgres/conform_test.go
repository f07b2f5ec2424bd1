package postgres_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/postgres"
	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

func TestStore_Conforms(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	var cases atomic.Int32
	storagetest.Run(t, func(t *testing.T) storagetest.Harness {
		// A schema for each case is made sooner than a database.
		schema := fmt.Sprintf("case_%d", cases.Add(1))
		return storagetest.Harness{
			Open: func(now func() time.Time) (storage.Backend, error) {
				return postgres.Open(t.Context(), postgres.Options{URL: url, Schema: schema, Migrate: true, NoListen: true, Now: now})
			},
			Sequences: 8,
		}
	})
}
