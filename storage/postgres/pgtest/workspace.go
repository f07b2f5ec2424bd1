package pgtest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// janitorScript waits for its input to end, as it does when the test process is
// gone in whatever way, and removes the folder. Servers may still be ending then
// and write into it, hence the tries. It outlives an interrupt at the terminal,
// which reaches it together with the tests.
const janitorScript = `
trap '' HUP INT QUIT TERM
cat >/dev/null
for try in 1 2 3 4 5 6 7 8 9 10; do
	rm -rf "$0" && exit
	sleep 1
done
exit 1`

// workspace is the folder of all that the test process starts. It belongs to the
// account that servers run as.
type workspace struct {
	dir     string
	account *account

	janitor *exec.Cmd
	leash   io.Closer // the janitor's input
}

var opened struct {
	once sync.Once
	ws   *workspace
	err  error
}

// openWorkspace returns the one workspace of the process.
func openWorkspace() (*workspace, error) {
	opened.once.Do(func() { opened.ws, opened.err = newWorkspace() })
	return opened.ws, opened.err
}

// closeWorkspace removes the workspace, if there is one. Its servers must be down.
func closeWorkspace() error {
	if opened.ws == nil {
		return nil
	}
	err := errors.Join(opened.ws.leash.Close(), opened.ws.janitor.Wait())
	if err != nil {
		return fmt.Errorf("remove %s: %w", opened.ws.dir, err)
	}
	return nil
}

func newWorkspace() (*workspace, error) {
	account, err := serverAccount()
	if err != nil {
		return nil, fmt.Errorf("find a user to run servers as: %w", err)
	}
	base := os.TempDir()
	if !traversable(base) {
		base = "/tmp"
	}
	// The name is short since the path of a Unix socket has 100 bytes at most.
	dir, err := os.MkdirTemp(base, "pgtest-")
	if err != nil {
		return nil, err
	}
	ws := &workspace{dir: dir, account: account}
	if err := ws.startJanitor(); err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	if err := account.own(dir); err != nil {
		return nil, errors.Join(err, ws.leash.Close(), ws.janitor.Wait())
	}
	return ws, nil
}

// traversable says whether any user may reach what is in dir.
func traversable(dir string) bool {
	for {
		info, err := os.Stat(dir)
		if err != nil || info.Mode()&0o001 == 0 {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}

func (ws *workspace) startJanitor() error {
	janitor := exec.Command("/bin/sh", "-c", janitorScript, ws.dir)
	leash, err := janitor.StdinPipe()
	if err != nil {
		return err
	}
	if err := janitor.Start(); err != nil {
		return fmt.Errorf("start the janitor: %w", err)
	}
	ws.janitor, ws.leash = janitor, leash
	return nil
}

// folder makes a new folder for one server, owned by its account.
func (ws *workspace) folder(kind string) (string, error) {
	dir, err := os.MkdirTemp(ws.dir, kind+"-")
	if err != nil {
		return "", err
	}
	return dir, ws.account.own(dir)
}

// command prepares a program to run as the servers' account. Its environment is
// bare: PG* variables and a locale that is not installed would change what it does.
func (ws *workspace) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = ws.dir
	cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = ws.account.attributes()
	return cmd
}
