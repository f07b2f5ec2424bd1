//go:build linux

package badger_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/badger"
)

// powerCuts is how often the power is cut: a few times, and thirty where the tests
// are meant to take long.
func powerCuts() int {
	if os.Getenv("CI") == "true" {
		return 30
	}
	return 8
}

// The power is cut again and again, at moments that differ. A store that comes back is
// looked at after every second time: the other half of the writers begin with what
// the cut before them left, which may be cut again while they open it.
func TestB01_PowerCutUnderLoadLosesNothingAcknowledged(t *testing.T) {
	disk := newPowerDisk(t)
	known := ledger{}
	for round := range powerCuts() {
		disk.mount()
		w := startWriter(t, disk.dir, badger.Options{})
		w.readUntil(known, rand.IntN(20_000), 700*time.Millisecond)
		disk.cut()
		w.kill(known)
		disk.unmount()
		if round%2 == 0 {
			continue
		}
		disk.mount()
		s, err := badger.Open(powerOptions(disk.dir, badger.Options{}))
		if err != nil {
			t.Fatalf("open after cut %d: %v", round+1, err)
		}
		got := known.judge(t, s, time.Now())
		if got.lost > 0 || got.unleased > 0 || got.returned > 0 {
			t.Errorf("after cut %d: %+v", round+1, got)
		}
		t.Logf("after cut %d: %d items known, %d tables written", round+1, len(known), disk.tables())
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		disk.unmount()
	}
	if len(known) == 0 {
		t.Error("nothing was acknowledged in all rounds, so nothing was shown")
	}
}

// Without flushes the same cut loses acknowledged work, so the test above can fail.
// The store says so, and how much, but for the commits of the second before the cut:
// the high-water file is flushed once a second.
func TestB01_WithoutFlushesThePowerCutLosesAndIsReported(t *testing.T) {
	// A second, and as much again for a busy machine.
	const unreported = 2 * time.Second
	disk := newPowerDisk(t)
	disk.mount()
	known := ledger{}
	o := badger.Options{UnsafeNoSync: true}
	w := startWriter(t, disk.dir, o)
	w.readUntil(known, 1<<30, 3200*time.Millisecond)
	disk.cut()
	cut := time.Now()
	w.kill(known)
	disk.unmount()
	disk.mount()

	var damaged *badger.DamagedError
	if _, err := badger.Open(powerOptions(disk.dir, o)); !errors.As(err, &damaged) {
		t.Fatalf("open: got %v, want a DamagedError", err)
	}
	if want := known.commitsBefore(cut.Add(-unreported)); damaged.Want < want || want == 0 {
		t.Errorf("got %+v, want it to know of the %d commits that were acknowledged %v before the cut", damaged, want, unreported)
	}
	o.AcceptDataLoss = true
	s, err := badger.Open(powerOptions(disk.dir, o))
	if err != nil {
		t.Fatal(err)
	}
	got := known.judge(t, s, cut)
	if got.lost == 0 {
		t.Error("nothing was lost, so the cut cuts nothing")
	}
	t.Logf("%v; %d commits were acknowledged: %+v of %d items", damaged, known.commitsBefore(cut), got, len(known))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	disk.unmount()
}

// ledger is what the writers said, kept outside of what is cut.
type ledger map[queue.ID]*fate

type fate struct {
	produced time.Time // when that was read; zero if it was never acknowledged
	commits  uint64    // that there were by then
	token    uint64    // of its lease, the random half; zero if there was none
	settling bool      // a settle was sent
	complete time.Time // when its answer was read, or zero
}

func (l ledger) of(id queue.ID) *fate {
	if l[id] == nil {
		l[id] = &fate{}
	}
	return l[id]
}

func (l ledger) commitsBefore(at time.Time) uint64 {
	var n uint64
	for _, f := range l {
		if isBefore(f.produced, at) {
			n = max(n, f.commits)
		}
	}
	return n
}

// judgement counts items.
type judgement struct {
	lost     int // produced and not settled, and not there
	unleased int // leased and not settled, and free or in other hands
	returned int // completed, and there
}

// judge compares a store with what was acknowledged before a moment. What was sent
// and not answered may have happened or not.
func (l ledger) judge(t *testing.T, s *badger.Store, before time.Time) judgement {
	t.Helper()
	var j judgement
	for id, f := range l {
		found, err := s.Find(t.Context(), []queue.ID{id}, true)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case isBefore(f.complete, before) && len(found) > 0:
			j.returned++
		case f.settling || !isBefore(f.produced, before):
		case len(found) != 1:
			j.lost++
		case f.token != 0 && (!found[0].Held || found[0].Token.Random != f.token):
			j.unleased++
		}
	}
	return j
}

func isBefore(at, limit time.Time) bool { return !at.IsZero() && at.Before(limit) }
