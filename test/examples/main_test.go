// Package examples_test runs what lies in examples/ against the real program, as a
// reader of the guides would.
package examples_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
	"github.com/posthaste-io/posthaste/test/harness"
)

func TestMain(m *testing.M) {
	code := m.Run()
	harness.Clean()
	for _, dir := range []string{programs.dir, modules.dir} {
		if dir != "" {
			os.RemoveAll(dir)
		}
	}
	os.Exit(code)
}

// programs are the examples that are written in Go, built when first asked for.
var programs struct {
	once sync.Once
	dir  string
	err  error
}

// example returns the path of a program of examples/.
func example(t *testing.T, name string) string {
	t.Helper()
	programs.once.Do(func() {
		if programs.dir, programs.err = os.MkdirTemp("", "posthaste-examples-"); programs.err != nil {
			return
		}
		out, err := exec.Command("go", "build", "-o", programs.dir, "../../examples/...").CombinedOutput()
		if err != nil {
			programs.err = fmt.Errorf("build the examples: %w\n%s", err, out)
		}
	})
	if programs.err != nil {
		t.Fatal(programs.err)
	}
	return filepath.Join(programs.dir, name)
}

// startServer runs the program under test and returns a client of it.
func startServer(t *testing.T) (*harness.Server, *client.Client) {
	t.Helper()
	server := harness.Start(t, harness.Options{Store: "memory:", Args: []string{"--egress-allow", "127.0.0.0/8"}})
	c, err := client.New(client.Options{URL: server.URL, Key: harness.Key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return server, c
}

// addressOf waits until an endpoint says where it listens.
func addressOf(t *testing.T, p *harness.Server) string {
	t.Helper()
	var address []string
	eventually(t, "listening", func() bool {
		address = regexp.MustCompile(`listening on (http://\S+)`).FindStringSubmatch(p.Stdout())
		return address != nil
	})
	return address[1]
}

// patience is how long what must happen may take on a busy machine.
const patience = 30 * time.Second

// eventually waits for a condition; what says what it means.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
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
