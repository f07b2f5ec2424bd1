package client_test

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.uber.org/goleak"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/api/client"
	"github.com/posthaste-io/posthaste/test/inproc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// server is a real one over a memory store, with a front in which a test can have
// requests go wrong.
type server struct {
	url   string
	front *front
}

// front stands between client and server.
type front struct {
	next http.Handler

	mu sync.Mutex
	// faults are what becomes of the next requests, always what becomes of those of a path.
	faults []fault
	always map[string]fault
	// seen are the requests that came, by path and key.
	seen []seen
}

// fault is one thing to go wrong. It answers itself, or lets the request through and
// keeps the answer.
type fault func(w http.ResponseWriter, r *http.Request, next http.Handler)

type seen struct{ path, key, authorization, trace string }

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.seen = append(f.seen, seen{r.URL.Path, r.Header.Get("Idempotency-Key"), r.Header.Get("Authorization"), r.Header.Get("Traceparent")})
	var bad fault
	if len(f.faults) > 0 && r.URL.Path != "/readyz" {
		bad, f.faults = f.faults[0], f.faults[1:]
	}
	if bad == nil {
		bad = f.always[r.URL.Path]
	}
	f.mu.Unlock()
	if bad != nil {
		bad(w, r, f.next)
		return
	}
	f.next.ServeHTTP(w, r)
}

// on has all further requests of a path go wrong.
func (f *front) on(path string, bad fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.always[path] = bad
}

// count is how many requests of a path came.
func (f *front) count(path string) int {
	n := 0
	for _, r := range f.requests() {
		if r.path == path {
			n++
		}
	}
	return n
}

// fail has the next requests go wrong, one after the other.
func (f *front) fail(faults ...fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, faults...)
}

func (f *front) requests() []seen {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]seen(nil), f.seen...)
}

// answerStatus answers for the server.
func answerStatus(status int, header ...string) fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		http.Error(w, "<html>from a proxy</html>", status)
	}
}

// loseAnswer has the server do what was asked, and breaks the connection.
func loseAnswer(_ http.ResponseWriter, r *http.Request, next http.Handler) {
	next.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// cutAnswer has the server do what was asked, and breaks off in the middle of its answer.
func cutAnswer(w http.ResponseWriter, r *http.Request, next http.Handler) {
	answer := httptest.NewRecorder()
	next.ServeHTTP(answer, r)
	maps.Copy(w.Header(), answer.Header())
	w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

func newServer(t *testing.T) *server {
	t.Helper()
	return newLimitedServer(t, api.Limits{})
}

func newLimitedServer(t *testing.T, limits api.Limits) *server {
	t.Helper()
	f := &front{always: map[string]fault{}}
	url := inproc.Start(t, inproc.Options{Limits: limits, Front: func(next http.Handler) http.Handler {
		f.next = next
		return f
	}})
	return &server{url: url, front: f}
}

// client returns a client that repeats quickly, unless told otherwise.
func (s *server) client(t *testing.T, o client.Options) *client.Client {
	t.Helper()
	o.URL, o.MinWait = s.url, cmp.Or(o.MinWait, time.Millisecond)
	c, err := client.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// setup returns a client of a server with the queue "orders".
func setup(t *testing.T) (*client.Client, *server) {
	t.Helper()
	return setupLimited(t, api.Limits{})
}

func setupLimited(t *testing.T, limits api.Limits) (*client.Client, *server) {
	t.Helper()
	s := newLimitedServer(t, limits)
	c := s.client(t, client.Options{})
	if err := c.CreateQueue(t.Context(), client.Queue{Name: "orders"}); err != nil {
		t.Fatal(err)
	}
	return c, s
}

func produce(t *testing.T, c *client.Client, items ...client.Item) []client.Produced {
	t.Helper()
	produced, err := c.Produce(t.Context(), "orders", items...)
	if err != nil || len(produced) != len(items) {
		t.Fatalf("produce: got %v, %v", produced, err)
	}
	return produced
}

func lease(t *testing.T, c *client.Client, n int) []client.Leased {
	t.Helper()
	items, err := c.Lease(t.Context(), client.LeaseParams{Queue: "orders", BatchSize: n, Wait: 10 * time.Millisecond})
	if err != nil {
		t.Fatalf("lease: %v", err)
	}
	return items
}

// awaitStats polls until the queue's counts are as they should be.
func awaitStats(t *testing.T, c *client.Client, what string, ok func(client.Stats) bool) {
	t.Helper()
	var s client.Stats
	await(t, what, func() bool {
		var err error
		if s, err = c.Stats(t.Context(), "orders"); err != nil {
			t.Fatal(err)
		}
		return ok(s)
	})
}

// await polls until something holds.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, patience)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// values are what a list yields, which must be no error.
func values[T any](t *testing.T, list iter.Seq2[T, error]) iter.Seq[T] {
	return func(yield func(T) bool) {
		t.Helper()
		for v, err := range list {
			if err != nil {
				t.Errorf("list: %v", err)
				return
			}
			if !yield(v) {
				return
			}
		}
	}
}

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// traced returns a context that carries a trace.
func traced(ctx context.Context) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
}
