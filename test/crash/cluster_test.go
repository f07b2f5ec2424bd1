package crash_test

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/test/harness"
	"github.com/posthaste-io/posthaste/test/recorder"
)

// cluster is the one process under test, in its many lives on one directory.
type cluster struct {
	t       *testing.T
	dir     string
	history *recorder.Recorder
	server  *harness.Server
	kills   int

	mu   sync.Mutex // guards what follows
	base string
	// up is closed while a process listens.
	up chan struct{}
}

func newCluster(t *testing.T, history *recorder.Recorder) *cluster {
	return &cluster{t: t, dir: t.TempDir(), history: history, up: make(chan struct{})}
}

// start runs the binary and returns when it is ready.
func (c *cluster) start() {
	c.t.Helper()
	began := time.Now()
	c.server = harness.Start(c.t, harness.Options{
		Store: "badger://" + c.dir,
		Args:  []string{"--egress-allow", "127.0.0.1/32"},
	})
	c.history.Note("nemesis", recorder.Start, "", fmt.Sprintf("pid %d after %s", c.server.Pid, time.Since(began)))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base = c.server.URL
	close(c.up)
}

// kill ends the process as a power switch would, and counts it if it lived.
func (c *cluster) kill() {
	c.t.Helper()
	if err := syscall.Kill(c.server.Pid, 0); err != nil {
		c.t.Fatalf("the process ended before it was killed: %v", err)
	}
	c.server.Kill()
	c.kills++
	c.down(recorder.Kill)
}

// stop asks the process to end, and waits until it did.
func (c *cluster) stop() {
	c.t.Helper()
	c.server.Stop()
	c.down(recorder.Stop)
}

func (c *cluster) down(how recorder.Verb) {
	c.history.Note("nemesis", how, "", fmt.Sprintf("pid %d", c.server.Pid))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base, c.up = "", make(chan struct{})
}

// url waits until a process listens and returns its address.
func (c *cluster) url(ctx context.Context) (string, error) {
	for {
		c.mu.Lock()
		base, up := c.base, c.up
		c.mu.Unlock()
		if base != "" {
			return base, nil
		}
		select {
		case <-up:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}
