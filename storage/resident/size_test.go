package resident

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// What an engine refuses for its size is refused too late, so nothing may write
// more than was measured before. Nor much less, or legal calls would not pass.
func TestB03_NoGroupWritesMoreThanWasMeasured(t *testing.T) {
	t.Parallel()
	const n = 50
	text := strings.Repeat("t", queue.MaxLastError)
	for _, window := range []int{0, 1} {
		t.Run(fmt.Sprintf("produce/window %d", window), func(t *testing.T) {
			t.Parallel()
			s, disk := setup(t, Options{Window: window})
			items := make([]queue.NewItem, n)
			for i := range items {
				items[i] = largestItem(i)
			}
			_, measured, err := s.prepare(items, "items")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Produce(t.Context(), []queue.ProduceGroup{{Items: items}}); err != nil {
				t.Fatal(err)
			}
			checkWritten(t, disk.written, measured, n*itemOverhead)
		})
		t.Run(fmt.Sprintf("produce to a topic/window %d", window), func(t *testing.T) {
			t.Parallel()
			s, disk := setup(t, Options{Window: window})
			item := largestItem(0)
			item.Topic, item.Payload = queue.NewNumber(1, 1<<32-1), make([]byte, 100_000)
			for i := range uint32(n) {
				item.Copies = append(item.Copies, queue.Copy{Queue: queue.NewNumber(1, 1+i)})
			}
			_, measured, err := s.prepare([]queue.NewItem{item}, "items")
			if err != nil {
				t.Fatal(err)
			}
			produce(t, s, item)
			checkWritten(t, disk.written, measured, n*itemOverhead)
		})
		for _, outcome := range []queue.Outcome{queue.Complete, queue.Retry, queue.Release, queue.Bury} {
			for _, guard := range []queue.Guard{queue.Held, queue.NotLive} {
				t.Run(fmt.Sprintf("%v/guard %d/window %d", outcome, guard, window), func(t *testing.T) {
					t.Parallel()
					now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
					s, disk := setup(t, Options{Window: window, Now: func() time.Time { return now }})
					entries := settleTwice(t, s, n, text)
					if guard == queue.NotLive {
						now = now.Add(time.Hour)
					}
					measured := 0
					for i := range entries {
						e := &entries[i]
						e.Outcome, e.Guard, e.Delay = outcome, guard, time.Hour
						e.Last = queue.Last{Status: 503, Error: text}
						e.Record = &queue.Record{
							Type: queue.AttemptRecord, Subscription: text, StartedAt: now, Duration: time.Hour,
							Verdict: text, Status: 503, Error: text, Response: make([]byte, queue.MaxResponse), Node: text,
						}
						measured += entrySize(e)
					}
					disk.written = 0
					answer, err := s.Settle(t.Context(), []queue.SettleGroup{{Entries: entries}})
					if err != nil || answer.Groups[0][0].Status != queue.Applied {
						t.Fatalf("settle: %v, %+v", err, answer.Groups)
					}
					checkWritten(t, disk.written, measured, n*(entryOverhead+3*queue.MaxLastError))
				})
			}
		}
	}
}

func checkWritten(t *testing.T, written, measured, slack int) {
	t.Helper()
	if written > measured || written < measured-slack {
		t.Errorf("got %d bytes written, want at most the %d that were measured, and at least %d", written, measured, measured-slack)
	}
}

// largestItem has all that an item can have beside its content.
func largestItem(i int) queue.NewItem {
	return queue.NewItem{
		ID: queue.NewID(), Queue: testQueue, Delay: 24 * time.Hour, ExpireTTL: 24 * time.Hour, MaxAttempts: 1_000_000,
		Dedupe: &queue.Dedupe{Scope: testQueue, Key: fmt.Sprintf("%0255d", i), TTL: time.Hour},
	}
}

// settleTwice leases items that carry long texts and have earlier copies in the
// dead-letter queue, and returns their settlements, which are yet to be chosen.
func settleTwice(t *testing.T, s *Store, n int, text string) []queue.Settlement {
	t.Helper()
	dead := queue.NewNumber(1, 2)
	settle := func(outcome queue.Outcome) {
		for _, it := range lease(t, s, n) {
			entry := queue.Settlement{
				Key: it.Key, Token: it.Token, Outcome: outcome, DeadQueue: dead, Reason: text, Last: queue.Last{Error: text},
			}
			answer, err := s.Settle(t.Context(), []queue.SettleGroup{{Entries: []queue.Settlement{entry}}})
			if err != nil || answer.Groups[0][0].Status != queue.Applied {
				t.Fatalf("settle: %v, %+v", err, answer.Groups)
			}
		}
	}
	ids := fill(t, s, n, nil)
	settle(queue.Bury)
	fill(t, s, n, func(it *queue.NewItem) {
		it.ID, ids = ids[0], ids[1:]
		it.ExpireTTL = 24 * time.Hour
	})
	settle(queue.Retry)
	var entries []queue.Settlement
	for _, it := range lease(t, s, n) {
		entries = append(entries, queue.Settlement{Key: it.Key, Token: it.Token, DeadQueue: dead, Reason: text})
	}
	if len(entries) != n {
		t.Fatalf("leased %d items, want %d", len(entries), n)
	}
	return entries
}

// Many takers with much to carry are no group, and go to the disk in parts.
func TestB03_LeaseOfManyGoesToTheDiskInParts(t *testing.T) {
	t.Parallel()
	s, disk := setup(t, Options{})
	const n = 4 * sealAfter
	fill(t, s, n, nil)
	disk.written = 0
	takers := make([]queue.Taker, 4)
	for i := range takers {
		takers[i] = queue.Taker{Limit: n / 4, TTL: time.Minute, Owner: strings.Repeat("o", queue.MaxLabel)}
	}
	answer, err := s.Lease(t.Context(), []queue.LeaseCall{{Queue: testQueue, Takers: takers}})
	if err != nil {
		t.Fatal(err)
	}
	for i, items := range answer.Calls[0].Takers {
		if len(items) != n/4 {
			t.Errorf("taker %d got %d items, want %d", i, len(items), n/4)
		}
	}
	if bound := sealAfter * 1000; disk.written > bound {
		t.Errorf("%d bytes went to the disk at once, want at most %d", disk.written, bound)
	}
}
