package pgtest

import (
	"bufio"
	"errors"
	"net"
	"sync"
)

// errDown is what a link's loops return when the link is cut.
var errDown = errors.New("the connection is cut")

// link is one connection through a proxy.
type link struct {
	proxy  *Proxy
	client *net.TCPConn

	down chan struct{} // closed when the link is cut
	once sync.Once

	mu       sync.Mutex
	server   *net.TCPConn // nil until the client has said what it wants
	sent     int          // groups that went to the server; the opening is the first
	answered int          // groups that it has answered in full
	order    *cut         // to be carried out when orderAt groups are answered
	orderAt  int
}

// run forwards until either side ends or the link is cut. Whatever ends it, the
// other side sees a reset.
func (l *link) run() {
	fromClient := bufio.NewReader(l.client)
	if err := l.open(fromClient); err != nil {
		return
	}
	var answers sync.WaitGroup
	answers.Go(func() {
		l.ended(l.forwardAnswers())
	})
	l.ended(l.forwardGroups(fromClient))
	answers.Wait()
}

// ended cuts the link when one of its sides is gone, which the other may not see
// while traffic does not flow. Why it is gone makes no difference.
func (l *link) ended(error) {
	_ = l.pass()
	l.cut()
}

// open connects to the server and forwards the client's first message.
func (l *link) open(fromClient *bufio.Reader) error {
	for {
		m, code, err := readOpening(fromClient)
		if err != nil {
			return err
		}
		if code == tlsRequest || code == gssRequest {
			if _, err := l.client.Write([]byte{'N'}); err != nil {
				return err
			}
			continue
		}
		if err := l.pass(); err != nil {
			return err
		}
		conn, err := net.DialTimeout("tcp", l.proxy.target, dialTimeout)
		if err != nil {
			return err
		}
		server := conn.(*net.TCPConn)
		if code == cancelRequest {
			_, err := server.Write(m)
			return errors.Join(err, server.Close(), errDown)
		}
		if err := l.connect(server); err != nil {
			return err
		}
		_, err = server.Write(m)
		return err
	}
}

// connect keeps the connection to the server, unless the link was cut meanwhile.
func (l *link) connect(server *net.TCPConn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.down:
		return errors.Join(server.Close(), errDown)
	default:
	}
	l.server = server
	l.sent = 1
	return nil
}

// pass returns when traffic may flow, or an error when the link is cut.
func (l *link) pass() error {
	select {
	case <-l.proxy.flowing():
		return nil
	case <-l.down:
		return errDown
	}
}

// forwardGroups sends what the client says to the server, a group at a time, so
// that an order to cut is seen before any of its group is on its way. What
// belongs to no group goes at once: a password, the data of a COPY, and Flush,
// for whose answer the client waits.
func (l *link) forwardGroups(fromClient *bufio.Reader) error {
	statements := make(map[string]string)
	var g group
	for {
		m, err := readMessage(fromClient)
		if err != nil {
			return err
		}
		g.add(m, statements)
		if m.waits() {
			continue
		}
		if err := l.pass(); err != nil {
			return err
		}
		if order := l.proxy.take(&g); order != nil {
			if order.ended != nil {
				l.lose(order)
				return nil
			}
			if !order.after {
				l.cut()
				close(order.done)
				return nil
			}
			l.hold(order)
		}
		if m.completes() {
			l.countSent()
		}
		if _, err := l.server.Write(g.raw); err != nil {
			return err
		}
		if m.completes() {
			g = group{}
		} else {
			g.raw = nil
		}
	}
}

// lose resets the client's connection, and returns when the server's is to go, too.
func (l *link) lose(order *cut) {
	reset(l.client)
	close(order.done)
	select {
	case <-order.ended:
	case <-l.down:
	}
}

// hold has the answer to the next group held back and the link cut after it.
func (l *link) hold(order *cut) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.order, l.orderAt = order, l.sent+1
}

func (l *link) countSent() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
}

// forwardAnswers sends what the server says to the client, but for the answer that
// an order holds back.
func (l *link) forwardAnswers() error {
	fromServer := bufio.NewReader(l.server)
	for {
		m, err := readMessage(fromServer)
		if err != nil {
			return err
		}
		held, order := l.receive(m)
		if order != nil {
			l.cut()
			close(order.done)
			return nil
		}
		if held {
			continue
		}
		if err := l.pass(); err != nil {
			return err
		}
		if _, err := l.client.Write(m); err != nil {
			return err
		}
	}
}

// receive counts an answer. It says whether the message is held back, and returns
// the order that is to be carried out now, if any.
func (l *link) receive(m message) (held bool, due *cut) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held = l.order != nil && l.answered+1 == l.orderAt
	if m.kind() == readyForQuery {
		l.answered++
		if held {
			due = l.order
		}
	}
	return held, due
}

// cut resets both connections. Their loops then end.
func (l *link) cut() {
	l.once.Do(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		close(l.down)
		reset(l.client)
		if l.server != nil {
			reset(l.server)
		}
	})
}

// reset closes a connection so that the other side sees an error and no end.
func reset(conn *net.TCPConn) {
	// Both fail only if the connection is closed already.
	_ = conn.SetLinger(0)
	_ = conn.Close()
}
