package badger_test

import (
	"testing"

	"github.com/posthaste-io/posthaste/storage/badger"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

func BenchmarkProduceLeaseComplete(b *testing.B) {
	storagetest.BenchmarkLife(b, open(b, badger.Options{Dir: b.TempDir()}))
}

func BenchmarkPushes(b *testing.B) {
	storagetest.BenchmarkPushes(b, open(b, badger.Options{Dir: b.TempDir()}))
}

func BenchmarkFanOut(b *testing.B) {
	storagetest.BenchmarkFanOut(b, open(b, badger.Options{Dir: b.TempDir()}))
}
