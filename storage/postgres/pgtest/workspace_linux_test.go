package pgtest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// holdVariable makes TestHold what its name says.
const holdVariable = "PGTEST_HOLD"

// TestHold is the process that TestWorkspace_NothingOutlivesAKilledProcess kills.
func TestHold(t *testing.T) {
	if os.Getenv(holdVariable) == "" {
		t.Skip("is run by another test")
	}
	s := Start(t)
	fmt.Printf("holding %d %s\n", s.cluster.process.Pid, s.cluster.ws.dir)
	bufio.NewReader(os.Stdin).ReadByte()
}

func TestWorkspace_NothingOutlivesAKilledProcess(t *testing.T) {
	t.Parallel()
	findPrograms(t)
	cmd := exec.CommandContext(bounded(t), os.Args[0], "-test.run=^TestHold$")
	cmd.Env = append(os.Environ(), holdVariable+"=1")
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	var pid int
	var dir string
	lines := bufio.NewScanner(out)
	for pid == 0 && lines.Scan() {
		if strings.HasPrefix(lines.Text(), "holding ") {
			if _, err := fmt.Sscanf(lines.Text(), "holding %d %s", &pid, &dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	if pid == 0 {
		t.Fatal("the process ended by itself")
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the server does not run: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server ends", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	eventually(t, "the files are removed", func() bool {
		_, err := os.Stat(dir)
		return errors.Is(err, os.ErrNotExist)
	})
}
