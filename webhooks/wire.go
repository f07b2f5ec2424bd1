package webhooks

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
)

const (
	// maxFrame is the least that HTTP/2 lets us take in one frame, in bytes.
	maxFrame = 16 << 10
	// perRequest is what an endpoint may send for each request, all frames taken together:
	// interim answers, head, trailers, the body as far as it is read, and what else it likes
	// to say. Nobody honest comes near.
	perRequest = 512 << 10
	// frameCost is what a frame counts for beside its payload: that of one without any is
	// the work that it makes.
	frameCost = 64
)

// Why a wire was cut.
var (
	errNotFrames = errors.New("what came is not HTTP/2")
	errTooMuch   = errors.New("more frames came than any answer has")
)

// wire is a connection that speaks HTTP/2, between TLS and what reads the frames, which
// answers each PING, takes any number of frames without a purpose, and writes a line into the
// log of the process for each of a kind that it does not know. Those are left out here, and
// the others counted.
type wire struct {
	net.Conn // over TLS

	in *bufio.Reader
	// budget is how much more may come, in bytes.
	budget atomic.Int64
	// head is of the frame that is read, and of it what is left to hand on; then left more
	// bytes of its payload are.
	head    [9]byte
	pending []byte
	left    int
	// failed is why there is nothing more to read.
	failed atomic.Pointer[error]
}

func newWire(over *tls.Conn) *wire { return &wire{Conn: over, in: bufio.NewReader(over)} }

// speak starts HTTP/2. A transport of its own for each connection keeps it from having a pool,
// and from sending again what it takes for safe to send again. It does not know that there is
// TLS, or it would insist on having that to itself.
func (w *wire) speak(ctx context.Context, address string) (*http.ClientConn, error) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	t := &http.Transport{
		DialContext:            func(context.Context, string, string) (net.Conn, error) { return w, nil },
		Protocols:              protocols,
		DisableCompression:     true,
		IdleConnTimeout:        idleTime,
		MaxResponseHeaderBytes: maxHeaderAnswer,
		HTTP2: &http.HTTP2Config{
			MaxReadFrameSize:              maxFrame,
			MaxReceiveBufferPerConnection: linkWindow,
			MaxReceiveBufferPerStream:     maxDrain,
			SendPingTimeout:               pingAfter,
			PingTimeout:                   pingTime,
			WriteByteTimeout:              blockedTime,
		},
	}
	return t.NewClientConn(ctx, "http", address)
}

// allow lets come what requests may bring, of which so many are under way.
func (w *wire) allow(running int) {
	if more := int64(running)*perRequest - w.budget.Load(); more > 0 {
		w.budget.Add(min(more, perRequest))
	}
}

// Read implements [io.Reader].
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.read(p)
	if err != nil {
		w.failed.CompareAndSwap(nil, &err)
	}
	return n, err
}

func (w *wire) read(p []byte) (int, error) {
	for len(p) > 0 {
		if len(w.pending) > 0 {
			n := copy(p, w.pending)
			w.pending = w.pending[n:]
			return n, nil
		}
		if w.left > 0 {
			n, err := w.in.Read(p[:min(len(p), w.left)])
			w.left -= n
			return n, err
		}
		if err := w.next(); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// next reads the head of a frame, and what follows of those that are left out.
func (w *wire) next() error {
	const lastKnown = 0x9 // CONTINUATION
	if _, err := io.ReadFull(w.in, w.head[:]); err != nil {
		return err
	}
	size := int(w.head[0])<<16 | int(w.head[1])<<8 | int(w.head[2])
	switch {
	case size > maxFrame:
		return errNotFrames
	case w.budget.Add(-int64(frameCost+size)) < 0:
		return errTooMuch
	case w.head[3] > lastKnown:
		_, err := w.in.Discard(size)
		return err
	}
	w.pending, w.left = w.head[:], size
	return nil
}

// end is why there is nothing more to read, nil if there may be.
func (w *wire) end() error {
	if err := w.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Close closes the socket, as that of HTTP/1 is.
func (w *wire) Close() error { return w.Conn.(*tls.Conn).NetConn().Close() }
