package badger_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage/badger"
	"github.com/posthaste-io/posthaste/storage/resident"
)

// flips is how many bits are turned in all.
const flips = 200

// prepared is a directory, and the items that were acknowledged in it.
type prepared struct {
	name  string
	dir   string
	ids   map[queue.ID]string // with their payloads
	files map[string]content
}

// content is a file's: what was written, and how long it is with the zeros behind.
type content struct {
	written []byte
	size    int64
}

// read takes the files into memory, since they are copied often.
func (p *prepared) read(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	p.files = map[string]content{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(p.dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > 0 {
			p.files[e.Name()] = content{bytes.Clone(bytes.TrimRight(b, "\x00")), int64(len(b))}
		}
	}
	// Badger removes its own when it closes, and never reads it.
	p.files["LOCK"] = content{[]byte("1\n"), 2}
}

// copyFlipped is a copy of the directory with one bit turned.
func (p *prepared) copyFlipped(t *testing.T, file string, at int64, bit int) string {
	t.Helper()
	dir := t.TempDir()
	for name, c := range p.files {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Write(c.written)
		err = errors.Join(err, f.Truncate(c.size))
		if name == file {
			was := byte(0)
			if at < int64(len(c.written)) {
				was = c.written[at]
			}
			_, e := f.WriteAt([]byte{was ^ 1<<bit}, at)
			err = errors.Join(err, e)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func payloadOf(id queue.ID) string { return strings.Repeat(fmt.Sprintf("%x ", id[:]), 20) }

func fill(t testing.TB, s *badger.Store, ids map[queue.ID]string, n int) {
	t.Helper()
	for range n {
		item := queue.NewItem{ID: queue.NewID(), Queue: testQueue}
		item.Payload = []byte(payloadOf(item.ID))
		if _, err := s.Produce(t.Context(), []queue.ProduceGroup{{Items: []queue.NewItem{item}}}); err != nil {
			t.Fatal(err)
		}
		ids[item.ID] = payloadOf(item.ID)
	}
}

// prepare makes one directory that was closed, one whose process was killed when it
// had tables and a log, and one that was killed with two logs.
func prepare(t *testing.T) []prepared {
	t.Helper()
	dir, ids := t.TempDir(), map[queue.ID]string{}
	for range 2 {
		s, err := badger.Open(badger.Small(badger.Options{Dir: dir, MinFree: 1}))
		if err != nil {
			t.Fatal(err)
		}
		fill(t, s, ids, 150)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	all := []prepared{{name: "closed", dir: copyDir(t, dir), ids: maps.Clone(ids)}}
	s := open(t, badger.Small(badger.Options{Dir: dir}))
	fill(t, s, ids, 100)
	first := copyDir(t, dir)
	all = append(all, prepared{name: "killed", dir: first, ids: maps.Clone(ids)})
	return append(all, killedAgain(t, first, maps.Clone(ids)))
}

// killedAgain is a directory whose process was killed, and once more before the log
// of the first became a table. That is a matter of milliseconds, so it is put together
// from before and after.
func killedAgain(t *testing.T, first string, ids map[queue.ID]string) prepared {
	t.Helper()
	live := copyDir(t, first)
	s := open(t, badger.Small(badger.Options{Dir: live}))
	fill(t, s, ids, 50)
	second := copyDir(t, first)
	for _, name := range []string{logFile(t, live), filepath.Join(live, "highwater")} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(second, filepath.Base(name)), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return prepared{name: "killed twice", dir: second, ids: ids}
}

// Each flip is one bit of one file, in a copy. The store opens whole; or it is
// refused with an error that says what to do, and opens when the loss is accepted; or
// the item is there and its content is reported. It never panics, for that would end
// this process, and never has less without a word.
func TestB09_BitFlipsInAnyFileAreNeverSilent(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes some 20 s")
	}
	dirs := prepare(t)
	for i := range dirs {
		dirs[i].read(t)
	}
	kinds := map[string]int{}
	refused := 0
	dice := rand.New(rand.NewPCG(9, 9))
	for n := range flips {
		p := &dirs[n%len(dirs)]
		files := p.kinds()
		names := slices.Sorted(maps.Keys(files))
		kind := names[n/len(dirs)%len(names)]
		file := files[kind][dice.IntN(len(files[kind]))]
		at, bit := p.files[file].place(dice)
		what := fmt.Sprintf("flip %d: %s, %s, bit %d of byte %d", n, p.name, file, bit, at)
		kinds[kind]++
		if judgeFlip(t, what, p, file, at, bit) {
			refused++
		}
	}
	t.Logf("%v flips, %d refused", kinds, refused)
	for _, kind := range []string{"MANIFEST", ".sst", ".mem", ".vlog", "highwater", "KEYREGISTRY", "LOCK", "DISCARD"} {
		if kinds[kind] == 0 {
			t.Errorf("no bit was flipped in any %s", kind)
		}
	}
	if refused == 0 {
		t.Error("no flip was refused, so they hit nothing")
	}
}

// kinds are the files of a directory by their kind.
func (p *prepared) kinds() map[string][]string {
	kinds := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(p.files)) {
		kind := filepath.Ext(name)
		if kind == "" || kind == ".lock" {
			kind = name
		}
		kinds[kind] = append(kinds[kind], name)
	}
	return kinds
}

// place chooses a bit. Most of a log are zeros that nobody wrote, so three of four
// are within what was.
func (c content) place(dice *rand.Rand) (at int64, bit int) {
	among := int64(len(c.written))
	if among == 0 || dice.IntN(4) == 0 {
		among = c.size
	}
	return dice.Int64N(among), dice.IntN(8)
}

func judgeFlip(t *testing.T, what string, p *prepared, file string, at int64, bit int) (refused bool) {
	t.Helper()
	dir := p.copyFlipped(t, file, at, bit)
	defer func() { _ = os.RemoveAll(dir) }() // hundreds of copies are much
	o := badger.Small(badger.Options{Dir: dir, MinFree: 1})
	s, err := badger.Open(o)
	if err == nil {
		judgeWhole(t, what, s, p)
		return false
	}
	var damaged *badger.DamagedError
	var files *badger.FilesError
	var lost *resident.LossError
	switch {
	case !strings.Contains(err.Error(), "--accept-data-loss"):
		t.Errorf("%s: refused without saying what to do: %v", what, err)
	case errors.As(err, &files) && !strings.Contains(err.Error(), file):
		t.Errorf("%s: refused with another file's name: %v", what, err)
	case !errors.As(err, &files) && !errors.As(err, &damaged) && !errors.As(err, &lost):
		t.Errorf("%s: refused with %v", what, err)
	}
	o.AcceptDataLoss = true
	if s, err = badger.Open(o); err != nil {
		t.Errorf("%s: not opened although the loss is accepted: %v", what, err)
		return true
	}
	if err := s.Close(); err != nil {
		t.Errorf("%s: close: %v", what, err)
	}
	o.AcceptDataLoss = false
	if s, err = badger.Open(o); err != nil {
		t.Errorf("%s: refused again after the loss was accepted: %v", what, err)
		return true
	}
	if err := s.Close(); err != nil {
		t.Errorf("%s: close: %v", what, err)
	}
	return true
}

// judgeWhole leases all, so that each item is handed out whole or counted as corrupt.
func judgeWhole(t *testing.T, what string, s *badger.Store, p *prepared) {
	t.Helper()
	defer func() {
		if err := s.Close(); err != nil {
			t.Errorf("%s: close: %v", what, err)
		}
	}()
	answer, err := s.Lease(t.Context(), []queue.LeaseCall{{Queue: testQueue, Takers: []queue.Taker{{Limit: 1000, TTL: time.Hour}}}})
	if err != nil {
		t.Errorf("%s: lease: %v", what, err)
		return
	}
	result := answer.Calls[0]
	if got := len(result.Takers[0]) + result.Corrupt; got != len(p.ids) {
		t.Errorf("%s: opened, and has %d of %d items", what, got, len(p.ids))
	}
	for _, it := range result.Takers[0] {
		if string(it.Payload) != p.ids[it.ID] {
			t.Errorf("%s: item %v came back with another payload", what, it.ID)
		}
	}
}
