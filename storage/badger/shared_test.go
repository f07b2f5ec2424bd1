package badger_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/badger"
	"github.com/posthaste-io/posthaste/storage/resident"
)

// Spaces of keys, as storage/resident draws them.
const (
	ownContents    = 'b'
	sharedContents = 'm'
	suspects       = 'o'
)

// fanned is an item of a topic with n copies, in the queues from number 1 on.
func fanned(n, size int) queue.NewItem {
	item := queue.NewItem{
		ID: queue.NewID(), Topic: queue.NewNumber(1, 1<<20), Copies: make([]queue.Copy, n),
		Content: queue.Content{Payload: bytes.Repeat([]byte("x"), size)},
	}
	for i := range item.Copies {
		item.Copies[i].Queue = queue.NewNumber(1, uint32(1+i))
	}
	return item
}

func produceItem(t testing.TB, s *badger.Store, item queue.NewItem) {
	t.Helper()
	answer, err := s.Produce(t.Context(), []queue.ProduceGroup{{Items: []queue.NewItem{item}}})
	if err != nil || answer.Groups[0].Err != nil {
		t.Fatalf("produce: %v, %+v", err, answer.Groups)
	}
}

// takeCopies leases a copy of each place and settles it, all in one group.
func takeCopies(t testing.TB, s *badger.Store, places []queue.Copy, size int, outcome queue.Outcome) {
	t.Helper()
	calls := make([]queue.LeaseCall, len(places))
	for i := range places {
		calls[i] = queue.LeaseCall{Queue: places[i].Queue, Takers: []queue.Taker{{Limit: 1, TTL: time.Hour}}}
	}
	leased, err := s.Lease(t.Context(), calls)
	if err != nil {
		t.Fatal(err)
	}
	var group queue.SettleGroup
	for i, call := range leased.Calls {
		if len(call.Takers[0]) != 1 || len(call.Takers[0][0].Payload) != size {
			t.Fatalf("copy %d: got %+v, want one item with its payload", i, call)
		}
		it := call.Takers[0][0]
		group.Entries = append(group.Entries, queue.Settlement{
			Key: it.Key, Token: it.Token, Outcome: outcome, DeadQueue: queue.NewNumber(1, 1<<21), Reason: "rejected",
		})
	}
	settled, err := s.Settle(t.Context(), []queue.SettleGroup{group})
	if err != nil || settled.Groups[0][0].Status != queue.Applied {
		t.Fatalf("settle: %v, %+v", err, settled.Groups)
	}
}

func wantContents(t testing.TB, s *badger.Store, when string, want int) {
	t.Helper()
	for more := true; more; {
		var err error
		if more, err = s.Tidy(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	own, shared, marks := len(badger.Keys(t, s, ownContents)), len(badger.Keys(t, s, sharedContents)), len(badger.Keys(t, s, suspects))
	if own != 0 || shared != want || marks != 0 {
		t.Fatalf("%s: got %d own contents, %d shared ones and %d marks, want 0, %d and 0", when, own, shared, marks, want)
	}
}

// Ten times as much as a group may have goes through, since it is written once.
func TestShared_ThousandCopiesHaveOneContent(t *testing.T) {
	t.Parallel()
	const copies, size = 1000, 60_000
	for _, window := range []int{0, 10} {
		t.Run(fmt.Sprintf("window %d", window), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s, err := badger.Open(badger.Options{Dir: dir, MinFree: 1, Window: window})
			if err != nil {
				t.Fatal(err)
			}
			item := fanned(copies, size)
			produceItem(t, s, item)
			wantContents(t, s, "produced", 1)
			takeCopies(t, s, item.Copies[:copies/2], size, queue.Complete)
			takeCopies(t, s, item.Copies[copies/2:copies-10], size, queue.Bury)
			wantContents(t, s, "half of them ended", 1)
			killed := copyDir(t, dir)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			for name, dir := range map[string]string{"closed": dir, "killed": killed} {
				s := open(t, badger.Options{Dir: dir, Window: window})
				wantContents(t, s, name, 1)
				takeCopies(t, s, item.Copies[copies-10:], size, queue.Complete)
				wantContents(t, s, "the rest is dead", 1)
				page, err := s.ListItems(t.Context(), queue.ListRequest{Queue: queue.NewNumber(1, 1<<21), Limit: copies})
				if err != nil || len(page.Items) != copies/2-10 {
					t.Fatalf("dead: %v, %d items, want %d", err, len(page.Items), copies/2-10)
				}
				var back []queue.Move
				var places []queue.Copy
				for _, it := range page.Items {
					back = append(back, queue.Move{Key: it.Key, Target: it.Home})
					places = append(places, queue.Copy{Queue: it.Home})
				}
				if _, err := s.Move(t.Context(), back); err != nil {
					t.Fatal(err)
				}
				takeCopies(t, s, places[1:], size, queue.Complete)
				wantContents(t, s, "one is left", 1)
				takeCopies(t, s, places[:1], size, queue.Complete)
				wantContents(t, s, "all ended", 0)
			}
		})
	}
}

func TestShared_DamagedContentIsCountedInEachQueueAndKept(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]resident.Write{
		"does not check": {Value: []byte{1, 0, 0, 0, 0, 9}},
		"missing":        {Delete: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, badger.Options{Dir: t.TempDir()})
			broken, whole := fanned(2, 10), fanned(2, 10)
			produceItem(t, s, broken)
			damage.Key = badger.Keys(t, s, sharedContents)[0]
			produceItem(t, s, whole)
			badger.Overwrite(t, s, damage, 4)
			for _, place := range broken.Copies {
				answer, err := s.Lease(t.Context(), []queue.LeaseCall{{Queue: place.Queue, Takers: []queue.Taker{{Limit: 2, TTL: time.Minute}}}})
				if err != nil {
					t.Fatal(err)
				}
				if got := answer.Calls[0]; got.Corrupt != 1 || len(got.Takers[0]) != 1 || got.Takers[0][0].ID != whole.ID {
					t.Errorf("got %d corrupt and %+v, want 1 and the whole one", got.Corrupt, got.Takers[0])
				}
			}
			stats, err := s.Stats(t.Context(), nil)
			if err != nil || len(stats) != 2 || stats[0].Total != 2 || stats[1].Total != 2 {
				t.Errorf("stats: %v, %+v, want the broken copies kept", err, stats)
			}
		})
	}
}
