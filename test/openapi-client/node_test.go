// Package openapiclient_test holds openapi.yaml against tools that others use: a
// linter, and a generator whose client makes the walk of the README. They come from
// npm; without node and npm the tests are skipped.
package openapiclient_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/posthaste-io/posthaste/test/harness"
)

func TestMain(m *testing.M) {
	code := m.Run()
	harness.Clean()
	if tools.dir != "" {
		os.RemoveAll(tools.dir)
	}
	os.Exit(code)
}

// tools is a directory with this folder's files and what package-lock.json names,
// made when first asked for.
var tools struct {
	once sync.Once
	dir  string
	// missing says why there are none on this machine.
	missing string
	err     error
}

// install returns the directory of the tools. It skips the test where node or npm are
// missing or too old, and, but for CI, where npm cannot reach its registry.
func install(t *testing.T) string {
	t.Helper()
	tools.once.Do(func() { tools.missing, tools.err = prepare() })
	switch {
	case tools.missing != "":
		t.Skip(tools.missing)
	case tools.err != nil && os.Getenv("CI") != "true":
		t.Skip(tools.err)
	case tools.err != nil:
		t.Fatal(tools.err)
	}
	return tools.dir
}

func prepare() (missing string, err error) {
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			return err.Error(), nil
		}
	}
	out, err := exec.Command("node", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("node --version: %w", err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(string(out), "v%d.%d.", &major, &minor); err != nil {
		return "", fmt.Errorf("node --version says %q: %w", out, err)
	}
	if major < 20 || major == 20 && minor < 19 {
		return fmt.Sprintf("node is %d.%d; the tools want 20.19 or later", major, minor), nil
	}
	if tools.dir, err = os.MkdirTemp("", "posthaste-npm-"); err != nil {
		return "", err
	}
	if err := copyFolder(tools.dir); err != nil {
		return "", err
	}
	// What was downloaded once is taken from npm's own cache.
	cmd := exec.Command("npm", "ci", "--prefer-offline")
	cmd.Dir = tools.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return "", nil
}

// copyFolder copies the files of this folder: npm would put its own beside them.
func copyFolder(to string) error {
	entries, err := os.ReadDir(".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() || filepath.Ext(e.Name()) == ".go" {
			continue
		}
		content, err := os.ReadFile(e.Name())
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, e.Name()), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// workspace is a directory of the test's own in which the tools are there.
func workspace(t *testing.T) string {
	t.Helper()
	installed := install(t)
	dir := t.TempDir()
	if err := copyFolder(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(installed, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs a tool that must end with 0, and returns what it printed on stdout.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	// No tool tells its maker that it was run.
	cmd.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true", "NO_COLOR=1")
	cmd.Env = append(cmd.Env, env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s%s", name, args, err, out, stderr.Bytes())
	}
	return string(out)
}
