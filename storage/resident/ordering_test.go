package resident

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// keyed gives items one of n keys in turn.
func keyed(n int) func(*queue.NewItem) {
	i := 0
	return func(it *queue.NewItem) {
		it.OrderingKey = fmt.Sprint("key ", i%n)
		i++
	}
}

func complete(t testing.TB, s *Store, items []queue.Item) {
	t.Helper()
	var group queue.SettleGroup
	for _, it := range items {
		group.Entries = append(group.Entries, queue.Settlement{Key: it.Key, Token: it.Token, Outcome: queue.Complete})
	}
	answer, err := s.Settle(t.Context(), []queue.SettleGroup{group})
	if err != nil {
		t.Fatal(err)
	}
	for _, settled := range answer.Groups[0] {
		if settled.Status != queue.Applied {
			t.Fatalf("got status %d, want applied", settled.Status)
		}
	}
}

// What waits behind a head costs no lease anything, however much that is.
func TestKeys_LeaseLooksAtNoMoreThanItGives(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		keys, items int
	}{
		{"100,000 keys of one item", 100_000, 100_000},
		{"20,000 keys of ten", 20_000, 200_000},
		{"300,000 behind 200 heads", 200, 300_200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, _ := setup(t, Options{Volatile: true})
			fill(t, s, tt.items, keyed(tt.keys))
			for range 3 {
				before := s.visited
				const n = 200
				got := lease(t, s, n)
				if len(got) != n {
					t.Fatalf("leased %d, want %d", len(got), n)
				}
				if looked := s.visited - before; looked > 3*n {
					t.Errorf("a lease of %d looked at %d entries, want at most %d", n, looked, 3*n)
				}
				complete(t, s, got)
			}
		})
	}
}

// Whether a key has a head is asked at each produce, so that the window has no part in it.
func TestKeys_StayInMemoryAndInOrder(t *testing.T) {
	t.Parallel()
	const keys, items = 30, 600
	s, disk := setup(t, Options{Window: 10})
	ids := fill(t, s, items, keyed(keys))
	plain := fill(t, s, 100, nil)
	if s.live < items {
		t.Errorf("%d items are in memory, want those with a key", s.live)
	}
	again, err := Open(Options{Disk: disk, Window: 10, Now: s.options.Now})
	if err != nil {
		t.Fatal(err)
	}
	next := map[string]int{} // of each key, which comes next
	var rest []queue.ID
	for n := 0; n < items+len(plain); {
		got := lease(t, again, 50)
		if len(got) == 0 {
			t.Fatalf("%d of %d were leased", n, items+len(plain))
		}
		n += len(got)
		for _, it := range got {
			at := slices.Index(ids, it.ID)
			if at < 0 {
				rest = append(rest, it.ID)
				continue
			}
			key := fmt.Sprint(at % keys)
			if at/keys != next[key] {
				t.Fatalf("key %s: item %d came when %d was next", key, at/keys, next[key])
			}
			next[key]++
		}
		complete(t, again, got)
	}
	if !slices.Equal(rest, plain) {
		t.Error("items without a key came in another order than they were produced")
	}
	if len(again.chains.byKey) != 0 || again.chains.blocked.Len() != 0 {
		t.Errorf("%d keys are left of none, %d of them blocked", len(again.chains.byKey), again.chains.blocked.Len())
	}
}

// Where a head was lost with its file, those behind it are not: the next takes its place.
func TestKeys_AreMendedAfterALoss(t *testing.T) {
	t.Parallel()
	s, disk := setup(t, Options{})
	ids := fill(t, s, 3, keyed(1))
	disk.keys.Delete(string(appendItemKey(nil, spaceState, queue.Key{ID: ids[0], Queue: testQueue, Home: testQueue})))
	again, err := Open(Options{Disk: disk, AcceptLoss: true, Now: s.options.Now})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range ids[1:] {
		got := lease(t, again, 10)
		if len(got) != 1 || got[0].ID != want {
			t.Fatalf("leased %v, want %v", got, want)
		}
		complete(t, again, got)
	}
	stats, err := again.Stats(t.Context(), nil)
	if err != nil || len(stats) != 0 {
		t.Errorf("got %+v, %v, want nothing left", stats, err)
	}
}

func BenchmarkKeys(b *testing.B) {
	for _, keys := range []int{0, 100, 100_000} {
		b.Run(fmt.Sprint(keys, " keys"), func(b *testing.B) {
			s, _ := setup(b, Options{Volatile: true})
			change := func(*queue.NewItem) {}
			if keys > 0 {
				change = keyed(keys)
			}
			fill(b, s, 100_000, change)
			b.ReportAllocs()
			start := time.Now()
			n := 0
			for b.Loop() {
				got := lease(b, s, 50)
				complete(b, s, got)
				fill(b, s, len(got), change)
				n += len(got)
			}
			b.ReportMetric(float64(n)/time.Since(start).Seconds(), "cycles/s")
		})
	}
}
