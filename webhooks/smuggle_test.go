package webhooks

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// gathering is a connection whose writes can be held back, so that several TLS records
// leave in one segment.
type gathering struct {
	net.Conn
	held []byte
	hold bool
}

func (g *gathering) Write(p []byte) (int, error) {
	if g.hold {
		g.held = append(g.held, p...)
		return len(p), nil
	}
	return g.Conn.Write(p)
}

// SetWriteDeadline does nothing: with one TLS ends all writes once it has said goodbye.
func (g *gathering) SetWriteDeadline(time.Time) error { return nil }

func (g *gathering) together(f func()) {
	g.hold = true
	f()
	g.hold = false
	g.Conn.Write(g.held)
	g.held = nil
}

// serveTLS runs handle for each connection, after its handshake.
func serveTLS(t *testing.T, handle func(g *gathering, c *tls.Conn, n int)) (*Sender, *endpoint) {
	t.Helper()
	server := newTLSServer(t, nil)
	config := server.TLS.Clone()
	config.NextProtos = []string{"http/1.1"}
	e := serve(t, func(_ *endpoint, c net.Conn, n int) {
		g := &gathering{Conn: c}
		over := tls.Server(g, config)
		if over.Handshake() == nil {
			handle(g, over, n)
		}
	})
	e.url = strings.Replace(e.url, "http://", "https://", 1)
	return newTrustingSender(t, server), e
}

// What comes with an answer and behind it is nobody's answer, however TLS cut it.
func TestH08_TLSBytesAfterAnAnswerAreNotTheNextOne(t *testing.T) {
	t.Parallel()
	const smuggled = "HTTP/1.1 410 smuggled\r\nContent-Length: 0\r\n\r\n"
	for name, first := range map[string]func(*gathering, *tls.Conn){
		"next record": func(g *gathering, c *tls.Conn) {
			g.together(func() { io.WriteString(c, okay); io.WriteString(c, smuggled) })
		},
		"same record": func(_ *gathering, c *tls.Conn) { io.WriteString(c, okay+smuggled) },
		"same record, behind a body": func(_ *gathering, c *tls.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 16000\r\n\r\n"+strings.Repeat("x", 16000)+smuggled)
		},
		"goodbye": func(g *gathering, c *tls.Conn) {
			g.together(func() { io.WriteString(c, okay); c.CloseWrite() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, e := serveTLS(t, func(g *gathering, c *tls.Conn, n int) {
				if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
					return
				}
				if n == 1 {
					first(g, c)
				} else {
					io.WriteString(c, okay)
				}
				io.Copy(io.Discard, c)
			})
			want(t, s.Send(t.Context(), request(e.url)), Delivered, 200, "")
			want(t, s.Send(t.Context(), request(e.url)), Delivered, 200, "")
			if n := e.accepted.Load(); n != 2 {
				t.Errorf("%d connections, want the first not used again", n)
			}
		})
	}
}

func TestSend_TLSConnectionsAreUsedAgain(t *testing.T) {
	t.Parallel()
	s, e := serveTLS(t, func(_ *gathering, c *tls.Conn, _ int) {
		for r := bufio.NewReader(c); ; {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			io.WriteString(c, okay)
		}
	})
	r := request(e.url)
	r.Body = nil
	for range 20 {
		want(t, s.Send(t.Context(), r), Delivered, 200, "")
	}
	if n := e.accepted.Load(); n != 1 {
		t.Errorf("20 attempts used %d connections", n)
	}
}

// TLS says goodbye when it closes, and would wait for an endpoint that does not read.
func TestH02_TLSCloseDoesNotOutliveTheAttempt(t *testing.T) {
	t.Parallel()
	s, e := serveTLS(t, func(_ *gathering, c *tls.Conn, _ int) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			io.WriteString(c, "HTTP/1.1 413 x\r\nContent-Length: 0\r\n\r\n")
			<-t.Context().Done()
		}
	})
	r := request(e.url)
	r.Body, r.Timeout = make([]byte, 32<<20), time.Second
	started := time.Now()
	want(t, s.Send(t.Context(), r), Rejected, 413, ClassStatus)
	if took := time.Since(started); took > 4*time.Second {
		t.Errorf("took %v with a timeout of %v", took, r.Timeout)
	}
}

// deaf is a connection that talks and never listens.
type deaf struct {
	net.Conn
	says io.Reader
}

func (d deaf) Read(p []byte) (int, error)       { return d.says.Read(p) }
func (d deaf) Write([]byte) (int, error)        { return 0, net.ErrClosed }
func (d deaf) Close() error                     { return nil }
func (d deaf) SetDeadline(time.Time) error      { return nil }
func (d deaf) SetReadDeadline(time.Time) error  { return nil }
func (d deaf) SetWriteDeadline(time.Time) error { return nil }

func TestD11_NoAnswerToARequestThatWasNeverWritten(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 1 << 17} {
		s := newTestSender(t)
		s.dial = func(context.Context, *target) (net.Conn, error) {
			return deaf{says: strings.NewReader(okay)}, nil
		}
		r := request("http://127.0.0.1:1/")
		r.Body = make([]byte, size)
		want(t, s.Send(t.Context(), r), Retryable, 0, ClassClosedBeforeWrite)
	}
}
