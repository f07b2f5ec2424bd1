package pgtest

import (
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// dialTimeout bounds the connection to the server.
const dialTimeout = 10 * time.Second

// Proxy stands between clients and a server and knows enough of the protocol to
// cut a connection at an exact point. It speaks no TLS. Its methods may be called
// concurrently.
type Proxy struct {
	url      string
	target   string
	listener *net.TCPListener
	running  sync.WaitGroup

	mu     sync.Mutex
	cuts   []*cut
	links  map[*link]bool
	flow   chan struct{} // closed while traffic flows
	closed bool
}

// cut is an order to cut the connection at the next group that holds the text.
type cut struct {
	text  string
	after bool
	done  chan struct{}
	// ended, if not nil, is closed when the server is to see it, too.
	ended chan struct{}
}

// NewProxy starts a proxy for the server of a database, which it reaches by TCP.
// It ends with the test, and so do all connections through it.
func NewProxy(t testing.TB, database string) *Proxy {
	t.Helper()
	target, err := pgx.ParseConfig(database)
	if err != nil {
		t.Fatalf("start a proxy: %v", err)
	}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatalf("start a proxy: %v", err)
	}
	through, err := redirected(database, listener.Addr().(*net.TCPAddr).Port)
	if err != nil {
		listener.Close()
		t.Fatalf("start a proxy: %v", err)
	}
	p := &Proxy{
		url:      through,
		target:   net.JoinHostPort(target.Host, strconv.Itoa(int(target.Port))),
		listener: listener,
		links:    make(map[*link]bool),
		flow:     make(chan struct{}),
	}
	close(p.flow)
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// URL returns the URL of the same database through the proxy.
func (p *Proxy) URL() string { return p.url }

// CutBefore orders that the next group of messages which executes something and
// holds the text does not reach the server: both ends of its connection are reset
// instead. A group is a simple query, or what a client sends up to Sync; it holds
// the bytes of its messages and the SQL of statements that were prepared earlier.
// The order is for one group, on whichever connection it comes. The returned
// channel is closed when the connection is cut.
func (p *Proxy) CutBefore(text string) <-chan struct{} { return p.order(&cut{text: text}) }

// LoseBefore is as CutBefore, but the server does not see that its client is gone, and
// keeps the transaction, until end is called or the test ends.
func (p *Proxy) LoseBefore(text string) (lost <-chan struct{}, end func()) {
	c := &cut{text: text, ended: make(chan struct{})}
	return p.order(c), sync.OnceFunc(func() { close(c.ended) })
}

// CutAfter is as CutBefore, but the group reaches the server, and the connection
// is cut when the server is done with it and has committed or not; nothing of its
// answer reaches the client. It is not for COPY from the client, whose answer is
// two.
func (p *Proxy) CutAfter(text string) <-chan struct{} { return p.order(&cut{text: text, after: true}) }

func (p *Proxy) order(c *cut) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.done = make(chan struct{})
	p.cuts = append(p.cuts, c)
	return c.done
}

// Blackhole stops the traffic in both directions, or lets it go on with what was
// held back. Connections stay open and new ones are taken, as in a network that
// loses everything.
func (p *Proxy) Blackhole(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.flow:
		if on {
			p.flow = make(chan struct{})
		}
	default:
		if !on {
			close(p.flow)
		}
	}
}

// CutAll resets all connections that are open now. New ones are taken.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.AcceptTCP()
		if err != nil {
			return // the proxy is closed
		}
		l := &link{proxy: p, client: client, down: make(chan struct{})}
		if !p.add(l) {
			l.cut()
			return
		}
		p.running.Go(func() {
			defer p.remove(l)
			defer l.cut()
			l.run()
		})
	}
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.links[l] = true
	}
	return !p.closed
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// take returns the first order that fits a group and forgets it, or nil.
func (p *Proxy) take(g *group) *cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.cuts, func(c *cut) bool { return g.matches(c.text) })
	if i < 0 {
		return nil
	}
	c := p.cuts[i]
	p.cuts = slices.Delete(p.cuts, i, i+1)
	return c
}

// flowing returns a channel that is closed when traffic may flow.
func (p *Proxy) flowing() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.flow
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.listener.Close()
	p.CutAll()
	p.running.Wait()
}
