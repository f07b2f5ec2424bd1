package webhooks

import (
	"bufio"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"syscall"
	"time"
)

// atOnce is up to how many bytes a request is written before its answer is looked
// for. More may not fit into the buffers on its way, and an endpoint that answers without
// reading it would never be heard.
const atOnce = 32 << 10

// lateWrite is how long the rest of a request may take that is answered already.
const lateWrite = 50 * time.Millisecond

var errTooLargeHeaders = errors.New("too many bytes of headers")

// conn is a connection to an endpoint, over TLS or not. One attempt uses it at a time.
type conn struct {
	net.Conn
	// socket is what is under it, nil if that is not known.
	socket syscall.RawConn
	in     *bufio.Reader
	// used says that it has carried a request before, idle since when it is free.
	used bool
	idle time.Time

	// Of the request that it carries: whether a byte of it may have reached the endpoint,
	// whether one of the answer came, and how many more of its headers may, -1 for any.
	written  bool
	answered bool
	headers  int
	// writing is not nil while a request is written beside its answer being read.
	writing chan error
}

func newConn(nc net.Conn) *conn {
	c := &conn{Conn: nc, headers: -1}
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

// quiet says whether the endpoint has said nothing since the last answer: not even
// that it closed the connection. Its deadline must not have passed.
func (c *conn) quiet() bool {
	if c.in.Buffered() > 0 {
		return false
	}
	if c.socket == nil {
		return true // an attempt will tell
	}
	quiet := false
	err := c.socket.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = errors.Is(err, syscall.EAGAIN)
		return true
	})
	return err == nil && quiet
}

// Read implements [io.Reader], within the bound of an answer's headers while those
// are read.
func (c *conn) Read(p []byte) (int, error) {
	if c.headers == 0 {
		return 0, errTooLargeHeaders
	}
	if c.headers > 0 && len(p) > c.headers {
		p = p[:c.headers]
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.answered = true
		if c.headers > 0 {
			c.headers -= n
		}
	}
	return n, err
}

// exchange writes a request and reads the head of its answer. Any interim answers
// are skipped.
func (c *conn) exchange(head, body []byte) (*http.Response, error) {
	c.written, c.answered, c.writing = false, false, nil
	var unwritten error
	if len(head)+len(body) <= atOnce {
		unwritten = c.write(append(head, body...))
	} else {
		c.writing = make(chan error, 1)
		go func() {
			err := c.write(head)
			if err == nil {
				err = c.write(body)
			}
			c.writing <- err
		}()
	}
	// Also where it could not be written: the endpoint may have said why.
	resp, err := c.answer()
	if err == nil {
		return resp, nil
	}
	if c.writing != nil {
		c.Close()
		unwritten = <-c.writing
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
	c.headers = maxHeaderAnswer
	defer func() { c.headers = -1 }()
	for {
		resp, err := http.ReadResponse(c.in, nil)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode < 100 || resp.StatusCode > 199 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, nil
		}
	}
}

// done ends an exchange. whole says that the answer was read to its end, so that the
// connection may carry another request.
func (c *conn) done(whole bool) (reusable bool) {
	if c.writing != nil {
		// Mostly it is written, and this goroutine was only quicker to see the answer.
		c.SetWriteDeadline(time.Now().Add(lateWrite))
		whole = <-c.writing == nil && whole
	}
	c.used = true
	return whole && c.in.Buffered() == 0
}
