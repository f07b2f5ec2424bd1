package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Modules returns a directory of the test's own with the files of a folder, but for Go's,
// and what its package-lock.json names. It skips the test where node or npm are missing,
// and, but for CI, where npm cannot reach its registry.
func Modules(tb testing.TB, from string) string {
	tb.Helper()
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			tb.Skip(err)
		}
	}
	dir := tb.TempDir()
	entries, err := os.ReadDir(from)
	if err != nil {
		tb.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() || filepath.Ext(e.Name()) == ".go" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, e.Name()), content, 0o600)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	// What was downloaded once is taken from npm's own cache.
	cmd := exec.CommandContext(tb.Context(), "npm", "ci", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil && os.Getenv("CI") != "true":
		tb.Skipf("npm ci: %v\n%s", err, out)
	case err != nil:
		tb.Fatalf("npm ci: %v\n%s", err, out)
	}
	return dir
}
