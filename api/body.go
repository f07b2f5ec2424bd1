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

// readBody reads the whole body into buf, at most limit bytes of it: what is longer
// is refused, never cut. The caller gives the reserved bytes back to the budget.
func (x *exchange) readBody(buf *bytes.Buffer, limit int64) (reserved int64, err error) {
	r := x.r
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return 0, &mediaTypeError{"Content-Encoding " + clip(encoding) + " is not read; send the body as it is"}
	}
	var tooLarge error = &queue.TooLargeError{Field: "body", Limit: int(limit), Unit: "bytes"}
	reserve := r.ContentLength
	switch {
	case reserve > limit:
		// Not a byte of it is taken, so the connection cannot be used again.
		x.w.Header().Set("Connection", "close")
		return 0, tooLarge
	case reserve < 0:
		reserve = limit
		// A front that understood the length in another way would send us the rest of
		// this body as the next request.
		x.w.Header().Set("Connection", "close")
	}
	if err := x.s.bodies.take(reserve); err != nil {
		return 0, err
	}

	buf.Grow(int(min(reserve, maxPooled/2)) + bytes.MinRead)
	_, err = buf.ReadFrom(http.MaxBytesReader(x.w, r.Body, limit))
	if err != nil {
		x.s.bodies.give(reserve)
		err = bodyError(err, tooLarge)
		x.unread = err == tooLarge // what broke off has nothing more to read
		return 0, err
	}
	x.unread = false

	size := int64(buf.Len())
	x.s.bodies.give(reserve - size)
	return size, nil
}

func bodyError(err error, tooLarge error) error {
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return tooLarge
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errSlowBody
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return queue.Invalid("body", "ended before its announced length")
	}
	return queue.Invalid("body", "cannot be read: broken framing or connection")
}
