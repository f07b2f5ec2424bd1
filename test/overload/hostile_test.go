package overload_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/test/harness"
)

const (
	// slowClients begin a request and never end it.
	slowClients = 1000
	// headerTime is how long the server waits for the end of a request's headers.
	headerTime = 5 * time.Second
	// patience is for what a busy machine may take longer for.
	patience = 30 * time.Second
)

func TestI04_SlowClientsHoldUpNobody(t *testing.T) {
	t.Parallel()
	server := harness.Start(t, harness.Options{Store: "memory:", Args: []string{"--log-level", "warn"}})
	control := mustDial(t, server.URL)
	if a, err := control.call(request("queues.create", `{"queue_name":"q"}`)); err != nil || a.status != 200 {
		t.Fatalf("queues.create: %d %s, %v", a.status, a.body, err)
	}
	began := time.Now()
	var group sync.WaitGroup
	for i := range slowClients {
		slow, err := net.Dial("tcp", strings.TrimPrefix(server.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		if err := slow.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			defer slow.Close()
			if err := drip(slow); err != nil {
				t.Errorf("slow client %d: %v", i, err)
			}
		})
	}
	o := load{
		url: server.URL, connections: 8, rate: 200, last: headerTime,
		request: request("queue.produce", `{"queue_name":"q","items":[{"utf8":"x"}]}`),
	}.run(t)
	t.Logf("beside %d slow clients: %s", slowClients, o)
	if p99 := o.quantile(0.99); o.statuses[200] != o.sent || p99 > time.Second {
		t.Errorf("others: %d of %d were accepted, p99 %s; want all, in a second", o.statuses[200], o.sent, p99)
	}
	group.Wait() // each was ended by the server
	if took := time.Since(began); took > headerTime+patience/2 {
		t.Errorf("the last slow client was ended after %s, want %s", took, headerTime)
	}
}

// drip sends a header that never ends, until the server closes the connection.
func drip(c net.Conn) error {
	if _, err := io.WriteString(c, "POST /v1/produce/q HTTP/1.1\r\nHost: overload\r\nX-Slow: "); err != nil {
		return err
	}
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, c)
		ended <- err
	}()
	for {
		select {
		case err := <-ended:
			if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
				return fmt.Errorf("was not ended: %w", err)
			}
			return nil
		case <-ticker.C:
			_, _ = io.WriteString(c, "x") // whether it arrives is seen by the reader
		}
	}
}
