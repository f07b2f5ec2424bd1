package badger_test

import (
	"testing"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/badger"
)

// One item through its life, by 64 callers at a time, each with a queue of its own.
func BenchmarkProduceLeaseComplete(b *testing.B) {
	s := open(b, badger.Options{Dir: b.TempDir()})
	payload := make([]byte, 200)
	b.SetParallelism(32) // on two processors
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		q := queue.NewNumber(1, uint32(queue.NewID()[15])+1)
		for pb.Next() {
			item := queue.NewItem{ID: queue.NewID(), Queue: q, Content: queue.Content{Payload: payload}}
			if _, err := s.Produce(b.Context(), []queue.ProduceGroup{{Items: []queue.NewItem{item}}}); err != nil {
				b.Error(err)
				return
			}
			taker := queue.Taker{Limit: 1, TTL: 60e9}
			leased, err := s.Lease(b.Context(), []queue.LeaseCall{{Queue: q, Takers: []queue.Taker{taker}}})
			if err != nil {
				b.Error(err)
				return
			}
			for _, it := range leased.Calls[0].Takers[0] {
				done := queue.Settlement{Key: it.Key, Token: it.Token, Outcome: queue.Complete}
				if _, err := s.Settle(b.Context(), []queue.SettleGroup{{Entries: []queue.Settlement{done}}}); err != nil {
					b.Error(err)
					return
				}
			}
		}
	})
}
