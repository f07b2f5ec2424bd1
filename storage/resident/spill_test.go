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

// What a group put on the disk is not there before the group ends.
func TestSpill_AGroupFindsWhatItSpilled(t *testing.T) {
	t.Parallel()
	s, disk := setup(t, Options{Window: 1})
	fill(t, s, 5, nil)
	item := queue.NewItem{ID: queue.NewID(), Queue: testQueue}
	answer, err := s.Produce(t.Context(), []queue.ProduceGroup{{Items: []queue.NewItem{item, item}}})
	if err != nil || answer.Groups[0].Items[0].Duplicate || !answer.Groups[0].Items[1].Duplicate {
		t.Errorf("the same item twice: %v, %+v, want the second a duplicate", err, answer.Groups)
	}
	// Two copies of an item, one of them moved to another queue, meet in the dead-letter queue.
	other, dead := testQueue+1, testQueue+2
	status, err := s.Move(t.Context(), []queue.Move{{Key: queue.Key{ID: item.ID, Queue: testQueue, Home: testQueue}, Target: other}})
	if err != nil || status[0] != queue.Moved {
		t.Fatalf("move: %v, %v", status, err)
	}
	if _, err := s.Produce(t.Context(), []queue.ProduceGroup{{Items: []queue.NewItem{item}}}); err != nil {
		t.Fatal(err)
	}
	var group queue.SettleGroup
	for _, q := range []queue.Number{testQueue, other} {
		group.Entries = append(group.Entries, queue.Settlement{
			Key: queue.Key{ID: item.ID, Queue: q, Home: testQueue}, Guard: queue.NotLive, Outcome: queue.Bury, DeadQueue: dead,
		})
	}
	found, err := s.Find(t.Context(), []queue.ID{item.ID}, false)
	if err != nil || len(found) != 2 {
		t.Fatalf("find: %v, %+v, want two copies", err, found)
	}
	for _, it := range found {
		for i := range group.Entries {
			if group.Entries[i].Key == it.Key {
				group.Entries[i].Token = it.Token
			}
		}
	}
	settled, err := s.Settle(t.Context(), []queue.SettleGroup{group})
	if err != nil || settled.Groups[0][0].Status != queue.Applied {
		t.Fatalf("settle: %v, %+v", err, settled.Groups)
	}
	stats, err := s.Stats(t.Context(), []queue.Number{dead})
	if err != nil || len(stats) != 1 || stats[0].Total != 1 {
		t.Errorf("dead: %v, %+v, want one", err, stats)
	}
	at := time.Date(2026, 3, 1, 12, 0, 1, 0, time.UTC)
	if s, err = Open(Options{Window: 1, Disk: disk, Now: func() time.Time { return at }}); err != nil {
		t.Fatal(err)
	}
	// The end of an item that was on the disk, and the same item anew.
	if found, err = s.Find(t.Context(), []queue.ID{item.ID}, false); err != nil || len(found) != 1 || s.find(found[0].Key) != 0 {
		t.Fatalf("find: %v, %+v, want one copy that is on the disk", err, found)
	}
	item.Queue = dead
	moved := found[0].Key
	moved.Home = dead
	produceAt := queue.Settlement{Key: found[0].Key, Token: found[0].Token, Guard: queue.NotLive, Outcome: queue.Complete, Produce: []queue.NewItem{item}}
	for range 2 {
		if settled, err = s.Settle(t.Context(), []queue.SettleGroup{{Entries: []queue.Settlement{produceAt}}}); err != nil || settled.Groups[0][0].Status != queue.Applied {
			t.Fatalf("settle: %v, %+v", err, settled.Groups)
		}
		if found, err = s.Find(t.Context(), []queue.ID{item.ID}, false); err != nil || len(found) != 1 || found[0].Key != moved {
			t.Fatalf("find: %v, %+v, want the new one", err, found)
		}
		produceAt.Key, produceAt.Token = moved, found[0].Token
	}
}
