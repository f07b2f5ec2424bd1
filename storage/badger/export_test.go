package badger

import (
	"bytes"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/resident"
)

// Small makes a store that costs little to open, and that takes no large calls.
func Small(o Options) Options {
	o.tableSize = 16 << 20
	return o
}

// Sized makes a store whose tables and logs have that many bytes or so: 8 MB at
// least, for values of ours.
func Sized(o Options, bytes int64) Options {
	o.tableSize = bytes
	return o
}

// Commits is how many the store has made since it was opened anew.
func Commits(s *Store) uint64 { return s.disk.durable.Load() }

// Break makes the next commit fail, as a refused sync does.
func Break(t testing.TB, s *Store) {
	t.Helper()
	if err := s.disk.flusher.close(); err != nil {
		t.Fatal(err)
	}
}

// Spoil overwrites the content of an item that nobody touched with one that does
// not check.
func Spoil(t testing.TB, s *Store, home queue.Number, id queue.ID) {
	t.Helper()
	found, err := s.Find(t.Context(), []queue.ID{id}, true)
	if err != nil || len(found) != 1 {
		t.Fatalf("find: %v, %v", found, err)
	}
	key := append([]byte{'b'}, be64(uint64(home))...)
	key = append(key, be64(found[0].Seq)...)
	Overwrite(t, s, resident.Write{Key: key, Value: []byte{1, 0, 0, 0, 0, 9}}, found[0].Seq)
}

// Overwrite writes what the store would not.
func Overwrite(t testing.TB, s *Store, w resident.Write, seq uint64) {
	t.Helper()
	if err := s.disk.Append([]resident.Write{w}, resident.Mark{Seq: seq}).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Keys are all of a space.
func Keys(t testing.TB, s *Store, space byte) (keys [][]byte) {
	t.Helper()
	r := resident.Range{From: []byte{space}, To: []byte{space + 1}, Reread: true, KeysOnly: true}
	err := s.disk.Scan(r, func(key, _ []byte) bool {
		keys = append(keys, bytes.Clone(key))
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func be64(n uint64) []byte {
	b := make([]byte, 8)
	for i := range b {
		b[i] = byte(n >> (56 - 8*i))
	}
	return b
}

// Walking makes a store that looks at its tables all the time.
func Walking(o Options) Options {
	o.walkRest = 10 * time.Millisecond
	return o
}
