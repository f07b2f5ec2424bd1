package hostile

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Conn is an endpoint's end of a connection. Whatever the other side does to it, its
// methods just return.
type Conn struct {
	net.Conn
	Raw *net.TCPConn
	in  *bufio.Reader
	e   *Endpoint
	// whole says that a request was read to its end in this turn.
	whole bool
}

func newConn(e *Endpoint, raw *net.TCPConn) *Conn {
	return &Conn{Conn: raw, Raw: raw, in: bufio.NewReader(raw), e: e}
}

// Handshake goes over to TLS, with the endpoint's own settings unless others are given.
func (c *Conn) Handshake(config *tls.Config) bool {
	if config == nil {
		config = c.e.config
	}
	over := tls.Server(c.Raw, config)
	if over.Handshake() != nil {
		return false
	}
	c.Conn, c.in = over, bufio.NewReader(over)
	return true
}

// Request reads a request whole.
func (c *Conn) Request() bool {
	req, err := http.ReadRequest(c.in)
	if err != nil {
		return false
	}
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return false
	}
	c.whole = true
	c.e.requests.Add(1)
	return true
}

// Say writes a text, and says whether the connection took it.
func (c *Conn) Say(text string) bool {
	n, err := io.WriteString(c, text)
	c.e.written.Add(int64(n))
	return err == nil
}

// Flood says a text for as long as the other side takes it.
func (c *Conn) Flood(text string) {
	block := strings.Repeat(text, 1+(8<<10)/len(text))
	for c.Say(block) {
	}
	c.Close()
}

// Drip says a text byte by byte, at a pace that never ends.
func (c *Conn) Drip(text string) {
	for i := range len(text) {
		if !c.Say(text[i:i+1]) || !c.Pause(10*time.Millisecond) {
			return
		}
	}
}

// Pause waits, less if the test ends; then it returns false.
func (c *Conn) Pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.e.over:
		return false
	}
}

// Hang says nothing until the other side has gone.
func (c *Conn) Hang() { io.Copy(io.Discard, c) }

// Nibble reads a few bytes of the request.
func (c *Conn) Nibble() { io.ReadFull(c, make([]byte, 10)) }

// HalfClose ends what is said, and reads on.
func (c *Conn) HalfClose() {
	if over, ok := c.Conn.(*tls.Conn); ok {
		over.CloseWrite()
		return
	}
	c.Raw.CloseWrite()
}

// Close ends the connection without TLS's goodbye.
func (c *Conn) Close() error { return c.Raw.Close() }

// Reset ends the connection with a RST.
func (c *Conn) Reset() {
	c.Raw.SetLinger(0)
	c.Raw.Close()
}

// Elsewhere is the address of a listener to which nothing should ever come.
func (c *Conn) Elsewhere() string { return c.e.stray.Addr().String() }
