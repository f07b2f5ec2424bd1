package memory_test

import (
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/memory"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

func TestStore_Conforms(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(*testing.T) storagetest.Harness {
		return storagetest.Harness{Open: func(now func() time.Time) (storage.Backend, error) {
			return memory.New(memory.Options{Now: now}), nil
		}}
	})
}
