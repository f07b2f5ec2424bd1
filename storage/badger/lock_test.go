//go:build linux

package badger_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/storage/badger"
)

// A process that was killed leaves its lock file, which hinders nobody; one that lives
// is named with its number.
func TestB08_LockOfAKilledProcessIsFreeAndOfALivingOneIsNamed(t *testing.T) {
	dir, known := t.TempDir(), ledger{}
	w := startWriter(t, dir, badger.Options{})
	w.readUntil(known, 20, 10*time.Second)
	_, err := badger.Open(powerOptions(dir, badger.Options{}))
	if err == nil || !strings.Contains(err.Error(), "process "+strconv.Itoa(w.cmd.Process.Pid)+" on host") {
		t.Errorf("open beside a living process: got %v, want its number", err)
	}
	w.kill(known)
	s, err := badger.Open(powerOptions(dir, badger.Options{}))
	if err != nil {
		t.Fatalf("open after the kill: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// Two processes begin at once: one has the directory, the other ends with its name.
func TestB08_OfTwoProcessesAtOnceOneWins(t *testing.T) {
	for range 5 {
		dir := t.TempDir()
		a, b := startWriter(t, dir, badger.Options{}), startWriter(t, dir, badger.Options{})
		said, known := 0, ledger{}
		deadline := time.After(15 * time.Second)
		lines := [2]chan line{a.lines, b.lines}
		ended := 0
		for said == 0 || ended == 0 {
			select {
			case l, ok := <-lines[0]:
				if !ok {
					ended, lines[0] = ended+1, nil
					continue
				}
				said++
				known.write(l)
			case l, ok := <-lines[1]:
				if !ok {
					ended, lines[1] = ended+1, nil
					continue
				}
				said++
				known.write(l)
			case <-deadline:
				t.Fatal("nobody won within 15 s")
			}
		}
		a.kill(known)
		b.kill(known)
		if ended != 1 {
			t.Errorf("%d of two processes ended, want one", ended)
		}
	}
}
