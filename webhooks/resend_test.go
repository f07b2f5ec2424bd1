package webhooks

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

const okay = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

// TestD11_ARequestThatWasWrittenIsNotSentAgain: the endpoint answers one request,
// reads the next on the same connection whole, and then hangs up. Other clients repeat
// it by themselves.
func TestD11_ARequestThatWasWrittenIsNotSentAgain(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "GET"} {
		for _, body := range []string{"", goldenBody, strings.Repeat("x", 1<<17)} {
			t.Run(method, func(t *testing.T) {
				t.Parallel()
				e := serve(t, func(e *endpoint, c net.Conn, n int) {
					r := bufio.NewReader(c)
					if e.readFrom(r) == nil {
						return
					}
					io.WriteString(c, okay)
					if e.readFrom(r) != nil && n%2 == 0 {
						reset(c)
					}
				})
				s := newTestSender(t)
				r := request(e.url)
				r.Method, r.Body = method, []byte(body)
				for calls := int32(0); calls < 6; calls += 2 {
					want(t, s.Send(t.Context(), r), Delivered, 200, "")
					want(t, s.Send(t.Context(), r), Retryable, 0, ClassResetAfterWrite)
					if n := e.requests.Load(); n != calls+2 {
						t.Fatalf("%d calls were %d requests at the endpoint", calls+2, n)
					}
				}
			})
		}
	}
}

// stale is a connection whose endpoint has gone, unnoticed until the next write:
// the moment between taking an idle connection and writing to it, held open.
type stale struct {
	net.Conn
	gone *atomic.Bool
}

func (s stale) Write(p []byte) (int, error) {
	if s.gone.Load() {
		s.Close()
		return 0, net.ErrClosed
	}
	return s.Conn.Write(p)
}

// newStaleSender has a first connection that can be made stale.
func newStaleSender(t *testing.T) (s *Sender, gone *atomic.Bool) {
	t.Helper()
	s, gone = newTestSender(t), new(atomic.Bool)
	dial := s.dial
	var once sync.Once
	s.dial = func(ctx context.Context, to *target) (net.Conn, error) {
		c, err := dial(ctx, to)
		if err == nil {
			once.Do(func() { c = stale{c, gone} })
		}
		return c, err
	}
	return s, gone
}

func TestD11_ARequestOfWhichNothingWasWrittenIsSentAgainOnce(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", goldenBody, strings.Repeat("x", 1<<17)} {
		url, got := capture(t)
		s, gone := newStaleSender(t)
		r := request(url)
		r.Body = []byte(body)
		want(t, s.Send(t.Context(), r), Delivered, 200, "")
		<-got
		gone.Store(true)
		want(t, s.Send(t.Context(), r), Delivered, 200, "")
		arrived, _ := io.ReadAll((<-got).Body)
		if string(arrived) != body {
			t.Errorf("%d bytes arrived, want %d", len(arrived), len(body))
		}
		if len(got) != 0 {
			t.Errorf("the endpoint saw %d requests too many", len(got))
		}
	}
}

func TestD11_NothingWrittenAndNobodyThereAnyMore(t *testing.T) {
	t.Parallel()
	var l net.Listener
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.NotFoundHandler()}
	served := make(chan struct{})
	go func() { defer close(served); server.Serve(l) }()
	t.Cleanup(func() { server.Close(); <-served })

	s, gone := newStaleSender(t)
	r := request("http://" + l.Addr().String() + "/")
	want(t, s.Send(t.Context(), r), Rejected, 404, ClassStatus)
	l.Close()
	gone.Store(true)
	want(t, s.Send(t.Context(), r), Retryable, 0, ClassRefused)
}

func TestH07_ClosedBeforeWriteOnAFreshConnection(t *testing.T) {
	t.Parallel()
	e := serve(t, func(_ *endpoint, c net.Conn, _ int) { waitClosed(c) })
	s, gone := newStaleSender(t)
	gone.Store(true)
	var dials atomic.Int32
	dial := s.dial
	s.dial = func(ctx context.Context, to *target) (net.Conn, error) {
		dials.Add(1)
		return dial(ctx, to)
	}
	want(t, s.Send(t.Context(), request(e.url)), Retryable, 0, ClassClosedBeforeWrite)
	if n := dials.Load(); n != 1 {
		t.Errorf("%d connections: a fresh one that fails says something about the endpoint, and is not retried", n)
	}
}

// TestD11_IdleConnectionsThatTheEndpointCloses: with keep-alive shorter than the
// pause between attempts, no attempt may fail for it and none may arrive twice.
func TestD11_IdleConnectionsThatTheEndpointCloses(t *testing.T) {
	t.Parallel()
	e := serve(t, func(e *endpoint, c net.Conn, _ int) {
		if e.read(c) {
			io.WriteString(c, okay) // keeps alive, it says, and hangs up
		}
	})
	s := newTestSender(t)
	const calls = 200
	lost := int32(0)
	for range calls {
		r := s.Send(t.Context(), request(e.url))
		switch {
		case r.Verdict == Delivered:
		case r.Class == ClassResetAfterWrite:
			lost++ // written before the close was seen: cannot be known, so not repeated
		default:
			t.Fatalf("got %+v", r)
		}
	}
	if n := e.requests.Load(); n > calls || n < calls-lost {
		t.Errorf("%d calls, %d without an answer, were %d requests at the endpoint", calls, lost, n)
	}
}

func TestN08_RedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"301", "302", "303", "307", "308", "300", "304"} {
		other, seen := capture(t)
		e := answering(t, "HTTP/1.1 "+status+" x\r\nLocation: "+other+"\r\nContent-Length: 0\r\n\r\n")
		r := newTestSender(t).Send(t.Context(), request(e.url))
		if r.Verdict != Rejected || r.Class != ClassStatus {
			t.Errorf("%s: got %+v", status, r)
		}
		if len(seen) != 0 {
			t.Errorf("%s was followed", status)
		}
	}
}

func TestN10_NoCookiesAndNoAnswerToChallenges(t *testing.T) {
	t.Parallel()
	requests := make(chan *http.Request, 2)
	e := serve(t, func(e *endpoint, c net.Conn, _ int) {
		for r := bufio.NewReader(c); ; {
			req := e.readFrom(r)
			if req == nil {
				return
			}
			requests <- req
			io.WriteString(c, "HTTP/1.1 401 x\r\nSet-Cookie: a=b; Path=/\r\nWWW-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n")
		}
	})
	s := newTestSender(t)
	for range 2 {
		want(t, s.Send(t.Context(), request(e.url)), Rejected, 401, ClassStatus)
		req := <-requests
		if req.Header.Get("Cookie") != "" || req.Header.Get("Authorization") != "" {
			t.Errorf("got %v", req.Header)
		}
	}
}

func TestN10_ProxiesOfTheEnvironmentAreIgnored(t *testing.T) {
	proxied := answering(t, okay)
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, "http://"+proxied.addr)
	}
	// A name, since proxies are not used for loopback addresses. It is not resolved.
	s := newTestSender(t)
	var dialled string
	s.dial = func(_ context.Context, to *target) (net.Conn, error) {
		dialled = to.address
		return nil, errTest
	}
	want(t, s.Send(t.Context(), request("http://posthaste.invalid/")), Retryable, 0, ClassUnreachable)
	if dialled != "posthaste.invalid:80" || proxied.accepted.Load() != 0 {
		t.Errorf("dialled %q", dialled)
	}
}
