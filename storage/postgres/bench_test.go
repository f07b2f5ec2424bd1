package postgres_test

import (
	"testing"

	"github.com/posthaste-io/posthaste/storage/postgres"
	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

func benchStore(b *testing.B) *postgres.Store {
	b.Helper()
	s, err := postgres.Open(b.Context(), postgres.Options{URL: pgtest.URL(b), Migrate: true, NoListen: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

func BenchmarkProduceLeaseComplete(b *testing.B) { storagetest.BenchmarkLife(b, benchStore(b)) }

func BenchmarkPushes(b *testing.B) { storagetest.BenchmarkPushes(b, benchStore(b)) }
