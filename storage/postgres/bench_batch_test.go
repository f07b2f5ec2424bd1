package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// BenchmarkBatches takes batches of a hundred items through their lives, without ordering
// keys, with one of its own for each, and with ten of each key.
func BenchmarkBatches(b *testing.B) {
	for _, keys := range []int{0, 100, 10} {
		b.Run(fmt.Sprint("keys ", keys), func(b *testing.B) { benchBatches(b, benchStore(b), keys) })
	}
}

func benchBatches(b *testing.B, s storage.Backend, keys int) {
	const size = 100
	q := queue.NewNumber(1, 1)
	call := []queue.LeaseCall{{Queue: q, Takers: []queue.Taker{{Limit: size, TTL: time.Minute}}}}
	var produced, leased, settled time.Duration
	for b.Loop() {
		group := queue.ProduceGroup{Items: make([]queue.NewItem, size)}
		for i := range group.Items {
			group.Items[i] = queue.NewItem{ID: queue.NewID(), Queue: q, Content: queue.Content{Payload: make([]byte, 200)}}
			if keys > 0 {
				group.Items[i].OrderingKey = fmt.Sprint("key ", i%keys)
			}
		}
		began := time.Now()
		if _, err := s.Produce(b.Context(), []queue.ProduceGroup{group}); err != nil {
			b.Fatal(err)
		}
		produced += time.Since(began)
		for left := size; left > 0; {
			began = time.Now()
			answer, err := s.Lease(b.Context(), call)
			if err != nil {
				b.Fatal(err)
			}
			leased += time.Since(began)
			items := answer.Calls[0].Takers[0]
			left -= len(items)
			groups := make([]queue.SettleGroup, len(items))
			for i, it := range items {
				groups[i].Entries = []queue.Settlement{{Key: it.Key, Token: it.Token, Outcome: queue.Complete}}
			}
			began = time.Now()
			if _, err := s.Settle(b.Context(), groups); err != nil {
				b.Fatal(err)
			}
			settled += time.Since(began)
		}
	}
	items := float64(b.N * size)
	b.ReportMetric(items/produced.Seconds(), "produced/s")
	b.ReportMetric(items/leased.Seconds(), "leased/s")
	b.ReportMetric(items/settled.Seconds(), "settled/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkTopic writes an item of 5 kB to a thousand queues: as the copies of a topic's
// item, and as items that have nothing to do with each other.
func BenchmarkTopic(b *testing.B) {
	const copies = 1000
	s := benchStore(b)
	for _, shared := range []bool{true, false} {
		b.Run(fmt.Sprint("shared ", shared), func(b *testing.B) {
			for b.Loop() {
				it := queue.NewItem{ID: queue.NewID(), Content: queue.Content{Payload: make([]byte, 5000)}}
				var group queue.ProduceGroup
				for i := range copies {
					to := queue.NewNumber(1, uint32(i+1))
					if it.Copies = append(it.Copies, queue.Copy{Queue: to}); !shared {
						one := it
						one.Queue, one.Copies = to, nil
						group.Items = append(group.Items, one)
					}
				}
				if shared {
					it.Topic = queue.NewNumber(1, copies+1)
					group.Items = []queue.NewItem{it}
				}
				if _, err := s.Produce(b.Context(), []queue.ProduceGroup{group}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
