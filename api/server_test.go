package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/queue"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	var storeErr, filesErr error
	e := setup(t, func(o *api.Options) {
		o.Version = "1.2.3"
		o.Ready = func() []api.Check {
			return []api.Check{{Name: "store", Err: storeErr}, {Name: "files", Err: filesErr, Minor: true}}
		}
	})
	get := func(path string) answer {
		t.Helper()
		return e.do(httptest.NewRequest(http.MethodGet, path, nil))
	}
	check := func(a answer, status int, word string) {
		t.Helper()
		if a.status != status || a.body["status"] != word {
			t.Errorf("got %d %s, want %d %s", a.status, a.raw, status, word)
		}
	}
	check(get("/livez"), 200, "ok")
	check(get("/readyz"), 200, "ok")
	health := get("/health")
	check(health, 200, "ok")
	health.is("1.2.3", "version")
	health.is(false, "durable")
	health.is("store", "checks", 0, "name")
	health.is(true, "checks", 0, "ok")

	storeErr = errors.New("disk is gone")
	check(get("/livez"), 200, "ok")
	check(get("/readyz"), 503, "failing")
	get("/health").is("disk is gone", "checks", 0, "error")

	storeErr = nil
	filesErr = errors.New("a table is damaged")
	check(get("/readyz"), 200, "ok") // work is taken all the same
	health = get("/health")
	check(health, 200, "degraded")
	health.is("a table is damaged", "checks", 1, "error")

	drained := false
	e.broker.drain = func() { drained = true }
	e.server.Drain()
	if !drained {
		t.Error("the broker was not drained: long polls go on")
	}
	check(get("/livez"), 200, "ok")
	stopping := get("/readyz")
	check(stopping, 503, "stopping")
	if stopping.header.Get("Connection") != "close" {
		t.Error("the connection stays open while stopping")
	}
}

func TestAdmin_HasHealthAndProfilesOnly(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for path, status := range map[string]int{"/readyz": 200, "/debug/pprof/": 200, "/debug/pprof/goroutine": 200, "/debug/pprof/cmdline": 200, "/v1/queue.stats": 404} {
		for host, want := range map[string]int{"127.0.0.1:2320": status, "localhost": status, "evil.example:2320": 403} {
			rec := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Host = host
			e.server.Admin().ServeHTTP(rec, r)
			if rec.Code != want {
				t.Errorf("%s of %s: got %d, want %d", path, host, rec.Code, want)
			}
		}
	}
	e.do(httptest.NewRequest(http.MethodGet, "/debug/pprof/", nil)).want(404, "no_such_method")
}

// listen serves on loopback until the test ends.
func listen(t *testing.T, e *env, change ...func(*http.Server)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := api.NewHTTPServer(e.server, slog.New(slog.DiscardHandler))
	for _, f := range change {
		f(server)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// soon makes the time for a request to arrive short.
func soon(s *http.Server) { s.ReadTimeout = 50 * time.Millisecond }

// raw sends bytes and returns all that comes back until the server closes.
func raw(t *testing.T, addr, request string) string {
	t.Helper()
	conn := dial(t, addr)
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Errorf("the server did not close: %v", err)
	}
	return string(answer)
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestI05_RequestsThatCanBeUnderstoodInTwoWays(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.broker.produce = accept
	addr := listen(t, e)
	const head = "POST /v1/produce/q HTTP/1.1\r\nHost: a\r\n"
	for name, c := range map[string]struct{ request, want string }{
		"two lengths":             {head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", "HTTP/1.1 400"},
		"a length and chunked":    {head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nPOST /smuggled HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 201"},
		"an unknown encoding":     {head + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1 501"},
		"a space before a colon":  {head + "Content-Length : 1\r\n\r\nx", "HTTP/1.1 400"},
		"a header that goes on":   {head + "X: a\r\n b\r\n\r\n", "HTTP/1.1 201"},
		"two hosts":               {"POST /v1/produce/q HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "HTTP/1.1 400"},
		"a whole URL":             {"POST http://b/v1/produce/q HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "HTTP/1.1 400"},
		"a header of 40 kB":       {head + "X: " + strings.Repeat("x", 40_000) + "\r\n\r\n", "HTTP/1.1 431"},
		"5,000 headers":           {head + strings.Repeat("X: 1234\r\n", 5000) + "\r\n", "HTTP/1.1 431"},
		"a negative length":       {head + "Content-Length: -1\r\n\r\n", "HTTP/1.1 400"},
		"a length with a sign":    {head + "Content-Length: +1\r\n\r\nx", "HTTP/1.1 400"},
		"a list of lengths":       {head + "Content-Length: 1, 1\r\n\r\nx", "HTTP/1.1 400"},
		"chunked twice":           {head + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1 501"},
		"two encodings":           {head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", "HTTP/1.1 501"},
		"chunked of HTTP/1.0":     {"POST /v1/produce/q HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nPOST /smuggled HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.0 400"},
		"a carriage return alone": {head + "X: a\rContent-Length: 5\r\n\r\n", "HTTP/1.1 400"},
		"a NUL in a header":       {head + "X: a\x00b\r\n\r\n", "HTTP/1.1 400"},
		"a name with a space":     {head + "X Y: a\r\n\r\n", "HTTP/1.1 400"},
		"a line feed in a chunk":  {head + "Transfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n", "HTTP/1.1 400"},
		"a chunk of 2^64":         {head + "Transfer-Encoding: chunked\r\n\r\n10000000000000001\r\nx", "HTTP/1.1 400"},
		"no host":                 {"POST /v1/produce/q HTTP/1.1\r\n\r\n", "HTTP/1.1 400"},
		"a body without its end":  {head + "Content-Length: 5\r\n\r\nx", ""},
		"a chunk that is no size": {head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 400"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, addr)
			if _, err := io.WriteString(conn, c.request); err != nil {
				t.Fatal(err)
			}
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			answer, _ := io.ReadAll(conn)
			if !strings.HasPrefix(string(answer), c.want) || strings.Contains(string(answer), "\nHTTP/1.") {
				t.Errorf("got %q, want one answer that begins with %s", answer, c.want)
			}
		})
	}
	t.Cleanup(func() {
		if strings.Contains(e.log.String(), `"method":"unknown"`) {
			t.Errorf("the second request was read: %s", e.log)
		}
	})
}

func TestI01_AnAnnouncedBodyOverTheLimitIsNotRead(t *testing.T) {
	t.Parallel()
	e := setup(t)
	addr := listen(t, e, soon)
	// Not a byte of the body is sent, and a client that asks first is told no.
	answer := raw(t, addr, "POST /v1/queue.stats HTTP/1.1\r\nHost: a\r\nContent-Length: 256001\r\nExpect: 100-continue\r\n\r\n")
	if !strings.HasPrefix(answer, "HTTP/1.1 413") || !strings.Contains(answer, `"too_large"`) {
		t.Errorf("got %q, want 413", answer)
	}
}

func TestI04_ARefusedBodyDoesNotHoldTheConnection(t *testing.T) {
	t.Parallel()
	e := setup(t)
	// It is announced and never comes: raw fails the test if the server waits for it.
	answer := raw(t, listen(t, e, soon), "POST /v1/queue.stats HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\n")
	if !strings.HasPrefix(answer, "HTTP/1.1 415") {
		t.Errorf("got %q, want 415", answer)
	}
}

func TestI04_SlowClientsAreGivenUp(t *testing.T) {
	t.Parallel()
	e := setup(t)
	addr := listen(t, e, func(s *http.Server) {
		if s.ReadHeaderTimeout != 5*time.Second || s.IdleTimeout != 60*time.Second || s.MaxHeaderBytes != 32<<10 || s.ReadTimeout != 30*time.Second || s.WriteTimeout != 0 {
			t.Errorf("got %+v", s)
		}
		s.ReadHeaderTimeout = 50 * time.Millisecond
	})
	conn := dial(t, addr)
	if _, err := io.WriteString(conn, "POST /v1/produce/q HTTP/1.1\r\nHost:"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Errorf("the connection was not closed: %v, %q", err, answer)
	}
}

func TestI04_ASlowBodyIsGivenUp(t *testing.T) {
	t.Parallel()
	e := setup(t)
	answer := raw(t, listen(t, e, soon), "POST /v1/produce/q HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nx")
	if !strings.HasPrefix(answer, "HTTP/1.1 408") || !strings.Contains(answer, `"request_timeout"`) {
		t.Errorf("got %q, want 408", answer)
	}
}

func TestLease_ALongPollOutlivesTheTimeOfItsBody(t *testing.T) {
	t.Parallel()
	e := setup(t)
	wait := make(chan struct{})
	e.broker.lease = func(ctx context.Context, _ queue.LeaseParams) (queue.LeaseReply, error) {
		select {
		case <-wait:
			return queue.LeaseReply{}, nil
		case <-ctx.Done():
			return queue.LeaseReply{}, context.Cause(ctx)
		}
	}
	addr := listen(t, e, soon)
	timer := time.AfterFunc(200*time.Millisecond, func() { close(wait) })
	defer timer.Stop()
	body := `{"queue_name":"q"}`
	answer := raw(t, addr, fmt.Sprintf("POST /v1/queue.lease HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	if !strings.HasPrefix(answer, "HTTP/1.1 200") {
		t.Errorf("got %q, want 200", answer)
	}
}

func TestLease_EndsWhenItsConsumerGoes(t *testing.T) {
	t.Parallel()
	e := setup(t)
	began, ended := make(chan struct{}), make(chan struct{})
	e.broker.lease = func(ctx context.Context, _ queue.LeaseParams) (queue.LeaseReply, error) {
		close(began)
		<-ctx.Done()
		close(ended)
		return queue.LeaseReply{}, ctx.Err()
	}
	conn := dial(t, listen(t, e))
	if _, err := io.WriteString(conn, "POST /v1/queue.lease HTTP/1.1\r\nHost: a\r\nContent-Length: 18\r\n\r\n"+`{"queue_name":"q"}`); err != nil {
		t.Fatal(err)
	}
	<-began
	conn.Close()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the lease goes on though its consumer went")
	}
}

func TestServer_KeepsConnectionsForWellBehavedClients(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.broker.produce = accept
	conn := dial(t, listen(t, e))
	answers := bufio.NewReader(conn)
	for range 3 {
		if _, err := io.WriteString(conn, "POST /v1/produce/q HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 201 || resp.Close {
			t.Errorf("got %d, close %v, %v", resp.StatusCode, resp.Close, err)
		}
	}
}
