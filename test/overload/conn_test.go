package overload_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/test/harness"
)

// conn is an HTTP/1.1 client over one connection, for one goroutine. The load shares
// its processors with the server, so a call costs a write, a read and no allocation.
type conn struct {
	net  net.Conn
	in   *bufio.Reader
	body []byte
}

// answer is what came back; body is good until the next call.
type answer struct {
	status     int
	retryAfter bool
	body       []byte
}

// callTimeout bounds one call.
const callTimeout = 30 * time.Second

func dial(url string) (*conn, error) {
	c, err := net.DialTimeout("tcp", strings.TrimPrefix(url, "http://"), callTimeout)
	if err != nil {
		return nil, err
	}
	return &conn{net: c, in: bufio.NewReader(c)}, nil
}

func mustDial(t *testing.T, url string) *conn {
	t.Helper()
	c, err := dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.net.Close() })
	return c
}

// request makes the bytes of a call.
func request(method, body string) []byte {
	return fmt.Appendf(nil, "POST /v1/%s HTTP/1.1\r\nHost: overload\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method, harness.Key, len(body), body)
}

// call sends a request and reads its answer.
func (c *conn) call(request []byte) (answer, error) {
	if err := c.net.SetDeadline(time.Now().Add(callTimeout)); err != nil {
		return answer{}, err
	}
	if _, err := c.net.Write(request); err != nil {
		return answer{}, err
	}
	return c.read()
}

var (
	contentLength = []byte("Content-Length: ")
	retryAfter    = []byte("Retry-After: ")
	closing       = []byte("Connection: close")
)

func (c *conn) read() (a answer, err error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return a, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return a, fmt.Errorf("no answer: %.40q", line)
	}
	if a.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return a, fmt.Errorf("no status: %w", err)
	}
	length := -1
	for {
		if line, err = c.in.ReadSlice('\n'); err != nil {
			return a, err
		}
		switch line = bytes.TrimRight(line, "\r\n"); {
		case len(line) == 0:
			if length < 0 {
				return a, errors.New("an answer without a length")
			}
			if cap(c.body) < length {
				c.body = make([]byte, length)
			}
			a.body = c.body[:length]
			_, err = io.ReadFull(c.in, a.body)
			return a, err
		case bytes.HasPrefix(line, contentLength):
			if length, err = strconv.Atoi(string(line[len(contentLength):])); err != nil {
				return a, fmt.Errorf("no length: %w", err)
			}
		case bytes.HasPrefix(line, retryAfter):
			seconds, err := strconv.Atoi(string(line[len(retryAfter):]))
			a.retryAfter = err == nil && seconds > 0
		case bytes.Equal(line, closing):
			return a, fmt.Errorf("%d closes the connection", a.status)
		}
	}
}
