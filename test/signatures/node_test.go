// Package signatures_test has real pushes verified by the libraries that receivers use.
//
// The reference libraries for Node come from npm. Of svix it is the last line with an
// implementation of its own: later ones call standardwebhooks.
package signatures_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
	"github.com/posthaste-io/posthaste/test/harness"
	"github.com/posthaste-io/posthaste/webhooks"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// request is what a library is given to verify.
type request struct {
	Name    string            `json:"name"`
	Secret  string            `json:"secret"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

// verdict is what one library says of a request.
type verdict struct {
	Name    string
	Library string
	Verdict string
	Payload any
}

// bodies are JSON, since that is what the libraries read.
var bodies = []string{
	`{"test": 2432232314}`,
	" {\n\t\"spaces\": [1.0, 1e2]  }\n",
	`"größer 😀 \u0000"`,
	`{"long": "` + strings.Repeat("x", 100_000) + `"}`,
}

func TestG08_NodeLibrariesVerifyPushes(t *testing.T) {
	t.Parallel()
	dir := harness.Modules(t, ".")
	secret := webhooks.NewSecret()
	var requests []request
	want := map[string]any{} // the payload of what is to be verified
	for _, r := range record(t, secret) {
		requests = append(requests, r)
		var payload any
		if err := json.Unmarshal([]byte(r.Body), &payload); err != nil {
			t.Fatal(err)
		}
		want[r.Name] = payload
	}
	// What must be refused, all made of one that must not.
	good := requests[0]
	for name, spoil := range map[string]func(r *request){
		"another body":      func(r *request) { r.Body = strings.Replace(r.Body, "2", "3", 1) },
		"another secret":    func(r *request) { r.Secret = webhooks.NewSecret() },
		"another id":        func(r *request) { r.Headers[webhooks.HeaderID] += "x" },
		"another timestamp": func(r *request) { r.Headers[webhooks.HeaderTimestamp] += "0" },
		"no signature":      func(r *request) { delete(r.Headers, webhooks.HeaderSignature) },
		"another version": func(r *request) {
			r.Headers[webhooks.HeaderSignature] = strings.Replace(r.Headers[webhooks.HeaderSignature], "v1,", "v2,", 1)
		},
	} {
		r := good
		r.Name, r.Headers = name, maps.Clone(good.Headers)
		spoil(&r)
		requests = append(requests, r)
	}
	verdicts := verify(t, dir, requests)
	if len(verdicts) != 2*len(requests) {
		t.Errorf("%d verdicts for %d requests, want one of each of two libraries", len(verdicts), len(requests))
	}
	for _, v := range verdicts {
		payload, verified := want[v.Name]
		switch {
		case verified && v.Verdict != "verified":
			t.Errorf("%s: %s says %s", v.Library, v.Name, v.Verdict)
		case verified && !reflect.DeepEqual(v.Payload, payload):
			t.Errorf("%s: %s: read another payload", v.Library, v.Name)
		case !verified && v.Verdict != "refused":
			t.Errorf("%s: with %s: %s", v.Library, v.Name, v.Verdict)
		}
	}
}

// record returns real pushes: signed with one secret, and while it is being changed with
// the newer and the older of two.
func record(t *testing.T, secret string) (requests []request) {
	t.Helper()
	server := harness.Start(t, harness.Options{Store: "memory:", Args: []string{"--egress-allow", "127.0.0.0/8"}})
	c, err := client.New(client.Options{URL: server.URL, Key: harness.Key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	arrived := make(chan request, len(bodies))
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the server was stopped while it sent
		}
		headers := map[string]string{}
		for name := range r.Header {
			headers[name] = r.Header.Get(name)
		}
		// The libraries look for names as Node writes them.
		for _, name := range []string{webhooks.HeaderID, webhooks.HeaderTimestamp, webhooks.HeaderSignature} {
			headers[name] = r.Header.Get(name)
			delete(headers, http.CanonicalHeaderKey(name))
		}
		arrived <- request{Headers: headers, Body: string(body)}
	}))
	t.Cleanup(receiver.Close)
	if _, err := c.CreateSubscription(t.Context(), client.Subscription{Name: "hooks", Queue: "hooks", URL: receiver.URL, Secret: secret}); err != nil {
		t.Fatal(err)
	}
	push := func(body, signed string) request {
		t.Helper()
		if _, err := c.Produce(t.Context(), "hooks", client.Item{Encoding: "application/json", Payload: []byte(body)}); err != nil {
			t.Fatal(err)
		}
		select {
		case r := <-arrived:
			r.Name, r.Secret = signed+": "+body[:min(len(body), 20)], secret
			return r
		case <-time.After(30 * time.Second):
			t.Fatal("no push came in 30 s")
			return request{}
		}
	}
	for _, body := range bodies {
		requests = append(requests, push(body, "signed"))
	}
	newer, err := c.RotateSecret(t.Context(), "hooks", client.RotateParams{})
	if err != nil {
		t.Fatal(err)
	}
	both := push(bodies[0], "signed twice, the older secret")
	if n := len(strings.Fields(both.Headers[webhooks.HeaderSignature])); n != 2 {
		t.Errorf("%d signatures while the secret is being changed, want 2", n)
	}
	withNewer := both
	withNewer.Name, withNewer.Secret = "signed twice, the newer secret", newer.Secret
	return append(requests, both, withNewer)
}

// verify runs the libraries.
func verify(t *testing.T, dir string, requests []request) (verdicts []verdict) {
	t.Helper()
	text, err := json.Marshal(requests)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "requests.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "verify.mjs", "requests.json")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node: %v\n%s", err, stderrOf(err))
	}
	for line := range strings.Lines(string(out)) {
		var v verdict
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		verdicts = append(verdicts, v)
	}
	return verdicts
}

func stderrOf(err error) []byte {
	if e, ok := err.(*exec.ExitError); ok {
		return e.Stderr
	}
	return nil
}
