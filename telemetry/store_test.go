package telemetry_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/memory"
	"github.com/posthaste-io/posthaste/storage/storagetest"
	"github.com/posthaste-io/posthaste/telemetry"
)

func newTelemetry(t testing.TB) *telemetry.Telemetry {
	t.Helper()
	measured, err := telemetry.New(t.Context(), telemetry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := measured.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return measured
}

func TestStore_Conforms(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T) storagetest.Harness {
		measured := newTelemetry(t)
		return storagetest.Harness{Open: func(now func() time.Time) (storage.Backend, error) {
			return measured.Store(memory.New(memory.Options{Now: now})), nil
		}}
	})
}

// canned is a store that answers at once, so that what is measured is the measuring.
type canned struct {
	storage.Backend
	produced queue.ProduceAnswer
	leased   queue.LeaseAnswer
	settled  queue.SettleAnswer
}

func (c *canned) Produce(context.Context, []queue.ProduceGroup) (queue.ProduceAnswer, error) {
	return c.produced, nil
}

func (c *canned) Lease(context.Context, []queue.LeaseCall) (queue.LeaseAnswer, error) {
	return c.leased, nil
}

func (c *canned) Settle(context.Context, []queue.SettleGroup) (queue.SettleAnswer, error) {
	return c.settled, nil
}

// life is a call of each of the verbs, over n items.
func life(t testing.TB, n int) func() {
	q := queue.NewNumber(queue.DefaultNamespace, 1)
	settled := make([]queue.Settled, n)
	for i := range settled {
		settled[i].Status = queue.Applied
	}
	s := newTelemetry(t).Store(&canned{
		produced: queue.ProduceAnswer{Groups: []queue.ProduceResult{{Items: make([]queue.Produced, n)}}},
		leased:   queue.LeaseAnswer{Calls: []queue.LeaseResult{{Takers: [][]queue.Item{make([]queue.Item, n)}}}},
		settled:  queue.SettleAnswer{Groups: [][]queue.Settled{settled}},
	})
	produce := []queue.ProduceGroup{{Items: make([]queue.NewItem, n)}}
	settle := []queue.SettleGroup{{Entries: make([]queue.Settlement, n)}}
	for i := range n {
		produce[0].Items[i].Queue = q
		settle[0].Entries[i] = queue.Settlement{Key: queue.Key{Queue: q}, Outcome: queue.Complete}
	}
	lease := []queue.LeaseCall{{Queue: q, Takers: make([]queue.Taker, 1)}}
	ctx := context.Background()
	return func() {
		_, perr := s.Produce(ctx, produce)
		_, lerr := s.Lease(ctx, lease)
		_, serr := s.Settle(ctx, settle)
		if perr != nil || lerr != nil || serr != nil {
			t.Fatal(perr, lerr, serr)
		}
	}
}

func TestStore_MeasuringAllocatesNothing(t *testing.T) {
	// Not parallel: others would allocate as well.
	for _, n := range []int{1, 1000} {
		if got := testing.AllocsPerRun(100, life(t, n)); got > 0 {
			t.Errorf("produce, lease and settle of %d: got %v allocations, want none", n, got)
		}
	}
}

// BenchmarkStore_Measuring is what measuring adds to a produce, a lease and a settle.
func BenchmarkStore_Measuring(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			f := life(b, n)
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
}

// BenchmarkStore_Life is the same on a store in memory, without measuring and with it.
func BenchmarkStore_Life(b *testing.B) {
	b.Run("bare", func(b *testing.B) { storagetest.BenchmarkLife(b, memory.New(memory.Options{})) })
	b.Run("measured", func(b *testing.B) {
		storagetest.BenchmarkLife(b, newTelemetry(b).Store(memory.New(memory.Options{})))
	})
}
