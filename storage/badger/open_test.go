package badger_test

import (
	"testing"

	"github.com/posthaste-io/posthaste/storage/badger"
)

// open opens a store that is closed when the test ends.
func open(t testing.TB, o badger.Options) *badger.Store {
	t.Helper()
	if o.MinFree == 0 {
		o.MinFree = 1
	}
	s, err := badger.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
