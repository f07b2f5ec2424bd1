package openapiclient_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api/openapi"
	"github.com/posthaste-io/posthaste/test/harness"
)

func TestDocument_LinterHasNothingToSay(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	write(t, filepath.Join(dir, "openapi.yaml"), openapi.Document)
	run(t, dir, nil, "node", "node_modules/@redocly/cli/bin/cli.js", "lint", "openapi.yaml", "--config", "redocly.yaml")
}

// endpoint takes pushes and remembers their bodies.
type endpoint struct {
	mu     sync.Mutex
	pushed map[string]bool
}

func (e *endpoint) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the push will come again
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pushed[string(body)] = true
}

func (e *endpoint) has(body string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pushed[body]
}

// A client that nobody wrote makes the walk of the README. It knows what the server
// under test says of itself, and nothing else.
func TestDocument_GeneratedClientMakesTheWalk(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	server := harness.Start(t, harness.Options{Store: "memory:", Args: []string{"--egress-allow", "127.0.0.0/8"}})
	resp, err := http.Get(server.URL + "/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	document, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET /openapi.yaml: status %d, %v", resp.StatusCode, err)
	}
	write(t, filepath.Join(dir, "openapi.yaml"), document)
	run(t, dir, nil, "node", "node_modules/@hey-api/openapi-ts/bin/run.js", "--no-log-file")
	// Types are checked as well: a program that is wrong by the document does not compile.
	run(t, dir, nil, "node", "node_modules/typescript/bin/tsc", "--project", ".")

	e := &endpoint{pushed: make(map[string]bool)}
	receiver := httptest.NewServer(e)
	t.Cleanup(receiver.Close)
	out := run(t, dir, []string{"POSTHASTE_KEY=" + harness.Key}, "node", "out/walk.js", server.URL, receiver.URL)

	want := []line{
		{"health", "ok"},
		{"lease_timeout", "120s"},
		{"secret", true},
		{"raw", 1.0},
		{"duplicate", true},
		{"paused", "paused"},
		{"leased", []any{"pulled", "pull me", 1.0}},
		{"why", "leased"},
		{"completed", "ok"},
		{"completed again", []any{409.0, "stale_lease"}},
		{"left", 0.0},
		{"resumed", "active"},
	}
	if got := lines(t, out); !reflect.DeepEqual(got, want) {
		t.Errorf("the client printed %v\nwant %v", got, want)
	}
	for _, body := range []string{"hello, posthaste", `{"order": 17}`, "order 17 again"} {
		eventually(t, "pushed: "+body, func() bool { return e.has(body) })
	}
	if e.has("pull me") {
		t.Error("what was pulled was pushed as well")
	}
}

// line is what the client prints of a call.
type line struct {
	What  string
	Value any
}

func lines(t *testing.T, out string) []line {
	t.Helper()
	var found []line
	for decoder := json.NewDecoder(strings.NewReader(out)); decoder.More(); {
		var l line
		if err := decoder.Decode(&l); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		found = append(found, l)
	}
	return found
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
