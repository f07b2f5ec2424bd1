package e2e_test

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/test/harness"
)

func TestDemo_AccountsForEveryItem(t *testing.T) {
	t.Parallel()
	started := time.Now()
	code, stdout, stderr := harness.Run(t, harness.Options{}, "demo")
	if code != 0 || stderr != "" {
		t.Errorf("got code %d, standard error %q; want 0 and silence", code, stderr)
	}
	if took := time.Since(started); took > 30*time.Second {
		t.Errorf("took %s, want 30s at most", took)
	}
	for _, want := range []string{"delivered   30", "pulled       3", "buried       2", "lost         0", "p50", "p99"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the summary does not say %q:\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "\x1b") {
		t.Error("colours where nobody sees them")
	}
}

// brokenOff runs the demonstration until its first line, ends it, and returns what it
// wrote to standard error and left in its temporary directory.
func brokenOff(t *testing.T, end func(demo *exec.Cmd, stdout *os.File) error) (stderr string, left []os.DirEntry) {
	t.Helper()
	dir := t.TempDir()
	ours, its, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), harness.Build(t), "demo")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	cmd.Stdout, cmd.Stderr = its, &out
	err = cmd.Start()
	its.Close()
	if err != nil {
		t.Fatal(err)
	}
	_, readErr := bufio.NewReader(ours).ReadString('\n')
	endErr := end(cmd, ours)
	if err := cmd.Wait(); readErr != nil || endErr != nil || err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("ended with %v after %v, %v; want code 1", err, readErr, endErr)
	}
	if left, err = os.ReadDir(dir); err != nil {
		t.Fatal(err)
	}
	return out.String(), left
}

func TestDemo_PutsItsThingsAwayWhenNobodyReads(t *testing.T) {
	t.Parallel()
	stderr, left := brokenOff(t, func(_ *exec.Cmd, stdout *os.File) error { return stdout.Close() })
	if len(left) > 0 || !strings.Contains(stderr, "output") {
		t.Errorf("left %v, said %q; want nothing and the reason", left, stderr)
	}
}

func TestDemo_PutsItsThingsAwayWhenInterrupted(t *testing.T) {
	t.Parallel()
	stderr, left := brokenOff(t, func(demo *exec.Cmd, _ *os.File) error { return demo.Process.Signal(syscall.SIGINT) })
	if len(left) > 0 || strings.Count(stderr, "interrupt") != 1 {
		t.Errorf("left %v, said %q; want nothing and the reason once", left, stderr)
	}
}
