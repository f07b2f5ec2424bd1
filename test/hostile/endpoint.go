package hostile

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
)

// Endpoint is one behaviour that listens. Its counters may be read at any time.
type Endpoint struct {
	// URL leads to it: http or https.
	URL string

	behaviour *Behaviour
	config    *tls.Config // nil without TLS
	listener  *net.TCPListener
	stray     *net.TCPListener
	healed    atomic.Bool
	over      chan struct{}
	running   sync.WaitGroup

	connections, open, requests, played, reused, strayed, written atomic.Int64

	mu    sync.Mutex
	conns map[*net.TCPConn]bool // nil when it is over
}

// Start runs an endpoint, over TLS or not, until the test ends.
func Start(tb testing.TB, b *Behaviour, overTLS bool) *Endpoint {
	tb.Helper()
	e := &Endpoint{
		behaviour: b, over: make(chan struct{}), conns: map[*net.TCPConn]bool{},
		listener: listen(tb), stray: listen(tb),
	}
	e.URL = "http://" + e.listener.Addr().String() + "/hook"
	if overTLS {
		e.URL = "https://" + e.listener.Addr().String() + "/hook"
		e.config = &tls.Config{Certificates: []tls.Certificate{identity().certificate}, NextProtos: []string{"http/1.1"}}
		if b.HTTP2 != nil {
			e.config.NextProtos = []string{"h2"}
		}
	}
	e.running.Go(func() { e.accept(e.listener, e.serve) })
	e.running.Go(func() {
		e.accept(e.stray, func(*net.TCPConn) { e.strayed.Add(1) })
	})
	tb.Cleanup(e.close)
	return e
}

func listen(tb testing.TB) *net.TCPListener {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	return l.(*net.TCPListener)
}

// Heal makes an endpoint of good manners of it, from the next request on.
func (e *Endpoint) Heal() { e.healed.Store(true) }

// Connections counts those that were accepted.
func (e *Endpoint) Connections() int { return int(e.connections.Load()) }

// Open counts the connections that have not ended.
func (e *Endpoint) Open() int { return int(e.open.Load()) }

// Requests counts what was read whole.
func (e *Endpoint) Requests() int { return int(e.requests.Load()) }

// Played counts how often the behaviour was played to its end.
func (e *Endpoint) Played() int { return int(e.played.Load()) }

// Reused counts requests on connections that had carried one before.
func (e *Endpoint) Reused() int { return int(e.reused.Load()) }

// Strayed counts connections to where the endpoint tried to lead a request.
func (e *Endpoint) Strayed() int { return int(e.strayed.Load()) }

// Written counts bytes that were said, buffers of the kernel included.
func (e *Endpoint) Written() int { return int(e.written.Load()) }

func (e *Endpoint) accept(l *net.TCPListener, serve func(*net.TCPConn)) {
	for {
		c, err := l.AcceptTCP()
		if err != nil {
			return
		}
		if !e.enter(c) {
			c.Close()
			return
		}
		e.running.Go(func() {
			defer e.leave(c)
			serve(c)
		})
	}
}

func (e *Endpoint) enter(c *net.TCPConn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.conns == nil {
		return false
	}
	e.conns[c] = true
	e.open.Add(1)
	return true
}

func (e *Endpoint) leave(c *net.TCPConn) {
	c.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.conns, c)
	e.open.Add(-1)
}

func (e *Endpoint) close() {
	e.listener.Close()
	e.stray.Close()
	close(e.over)
	e.mu.Lock()
	for c := range e.conns {
		c.Close()
	}
	e.conns = nil
	e.mu.Unlock()
	e.running.Wait()
}

// serve plays the behaviour for the connection, and for each further request on it.
func (e *Endpoint) serve(raw *net.TCPConn) {
	e.connections.Add(1)
	// What a flood can put into buffers should not hide how much of it is read.
	if err := raw.SetWriteBuffer(limit); err != nil {
		return
	}
	c := newConn(e, raw)
	if e.behaviour.HTTP2 != nil {
		e.serveHTTP2(c)
		return
	}
	if e.config != nil && !e.behaviour.OnlyTLS && !c.Handshake(nil) {
		return
	}
	for first := true; ; first = false {
		if !first {
			if _, err := c.in.Peek(1); err != nil {
				return
			}
			e.reused.Add(1)
		}
		c.whole = false
		switch {
		case e.healed.Load() && first && e.behaviour.OnlyTLS && !c.Handshake(nil):
			return
		case e.healed.Load():
			answers(okay)(c)
		default:
			e.behaviour.Play(c)
			e.played.Add(1)
		}
		if !c.whole {
			c.Hang()
			return
		}
	}
}

// Roots verify the endpoints' certificate.
func Roots() *x509.CertPool { return identity().roots }

// Root is the one certificate in it, in DER.
func Root() []byte { return identity().certificate.Certificate[0] }

type certified struct {
	certificate tls.Certificate
	roots       *x509.CertPool
}

// identity is the certificate of all endpoints, and whom to trust for it: the one that
// net/http's own tests have.
var identity = sync.OnceValue(func() certified {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return certified{server.TLS.Certificates[0], roots}
})
