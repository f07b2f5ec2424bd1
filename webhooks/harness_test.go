package webhooks

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// endpoint is a server of raw bytes, for answers that no HTTP library would give.
type endpoint struct {
	url  string
	addr string
	// accepted counts connections, requests whole requests that were read.
	accepted, requests atomic.Int32
}

// serve runs handle for each connection, which is closed afterwards. n counts
// connections from 1. All have ended when the test ends.
func serve(t *testing.T, handle func(e *endpoint, c net.Conn, n int)) *endpoint {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &endpoint{addr: l.Addr().String(), url: "http://" + l.Addr().String() + "/hook"}
	var running sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n := int(e.accepted.Add(1))
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			running.Go(func() {
				defer c.Close()
				handle(e, c, n)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return e
}

// answering serves one request on each connection with these bytes, and closes it.
func answering(t *testing.T, answer string) *endpoint {
	t.Helper()
	return serve(t, func(e *endpoint, c net.Conn, _ int) {
		if e.read(c) {
			io.WriteString(c, answer)
		}
	})
}

// keeping serves every request of a connection with these bytes.
func keeping(t *testing.T, answer string) *endpoint {
	t.Helper()
	return serve(t, func(e *endpoint, c net.Conn, _ int) {
		for r := bufio.NewReader(c); e.readFrom(r) != nil; {
			io.WriteString(c, answer)
		}
	})
}

// read reads one request, whole.
func (e *endpoint) read(c net.Conn) bool {
	return e.readFrom(bufio.NewReader(c)) != nil
}

func (e *endpoint) readFrom(r *bufio.Reader) *http.Request {
	req, err := http.ReadRequest(r)
	if err != nil {
		return nil
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	e.requests.Add(1)
	return req
}

// waitClosed returns when the other side has closed the connection.
func waitClosed(c net.Conn) { io.Copy(io.Discard, c) }

// reset ends a connection with a RST.
func reset(c net.Conn) {
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// newTestSender may go to loopback, and nowhere else.
func newTestSender(t *testing.T) *Sender {
	t.Helper()
	s := NewSender(SenderOptions{
		UserAgent: "posthaste/test",
		Guard:     NewGuard(GuardOptions{Allow: rules(t, "127.0.0.0/8 ::1")}),
	})
	t.Cleanup(s.Close)
	return s
}

// request is one that should succeed, with a deadline far beyond what it needs.
func request(url string) Request {
	return Request{
		ID: "0190163d-8694-739b-aea5-966c26f8ad91", URL: url, Secrets: []string{"whsec_" + goldenSecret},
		Timeout: 20 * time.Second, Body: []byte(goldenBody),
	}
}

// want checks the outcome, and that the class is in the text as promised.
func want(t *testing.T, r Result, verdict Verdict, status int, class string) {
	t.Helper()
	if r.Verdict != verdict || r.Status != status || r.Class != class {
		t.Fatalf("got %v, status %d, class %q (%s); want %v, %d, %q", r.Verdict, r.Status, r.Class, r.Error, verdict, status, class)
	}
	if (class == "") != (r.Error == "") || class != "" && !bytes.HasPrefix([]byte(r.Error), []byte(class+": ")) {
		t.Errorf("class %q with the text %q", class, r.Error)
	}
	if r.StartedAt.IsZero() || r.Duration <= 0 || len(r.Response) > MaxResponse || len(r.Error) > maxError {
		t.Errorf("out of bounds: %+v", r)
	}
}

var errTest = errors.New("test says stop")
