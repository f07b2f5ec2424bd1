package badger_test

import (
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/badger"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

func TestStore_Conforms(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, harness(badger.Small(badger.Options{})))
}

// With a window of a few items nearly everything goes through the cold space.
func TestStore_ConformsWithATinyWindow(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, harness(badger.Small(badger.Options{Window: 4})))
}

func harness(o badger.Options) func(t *testing.T) storagetest.Harness {
	return func(t *testing.T) storagetest.Harness {
		o := o
		o.Dir = t.TempDir()
		o.MinFree = 1
		return storagetest.Harness{
			Open: func(now func() time.Time) (storage.Backend, error) {
				o.Now = now
				return badger.Open(o)
			},
			Sequences: 8,
		}
	}
}
