package resident

import (
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// Tables that were set aside may have had the states of copies, or what points at them.
func TestShared_LossIsMended(t *testing.T) {
	t.Parallel()
	s, disk := setup(t, Options{Window: 1})
	queues := someQueues(2)
	produce(t, s, fanned("kept", queues...))
	produce(t, s, fanned("lost", queues...))
	for _, key := range keysOf(&disk.keys, spacePointer) {
		disk.keys.Delete(key)
	}
	for _, space := range []byte{spaceState, spaceCold} {
		for _, key := range keysOf(&disk.keys, space) {
			value, _ := disk.keys.Get(key)
			st, err := decodeState(value)
			if err != nil {
				t.Fatal(err)
			}
			if st.name().body > 2 {
				disk.keys.Delete(key)
			}
		}
	}
	s = reopened(t, s, disk, func(o *Options) { o.AcceptLoss = true })
	tidyAll(t, s)
	if got := stored(disk, spaceShared); got != 1 {
		t.Fatalf("got %d contents, want the one that is left", got)
	}
	settleOne(t, s, queues[0], queue.Complete)
	tidyAll(t, s)
	if got := leaseOf(t, s, queues[1], 1); len(got) != 1 || string(got[0].Payload) != "kept" {
		t.Errorf("got %+v, want the copy with its content", got)
	}
}

// The keys that point at an item may be in a table that is whole while its state is not.
func TestShared_PointersToLostStatesAreMended(t *testing.T) {
	t.Parallel()
	s, disk := setup(t, Options{Window: 1})
	queues := someQueues(3)
	kept, lost := fanned("kept", queues...), fanned("lost", queues...)
	lost.ExpireTTL = time.Second
	produce(t, s, kept, lost)
	for _, key := range append(keysOf(&disk.keys, spaceCold), keysOf(&disk.keys, spaceState)...) {
		if strings.Contains(key, string(lost.ID[:])) {
			disk.keys.Delete(key)
		}
	}
	if pointers, expiries := stored(disk, spacePointer), stored(disk, spaceExpiry); pointers <= 3 || expiries == 0 {
		t.Fatalf("got %d pointers and %d expiries, want those of what is lost", pointers, expiries)
	}
	s = reopened(t, s, disk, func(o *Options) { o.AcceptLoss = true })
	later := func(o *Options) {
		o.AcceptLoss = false
		at := o.Now().Add(time.Minute)
		o.Now = func() time.Time { return at }
	}
	s = reopened(t, s, disk, later) // before anything was tidied
	if found, err := s.Find(t.Context(), []queue.ID{lost.ID}, true); err != nil || len(found) != 0 {
		t.Errorf("what is lost: got %v, %+v, want nothing", err, found)
	}
	if _, err := s.Sweep(t.Context(), queue.SweepRequest{Limit: 10}); err != nil {
		t.Errorf("sweep: %v", err)
	}
	tidyAll(t, s)
	if got := stored(disk, spaceShared) + stored(disk, spaceSuspect); got != 1 {
		t.Errorf("got %d contents and marks, want the content of what is kept", got)
	}
	var walked []byte
	disk.scanning = func(r Range) { walked = append(walked, r.From[0]) }
	s = reopened(t, s, disk, nil)
	if n := strings.Count(string(walked), string(spaceCold)); n != 1 {
		t.Errorf("a third start walked the cold space %d times, want once", n)
	}
	produce(t, s, lost)
	for _, q := range queues {
		if got := leaseOf(t, s, q, 10); len(got) != 2 {
			t.Errorf("queue %d: got %d items, want the kept one and the one that came again", q, len(got))
		}
	}
}

// A table that had nothing but what points at items is missed by nobody else.
func TestShared_LostPointersAreMended(t *testing.T) {
	t.Parallel()
	s, disk := setup(t, Options{Window: 1})
	queues := someQueues(3)
	produce(t, s, fanned("payload", queues...))
	for _, key := range keysOf(&disk.keys, spacePointer) {
		disk.keys.Delete(key)
	}
	s = reopened(t, s, disk, nil)
	settleOne(t, s, queues[0], queue.Complete)
	settleOne(t, s, queues[1], queue.Complete)
	tidyAll(t, s)
	if got := leaseOf(t, s, queues[2], 1); len(got) != 1 || string(got[0].Payload) != "payload" {
		t.Errorf("got %+v, want the copy with its content", got)
	}
}

// suspects makes marks of contents that may have lost their last copy, n of them, by ending the
// copy in memory while the other one is on the disk.
func suspects(t testing.TB, s *Store, disk *fakeDisk, n int) {
	t.Helper()
	queues := someQueues(2)
	for range n {
		produce(t, s, fanned("payload", queues...))
	}
	for range n {
		settleOne(t, s, queues[0], queue.Complete)
	}
	if got := stored(disk, spaceSuspect); got < n {
		t.Fatalf("got %d marks, want at least %d", got, n)
	}
}

// A store that was written by a later version is not one that lost something.
func TestStore_StateOfANewerVersionIsRefusedAsSuch(t *testing.T) {
	t.Parallel()
	for _, window := range []int{0, 1} {
		for _, accept := range []bool{false, true} {
			s, disk := setup(t, Options{Window: window})
			fill(t, s, 2, nil)
			key := keysOf(&disk.keys, spaceState)[0]
			if window > 0 {
				key = keysOf(&disk.keys, spaceCold)[0]
			}
			for format, want := range map[byte]string{newestStateFormat + 1: "of a newer version, or damaged", 0: "value is damaged"} {
				value, _ := disk.keys.Get(key)
				value = append([]byte{format}, value[1:]...)
				disk.keys.Set(key, value)
				o := s.options
				o.AcceptLoss = accept
				if _, err := Open(o); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("window %d, format %d, loss accepted %v: got %v, want an error that says %q", window, format, accept, err, want)
				}
			}
		}
	}
}
