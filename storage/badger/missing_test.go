package badger_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthaste-io/posthaste/storage/badger"
	"github.com/posthaste-io/posthaste/storage/resident"
)

// Badger drops tables that its manifest does not name, and says nothing.
func TestB09_TablesThatWereDroppedAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := badger.Open(badger.Options{Dir: dir, MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		produce(t, s)
	}
	// Closing writes the table out; what comes later is in the log alone.
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, badger.Options{Dir: dir})
	for range 50 {
		produce(t, again)
	}
	for name, damage := range map[string]func(file string) error{
		"cut by a byte": func(file string) error {
			info, err := os.Stat(file)
			if err != nil {
				return err
			}
			return os.Truncate(file, info.Size()-1)
		},
		"missing": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			killed := copyDir(t, dir)
			if err := damage(filepath.Join(killed, "MANIFEST")); err != nil {
				t.Fatal(err)
			}
			var lost *resident.LossError
			if _, err := badger.Open(badger.Options{Dir: killed, MinFree: 1}); !errors.As(err, &lost) {
				t.Fatalf("open: got %v, want a LossError", err)
			}
			if lost.WantItems != 150 || lost.Items >= 150 {
				t.Errorf("got %+v, want fewer than 150 of 150 items", lost)
			}
			accepted, err := badger.Open(badger.Options{Dir: killed, MinFree: 1, AcceptDataLoss: true})
			if err != nil {
				t.Fatalf("open with loss: %v", err)
			}
			if err := accepted.Close(); err != nil {
				t.Fatal(err)
			}
			// What was accepted once is not asked about again.
			open(t, badger.Options{Dir: killed})
		})
	}
}

func TestB02_MissingHighWaterBesideADatabaseIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, badger.Options{Dir: dir})
	produce(t, s)
	for name, damage := range map[string]func(file string) error{
		"missing": os.Remove,
		"empty":   func(file string) error { return os.Truncate(file, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			killed := copyDir(t, dir)
			if err := damage(filepath.Join(killed, "highwater")); err != nil {
				t.Fatal(err)
			}
			if _, err := badger.Open(badger.Options{Dir: killed, MinFree: 1}); err == nil || !strings.Contains(err.Error(), "--accept-data-loss") {
				t.Errorf("open: got %v, want a refusal that says what to do", err)
			}
			accepted := open(t, badger.Options{Dir: killed, AcceptDataLoss: true})
			if got := total(t, accepted); got != 1 {
				t.Errorf("got %d items, want 1", got)
			}
		})
	}
}
