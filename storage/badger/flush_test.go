package badger

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/posthaste-io/posthaste/storage/resident"
)

// openTiny opens a disk that begins a new log every eight megabytes or so.
func openTiny(t *testing.T, dir string) *disk {
	t.Helper()
	d, err := openDisk(Options{Dir: dir, Log: slog.New(slog.DiscardHandler), tableSize: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// commitBytes makes one commit, so many bytes large.
func commitBytes(d *disk, size int) error {
	d.next++
	return d.commit(&gathering{number: d.next, writes: []resident.Write{{Key: []byte("x"), Value: make([]byte, size)}}})
}

// Badger's names of logs are nowhere promised.
func TestB01_FlushFollowsBadgerFromLogToLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := openTiny(t, dir)
	defer func() {
		if err := d.close(true); err != nil {
			t.Error(err)
		}
	}()
	first := d.flusher.number
	for range 40 {
		if err := commitBytes(d, 700_000); err != nil {
			t.Fatal(err)
		}
		logs, err := filepath.Glob(filepath.Join(dir, "*"+logSuffix))
		if err != nil {
			t.Fatal(err)
		}
		if newest, flushed := slices.Max(logs), d.flusher.file.Name(); flushed != newest {
			t.Fatalf("flushed %s, want %s", flushed, newest)
		}
	}
	if changes := d.flusher.number - first; changes < 2 {
		t.Errorf("28 MB went into %d more logs, want 2 at least", changes)
	}
}

func TestB01_LogThatIsNoLongerTheNewestIsNotFlushedSilently(t *testing.T) {
	t.Parallel()
	d := openTiny(t, t.TempDir())
	// What was not flushed need not be when the test ends.
	defer func() { _ = d.close(false) }()
	// Where no newer one will be found.
	d.flusher.dir = t.TempDir()
	// Badger removes the first log when it has begun the third.
	for range 100 {
		if err := commitBytes(d, 700_000); err != nil {
			return
		}
	}
	t.Error("commits went on although their log could not be found")
}

// A power cut can leave a log that was cut to nothing before it was removed.
func TestB01_EmptyLogIsNoReasonNotToOpen(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"00007.mem", "000007.vlog"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := openTiny(t, dir)
			if err := d.close(true); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			d = openTiny(t, dir)
			if err := d.close(true); err != nil {
				t.Error(err)
			}
		})
	}
}
