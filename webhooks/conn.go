package webhooks

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"
)

// inlineWrite is up to how many bytes a request is written before its answer is looked
// for. More may not fit into the buffers on its way, and an endpoint that answers without
// reading it would never be heard.
const inlineWrite = 32 << 10

// writeGrace is how long the rest of a request may take that is answered already.
const writeGrace = 50 * time.Millisecond

// unbounded is a bound of headers while none are read.
const unbounded = -1

var _ carrier = (*conn)(nil)

var errTooLargeHeaders = errors.New("too many bytes of headers")

// conn is a connection to an endpoint, over TLS or not. One attempt uses it at a time.
type conn struct {
	net.Conn
	// socket is what is under it, nil if that is not known.
	socket syscall.RawConn
	in     *bufio.Reader
	// pool is where it goes when it is free, under key.
	pool *pool
	key  poolKey
	// used says that it has carried a request before, idle since when it is free.
	used bool
	idle time.Time

	// Of the request that it carries: whether a byte of it may have reached the endpoint,
	// whether one of the answer came, and how many more of its headers may.
	written  bool
	answered bool
	headLeft int
	// writing is not nil while a request is written beside its answer being read.
	writing chan error
}

func newConn(nc net.Conn) *conn {
	c := &conn{Conn: nc, headLeft: unbounded}
	c.in = bufio.NewReader(c)
	if over, ok := nc.(*tls.Conn); ok {
		nc = over.NetConn()
	}
	if sc, ok := nc.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			c.socket = raw
		}
	}
	return c
}

// silent says whether the endpoint has said nothing since the last answer: no byte has
// come, and no end, that nobody has read. It changes the read deadline.
func (c *conn) silent() bool {
	if c.in.Buffered() > 0 || c.socket != nil && !silentSocket(c.socket) {
		return false
	}
	if _, plain := c.Conn.(*net.TCPConn); plain {
		return true
	}
	// TLS may have read more than the last answer, and opened it or not. The deadline
	// keeps it from reading on.
	c.SetReadDeadline(past)
	_, err := c.in.Peek(1)
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// Close closes the socket. TLS would say goodbye before, and wait five seconds for an
// endpoint that does not read.
func (c *conn) Close() error {
	if over, ok := c.Conn.(*tls.Conn); ok {
		return over.NetConn().Close()
	}
	return c.Conn.Close()
}

// Read implements [io.Reader], within the bound of an answer's headers while those
// are read.
func (c *conn) Read(p []byte) (int, error) {
	if c.headLeft == 0 {
		return 0, errTooLargeHeaders
	}
	if c.headLeft > 0 && len(p) > c.headLeft {
		p = p[:c.headLeft]
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.answered = true
		if c.headLeft > 0 {
			c.headLeft -= n
		}
	}
	return n, err
}

// exchange implements carrier. The deadlines are the connection's.
func (c *conn) exchange(_ context.Context, head, body []byte) (*http.Response, error) {
	c.written, c.answered, c.writing = false, false, nil
	first, rest := head, body
	if len(head)+len(body) <= inlineWrite {
		first, rest = append(head, body...), nil
	}
	unwritten := c.write(first)
	switch {
	case unwritten != nil && !c.written:
		return nil, unwritten // what it may have said was said to no request of ours
	case unwritten == nil && len(rest) > 0:
		c.writing = make(chan error, 1)
		go func() { c.writing <- c.write(rest) }()
	}
	// Also where it could not be written: the endpoint may have said why.
	resp, err := c.answer()
	if err == nil {
		return resp, nil
	}
	if c.writing != nil {
		c.Close()
		unwritten = <-c.writing
		c.writing = nil
	}
	if unwritten != nil && !c.answered {
		return nil, unwritten
	}
	return nil, err
}

func (c *conn) write(p []byte) error {
	n, err := c.Conn.Write(p)
	if n > 0 || err == nil {
		c.written = true
	}
	return err
}

func (c *conn) answer() (*http.Response, error) {
	c.headLeft = maxHeaderAnswer
	defer func() { c.headLeft = unbounded }()
	for {
		resp, err := http.ReadResponse(c.in, nil)
		if err != nil && c.headLeft == 0 {
			return nil, errTooLargeHeaders // which looks like a broken line where the bound cut one
		}
		if err != nil {
			return nil, err
		}
		if resp.StatusCode < 100 || resp.StatusCode > 199 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, nil
		}
	}
}

// interrupt implements carrier.
func (c *conn) interrupt() { c.SetDeadline(past) }

// readUntil implements carrier.
func (c *conn) readUntil(t time.Time) { c.SetReadDeadline(t) }

// untouched implements carrier.
func (c *conn) untouched() bool { return c.used && !c.written }

// release implements carrier. The connection may carry another request if this one was
// written to its end, and nothing came after the answer.
func (c *conn) release(whole bool) {
	if c.writing != nil {
		// Mostly it is written, and this goroutine was only quicker to see the answer.
		c.SetWriteDeadline(time.Now().Add(writeGrace))
		whole = <-c.writing == nil && whole
	}
	if c.used = true; whole && c.in.Buffered() == 0 {
		c.pool.put(c.key, c)
	} else {
		c.Close()
	}
}

// explain implements carrier.
func (c *conn) explain(err error) (class, text string) {
	alert, isAlert := tlsAlert(err)
	switch {
	case errors.Is(err, errTooLargeHeaders):
		return ClassTooLargeHeaders, textTooLargeHeaders
	case isAlert:
		return ClassTLS, alert
	case !c.written:
		return ClassClosedBeforeWrite, "the endpoint closed the connection"
	case !c.answered, errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return ClassResetAfterWrite, textNoAnswer
	default:
		return ClassBadResponse, unquoted(err.Error())
	}
}
