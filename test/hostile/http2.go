package hostile

import (
	"bytes"
	"crypto/tls"
	"io"
	"strconv"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// HTTP2 is what an endpoint does that was asked in HTTP/2, over TLS.
type HTTP2 struct {
	// Greet replaces the settings with which it begins.
	Greet func(*Link)
	// Answer runs for each request, once that was read whole; with Early, once its headers
	// were.
	Answer func(l *Link, stream uint32)
	Early  bool
}

// Link is an endpoint's end of a connection of HTTP/2.
type Link struct {
	*Conn
	*http2.Framer
	block bytes.Buffer
	hpack *hpack.Encoder
	// requests counts those that came on it.
	requests int
}

// serveHTTP2 is serve for HTTP/2.
func (e *Endpoint) serveHTTP2(c *Conn) {
	if !c.Handshake(nil) {
		return
	}
	if over := c.Conn.(*tls.Conn); over.ConnectionState().NegotiatedProtocol != http2.NextProtoTLS {
		return
	}
	if _, err := io.ReadFull(c.in, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	l := &Link{Conn: c, Framer: http2.NewFramer(counted{c}, c.in)}
	l.AllowIllegalWrites, l.hpack = true, hpack.NewEncoder(&l.block)
	script := e.behaviour.HTTP2
	if greet := script.Greet; greet != nil && !e.healed.Load() {
		greet(l)
	} else if l.WriteSettings() != nil {
		return
	}
	for {
		stream, ok := l.next(script.Early)
		switch {
		case !ok:
			c.Hang()
			return
		case e.healed.Load():
			l.Head(stream, true, ":status", "200")
		default:
			script.Answer(l, stream)
			e.played.Add(1)
		}
	}
}

// counted counts what is written through it.
type counted struct{ c *Conn }

func (w counted) Write(p []byte) (int, error) {
	n, err := w.c.Write(p)
	w.c.e.written.Add(int64(n))
	return n, err
}

// next reads until a request has come, and answers what is about the connection.
func (l *Link) next(early bool) (stream uint32, ok bool) {
	for {
		frame, err := l.ReadFrame()
		if err != nil {
			return 0, false
		}
		ends := false
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				l.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				l.WritePing(true, f.Data)
			}
		case *http2.HeadersFrame:
			ends = early || f.StreamEnded()
		case *http2.DataFrame:
			ends = !early && f.StreamEnded()
		case *http2.GoAwayFrame:
			return 0, false
		}
		if ends {
			l.e.requests.Add(1)
			if l.requests++; l.requests > 1 {
				l.e.reused.Add(1)
			}
			return frame.Header().StreamID, true
		}
	}
}

// Head sends headers, given as names and values, in as many frames as they need.
func (l *Link) Head(stream uint32, ends bool, fields ...string) bool {
	return l.Block(stream, ends, l.Encode(fields...))
}

// Encode packs headers.
func (l *Link) Encode(fields ...string) []byte {
	l.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		l.hpack.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}) // to a buffer
	}
	return l.block.Bytes()
}

// Block sends headers that are packed.
func (l *Link) Block(stream uint32, ends bool, block []byte) bool {
	const most = 16 << 10 // of a frame
	first := block[:min(len(block), most)]
	rest := block[len(first):]
	err := l.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: first, EndStream: ends, EndHeaders: len(rest) == 0})
	for err == nil && len(rest) > 0 {
		part := rest[:min(len(rest), most)]
		rest = rest[len(part):]
		err = l.WriteContinuation(stream, len(rest) == 0, part)
	}
	return err == nil
}

// Repeat calls a function until it fails, and then closes.
func (l *Link) Repeat(write func() error) {
	for write() == nil {
	}
	l.Close()
}

// headers answers with headers alone.
func headers(fields ...string) func(*Link, uint32) {
	return func(l *Link, stream uint32) { l.Head(stream, true, fields...) }
}

// status answers with a status alone.
func status(code int) func(*Link, uint32) { return headers(":status", strconv.Itoa(code)) }

// raw answers with bytes that are no frame, or a frame that nobody writes.
func raw(text string) func(*Link, uint32) { return func(l *Link, _ uint32) { l.Say(text) } }
