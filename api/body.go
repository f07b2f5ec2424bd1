package api

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"

	"github.com/posthaste-io/posthaste/queue"
)

// buffers holds *bytes.Buffer for bodies whose bytes nobody keeps, answers *[]byte.
var (
	buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}
	answers = sync.Pool{New: func() any { return new([]byte) }}
)

// maxPooled, in bytes, keeps a rare large body from staying in memory for ever.
const maxPooled = 256 << 10

func getBuffer() *bytes.Buffer { return buffers.Get().(*bytes.Buffer) }

func putBuffer(b *bytes.Buffer) {
	if b.Cap() <= maxPooled {
		b.Reset()
		buffers.Put(b)
	}
}

// Bodies are taken from the budget as they arrive: a length that is only announced
// would let few silent clients shut out all others.
const (
	// freeBody is what every body may have outside the budget. Connections are bounded,
	// and so is what they have of it.
	freeBody = 16 << 10
	bodyStep = 64 << 10
	// Of the budget, bodies that bring items may have all but a part in so many, so that
	// settling, which makes room, works while they are refused. Those of callers without a
	// key may have no more than such a part, so that they keep out nobody who has one.
	keptForOthers = 4
)

// bringsItems says whether the bodies of a method make work.
func bringsItems(method string) bool {
	switch method {
	case rawProduce, "queue.produce", "storage/items.import":
		return true
	}
	return false
}

// meteredBody takes bytes from the budget as they are read.
type meteredBody struct {
	body   io.Reader
	budget *budget
	// limit is how much of the budget may be used for this body to have more of it.
	limit    int64
	size     int64
	reserved int64
}

// Read implements [io.Reader].
func (m *meteredBody) Read(p []byte) (int, error) {
	n, err := m.body.Read(p[:min(len(p), bodyStep)])
	m.size += int64(n)
	if m.size-freeBody > m.reserved {
		if err := m.budget.takeBelow(m.limit, bodyStep); err != nil {
			return n, err
		}
		m.reserved += bodyStep
	}
	return n, err
}

// settle gives back what was reserved beyond the size, or all of it if keep is false.
func (m *meteredBody) settle(keep bool) (reserved int64) {
	if keep {
		reserved = max(m.size-freeBody, 0)
	}
	m.budget.give(m.reserved - reserved)
	return reserved
}

// readBody reads the whole body into buf, at most limit bytes of it: what is longer
// is refused, never cut. The caller gives the reserved bytes back to the budget.
func (x *exchange) readBody(buf *bytes.Buffer, limit int64) (reserved int64, err error) {
	r := x.r
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return 0, &mediaTypeError{"Content-Encoding " + clip(encoding) + " is not read; send the body as it is"}
	}
	var tooLarge error = &queue.TooLargeError{Field: "body", Limit: int(limit), Unit: "bytes"}
	switch {
	case !r.ProtoAtLeast(1, 1) && r.Header.Get("Content-Length") == "":
		// There is no chunked body before HTTP/1.1, and the HTTP server hides that one was
		// announced: it would be lost here, and read as the next request.
		x.w.Header().Set("Connection", "close")
		return 0, queue.Invalid("", "HTTP/1.0 needs a Content-Length")
	case r.ContentLength > limit:
		// Not a byte of it is taken, so the connection cannot be used again.
		x.endConnection()
		return 0, tooLarge
	case r.ContentLength < 0:
		// A front that understood the length in another way would send us the rest of
		// this body as the next request.
		x.endConnection()
	}

	bodies := &x.s.bodies
	m := &meteredBody{body: http.MaxBytesReader(x.w, r.Body, limit), budget: bodies, limit: bodies.limit}
	switch {
	case x.stranger:
		m.limit = bodies.limit / keptForOthers
	case bringsItems(x.method):
		m.limit -= bodies.limit / keptForOthers
	}
	buf.Grow(int(min(max(r.ContentLength, 0), freeBody)) + bytes.MinRead)
	if _, err = buf.ReadFrom(m); err != nil {
		m.settle(false)
		err = bodyError(err, tooLarge)
		_, overloaded := errors.AsType[*queue.OverloadedError](err)
		x.unread = err == tooLarge || overloaded // what broke off has nothing more to read
		return 0, err
	}
	x.unread = false
	return m.settle(true), nil
}

// endConnection has the connection closed after the answer. In HTTP/2 it carries the
// calls of others as well, and bodies cannot run into each other.
func (x *exchange) endConnection() {
	if x.r.ProtoMajor < 2 {
		x.w.Header().Set("Connection", "close")
	}
}

func bodyError(err error, tooLarge error) error {
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return tooLarge
	}
	if _, overloaded := errors.AsType[*queue.OverloadedError](err); overloaded {
		return err
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errSlowBody
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return queue.Invalid("body", "ended before its announced length")
	}
	return queue.Invalid("body", "cannot be read: broken framing or connection")
}
