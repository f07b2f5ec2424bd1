package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/posthaste-io/posthaste/test/inproc"
)

// looks ends a watch after so many writes, each of which is a look.
type looks struct {
	bytes.Buffer
	left int
	end  func()
}

func (l *looks) Write(p []byte) (int, error) {
	if l.left--; l.left <= 0 {
		l.end()
	}
	return l.Buffer.Write(p)
}

func TestTop_IsOnePlainLookWithoutATerminal(t *testing.T) {
	s := newShell(t, inproc.Options{})
	if got := s.ok("top"); got != "there are no queues\n" {
		t.Errorf("got %q", got)
	}
	s.ok("subscriptions", "create", "shop", "orders", "https://shop.example/")
	s.ok("queues", "create", "bills")
	got := s.ok("top")
	if !strings.HasPrefix(got, "QUEUE ") || !strings.Contains(got, "\norders ") || !strings.Contains(got, "\nbills ") ||
		!strings.Contains(got, "\nSUBSCRIPTION ") || !strings.Contains(got, "\nshop ") || strings.Contains(got, "\x1b") {
		t.Errorf("got\n%s", got)
	}
	if got := s.ok("top", "bills"); strings.Contains(got, "orders") {
		t.Errorf("of one queue: got\n%s", got)
	}
	if r := s.run("", "top", "nosuch"); r.status != exitFailed {
		t.Errorf("of a queue that is not there: got %+v", r)
	}
}

func TestTop_PrintsObjectsUntilItIsInterrupted(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("queues", "create", "orders")
	ctx, cancel := context.WithCancelCause(t.Context())
	out := &looks{left: 3, end: func() { cancel(errors.New("signal: interrupt")) }}
	r := s.runTo(ctx, out, strings.NewReader(""), "top", "--json", "--every", "100ms")
	if r.err != nil {
		t.Fatalf("got status %d, %v; an interrupt is how it is ended", r.status, r.err)
	}
	list := decode(t, out.String())
	if len(list) != 3 {
		t.Fatalf("got %d objects, want 3", len(list))
	}
	first, last := list[0]["queues"].([]any)[0].(map[string]any), list[2]["queues"].([]any)[0].(map[string]any)
	if first["ready_rate"] != nil || last["ready_rate"] != 0.0 || last["queue_name"] != "orders" {
		t.Errorf("got %v and %v, want rates from the second look on", first, last)
	}
}

func TestTop_GivesTheScreenBackAndWaitsForAServerThatIsAway(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("queues", "create", "orders")
	target, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	var away atomic.Bool
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = transport
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	defer front.Close()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var screen bytes.Buffer
	n := 0
	out := writer(func(p []byte) (int, error) {
		n++
		away.Store(n == 1)
		if n == 3 {
			cancel()
		}
		return screen.Write(p)
	})
	command, err := parse(t, "top", "--every", "100ms", "--url", front.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := &console{out: bufio.NewWriterSize(out, 1<<20), err: io.Discard, shown: true}
	if err := command.run(ctx, c); err != nil {
		t.Fatal(err)
	}
	if err := c.flush(); err != nil {
		t.Fatal(err)
	}
	text := screen.String()
	if !strings.HasPrefix(text, screenBegin) || !strings.HasSuffix(text, screenEnd) {
		t.Errorf("got %q, want another screen, given back at the end", text)
	}
	draws := strings.Split(text, screenHome)[1:]
	if len(draws) != 3 || strings.Contains(draws[0], "NOT REACHED") || !strings.Contains(draws[1], "NOT REACHED") ||
		!strings.Contains(draws[1], "orders") || strings.Contains(draws[2], "NOT REACHED") {
		t.Errorf("got %q; want the second of three to say that nobody answered", draws)
	}
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
