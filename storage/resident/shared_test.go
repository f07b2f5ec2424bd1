package resident

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/btree"

	"github.com/posthaste-io/posthaste/queue"
)

var (
	testTopic = queue.NewNumber(1, 100)
	testDead  = queue.NewNumber(1, 99)
)

// fanned is an item of a topic with a copy in each of some queues.
func fanned(payload string, queues ...queue.Number) queue.NewItem {
	item := queue.NewItem{ID: queue.NewID(), Topic: testTopic, Content: queue.Content{Payload: []byte(payload)}}
	for _, q := range queues {
		item.Copies = append(item.Copies, queue.Copy{Queue: q})
	}
	return item
}

func produce(t testing.TB, s *Store, items ...queue.NewItem) {
	t.Helper()
	answer, err := s.Produce(t.Context(), []queue.ProduceGroup{{Items: items}})
	if err != nil || answer.Groups[0].Err != nil {
		t.Fatalf("produce: %v, %+v", err, answer.Groups)
	}
}

func leaseOf(t testing.TB, s *Store, q queue.Number, limit int) []queue.Item {
	t.Helper()
	answer, err := s.Lease(t.Context(), []queue.LeaseCall{{Queue: q, Takers: []queue.Taker{{Limit: limit, TTL: time.Minute}}}})
	if err != nil {
		t.Fatal(err)
	}
	if answer.Calls[0].Corrupt > 0 {
		t.Fatalf("%d items of queue %d have no content", answer.Calls[0].Corrupt, q)
	}
	return answer.Calls[0].Takers[0]
}

// settleOne settles the first item of a queue.
func settleOne(t testing.TB, s *Store, q queue.Number, outcome queue.Outcome) {
	t.Helper()
	leased := leaseOf(t, s, q, 1)
	if len(leased) != 1 {
		t.Fatalf("queue %d gave no item", q)
	}
	settle(t, s, queue.Settlement{Key: leased[0].Key, Token: leased[0].Token, Outcome: outcome, DeadQueue: testDead})
}

func settle(t testing.TB, s *Store, entries ...queue.Settlement) {
	t.Helper()
	answer, err := s.Settle(t.Context(), []queue.SettleGroup{{Entries: entries}})
	if err != nil || answer.Groups[0][0].Status != queue.Applied {
		t.Fatalf("settle: %v, %+v", err, answer.Groups)
	}
}

func tidyAll(t testing.TB, s *Store) {
	t.Helper()
	for more := true; more; {
		var err error
		if more, err = s.Tidy(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
}

// stored is how many keys of a space there are.
func stored(d *fakeDisk, space byte) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(keysOf(&d.keys, space))
}

func keysOf(keys *btree.Map[string, []byte], space byte) []string {
	var found []string
	keys.Ascend(string(space), func(key string, _ []byte) bool {
		if key[0] != space {
			return false
		}
		found = append(found, key)
		return true
	})
	return found
}

func reopened(t testing.TB, s *Store, disk *fakeDisk, change func(*Options)) *Store {
	t.Helper()
	o := s.options
	if change != nil {
		change(&o)
	}
	o.Disk = disk
	again, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

func someQueues(n int) []queue.Number {
	queues := make([]queue.Number, n)
	for i := range queues {
		queues[i] = queue.NewNumber(1, uint32(1+i))
	}
	return queues
}

// Copies are buried, redriven and retried, with all of them in memory or nearly none; the
// content is there until the last has ended.
func TestShared_ContentGoesWithTheLastCopy(t *testing.T) {
	t.Parallel()
	for _, window := range []int{0, 1} {
		t.Run(fmt.Sprintf("window %d", window), func(t *testing.T) {
			t.Parallel()
			s, disk := setup(t, Options{Window: window})
			queues := someQueues(6)
			produce(t, s, fanned("payload", queues...))
			check := func(when string, want int) {
				t.Helper()
				tidyAll(t, s)
				if got := stored(disk, spaceShared); got != want {
					t.Fatalf("%s: got %d shared contents, want %d", when, got, want)
				}
				if got := stored(disk, spaceContent) + stored(disk, spaceSuspect); got != 0 {
					t.Fatalf("%s: %d contents of single items and marks are there, want none", when, got)
				}
			}
			check("produced", 1)
			settleOne(t, s, queues[0], queue.Complete)
			settleOne(t, s, queues[1], queue.Bury)
			settleOne(t, s, queues[2], queue.Release)
			check("one ended", 1)
			s = reopened(t, s, disk, nil)
			settleOne(t, s, queues[2], queue.Complete)
			settleOne(t, s, queues[3], queue.Complete)
			settleOne(t, s, queues[4], queue.Bury)
			settleOne(t, s, queues[5], queue.Complete)
			check("two are dead", 1)
			dead, err := s.ListItems(t.Context(), queue.ListRequest{Queue: testDead, Limit: 10, Content: true})
			if err != nil || len(dead.Items) != 2 || string(dead.Items[0].Payload) != "payload" {
				t.Fatalf("dead: %v, %+v", err, dead.Items)
			}
			for _, it := range dead.Items {
				status, err := s.Move(t.Context(), []queue.Move{{Key: it.Key, Target: it.Home}})
				if err != nil || status[0] != queue.Moved {
					t.Fatalf("move: %v, %v", status, err)
				}
			}
			check("redriven", 1)
			s = reopened(t, s, disk, nil)
			settleOne(t, s, queues[1], queue.Complete)
			check("one is left", 1)
			if left := leaseOf(t, s, queues[4], 1); len(left) != 1 || string(left[0].Payload) != "payload" {
				t.Fatalf("the last copy: got %+v", left)
			} else {
				settle(t, s, queue.Settlement{Key: left[0].Key, Token: left[0].Token, Outcome: queue.Complete})
			}
			check("all ended", 0)
		})
	}
}

// What lives keeps what it came with, and each content goes with its own last copy.
func TestShared_ARepeatHasAContentOfItsOwn(t *testing.T) {
	t.Parallel()
	s, disk := setup(t, Options{})
	queues := someQueues(2)
	item := fanned("first", queues...)
	produce(t, s, item)
	settleOne(t, s, queues[0], queue.Complete)
	item.Payload = []byte("second")
	produce(t, s, item)
	if got := stored(disk, spaceShared); got != 2 {
		t.Errorf("got %d contents, want that of each call", got)
	}
	for i, want := range []string{"second", "first"} {
		if got := leaseOf(t, s, queues[i], 1); len(got) != 1 || string(got[0].Payload) != want {
			t.Errorf("queue %d: got %+v, want %q", i, got, want)
		}
	}
	if _, err := s.Purge(t.Context(), queue.PurgeRequest{Limit: 1, Keys: []queue.Key{{ID: item.ID, Queue: queues[1], Home: queues[1]}}}); err != nil {
		t.Fatal(err)
	}
	if got := stored(disk, spaceShared); got != 1 {
		t.Errorf("got %d contents after the first call's only copy was cancelled, want 1", got)
	}
}

func TestShared_OneCopyHasItsOwn(t *testing.T) {
	t.Parallel()
	s, disk := setup(t, Options{})
	produce(t, s, fanned("payload", testQueue))
	if own, shared := stored(disk, spaceContent), stored(disk, spaceShared); own != 1 || shared != 0 {
		t.Errorf("got %d own and %d shared contents, want 1 and 0", own, shared)
	}
}

func TestShared_ManyCopiesCountOnce(t *testing.T) {
	t.Parallel()
	const many, size = 1000, 100_000
	s, _ := setup(t, Options{MaxGroup: 2*size + many*itemOverhead})
	produce(t, s, fanned(strings.Repeat("x", size), someQueues(many)...))
	answer, err := s.Produce(t.Context(), []queue.ProduceGroup{{Items: []queue.NewItem{fanned(strings.Repeat("x", 2*size), someQueues(many)...)}}})
	if tooLarge := (*queue.TooLargeError)(nil); err != nil || !errors.As(answer.Groups[0].Err, &tooLarge) {
		t.Errorf("got %v, %v, want a TooLargeError", err, answer.Groups[0].Err)
	}
}

// More copies than an entry can number begin a second content.
func TestShared_CopiesBeyondTheNumberOfOneContent(t *testing.T) {
	t.Parallel()
	s, _ := setup(t, Options{})
	item := queue.NewItem{Topic: testTopic, Copies: make([]queue.Copy, sharers+1)}
	if got := contents(&item); got != 2 {
		t.Errorf("contents: got %d, want 2", got)
	}
	a := arrival{NewItem: &item}
	for _, tt := range []struct {
		seq  uint64
		body uint64
		nth  uint16
	}{{7, 7, 0}, {8, 7, 1}, {7 + sharers - 1, 7, sharers - 1}, {7 + sharers, 7 + sharers, 0}} {
		topic, nth := s.putContent(&a, queue.Copy{Queue: testQueue}, tt.seq)
		if topic != testTopic || nth != tt.nth || a.body != tt.body {
			t.Errorf("seq %d: got copy %d of content %d, want %d of %d", tt.seq, nth, a.body, tt.nth, tt.body)
		}
	}
	if len(s.batch) != 2 {
		t.Errorf("got %d contents written, want 2", len(s.batch))
	}
}

// The file has a topic's item as it was stored while each copy had a content of its own: of
// six copies one was buried, one is retried, one ended, one is leased, two are on the disk.
func TestShared_CopiesThatWereStoredApartGoOn(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile(filepath.Join("testdata", "copies-apart.txt"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(file)), "\n")
	disk := &fakeDisk{}
	if _, err := fmt.Sscan(lines[0], &disk.mark.Seq, &disk.mark.Stamp, &disk.mark.Items); err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[1:] {
		key, value, _ := strings.Cut(line, " ")
		k, err1 := hex.DecodeString(key)
		v, err2 := hex.DecodeString(value)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		disk.keys.Set(string(k), v)
	}
	at := instant(disk.mark.Stamp).Add(2 * time.Hour)
	s, err := Open(Options{Window: 2, Disk: disk, Now: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	var item queue.NewItem
	for _, q := range append(someQueues(6), testDead) {
		for _, it := range leaseOf(t, s, q, 10) {
			if string(it.Payload) != "payload" || it.Kind != "kind" {
				t.Errorf("queue %d: got %+v, want the content", q, it.Content)
			}
			item = fanned("again", someQueues(6)...)
			item.ID = it.ID
			settle(t, s, queue.Settlement{Key: it.Key, Token: it.Token, Outcome: queue.Complete})
		}
	}
	if own := stored(disk, spaceContent); own != 0 {
		t.Errorf("%d contents are left behind", own)
	}
	produce(t, s, item)
	if own, shared := stored(disk, spaceContent), stored(disk, spaceShared); own != 0 || shared != 1 {
		t.Errorf("the same item again: got %d own and %d shared contents, want 0 and 1", own, shared)
	}
}

// Nobody can say of what cannot be read that it does not need a content.
func TestShared_UnreadableCopyKeepsTheContent(t *testing.T) {
	t.Parallel()
	s, disk := setup(t, Options{Window: 1})
	queues := someQueues(3)
	produce(t, s, fanned("payload", queues...))
	settleOne(t, s, queues[0], queue.Complete)
	settleOne(t, s, queues[1], queue.Complete)
	var hidden string
	for _, key := range keysOf(&disk.keys, spaceCold) {
		hidden = key
	}
	state, _ := disk.keys.Get(hidden)
	disk.keys.Set(hidden, state[:3])
	for range 2 {
		tidyAll(t, s)
		if got := stored(disk, spaceShared); got != 1 {
			t.Fatalf("got %d contents, want the one that an unreadable copy may need", got)
		}
	}
	disk.keys.Set(hidden, state)
	settleOne(t, s, queues[2], queue.Complete)
	tidyAll(t, s)
	if got := stored(disk, spaceShared) + stored(disk, spaceSuspect); got != 0 {
		t.Errorf("%d contents and marks are left", got)
	}
}

// A copy that went to the disk a moment ago is there for nobody but who rereads.
func TestShared_TidySeesCopiesThatAreNotDurableYet(t *testing.T) {
	t.Parallel()
	s, disk := setup(t, Options{Window: 1})
	disk.late = true
	queues := someQueues(2)
	produce(t, s, fanned("payload", queues...), fanned("other", queues...))
	settleOne(t, s, queues[0], queue.Complete)
	if stored(disk, spaceSuspect) != 1 {
		t.Fatal("the content is not marked")
	}
	leaseOf(t, s, queues[0], 1) // which takes the place in memory
	disk.sync(len(disk.pending))
	settleOne(t, s, queues[1], queue.Release)
	disk.sync(len(disk.pending) - 1) // the lease; the release is on its way
	spilled := false
	for _, w := range disk.pending[0] {
		spilled = spilled || w.Key[0] == spacePointer && !w.Delete
	}
	if !spilled {
		t.Fatalf("the copy is in memory, or durable on the disk: %+v", disk.pending)
	}
	tidyAll(t, s)
	disk.sync(len(disk.pending))
	if got := leaseOf(t, s, queues[1], 1); len(got) != 1 || string(got[0].Payload) != "payload" {
		t.Errorf("got %+v, want the copy with its content", got)
	}
}

// What leads to the copies of one item may be thousands of keys.
func TestShared_TidyLetsTheLockGoByTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var longest time.Duration
		last := time.Now()
		// Every hold of the lock begins with a look at the clock.
		s, disk := setup(t, Options{Window: 1, Now: func() time.Time {
			now := time.Now()
			longest, last = max(longest, now.Sub(last)), now
			return now
		}})
		suspects(t, s, disk, reapPage)
		const look = time.Millisecond
		disk.scanning = func(r Range) {
			if r.From[0] == spacePointer {
				<-time.After(look)
			}
		}
		tidyAll(t, s)
		if longest > reapHold+look {
			t.Errorf("the lock was held for %v, want %v at most", longest, reapHold+look)
		}
		if got := stored(disk, spaceSuspect); got != 0 {
			t.Errorf("%d marks are left", got)
		}
	})
}

// What was deleted is passed again by every scan that begins before it.
func TestShared_TidyGoesOnBehindWhatItJudged(t *testing.T) {
	t.Parallel()
	s, disk := setup(t, Options{Window: 1})
	var scans [][]byte
	disk.scanning = func(r Range) {
		if r.From[0] == spaceSuspect {
			scans = append(scans, r.From)
		}
	}
	suspects(t, s, disk, 2*reapPage)
	marks := keysOf(&disk.keys, spaceSuspect)
	tidyAll(t, s)
	if want := []string{string(spaceSuspect), marks[reapPage-1] + "\x00"}; len(scans) < 2 || string(scans[0]) != want[0] || string(scans[1]) != want[1] {
		t.Errorf("got scans from %q, want them from %q", scans, want)
	}
	scans = nil
	tidyAll(t, s)
	if len(scans) != 0 {
		t.Errorf("nothing is marked: got scans from %q, want none", scans)
	}
	settleOne(t, s, someQueues(2)[1], queue.Complete)
	settleOne(t, s, someQueues(2)[1], queue.Complete)
	marks = keysOf(&disk.keys, spaceSuspect)
	tidyAll(t, s)
	if len(marks) == 0 || len(scans) != 1 || string(scans[0]) != marks[0] {
		t.Errorf("got scans from %q, want one from the first of %q", scans, marks)
	}
	if got := stored(disk, spaceSuspect); got != 0 {
		t.Errorf("%d marks are left", got)
	}
}
