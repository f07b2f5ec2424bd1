// Package memory keeps everything in memory and loses it when the process ends.
// It says so: its Durable is false.
//
// It is fast, and right in all else: order, fencing, deduplication and sweeping
// are the same code that the Badger store runs on. It suits tests, development
// and work that a restart may forget. Its journal keeps the newest [MaxRecords]
// records.
package memory

import (
	"bytes"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/resident"
)

// MaxRecords bounds the journal.
const MaxRecords = 200_000

// Options are the store's; the zero value works.
type Options struct {
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Store is a [storage.Backend] in memory. Its methods may be called concurrently.
type Store struct {
	*resident.Store
}

var _ storage.Backend = (*Store)(nil)

// New returns an empty store.
func New(o Options) *Store {
	s, err := resident.Open(resident.Options{
		Now:        o.Now,
		Disk:       &tree{},
		Volatile:   true,
		MaxRecords: MaxRecords,
	})
	if err != nil {
		panic("memory: " + err.Error()) // an empty tree has nothing that could not be read
	}
	return &Store{s}
}

// Close implements [storage.Backend].
func (s *Store) Close() error {
	s.Shut()
	return nil
}

// tree is a [resident.Disk] without a disk. All is done when it was appended.
type tree struct {
	mu   sync.RWMutex
	keys btree.Map[string, []byte]
}

var _ resident.Disk = (*tree)(nil)

// Append implements [resident.Disk].
func (t *tree) Append(writes []resident.Write, _ resident.Mark) *resident.Commit {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range writes {
		if w.Delete {
			t.keys.Delete(string(w.Key))
		} else {
			// Copied, since the store cuts many values from one block, which the
			// longest-lived of them would keep.
			t.keys.Set(string(w.Key), bytes.Clone(w.Value))
		}
	}
	return nil
}

// Get implements [resident.Disk].
func (t *tree) Get(key []byte) ([]byte, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	value, _ := t.keys.Get(string(key))
	return bytes.Clone(value), nil
}

// scanPage is how much a scan reads before it lets others write, so that visit
// may read too.
const scanPage = 256

// Scan implements [resident.Disk].
func (t *tree) Scan(r resident.Range, visit func(key, value []byte) bool) error {
	type pair struct {
		key   string
		value []byte
	}
	from, to := string(r.From), string(r.To)
	page := make([]pair, 0, scanPage)
	for {
		page = page[:0]
		take := func(key string, value []byte) bool {
			if r.Backward && key < from || !r.Backward && key >= to {
				return false
			}
			if !r.Backward || key < to {
				page = append(page, pair{key, value})
			}
			return len(page) < scanPage
		}
		t.mu.RLock()
		if r.Backward {
			t.keys.Descend(to, take)
		} else {
			t.keys.Ascend(from, take)
		}
		t.mu.RUnlock()
		for _, p := range page {
			if !visit([]byte(p.key), p.value) {
				return nil
			}
		}
		if len(page) < scanPage {
			return nil
		}
		last := page[len(page)-1].key
		if r.Backward {
			to = last
		} else {
			from = last + "\x00"
		}
	}
}

// Mark implements [resident.Disk].
func (t *tree) Mark() resident.Mark { return resident.Mark{} }
