package resident

import (
	"slices"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// drain leases all that is available and returns it in order.
func drain(t *testing.T, s *Store) []queue.ID {
	t.Helper()
	var ids []queue.ID
	for {
		leased := lease(t, s, 7)
		if len(leased) == 0 {
			return ids
		}
		for _, it := range leased {
			ids = append(ids, it.ID)
		}
	}
}

func TestSpill_WindowBoundsWhatIsInMemory(t *testing.T) {
	t.Parallel()
	s, disk := setup(t, Options{Window: 100})
	ids := fill(t, s, 1_000, nil)
	if s.live > 101 {
		t.Errorf("%d items are in memory, want at most 101", s.live)
	}
	if got := drain(t, s); !slices.Equal(got, ids) {
		t.Errorf("got %d items in another order than the %d produced", len(got), len(ids))
	}
	disk.keys.Ascend("c", func(key string, _ []byte) bool {
		if key[0] == spaceCold || key[0] == spacePointer {
			t.Errorf("key %q was left behind by a lease", key)
		}
		return key[0] <= spacePointer
	})
}

// The horizon has passed a place where later an item is put.
func TestSpill_WriteBelowTheHorizonIsLeasedInOrder(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s, _ := setup(t, Options{Window: 10, Now: func() time.Time { return now }})
	fill(t, s, 20, nil)
	first := lease(t, s, 15) // what was first, and the horizon is behind it
	now = now.Add(time.Second)
	fill(t, s, 20, nil)
	release := queue.SettleGroup{}
	for _, it := range first {
		release.Entries = append(release.Entries, queue.Settlement{Key: it.Key, Token: it.Token, Outcome: queue.Release})
	}
	if _, err := s.Settle(t.Context(), []queue.SettleGroup{release}); err != nil {
		t.Fatal(err)
	}
	if s.live > 11 {
		t.Fatalf("%d items are in memory: what was released did not spill, so the test shows nothing", s.live)
	}
	got := drain(t, s)
	if len(got) != 40 {
		t.Fatalf("leased %d, want 40", len(got))
	}
	for i, it := range first {
		if got[i] != it.ID {
			t.Fatalf("place %d: got %v, want %v, which was released to its place", i, got[i], it.ID)
		}
	}
}

func TestSpill_FarAheadGoesFirst(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s, _ := setup(t, Options{Window: 100, Now: func() time.Time { return now }})
	fill(t, s, 60, nil)
	later := fill(t, s, 30, func(it *queue.NewItem) { it.Delay = time.Hour })
	if s.away != 30 {
		t.Errorf("%d items went to the disk, want the 30 that are not wanted soon", s.away)
	}
	ready := fill(t, s, 20, nil)
	if s.away != 30 {
		t.Errorf("%d items are away, want 30: what is ready has room", s.away)
	}
	leased := drain(t, s)
	if len(leased) != 80 || leased[79] != ready[19] {
		t.Errorf("leased %d items, want the 80 that are ready", len(leased))
	}
	due, err := s.NextDue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if at := due.Queues[0].At; at.After(now.Add(time.Hour)) {
		t.Errorf("next due: got %v, want no later than %v", at, now.Add(time.Hour))
	}
	now = now.Add(time.Hour)
	leased = drain(t, s)
	for _, id := range later {
		if !slices.Contains(leased, id) {
			t.Errorf("item %v did not come when it was due", id)
		}
	}
}

func TestSpill_ReopenFindsEverything(t *testing.T) {
	t.Parallel()
	s, disk := setup(t, Options{Window: 10})
	ids := fill(t, s, 50, nil)
	taken := lease(t, s, 3)
	at := time.Date(2026, 3, 1, 12, 0, 1, 0, time.UTC)
	again, err := Open(Options{Window: 10, Disk: disk, Now: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	before, _ := s.Stats(t.Context(), nil)
	after, err := again.Stats(t.Context(), nil)
	if err != nil || len(after) != 1 {
		t.Fatalf("stats: %v, %v", after, err)
	}
	if before[0].Total != after[0].Total || after[0].Held != 3 {
		t.Errorf("stats: got %+v, want as before %+v", after[0], before[0])
	}
	if got := drain(t, again); !slices.Equal(got, ids[3:]) {
		t.Errorf("leased %d items after reopening, want the %d in their order", len(got), len(ids)-3)
	}
	done := queue.Settlement{Key: taken[0].Key, Token: taken[0].Token, Outcome: queue.Complete}
	settled, err := again.Settle(t.Context(), []queue.SettleGroup{{Entries: []queue.Settlement{done}}})
	if err != nil || settled.Groups[0][0].Status != queue.Applied {
		t.Errorf("a lease from before: got %+v, %v, want applied", settled.Groups, err)
	}
}
