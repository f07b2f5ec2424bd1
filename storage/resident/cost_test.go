package resident

import (
	"runtime"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// The test does not run in parallel: it reads how much memory the process has.
func TestStore_QueuedItemTakesAtMost100Bytes(t *testing.T) {
	const items, bound = 200_000, 100
	s, disk := setup(t, Options{})
	disk.forgets = true
	fill(t, s, 1, nil)
	before := heap()
	fill(t, s, items, nil)
	each := (heap() - before) / items
	t.Logf("%d bytes an item", each)
	if each > bound {
		t.Errorf("got %d bytes of heap for each queued item, want at most %d", each, bound)
	}
	runtime.KeepAlive(s)
}

func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func TestStore_LeaseLooksAtNoMoreThanItGives(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name          string
		queued, held  int
		cancelled     int
		scheduledToo  bool
		wantPerLeased int
	}{
		{"1,000 queued", 1_000, 0, 0, false, 3},
		{"100,000 queued", 100_000, 0, 0, false, 3},
		{"50,000 held", 100_000, 50_000, 0, false, 3},
		{"20,000 cancelled in the middle", 50_000, 0, 20_000, false, 3},
		{"as many scheduled", 20_000, 0, 0, true, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, _ := setup(t, Options{Volatile: true})
			ids := fill(t, s, tt.queued, nil)
			if tt.scheduledToo {
				fill(t, s, tt.queued, func(it *queue.NewItem) { it.Delay = time.Hour })
			}
			for left := tt.held; left > 0; left -= 1000 {
				lease(t, s, 1000)
			}
			purge := queue.PurgeRequest{Limit: tt.cancelled}
			for _, id := range ids[100 : 100+tt.cancelled] {
				purge.Keys = append(purge.Keys, queue.Key{ID: id, Queue: testQueue, Home: testQueue})
			}
			if tt.cancelled > 0 {
				if _, err := s.Purge(t.Context(), purge); err != nil {
					t.Fatal(err)
				}
			}
			before := s.visited
			const n = 200
			if got := len(lease(t, s, n)); got != n {
				t.Fatalf("leased %d, want %d", got, n)
			}
			if got := s.visited - before; got > n*tt.wantPerLeased {
				t.Errorf("a lease of %d looked at %d entries, want at most %d", n, got, n*tt.wantPerLeased)
			}
		})
	}
}

// Reading on from the horizon costs a look at what is read, once.
func TestStore_SpilledItemsAreReadOnce(t *testing.T) {
	t.Parallel()
	s, disk := setup(t, Options{Window: 100})
	fill(t, s, 5_000, nil)
	before := disk.scans
	for left := 5_000; left > 0; left -= 50 {
		if got := len(lease(t, s, 50)); got != 50 {
			t.Fatalf("leased %d, want 50", got)
		}
	}
	if got := disk.scans - before; got > 5_000/50+1 {
		t.Errorf("got %d scans of the disk, want at most one a lease", got)
	}
	if s.away != 0 {
		t.Errorf("%d items are still away", s.away)
	}
}
