package resident

import (
	"bytes"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/btree"

	"github.com/posthaste-io/posthaste/queue"
)

// fakeDisk is a Disk in memory that can be told to hold its commits back.
type fakeDisk struct {
	mu      sync.Mutex
	keys    btree.Map[string, []byte] // all that was appended
	mark    Mark
	forgets bool // throws away what it is given
	holds   bool
	held    []*Commit
	scans   int
	written int // by the largest Append, as engines count
	// late says that what is appended is durable from sync on: until then only what is to be
	// reread is seen. The caller goes on at once, as though it were many callers.
	late    bool
	pending [][]Write
	durable *btree.Map[string, []byte] // without what is pending; nil if nothing is
	// scanning is called at the begin of every Scan.
	scanning func(r Range)
	// after is called with every Append done, as a crash would leave the disk.
	after func(keys *btree.Map[string, []byte])
}

// engineOverhead is more than Badger adds to a write where it bounds a transaction.
const engineOverhead = 16

func (d *fakeDisk) Append(writes []Write, mark Mark) *Commit {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mark = mark
	written := 0
	for _, w := range writes {
		written += len(w.Key) + len(w.Value) + engineOverhead
	}
	d.written = max(d.written, written)
	if d.late {
		if d.durable == nil {
			d.durable = d.keys.Copy()
		}
		d.pending = append(d.pending, slices.Clone(writes))
	}
	if !d.forgets {
		apply(&d.keys, writes)
	}
	if d.after != nil {
		d.after(&d.keys)
	}
	if !d.holds {
		return nil
	}
	d.held = append(d.held, NewCommit())
	return d.held[len(d.held)-1]
}

func apply(keys *btree.Map[string, []byte], writes []Write) {
	for _, w := range writes {
		if w.Delete {
			keys.Delete(string(w.Key))
		} else {
			keys.Set(string(w.Key), bytes.Clone(w.Value))
		}
	}
}

// sync makes the first n commits durable of those that are not.
func (d *fakeDisk) sync(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, writes := range d.pending[:n] {
		apply(d.durable, writes)
	}
	if d.pending = d.pending[n:]; len(d.pending) == 0 {
		d.durable = nil
	}
}

// view is what is durable, with what is to be reread beside it or not.
func (d *fakeDisk) view(reread bool) *btree.Map[string, []byte] {
	if d.durable == nil {
		return d.keys.Copy()
	}
	keys := d.durable.Copy()
	if reread {
		for _, writes := range d.pending {
			apply(keys, slices.DeleteFunc(slices.Clone(writes), func(w Write) bool { return !w.Reread }))
		}
	}
	return keys
}

func (d *fakeDisk) Get(key []byte) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	keys := &d.keys
	if key[0] != spaceContent && key[0] != spaceShared { // who reads contents waits for their commit
		keys = d.view(true)
	}
	value, _ := keys.Get(string(key))
	return bytes.Clone(value), nil
}

func (d *fakeDisk) Scan(r Range, visit func(key, value []byte) bool) error {
	d.mu.Lock()
	keys := d.view(r.Reread)
	d.scans++
	d.mu.Unlock()
	if d.scanning != nil {
		d.scanning(r)
	}
	keys.Ascend(string(r.From), func(key string, value []byte) bool {
		return key < string(r.To) && visit([]byte(key), value)
	})
	return nil
}

func (d *fakeDisk) Mark() Mark { return d.mark }

// setup opens a store over a fakeDisk, at a time that stands still.
func setup(t testing.TB, o Options) (*Store, *fakeDisk) {
	t.Helper()
	disk := &fakeDisk{}
	o.Disk = disk
	if o.Now == nil {
		at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		o.Now = func() time.Time { return at }
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s, disk
}

var testQueue = queue.NewNumber(1, 1)

// fill produces n plain items and returns their ids.
func fill(t testing.TB, s *Store, n int, change func(*queue.NewItem)) []queue.ID {
	t.Helper()
	ids := make([]queue.ID, 0, n)
	for len(ids) < n {
		items := make([]queue.NewItem, min(1000, n-len(ids)))
		for i := range items {
			items[i] = queue.NewItem{ID: queue.NewID(), Queue: testQueue}
			if change != nil {
				change(&items[i])
			}
			ids = append(ids, items[i].ID)
		}
		if _, err := s.Produce(t.Context(), []queue.ProduceGroup{{Items: items}}); err != nil {
			t.Fatal(err)
		}
	}
	return ids
}

func lease(t testing.TB, s *Store, limit int) []queue.Item {
	t.Helper()
	answer, err := s.Lease(t.Context(), []queue.LeaseCall{{
		Queue: testQueue, Takers: []queue.Taker{{Limit: limit, TTL: time.Minute}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Calls[0].Takers[0]
}
