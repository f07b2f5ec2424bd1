package storagetest_test

import (
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

// The model is judged as any store is: a case that it fails is wrong, or it is.
func TestModel(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(*testing.T) storagetest.Harness {
		return storagetest.Harness{
			Open: func(now func() time.Time) (storage.Backend, error) { return storagetest.NewModel(now), nil },
			// Against itself the model can only show that it knows no chance.
			Sequences: 10,
		}
	})
}
