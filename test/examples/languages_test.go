package examples_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/posthaste-io/posthaste/test/harness"
)

// languages are the receivers of the guide. Each command skips the test where this
// machine lacks what it needs.
var languages = []struct {
	name    string
	command func(t *testing.T) harness.Options
	args    []string
	// textOnly says that what is not UTF-8 cannot be verified.
	textOnly bool
}{
	{"go", goReceiver, nil, false},
	{"ts", tsReceiver, []string{"out/receiver.js"}, true},
	{"python", pythonReceiver, []string{"receiver.py"}, false},
}

func goReceiver(t *testing.T) harness.Options {
	return harness.Options{Program: example(t, "receiver-go")}
}

func pythonReceiver(t *testing.T) harness.Options {
	program := find(t, "python3")
	requireVersion(t, program, "Python %d.%d", 3, 9)
	return harness.Options{Program: program, Dir: "../../examples/receiver-python", Env: []string{"PYTHONDONTWRITEBYTECODE=1"}}
}

func tsReceiver(t *testing.T) harness.Options {
	node := find(t, "node")
	requireVersion(t, node, "v%d.%d", 20, 0)
	find(t, "npm")
	modules.once.Do(installModules)
	switch {
	case modules.err != nil && os.Getenv("CI") != "true":
		t.Skip(modules.err)
	case modules.err != nil:
		t.Fatal(modules.err)
	}
	return harness.Options{Program: node, Dir: modules.dir}
}

// find returns where a program is, or skips the test.
func find(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skip(err)
	}
	return path
}

// requireVersion skips the test where a program is older than the example says.
func requireVersion(t *testing.T, program, format string, major, minor int) {
	t.Helper()
	out, err := exec.Command(program, "--version").Output()
	if err != nil {
		t.Fatalf("%s --version: %v", program, err)
	}
	var is, point int
	if _, err := fmt.Sscanf(string(out), format, &is, &point); err != nil {
		t.Fatalf("%s --version says %q: %v", program, out, err)
	}
	if is < major || is == major && point < minor {
		t.Skipf("%s is %d.%d; the example wants %d.%d", program, is, point, major, minor)
	}
}

// modules is a copy of the TypeScript example with what package-lock.json names, built.
var modules struct {
	once sync.Once
	dir  string
	err  error
}

func installModules() {
	if modules.dir, modules.err = os.MkdirTemp("", "posthaste-npm-"); modules.err != nil {
		return
	}
	if modules.err = copyFiles(modules.dir, "../../examples/receiver-ts"); modules.err != nil {
		return
	}
	for _, command := range [][]string{
		// What was downloaded once is taken from npm's own cache.
		{"npm", "ci", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund"},
		{"npm", "run", "build"},
	} {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir = modules.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			modules.err = fmt.Errorf("%v: %w\n%s", command, err, out)
			return
		}
	}
}

// copyFiles copies the files of a folder, so that npm puts none of its own there.
func copyFiles(to, from string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		content, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, e.Name()), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
