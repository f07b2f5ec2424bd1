package crash_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/test/harness"
	"github.com/posthaste-io/posthaste/test/recorder"
)

// cluster is the processes under test, in their many lives on one store. Only the
// test's goroutine starts and ends them.
type cluster struct {
	topology
	t       *testing.T
	history *recorder.Recorder
	servers []*harness.Server
	kills   int

	mu sync.Mutex // guards what follows
	// bases are the nodes' addresses, each empty while the node does not listen.
	bases []string
	// turn is the node that the last call went to.
	turn int
	// came is closed when a node begins to listen, and then made anew.
	came chan struct{}
}

func newCluster(t *testing.T, p topology, history *recorder.Recorder) *cluster {
	return &cluster{
		topology: p, t: t, history: history,
		servers: make([]*harness.Server, p.nodes), bases: make([]string, p.nodes), came: make(chan struct{}),
	}
}

// start starts all nodes.
func (c *cluster) start() {
	c.t.Helper()
	for i := range c.servers {
		c.startNode(i)
	}
}

// startNode runs the binary and returns when it is ready.
func (c *cluster) startNode(i int) {
	c.t.Helper()
	began := time.Now()
	c.servers[i] = harness.Start(c.t, harness.Options{
		Store: c.topology.url,
		Args:  []string{"--egress-allow", "127.0.0.1/32"},
	})
	c.history.Note("nemesis", recorder.Start, "", fmt.Sprintf("node %d, pid %d after %s", i, c.servers[i].Pid, time.Since(began)))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bases[i] = c.servers[i].URL
	close(c.came)
	c.came = make(chan struct{})
}

// kill ends a node as a power switch would, and counts it if it lived.
func (c *cluster) kill(i int) {
	c.t.Helper()
	if err := syscall.Kill(c.servers[i].Pid, 0); err != nil {
		c.t.Fatalf("node %d ended before it was killed: %v", i, err)
	}
	c.servers[i].Kill()
	c.kills++
	c.down(i, recorder.Kill)
}

// stop asks all nodes to end, one after the other, and waits until they did.
func (c *cluster) stop() {
	c.t.Helper()
	for i, server := range c.servers {
		server.Stop()
		c.down(i, recorder.Stop)
	}
}

func (c *cluster) down(i int, how recorder.Verb) {
	c.history.Note("nemesis", how, "", fmt.Sprintf("node %d, pid %d", i, c.servers[i].Pid))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bases[i] = ""
}

// url waits until a node listens and returns its address. The next call goes to
// the next node, so a receipt is mostly used at another one than gave it, and
// what one refuses is asked of others.
func (c *cluster) url(ctx context.Context) (string, error) {
	for {
		base, came := c.next()
		if base != "" {
			return base, nil
		}
		select {
		case <-came:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

func (c *cluster) next() (base string, came <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range c.bases {
		c.turn = (c.turn + 1) % len(c.bases)
		if base = c.bases[c.turn]; base != "" {
			break
		}
	}
	return base, c.came
}

// awaitReady waits until all nodes say that they can work, and fails the test if
// that takes longer than it may.
func (c *cluster) awaitReady(most time.Duration) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), most)
	defer cancel()
	for i, server := range c.servers {
		for !ready(ctx, server.URL) {
			if ctx.Err() != nil {
				c.t.Fatalf("node %d is not ready after %s", i, most)
			}
			pause(ctx, 10*time.Millisecond)
		}
	}
}

func ready(ctx context.Context, base string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}
