package docs_test

import (
	"bytes"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long what must happen may take on a busy machine.
const patience = 60 * time.Second

// terminal is a program that runs while the reader goes on elsewhere.
type terminal struct {
	cmd   *exec.Cmd
	ended chan struct{}

	mu     sync.Mutex
	output bytes.Buffer
}

// openTerminal runs a script in a process group of its own, as a shell does, so that
// what it starts ends with it.
func openTerminal(t *testing.T, dir string, env []string, script string) *terminal {
	t.Helper()
	term := &terminal{cmd: exec.Command("bash", "-euo", "pipefail", "-c", script), ended: make(chan struct{})}
	term.cmd.Dir, term.cmd.Env = dir, env
	term.cmd.Stdout, term.cmd.Stderr = term, term
	term.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := term.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(term.ended)
		term.cmd.Wait() // how it ended is asked of ProcessState
	}()
	t.Cleanup(func() { term.signal(syscall.SIGKILL) })
	return term
}

// Write implements io.Writer.
func (term *terminal) Write(p []byte) (int, error) {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.output.Write(p)
}

// String is what was printed so far.
func (term *terminal) String() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.output.String()
}

// signal reaches the whole group. That it may be gone is no fault.
func (term *terminal) signal(sig syscall.Signal) { _ = syscall.Kill(-term.cmd.Process.Pid, sig) }

// stop ends the program as Ctrl-C does, and says whether that was in time.
func (term *terminal) stop() bool {
	term.signal(syscall.SIGINT)
	select {
	case <-term.ended:
		return true
	case <-time.After(patience):
		return false
	}
}

// await waits until the condition holds for what is printed; false if it never does.
func (term *terminal) await(condition func(output string) bool) bool {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for {
		if condition(term.String()) {
			return true
		}
		select {
		case <-ticker.C:
		case <-term.ended:
			return condition(term.String())
		case <-deadline:
			return false
		}
	}
}
