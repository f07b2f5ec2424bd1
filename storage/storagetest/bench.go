package storagetest

import (
	"sync"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

const benchPayload = 200

// BenchmarkLife takes items through their lives one by one, by 64 callers at a
// time, each with a queue of its own.
func BenchmarkLife(b *testing.B, s storage.Backend) {
	const callers = 64
	b.ReportAllocs()
	share(b, callers, func(caller, n int) {
		q := queue.NewNumber(1, uint32(caller+1))
		for range n {
			benchProduce(b, s, q, 1)
			for _, it := range benchLease(b, s, q, 1) {
				benchSettle(b, s, queue.Settlement{Key: it.Key, Token: it.Token, Outcome: queue.Complete})
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
}

// BenchmarkPushes does what lanes do that push from one queue while it is filled:
// 16 items are on their way at a time, leased a few at once and each settled by
// itself with a line for the journal.
func BenchmarkPushes(b *testing.B, s storage.Backend) {
	const inFlight, few = 16, 4
	q := queue.NewNumber(1, 1)
	b.ReportAllocs()
	// Another one in four fills the queue, as many at a time as go out.
	share(b, inFlight/few, func(_, n int) {
		for n > 0 {
			want := min(n, few)
			benchProduce(b, s, q, want)
			items := benchLease(b, s, q, want)
			n -= want
			var pushes sync.WaitGroup
			for _, it := range items {
				pushes.Go(func() {
					benchSettle(b, s, queue.Settlement{
						Key: it.Key, Token: it.Token, Outcome: queue.Complete,
						Record: &queue.Record{
							Type: queue.AttemptRecord, Subscription: "receiver", Verdict: "success", Status: 200,
							StartedAt: time.Now(), Duration: time.Millisecond, Response: make([]byte, 64), Node: "node",
						},
					})
				})
			}
			pushes.Wait()
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
}

// BenchmarkFanOut produces one item of 5 kB to a topic with a thousand queues. What it takes
// to end all copies is told beside.
func BenchmarkFanOut(b *testing.B, s storage.Backend) {
	const size, copies = 5000, 1000
	item := queue.NewItem{Topic: queue.NewNumber(1, copies+1), Copies: make([]queue.Copy, copies)}
	purge := queue.PurgeRequest{Keys: make([]queue.Key, copies), Limit: copies}
	for i := range item.Copies {
		item.Copies[i].Queue = queue.NewNumber(1, uint32(i+1))
	}
	var ends time.Duration
	for b.Loop() {
		item.ID, item.Payload = queue.NewID(), make([]byte, size)
		answer, err := s.Produce(b.Context(), []queue.ProduceGroup{{Items: []queue.NewItem{item}}})
		if err != nil || answer.Groups[0].Err != nil {
			b.Fatal(err, answer.Groups)
		}
		b.StopTimer()
		for i, place := range item.Copies {
			purge.Keys[i] = queue.Key{ID: item.ID, Queue: place.Queue, Home: place.Queue}
		}
		start := time.Now()
		if _, err := s.Purge(b.Context(), purge); err != nil {
			b.Fatal(err)
		}
		ends += time.Since(start)
		b.StartTimer()
	}
	b.ReportMetric(float64(ends.Nanoseconds())/float64(b.N), "ns/end")
}

// share splits the benchmark's work among callers and waits for them.
func share(b *testing.B, callers int, work func(caller, n int)) {
	var all sync.WaitGroup
	for caller := range callers {
		n := b.N / callers
		if caller < b.N%callers {
			n++
		}
		all.Go(func() { work(caller, n) })
	}
	all.Wait()
}

func benchProduce(b *testing.B, s storage.Backend, q queue.Number, n int) {
	group := queue.ProduceGroup{Items: make([]queue.NewItem, n)}
	for i := range group.Items {
		group.Items[i] = queue.NewItem{ID: queue.NewID(), Queue: q, Content: queue.Content{Payload: make([]byte, benchPayload)}}
	}
	if _, err := s.Produce(b.Context(), []queue.ProduceGroup{group}); err != nil {
		b.Error(err)
	}
}

func benchLease(b *testing.B, s storage.Backend, q queue.Number, n int) []queue.Item {
	takers := []queue.Taker{{Limit: n, TTL: time.Minute, Owner: "lane"}}
	answer, err := s.Lease(b.Context(), []queue.LeaseCall{{Queue: q, Takers: takers}})
	if err != nil {
		b.Error(err)
		return nil
	}
	return answer.Calls[0].Takers[0]
}

func benchSettle(b *testing.B, s storage.Backend, entry queue.Settlement) {
	if _, err := s.Settle(b.Context(), []queue.SettleGroup{{Entries: []queue.Settlement{entry}}}); err != nil {
		b.Error(err)
	}
}
