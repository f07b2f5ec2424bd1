package memory_test

import (
	"testing"

	"github.com/posthaste-io/posthaste/storage/memory"
	"github.com/posthaste-io/posthaste/storage/storagetest"
)

func BenchmarkProduceLeaseComplete(b *testing.B) {
	storagetest.BenchmarkLife(b, memory.New(memory.Options{}))
}

func BenchmarkPushes(b *testing.B) {
	storagetest.BenchmarkPushes(b, memory.New(memory.Options{}))
}

func BenchmarkFanOut(b *testing.B) {
	storagetest.BenchmarkFanOut(b, memory.New(memory.Options{}))
}
