package docs_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shell is the reader's: what one block sets, the next one finds.
type shell struct {
	input io.Writer
	// answers has a line with the status of each script that was run.
	answers chan string
	// scratch is where scripts and their outputs lie.
	scratch string
	scripts int
}

// openShell starts a bash that is killed at the end of the test, with what it started.
func openShell(t *testing.T, dir string, env []string) *shell {
	t.Helper()
	s := &shell{answers: make(chan string), scratch: t.TempDir()}
	cmd := exec.Command("bash", "-uo", "pipefail")
	cmd.Dir, cmd.Env, cmd.Stderr = dir, env, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.input = input
	statuses, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(s.answers)
		for lines := bufio.NewScanner(statuses); lines.Scan(); {
			s.answers <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
		for range s.answers {                               // nobody asks for what is left
		}
		<-read
		_ = cmd.Wait()
	})
	return s
}

// run runs a script and returns what it printed and its status. A strict one ends, and
// the shell with it, at the first command that fails.
func (s *shell) run(script string, strict bool) (output string, status int, err error) {
	s.scripts++
	name := filepath.Join(s.scratch, strconv.Itoa(s.scripts))
	if err := os.WriteFile(name, []byte(script), 0o600); err != nil {
		return "", 0, err
	}
	flag := "+e"
	if strict {
		flag = "-e"
	}
	if _, err := fmt.Fprintf(s.input, "set %s; { source %s; } >%s.out 2>&1 </dev/null; echo $?; set +e\n", flag, name, name); err != nil {
		return "", 0, fmt.Errorf("the shell has ended: %w", err)
	}
	var text string
	var alive, late bool
	select {
	case text, alive = <-s.answers:
	case <-time.After(patience):
		late = true
	}
	printed, err := os.ReadFile(name + ".out")
	switch {
	case err != nil:
		return "", 0, err
	case late:
		return string(printed), 0, fmt.Errorf("it still runs after %s", patience)
	case !alive:
		return string(printed), 1, nil // at a command that failed
	}
	status, err = strconv.Atoi(strings.TrimSpace(text))
	return string(printed), status, err
}

func TestShell_KeepsWhatIsSetAndTellsWhatFails(t *testing.T) {
	t.Parallel()
	s := openShell(t, t.TempDir(), os.Environ())
	if _, status, err := s.run("a=1; cd /\n", true); status != 0 || err != nil {
		t.Fatalf("got %d, %v", status, err)
	}
	if out, status, err := s.run("echo $a $PWD\n(exit 3)\n", false); out != "1 /\n" || status != 3 || err != nil {
		t.Errorf("got %q, %d, %v", out, status, err)
	}
	if out, status, err := s.run("echo before\nfalse | true\necho after\n", true); out != "before\n" || status == 0 || err != nil {
		t.Errorf("got %q, %d, %v; want to stop at false", out, status, err)
	}
}
