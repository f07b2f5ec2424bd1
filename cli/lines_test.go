package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/test/inproc"
)

func TestParseLine_IsStrict(t *testing.T) {
	t.Parallel()
	it, err := parseLine([]byte(`{"kind":"a","json":{"x": 1},"delay":"1m30s","headers":{"A":"b"},"idempotency_key":"k","max_attempts":-1}`))
	if err != nil || it.Kind != "a" || string(it.Payload) != `{"x": 1}` || it.Encoding != "application/json" ||
		it.Delay.String() != "1m30s" || it.Headers["A"] != "b" || it.IdempotencyKey != "k" || it.MaxAttempts != -1 {
		t.Errorf("got %+v, %v", it, err)
	}
	for text, want := range map[string]string{
		`{"utf8":"x","bytes":"eA=="}`: "want one of them",
		`{"utf8":"x"} {"utf8":"y"}`:   "more than one JSON value",
		`{"utf8":"x"`:                 "ends early",
		`{"delay":"soon"}`:            "no duration",
		`{"knd":"x"}`:                 `unknown field "knd"`,
		`[1]`:                         "cannot unmarshal",
		`x`:                           "invalid character",
		`null`:                        "want a JSON object",
		"{\"utf8\":\"caf\xe9\"}":      "not UTF-8",
	} {
		if _, err := parseLine([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

func TestLines_WrongOnesAreToldAndTheOthersKept(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("queues", "create", "orders")
	input := strings.Join([]string{
		"\ufeff" + `{"utf8":"1","idempotency_key":"k-1"}`,
		``,
		`{"utf8":"3","delay":"soon"}`,
		`{"utf8":"4","idempotency_key":"has a space"}`,
		`{"utf8":"5"}`,
		`{"utf8":"6","max_attempts":-7}`,
		`{"json":{"n":7}}`,
	}, "\n")
	r := s.run(input, "produce", "orders", "--lines")
	if r.status != exitFailed || r.out != "3 lines kept\n" || !strings.Contains(r.err.Error(), "3 lines refused") {
		t.Errorf("got %+v", r)
	}
	for _, want := range []string{"line 3: ", "line 4: idempotency_key: ", "line 6: max_attempts: "} {
		if !strings.Contains(r.errors, want) {
			t.Errorf("%q is not told of:\n%s", want, r.errors)
		}
	}
	var kept []string
	for _, it := range s.objects("lease", "orders", "-n", "10", "--json") {
		kept = append(kept, it["utf8"].(string))
	}
	if want := []string{"1", "5", `{"n":7}`}; !slices.Equal(kept, want) {
		t.Errorf("kept %q, want %q in their order", kept, want)
	}

	r = s.run(input, "produce", "orders", "--lines", "--json")
	told := map[float64]map[string]any{}
	for _, v := range decode(t, r.out) {
		told[v["line"].(float64)] = v
	}
	if len(told) != 6 || told[1]["duplicate"] != true || told[5]["item_id"] == nil || told[4]["code_text"] != "invalid" || told[3]["message"] == nil {
		t.Errorf("got %v", told)
	}
}

func TestLines_GoInAsManyCallsAsTheServerWants(t *testing.T) {
	// 400 lines of 1,000 bytes are one batch of ours, and more than this server takes.
	s := newShell(t, inproc.Options{Limits: api.Limits{ItemCall: 100_000, Payload: 2000}})
	s.ok("queues", "create", "orders")
	var input strings.Builder
	for i := range 400 {
		payload := strings.Repeat("x", 1000)
		if i == 250 {
			payload = strings.Repeat("x", 3000)
		}
		fmt.Fprintf(&input, "{\"utf8\":%q}\n", payload)
	}
	r := s.run(input.String(), "produce", "orders", "--lines", "--concurrency", "1")
	if r.out != "399 lines kept\n" || !strings.Contains(r.errors, "line 251: ") {
		t.Errorf("got %+v", r)
	}
	if got := s.object("queues", "stats", "orders")["total"]; got != 399.0 {
		t.Errorf("the queue has %v items, want 399", got)
	}
}

// broken is a writer that nobody reads any more after so many writes.
type broken struct{ left int }

func (b *broken) Write(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errors.New("broken pipe")
	}
	b.left--
	return len(p), nil
}

func lines(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format+"\n", i)
	}
	return b.String()
}

func TestLines_StopWhenNobodyReadsWhatBecameOfThem(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("queues", "create", "orders")
	r := s.runTo(t.Context(), &broken{1}, strings.NewReader(lines(5000, `{"utf8":"x","idempotency_key":"k-%d"}`)), "produce", "orders", "--lines", "--json", "--concurrency", "1")
	if r.status != exitFailed || !strings.Contains(r.err.Error(), "broken pipe") || !strings.Contains(r.err.Error(), "stopped at line ") {
		t.Errorf("got %+v", r)
	}
	if got := s.object("queues", "stats", "orders")["total"].(float64); got >= 5000 {
		t.Error("all lines were produced for nobody")
	}
}

// A break leaves nothing doubled that has a key, and says where to go on.
func TestLines_ARepeatAfterABreakIsSafe(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("queues", "create", "orders")
	target, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int64
	proxy := httputil.NewSingleHostReverseProxy(target)
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	proxy.Transport = transport
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/queue.produce") && calls.Add(1) > 2 {
			http.Error(w, "no more", http.StatusTeapot)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	defer front.Close()

	input := lines(1700, `{"utf8":"x","idempotency_key":"k-%d"}`)
	r := s.run(input, "produce", "orders", "--lines", "--concurrency", "1", "--url", front.URL)
	if r.status != exitUnreached || !strings.Contains(r.err.Error(), "stopped at line 1001: those before it are done (1000 kept, 0 refused)") {
		t.Errorf("got %+v", r)
	}
	r = s.run(input, "produce", "orders", "--lines")
	if r.out != "1700 lines kept, 1000 of them known already\n" {
		t.Errorf("the repeat: got %+v", r)
	}
	if got := s.object("queues", "stats", "orders")["total"]; got != 1700.0 {
		t.Errorf("the queue has %v items, want 1700", got)
	}
}

func TestLines_ArriveThoughTheirPipeStaysOpen(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("queues", "create", "orders")
	in, feed := io.Pipe()
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan result, 1)
	go func() { ended <- s.runTo(ctx, new(strings.Builder), in, "produce", "orders", "--lines") }()
	if _, err := io.WriteString(feed, "{\"utf8\":\"x\"}\n"); err != nil {
		t.Fatal(err)
	}
	s.ok("lease", "orders", "--wait", "20s")
	cancel(errors.New("signal: interrupt"))
	r := <-ended
	if r.status != exitInterrupted || !strings.Contains(r.err.Error(), "stopped at line 2: ") {
		t.Errorf("got %+v", r)
	}
	feed.Close()
}
