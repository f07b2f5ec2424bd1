package badger_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/badger"
)

func TestB08_SecondOpenerIsToldWhoHasTheDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := badger.Open(badger.Options{Dir: dir, MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	var inUse *badger.InUseError
	_, err = badger.Open(badger.Options{Dir: dir, MinFree: 1})
	if !errors.As(err, &inUse) {
		t.Fatalf("second open: got %v, want an InUseError", err)
	}
	if want := fmt.Sprintf("process %d on host ", os.Getpid()); !strings.HasPrefix(inUse.Holder, want) || !strings.Contains(inUse.Holder, " since ") {
		t.Errorf("holder: got %q, want it to begin with %q and say since when", inUse.Holder, want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "posthaste.lock")); err != nil {
		t.Errorf("the lock file is gone: %v", err)
	}
	open(t, badger.Options{Dir: dir}) // a file that is left over locks nobody out
}

func TestB05_OpenOnAFullDiskIsRefusedBeforeBadgerTouchesIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	full := func(string) (free, total uint64, err error) { return 1 << 20, 1 << 30, nil }
	_, err := badger.Open(badger.Options{Dir: dir, FreeSpace: full})
	if err == nil || !strings.Contains(err.Error(), "1 MiB are free on the disk, and 128 MiB are needed") {
		t.Errorf("open: got %v, want an error that says how much is free and needed", err)
	}
	if logs, _ := filepath.Glob(filepath.Join(dir, "*.mem")); len(logs) > 0 {
		t.Errorf("badger was opened: %v", logs)
	}
}

// The watch looks every second, so this waits for a real second or two.
func TestB05_TightDiskStopsProduceUntilThereIsRoom(t *testing.T) {
	t.Parallel()
	var free atomic.Uint64
	free.Store(1 << 40)
	s := open(t, badger.Options{
		Dir: t.TempDir(), MinFree: 1 << 30,
		FreeSpace: func(string) (uint64, uint64, error) { return free.Load(), 1 << 41, nil },
	})
	produce(t, s)
	try := func() error {
		item := queue.NewItem{ID: queue.NewID(), Queue: testQueue}
		_, err := s.Produce(t.Context(), []queue.ProduceGroup{{Items: []queue.NewItem{item}}})
		return err
	}
	free.Store(1<<30 - 1)
	waitFor(t, "produce is refused", func() bool { return errors.Is(try(), queue.ErrDiskFull) })
	if err := s.Space(); !errors.Is(err, queue.ErrDiskFull) {
		t.Errorf("space: got %v, want the reason why nothing new is taken", err)
	}
	if got := len(leaseFrom(t, s, 1)); got != 1 {
		t.Errorf("leased %d on a tight disk, want 1", got)
	}
	free.Store(1 << 40)
	waitFor(t, "produce works again", func() bool { return try() == nil })
	if err := s.Space(); err != nil {
		t.Errorf("space: got %v with room", err)
	}
}

// waitFor polls a condition that a real second brings about.
func waitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited 10 s until %s", what)
		}
	}
}

func leaseFrom(t testing.TB, s *badger.Store, limit int) []queue.Item {
	t.Helper()
	answer, err := s.Lease(t.Context(), []queue.LeaseCall{{
		Queue: testQueue, Takers: []queue.Taker{{Limit: limit, TTL: time.Minute}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Calls[0].Takers[0]
}

// A call's groups are whole in one commit each, and a batch may take several.
func TestStore_BatchBeyondOneCommit(t *testing.T) {
	t.Parallel()
	s := open(t, badger.Options{Dir: t.TempDir()})
	payload := bytes.Repeat([]byte("p"), 900_000)
	groups := make([]queue.ProduceGroup, 24)
	for i := range groups {
		groups[i].Items = []queue.NewItem{{ID: queue.NewID(), Queue: testQueue, Content: queue.Content{Payload: payload}}}
	}
	if _, err := s.Produce(t.Context(), groups); err != nil {
		t.Fatal(err)
	}
	if commits := badger.Commits(s); commits < 3 {
		t.Errorf("21 MB went into %d commits, want 3 or more", commits)
	}
	for _, it := range leaseFrom(t, s, 24) {
		if !bytes.Equal(it.Payload, payload) {
			t.Errorf("item %v came back with another payload", it.ID)
		}
	}
}

// The largest calls that the contract allows pass, whether their items stay in
// memory or go to the disk at once.
func TestStore_LargestLegalCallsPass(t *testing.T) {
	t.Parallel()
	for name, window := range map[string]int{"in memory": 0, "on the disk": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, badger.Options{Dir: t.TempDir(), Window: window})
			for _, n := range []int{5, queue.DefaultMaxItems} {
				group := queue.ProduceGroup{Items: make([]queue.NewItem, n)}
				for i := range group.Items {
					group.Items[i] = queue.NewItem{
						ID: queue.NewID(), Queue: testQueue, Delay: time.Hour, ExpireTTL: time.Hour,
						Content: queue.Content{Payload: make([]byte, queue.DefaultMaxCallBytes/n)},
						Dedupe:  &queue.Dedupe{Scope: testQueue, Key: fmt.Sprintf("%0255d", i+n), TTL: time.Hour},
					}
				}
				answer, err := s.Produce(t.Context(), []queue.ProduceGroup{group})
				if err != nil || answer.Groups[0].Err != nil {
					t.Fatalf("%d items: %v, %v", n, err, answer.Groups[0].Err)
				}
			}
		})
	}
}

// A thousand outcomes with as much of the answers as is kept are settled as one; and with
// what tells of the ends, as much as the broker leaves of the answers.
func TestStore_LargestLegalSettlementsPass(t *testing.T) {
	t.Parallel()
	for name, window := range map[string]int{"in memory": 0, "on the disk": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, badger.Options{Dir: t.TempDir(), Window: window})
			for i, outcome := range []queue.Outcome{queue.Release, queue.Retry, queue.Bury, queue.Complete, queue.Bury, queue.Complete} {
				q, tell := queue.NewNumber(1, uint32(10+i)), i >= 4
				group := queue.ProduceGroup{Items: make([]queue.NewItem, queue.DefaultMaxItems)}
				for i := range group.Items {
					group.Items[i] = queue.NewItem{ID: queue.NewID(), Queue: q, ExpireTTL: time.Hour}
				}
				if _, err := s.Produce(t.Context(), []queue.ProduceGroup{group}); err != nil {
					t.Fatal(err)
				}
				leased, err := s.Lease(t.Context(), []queue.LeaseCall{{Queue: q, Takers: []queue.Taker{{Limit: queue.DefaultMaxItems, TTL: time.Hour}}}})
				if err != nil {
					t.Fatal(err)
				}
				var entries []queue.Settlement
				for _, it := range leased.Calls[0].Takers[0] {
					last := queue.Last{Status: 503, Error: "503 Service Unavailable"}
					var tells []queue.NewItem
					response := queue.MaxResponse
					if tell {
						response = 1258
						tells = []queue.NewItem{{ID: queue.NewID(), Queue: testQueue + 1, Content: queue.Content{
							Kind: queue.DoneKind, Encoding: "application/json", Payload: make([]byte, 600+response*3/2),
						}}}
					}
					entries = append(entries, queue.Settlement{
						Key: it.Key, Token: it.Token, Outcome: outcome, Delay: time.Hour, DeadQueue: testQueue, Reason: "rejected", Last: last,
						Record: &queue.Record{
							Type: queue.AttemptRecord, Subscription: "receiver", Verdict: "server_error", Status: 503,
							Error: last.Error, Response: make([]byte, response), Node: "node",
						},
						Produce: tells,
					})
				}
				settled, err := s.Settle(t.Context(), []queue.SettleGroup{{Entries: entries}})
				if err != nil || len(entries) != queue.DefaultMaxItems || settled.Groups[0][0].Status != queue.Applied {
					t.Fatalf("%v of %d: %v", outcome, len(entries), err)
				}
			}
		})
	}
}

func TestB03_TooLargeContentIsRefusedAlone(t *testing.T) {
	t.Parallel()
	s := open(t, badger.Options{Dir: t.TempDir()})
	group := func(size int) queue.ProduceGroup {
		return queue.ProduceGroup{Items: []queue.NewItem{{ID: queue.NewID(), Queue: testQueue, Content: queue.Content{Payload: make([]byte, size)}}}}
	}
	answer, err := s.Produce(t.Context(), []queue.ProduceGroup{group(1_000_000), group(1 << 20), group(1)})
	if err != nil {
		t.Fatal(err)
	}
	var tooLarge *queue.TooLargeError
	if !errors.As(answer.Groups[1].Err, &tooLarge) {
		t.Errorf("1 MiB: got %v, want a TooLargeError", answer.Groups[1].Err)
	}
	if answer.Groups[0].Err != nil || answer.Groups[2].Err != nil {
		t.Errorf("the others: got %v and %v, want none", answer.Groups[0].Err, answer.Groups[2].Err)
	}
	if got := len(leaseFrom(t, s, 3)); got != 2 {
		t.Errorf("leased %d, want 2", got)
	}
}

func TestB04_FailedCommitEndsTheStore(t *testing.T) {
	t.Parallel()
	s, err := badger.Open(badger.Options{Dir: t.TempDir(), MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	produce(t, s)
	badger.Break(t, s)
	item := queue.NewItem{ID: queue.NewID(), Queue: testQueue}
	if _, err := s.Produce(t.Context(), []queue.ProduceGroup{{Items: []queue.NewItem{item}}}); !errors.Is(err, queue.ErrUnknownOutcome) {
		t.Errorf("the call that met it: got %v, want %v", err, queue.ErrUnknownOutcome)
	}
	select {
	case <-s.Failed():
	case <-time.After(10 * time.Second):
		t.Fatal("Failed was not closed")
	}
	if _, err := s.Lease(t.Context(), nil); !errors.Is(err, queue.ErrUnavailable) {
		t.Errorf("later: got %v, want %v", err, queue.ErrUnavailable)
	}
	_ = s.Close() // what it says depends on how Badger takes it
}

func TestStore_UnsafeNoSyncSaysSo(t *testing.T) {
	t.Parallel()
	if s := open(t, badger.Options{Dir: t.TempDir(), UnsafeNoSync: true}); s.Durable() {
		t.Error("a store that does not sync says that it is durable")
	}
	if s := open(t, badger.Options{Dir: t.TempDir()}); !s.Durable() {
		t.Error("a store that syncs says that it is not durable")
	}
}

func TestB09_DamagedContentIsCountedAndOthersGoOn(t *testing.T) {
	t.Parallel()
	s := open(t, badger.Options{Dir: t.TempDir()})
	broken := produce(t, s)
	whole := produce(t, s)
	badger.Spoil(t, s, testQueue, broken)
	answer, err := s.Lease(t.Context(), []queue.LeaseCall{{Queue: testQueue, Takers: []queue.Taker{{Limit: 2, TTL: time.Minute}}}})
	if err != nil {
		t.Fatal(err)
	}
	result := answer.Calls[0]
	if result.Corrupt != 1 || len(result.Takers[0]) != 1 || result.Takers[0][0].ID != whole {
		t.Errorf("got %d corrupt and %d items, want 1 and the whole one", result.Corrupt, len(result.Takers[0]))
	}
	if got := total(t, s); got != 2 {
		t.Errorf("got %d items, want the broken one kept", got)
	}
}
