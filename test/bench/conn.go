package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/posthaste-io/posthaste/apikeys"
)

// conn is an HTTP/1.1 client over one connection, for one goroutine. The load
// shares two cores with the server that it measures, and net/http's client costs
// more for a small request than the server does; this one costs a write, a read
// and no allocation.
type conn struct {
	host string
	net  net.Conn
	in   *bufio.Reader
	out  []byte
	body []byte
}

// dial connects to host:port.
func dial(host string) (*conn, error) {
	c, err := net.DialTimeout("tcp", host, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return &conn{host: host, net: c, in: bufio.NewReaderSize(c, 64<<10)}, nil
}

func (c *conn) close() { _ = c.net.Close() }

// errBusy is an answer of 429: come back a little later.
var errBusy = errors.New("overloaded")

// callTimeout bounds one call; no call of the plan takes longer than seconds.
const callTimeout = 60 * time.Second

// encryptionKey encrypts the secrets of subscriptions on PostgreSQL.
const encryptionKey = "bench:YSBrZXkgdGhhdCBwcm90ZWN0cyBub3RoaW5nIGF0IGE="

// rootKey is what the servers of this run want from their callers.
var rootKey = newRootKey()

func newRootKey() string {
	key, err := apikeys.New("bench")
	if err != nil {
		panic(err) // the word above is one that is taken
	}
	return key.Reveal()
}

// The encodings of calls.
const (
	jsonType     = "application/json"
	protobufType = "application/protobuf"
)

// post sends one call and returns the body of a 200, good until the next call.
func (c *conn) post(path, mediaType string, body []byte) ([]byte, error) {
	b := append(c.out[:0], "POST "...)
	b = append(b, path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, c.host...)
	b = append(b, "\r\nAuthorization: Bearer "...)
	b = append(b, rootKey...)
	b = append(b, "\r\nContent-Type: "...)
	b = append(b, mediaType...)
	b = append(b, "\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(body)), 10)
	b = append(b, "\r\n\r\n"...)
	b = append(b, body...)
	c.out = b
	if err := c.net.SetDeadline(time.Now().Add(callTimeout)); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if _, err := c.net.Write(b); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	status, err := c.read()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case status == 429:
		return nil, errBusy
	case status != 200:
		return nil, fmt.Errorf("%s: %d: %.300s", path, status, c.body)
	}
	return c.body, nil
}

// read reads one answer whole.
func (c *conn) read() (status int, err error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, fmt.Errorf("not an answer: %.40q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, fmt.Errorf("not a status: %w", err)
	}
	length, chunked, err := c.headers()
	if err != nil {
		return 0, err
	}
	c.body = c.body[:0]
	if !chunked {
		return status, c.take(length)
	}
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		size, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return 0, fmt.Errorf("not a chunk: %w", err)
		}
		if err := c.take(int(size)); err != nil {
			return 0, err
		}
		if _, err := c.in.Discard(2); err != nil {
			return 0, err
		}
		if size == 0 {
			return status, nil
		}
	}
}

var (
	contentLength = []byte("Content-Length: ")
	chunkedCoding = []byte("Transfer-Encoding: chunked")
)

func (c *conn) headers() (length int, chunked bool, err error) {
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, false, err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case len(line) == 0:
			return length, chunked, nil
		case bytes.HasPrefix(line, contentLength):
			if length, err = strconv.Atoi(string(line[len(contentLength):])); err != nil {
				return 0, false, fmt.Errorf("not a length: %w", err)
			}
		case bytes.Equal(line, chunkedCoding):
			chunked = true
		}
	}
}

// take appends the next n bytes to the body.
func (c *conn) take(n int) error {
	at := len(c.body)
	if need := at + n; need > cap(c.body) {
		c.body = append(make([]byte, 0, need+need/2), c.body...)
	}
	c.body = c.body[:at+n]
	_, err := io.ReadFull(c.in, c.body[at:])
	return err
}
