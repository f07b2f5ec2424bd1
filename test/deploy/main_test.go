// Package deploy_test holds what lies in deploy/ against what can be had without a
// container engine: the image's steps run by hand, compose files go through the parser
// of Compose, and the unit through systemd's own judges.
package deploy_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/test/harness"
)

const root = "../.."

func TestMain(m *testing.M) {
	code := m.Run()
	harness.Clean()
	if made.dir != "" {
		os.RemoveAll(made.dir)
	}
	os.Exit(code)
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

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// eventually waits for a condition; what says what it means.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	const patience = 30 * time.Second
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for !condition() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("after %s: not yet %s", patience, what)
		}
	}
}
