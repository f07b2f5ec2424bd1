package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/test/harness"
)

func TestStop_C17_SlowPushIsReleasedUncounted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hold := make(chan struct{})
	r := scriptedReceiver(t, func(_ http.ResponseWriter, p push) {
		if p.header.Get("posthaste-attempt") == "1" {
			<-hold
		}
	})
	t.Cleanup(func() { close(hold) })
	server, c := onDisk(t, dir, "--grace", "200ms")
	// One attempt only: were the broken one counted, the item would be buried.
	c.subscribe("slow", r.URL, object{"retry": object{"max_attempts": 1}})
	id := c.produce("slow", object{"utf8": "x"})[0]
	r.next().expect(t, map[string]string{"webhook-id": id, "posthaste-attempt": "1"})
	server.Stop()
	for _, step := range []string{"not ready", "pushes", "API", "batches", "store"} {
		if !strings.Contains(server.Log(), step) {
			t.Errorf("the log does not tell of the step %q of stopping", step)
		}
	}

	_, c = onDisk(t, dir)
	r.next().expect(t, map[string]string{"webhook-id": id, "posthaste-attempt": "2"})
	eventually(t, "an empty queue", func() bool { return c.stats("slow").Total == 0 })
}

func TestStop_LongPollIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	server := harness.Start(t, harness.Options{Store: "memory:"})
	c := newClient(t, server.URL)
	c.call("queues.create", object{"queue_name": "idle"}, nil)
	got := make(chan answer, 1)
	go func() {
		a, err := c.post("/v1/queue.lease", "application/json", nil, []byte(`{"queue_name":"idle","request_timeout":"5m"}`))
		if err != nil {
			a.raw = []byte(err.Error())
		}
		got <- a
	}()
	eventually(t, "one waiting lease", func() bool { return c.stats("idle").LeaseWaiting == 1 })
	started := time.Now()
	server.Stop()
	if took := time.Since(started); took > patience/2 {
		t.Errorf("stopping took %s", took)
	}
	if a := <-got; a.status != http.StatusServiceUnavailable || a.CodeText != "shutting_down" {
		t.Errorf("the waiting lease got %d: %s, want 503 shutting_down", a.status, a.raw)
	}
}

func TestStop_F02_SecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	r := scriptedReceiver(t, func(http.ResponseWriter, push) { <-hold })
	t.Cleanup(func() { close(hold) })
	server := harness.Start(t, harness.Options{Store: "memory:", Args: slices.Concat(loopback, []string{"--grace", "10m"})})
	c := newClient(t, server.URL)
	c.subscribe("slow", r.URL, nil)
	c.produce("slow", object{"utf8": "x"})
	r.next()

	server.Signal(syscall.SIGTERM)
	eventually(t, "not ready", func() bool {
		resp, err := c.http.Get(server.AdminURL + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusServiceUnavailable
	})
	server.Signal(syscall.SIGTERM)
	if code := server.Wait(); code != 1 {
		t.Errorf("ended with code %d, want 1", code)
	}
}

func TestServe_A04_ListenOffLoopbackIsRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--listen", "0.0.0.0:0"},
		{"--listen", ":0"},
		{"--admin-listen", "[::]:0"},
		{"--listen", "example.com:2319"},
	} {
		code, _, stderr := harness.Run(t, harness.Options{}, append([]string{"serve", "--store", "memory:"}, args...)...)
		if code != 2 || !strings.Contains(stderr, args[0]) || !strings.Contains(stderr, "loopback") {
			t.Errorf("%v: got code %d: %s; want 2 and the reason", args, code, stderr)
		}
	}
}

func TestServe_AnImpossiblePortLeavesNoStoreBehind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code, _, stderr := harness.Run(t, harness.Options{Dir: dir}, "serve", "--listen", "127.0.0.1:99999")
	if code != 2 || !strings.Contains(stderr, "99999") {
		t.Errorf("got code %d: %s; want 2, naming the port", code, stderr)
	}
	taken := harness.Start(t, harness.Options{Store: "memory:"})
	address := strings.TrimPrefix(taken.URL, "http://")
	if code, _, stderr = harness.Run(t, harness.Options{Dir: dir}, "serve", "--listen", address); code != 1 || !strings.Contains(stderr, "--listen") {
		t.Errorf("got code %d: %s; want 1, naming the flag", code, stderr)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left %v, %v; want nothing", left, err)
	}
}

func TestServe_EnvironmentIsRead(t *testing.T) {
	t.Parallel()
	code, _, stderr := harness.Run(t, harness.Options{Env: []string{"POSTHASTE_STORE=redis://x"}}, "serve")
	if code != 2 || !strings.Contains(stderr, `"redis:"`) {
		t.Errorf("got code %d: %s; want 2, refusing the store", code, stderr)
	}
}

// The name resolves to loopback, which only the dial can see.
func TestGuard_N09_LoopbackIsBlockedUnlessAllowed(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	server := harness.Start(t, harness.Options{Store: "memory:"})
	c := newClient(t, server.URL)
	a := c.refused(http.StatusBadRequest, "invalid", "subscriptions.create",
		object{"name": "s", "queue_name": "q", "url": r.URL})
	if !strings.Contains(a.Message, "--egress-allow") {
		t.Errorf("no hint in %q", a.Message)
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(r.URL, "http://"), ":")
	c.subscribe("q", fmt.Sprintf("http://localhost:%s/", port), object{"retry": object{"max_attempts": 1}})
	c.produce("q", object{"utf8": "x"})
	if it := c.buried("q~dead"); it.Dead.LastStatus != 0 {
		t.Errorf("buried with status %d, want none", it.Dead.LastStatus)
	}
	if it := c.lease("q~dead", 1)[0]; !strings.Contains(it.LastError, "blocked_address") {
		t.Errorf("last error %q, want blocked_address", it.LastError)
	}
	// Nothing but what the test sends itself, since no push of this server could get here.
	r.onlyNext(func() (id string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("webhook-id", "from the test")
		resp, err := c.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return "from the test"
	})
}

func TestVersion_SaysWhatItWasBuiltFrom(t *testing.T) {
	t.Parallel()
	code, stdout, _ := harness.Run(t, harness.Options{}, "version")
	if code != 0 || !strings.HasPrefix(stdout, "posthaste ") || !strings.Contains(stdout, "\ngo1.") {
		t.Errorf("got code %d: %q", code, stdout)
	}
}

func TestServe_OverloadIsRefusedWithRetryAfter(t *testing.T) {
	t.Parallel()
	server := harness.Start(t, harness.Options{Store: "memory:", Args: []string{"--max-polls", "1"}})
	c := newClient(t, server.URL)
	c.call("queues.create", object{"queue_name": "busy"}, nil)
	first := make(chan answer, 1)
	go func() {
		a, err := c.post("/v1/queue.lease", "application/json", nil, []byte(`{"queue_name":"busy","client_id":"a","request_timeout":"5m"}`))
		if err != nil {
			a.raw = []byte(err.Error())
		}
		first <- a
	}()
	eventually(t, "one waiting lease", func() bool { return c.stats("busy").LeaseWaiting == 1 })
	a := c.refused(http.StatusTooManyRequests, "overloaded", "queue.lease",
		object{"queue_name": "busy", "client_id": "b", "request_timeout": "5m"})
	if a.header.Get("Retry-After") == "" {
		t.Error("429 without Retry-After")
	}
	// Who waits is not disturbed.
	c.produce("busy", object{"utf8": "x"})
	if a := <-first; a.status != http.StatusOK || !strings.Contains(string(a.raw), "receipt") {
		t.Errorf("the first lease got %d: %s", a.status, a.raw)
	}
}
