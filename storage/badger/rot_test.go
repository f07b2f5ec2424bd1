package badger_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/badger"
)

// tableOf fills a directory with n items and closes it; they are in one table then.
func tableOf(t *testing.T, n int) (dir, file string, ids map[queue.ID]string) {
	t.Helper()
	dir, ids = t.TempDir(), map[queue.ID]string{}
	s, err := badger.Open(badger.Options{Dir: dir, MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, ids, n)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) != 1 {
		t.Fatalf("got tables %v, want one: %v", tables, err)
	}
	return dir, tables[0], ids
}

func TestB09_DamagedTableIsRefusedByNameAndSetAsideWhenAccepted(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]func(size int) int{
		"a block":    func(int) int { return 100 },
		"the index":  func(size int) int { return size - 100 },
		"the footer": func(size int) int { return size - 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, file, _ := tableOf(t, 50)
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			b[from(len(b))] ^= 0x10
			if err := os.WriteFile(file, b, 0o600); err != nil {
				t.Fatal(err)
			}
			var files *badger.FilesError
			_, err = badger.Open(badger.Options{Dir: dir, MinFree: 1})
			if !errors.As(err, &files) {
				t.Fatalf("open: got %v, want a FilesError", err)
			}
			if len(files.Files) != 1 || files.Files[0].Name != filepath.Base(file) || files.Items != 50 {
				t.Errorf("got %+v, want %s of a store of 50 items", files, filepath.Base(file))
			}
			if name == "a block" && files.Files[0].Keys < 100 {
				t.Errorf("got %d keys in the file, want those of 50 items", files.Files[0].Keys)
			}
			s, err := badger.Open(badger.Options{Dir: dir, MinFree: 1, AcceptDataLoss: true})
			if err != nil {
				t.Fatalf("open with loss: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if kept, err := os.ReadFile(file + ".damaged"); err != nil || len(kept) != len(b) {
				t.Errorf("the table was not kept: %d bytes, %v", len(kept), err)
			}
			open(t, badger.Options{Dir: dir}) // the loss was accepted once and for all
		})
	}
}

// A manifest can be made again from the tables, so nothing is lost with it.
func TestB09_DamagedManifestIsRefusedAndMadeAgainWhenAccepted(t *testing.T) {
	t.Parallel()
	closed, _, ids := tableOf(t, 50)
	live := open(t, badger.Options{Dir: closed})
	fill(t, live, ids, 10)
	dir := copyDir(t, closed) // killed: a crash may tear the manifest's end off
	manifest := filepath.Join(dir, "MANIFEST")
	damageAt(t, manifest, 6) // the length of a set of changes, whose end looks torn off
	if _, err := badger.Open(badger.Options{Dir: dir, MinFree: 1}); err == nil || !strings.Contains(err.Error(), "file MANIFEST is damaged") {
		t.Fatalf("open: got %v, want the manifest's name", err)
	}
	s := open(t, badger.Options{Dir: dir, AcceptDataLoss: true})
	judgeItems(t, s, ids, 0)
}

// The log of a first kill is damaged, and that of a second is whole.
func TestB02_DamageInAnOlderLogIsRefusedByNameAndNumber(t *testing.T) {
	t.Parallel()
	dir, ids := t.TempDir(), map[queue.ID]string{}
	s := open(t, badger.Small(badger.Options{Dir: dir}))
	fill(t, s, ids, 100)
	first := copyDir(t, dir)
	older := filepath.Base(logFile(t, first))
	p := killedAgain(t, first, ids)
	judgeItems(t, open(t, badger.Small(badger.Options{Dir: copyDir(t, p.dir)})), ids, 0)

	damageAt(t, filepath.Join(p.dir, older), 20_000)
	var damaged *badger.DamagedError
	_, err := badger.Open(badger.Small(badger.Options{Dir: p.dir, MinFree: 1}))
	if !errors.As(err, &damaged) {
		t.Fatalf("open: got %v, want a DamagedError", err)
	}
	if damaged.File != older || damaged.Want != 100 || damaged.Missing != 100-damaged.Have || damaged.Missing == 0 {
		t.Errorf("got %+v, want some of 100 commits missing from %s", damaged, older)
	}
	accepted := open(t, badger.Small(badger.Options{Dir: p.dir, AcceptDataLoss: true}))
	if got, want := total(t, accepted), 150-int(damaged.Missing); got != want {
		t.Errorf("got %d items, want %d", got, want)
	}
}

// judgeItems leases all that there is.
func judgeItems(t *testing.T, s *badger.Store, ids map[queue.ID]string, corrupt int) {
	t.Helper()
	answer, err := s.Lease(t.Context(), []queue.LeaseCall{{Queue: testQueue, Takers: []queue.Taker{{Limit: 1000, TTL: time.Hour}}}})
	if err != nil {
		t.Fatal(err)
	}
	result := answer.Calls[0]
	if result.Corrupt < corrupt || len(result.Takers[0])+result.Corrupt != len(ids) {
		t.Errorf("got %d items and %d corrupt, want all of %d, and at least %d corrupt", len(result.Takers[0]), result.Corrupt, len(ids), corrupt)
	}
	for _, it := range result.Takers[0] {
		if string(it.Payload) != ids[it.ID] {
			t.Errorf("item %v came back with another payload", it.ID)
		}
	}
}

// A block goes bad under an open store: its items are counted as corrupt, all others
// are handed out, and the walk over the tables tells of it.
func TestB09_RotUnderAnOpenStoreIsCountedAndFound(t *testing.T) {
	t.Parallel()
	dir, file, ids := tableOf(t, 400)
	s := open(t, badger.Walking(badger.Options{Dir: dir}))
	if err := s.Damage(); err != nil {
		t.Fatalf("damage: got %v before there is any", err)
	}
	spoil(t, file)
	waitFor(t, "the walk finds the damage", func() bool { return s.Damage() != nil })
	var files *badger.FilesError
	if err := s.Damage(); !errors.As(err, &files) || files.Files[0].Name != filepath.Base(file) {
		t.Errorf("damage: got %v, want %s", err, filepath.Base(file))
	}
	judgeItems(t, s, ids, 1)
	if got := total(t, s); got != len(ids) {
		t.Errorf("got %d items, want the corrupt ones kept", got)
	}
	findAll(t, s, ids)
}

// Before the walk came by, Badger says of the content that it is not there.
func TestB09_RotThatNobodyFoundYetIsCountedAndNotAbsent(t *testing.T) {
	t.Parallel()
	dir, file, ids := tableOf(t, 400)
	s := open(t, badger.Options{Dir: dir})
	spoil(t, file)
	findAll(t, s, ids)
	judgeItems(t, s, ids, 1)
	if got := total(t, s); got != len(ids) {
		t.Errorf("got %d items, want the corrupt ones kept", got)
	}
}

// spoil damages a block of contents, which come first in a table, in place: the store
// has the file in its memory map.
func spoil(t *testing.T, file string) {
	t.Helper()
	table, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = table.WriteAt([]byte("rotten"), 3000)
	if err := errors.Join(err, table.Close()); err != nil {
		t.Fatal(err)
	}
}

// findAll looks for each item by its id.
func findAll(t *testing.T, s *badger.Store, ids map[queue.ID]string) {
	t.Helper()
	shown := 0
	for id := range ids {
		found, err := s.Find(t.Context(), []queue.ID{id}, true)
		if err != nil {
			t.Fatal(err)
		}
		shown += len(found)
	}
	if shown != len(ids) {
		t.Errorf("found %d of %d items", shown, len(ids))
	}
}
