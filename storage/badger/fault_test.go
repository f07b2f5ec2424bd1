//go:build linux

package badger_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/storage/badger"
)

// A system call of the writer fails once, at a moment that differs, as a medium fails;
// what comes after it would succeed. When a flush of the log, the file that counts
// commits or a table is refused, nothing is acknowledged any more. Whatever else is refused, all
// that was acknowledged is there again.
func TestB04_FirstFailedSystemCallIsFinalAndLosesNothing(t *testing.T) {
	tracer(t)
	for _, fault := range []struct {
		call, when string
		final      bool
	}{
		{"fdatasync", "error=EIO:when=5", true},
		{"fdatasync", "error=EIO:when=100", true},
		{"fdatasync", "error=ENOSPC:when=60", true},
		{"pwrite64", "error=EIO:when=40", true},
		{"fsync", "error=EIO:when=6", false},
		{"msync", "error=EIO:when=1", true},
		{"ftruncate", "error=EIO:when=4", false},
		{"openat", "error=EMFILE:when=30", false},
	} {
		t.Run(fault.call+" "+fault.when, func(t *testing.T) {
			dir, known := t.TempDir(), ledger{}
			w := startUnder(t, dir, badger.Options{}, nil, "strace", "-f", "-o", "/dev/null",
				"-e", "trace="+fault.call, "-e", "inject="+fault.call+":"+fault.when)
			// strace counts by thread, and the committer changes its thread now and then.
			most := 2 * time.Second
			if fault.final {
				most = 30 * time.Second
			}
			ended := w.readToEnd(known, most)
			w.kill(known)
			if fault.final && !ended {
				t.Error("the writer went on after the refusal")
			}
			if fault.final && len(known) == 0 {
				t.Error("nothing was acknowledged before it, so nothing was shown")
			}
			s, err := badger.Open(powerOptions(dir, badger.Options{}))
			if err != nil {
				t.Fatalf("open after it: %v", err)
			}
			if got := known.judge(t, s, time.Now()); got != (judgement{}) {
				t.Errorf("got %+v of %d items", got, len(known))
			}
			t.Logf("%d items known, ended by itself: %v", len(known), ended)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// tracer skips a test on a machine without one.
func tracer(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		lacking(t, "strace is missing, and it makes system calls fail: "+err.Error())
	}
	if out, err := exec.Command("strace", "-f", "-o", "/dev/null", "true").CombinedOutput(); err != nil {
		t.Skip("strace may not trace here: " + strings.TrimSpace(string(out)))
	}
}

// readToEnd reads until the writer ends by itself, or for so long.
func (w *writer) readToEnd(known ledger, most time.Duration) (ended bool) {
	enough := time.After(most)
	for {
		select {
		case l, ok := <-w.lines:
			if !ok {
				return true
			}
			known.write(l)
		case <-enough:
			return false
		}
	}
}
