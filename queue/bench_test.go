package queue_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/memory"
)

// The broker alone, over the memory store: 16 producers of one item, 16 consumers
// that lease up to 10 and complete them.
func BenchmarkBroker_ProduceLeaseComplete(b *testing.B) {
	store := memory.New(memory.Options{})
	broker := newBroker(store, queue.Options{})
	if _, err := broker.CreateQueue(b.Context(), queue.Settings{Namespace: ns, Name: "orders"}); err != nil {
		b.Fatal(err)
	}
	const workers = 16
	var produced, completed atomic.Int64
	ctx, done := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range workers {
		wg.Go(func() {
			for produced.Add(1) <= int64(b.N) {
				call := queue.ProduceCall{Namespace: ns, Queue: "orders", Items: []queue.ProduceItem{{Content: queue.Content{Payload: make([]byte, 200)}}}}
				if _, err := broker.Produce(context.Background(), call); err != nil {
					b.Error(err)
					return
				}
			}
		})
		wg.Go(func() {
			for completed.Load() < int64(b.N) {
				p := params(10)
				p.Wait = time.Minute
				reply, err := broker.Lease(ctx, p)
				if err != nil {
					return // the last item was completed
				}
				entries := make([]queue.SettleEntry, len(reply.Items))
				for i := range reply.Items {
					entries[i] = entry(reply.Items[i], queue.Complete)
				}
				if _, err := broker.Settle(context.Background(), settleCall(entries...)); err != nil {
					b.Error(err)
					return
				}
				if completed.Add(int64(len(entries))) == int64(b.N) {
					done()
				}
			}
		})
	}
	wg.Wait()
	done()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
}
