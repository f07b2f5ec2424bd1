package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	"github.com/posthaste-io/posthaste/queue"
)

// Answers have this long to be taken by the client. A deadline of the whole server
// would begin before a long poll and cut its answer.
const answerTimeout = 30 * time.Second

// Bounds of what is read of a body that was refused, and thrown away.
const (
	maxDiscard     = 32 << 20
	discardTimeout = 2 * time.Second
	// maxDiscards is how many refused bodies are read at one time. Beyond it they are cut
	// off: whoever sends so many at once does not look for the answers.
	maxDiscards = 256
	// smallBody is what the HTTP server itself reads of a body before it answers, so
	// that the connection can be used again.
	smallBody = 256 << 10
)

// exchange is one request and its answer, and what the log will say of them.
type exchange struct {
	s       *Server
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
	// codec writes the answer; nil is chosen by the request's headers.
	codec codec
	start time.Time

	// id is the request's, the client's or ours.
	id string
	// method is the call's name or the path's pattern, never the path itself.
	method string
	// noun says what name is of: queue, subscription or schedule.
	noun string
	name string
	// key is the id of the caller's key, if it has one.
	key string
	// stranger says that the caller has no key, and is let in by receipts or not at all.
	stranger bool
	// items is how many items or receipts the call was about.
	items int
	// quiet is for what probes ask every few seconds: only trouble is worth a line.
	quiet bool
	// unread says that a body may be left on the connection.
	unread bool
	// status is 0 until the answer is written.
	status int
	word   string
	// cause is what the answer is about, if it is a failure.
	cause error
	stack []byte
	// span is nil where no traces are made.
	span trace.Span
}

// exchange makes a handler of f, which must answer.
func (s *Server) exchange(method string, f func(*exchange)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{
			s: s, w: w, r: r, control: http.NewResponseController(w),
			start: time.Now(), id: requestID(r), method: method,
			unread: r.ContentLength != 0,
		}
		w.Header().Set("X-Request-Id", x.id)
		if s.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		if s.observer != nil {
			s.observer.RequestBegan(method)
			defer x.observed()
		}
		if s.tracer != nil && r.Method == http.MethodPost {
			x.beginSpan()
			defer x.endSpan()
		}
		defer x.end()
		f(x)
	}
}

// end turns a panic into an answer, if there is none yet, and writes the line.
func (x *exchange) end() {
	if p := recover(); p != nil {
		if p == http.ErrAbortHandler {
			panic(p)
		}
		x.stack = debug.Stack()
		if err := fmt.Errorf("panic: %v", p); x.status == 0 {
			x.fail(err)
		} else {
			x.cause = err
		}
	}
	x.log()
}

// log writes one line: no payloads, no keys, no paths or queries.
func (x *exchange) log() {
	level := slog.LevelInfo
	switch {
	case x.r.Context().Err() != nil && x.stack == nil:
		// The client went, and nobody has to act: a long poll that is given up is one.
	case x.quiet && x.status < http.StatusBadRequest:
		level = slog.LevelDebug
	case x.status == http.StatusInternalServerError || x.stack != nil:
		level = slog.LevelError
	case x.status > http.StatusInternalServerError:
		level = slog.LevelWarn
	}
	if ctx := x.r.Context(); x.s.log.Enabled(ctx, level) {
		// Not by the logger, which would find out the line of code first: it is always this one.
		line := slog.NewRecord(time.Now(), level, "request", 0)
		line.AddAttrs(x.attributes()...)
		_ = x.s.log.Handler().Handle(ctx, line) // a logger ignores it, too
	}
}

func (x *exchange) attributes() []slog.Attr {
	attrs := make([]slog.Attr, 0, 12)
	attrs = append(
		attrs,
		slog.String("method", x.method),
		slog.Int("status", x.status),
		slog.String("code_text", x.word),
		slog.String("duration", time.Since(x.start).Round(time.Microsecond).String()),
		slog.String("request_id", x.id),
	)
	if x.name != "" {
		attrs = append(attrs, slog.String(x.noun, clip(x.name)))
	}
	if x.key != "" {
		attrs = append(attrs, slog.String("key_id", x.key))
	}
	if x.items > 0 {
		attrs = append(attrs, slog.Int("items", x.items))
	}
	if x.recording() {
		sc := x.span.SpanContext()
		attrs = append(attrs, slog.String("trace_id", sc.TraceID().String()), slog.String("span_id", sc.SpanID().String()))
	}
	if x.cause != nil {
		attrs = append(attrs, slog.Any("error", x.cause))
	}
	if x.stack != nil {
		attrs = append(attrs, slog.String("stack", string(x.stack)))
	}
	return attrs
}

// fail answers an error.
func (x *exchange) fail(err error) {
	f := failureOf(err)
	x.cause = err
	if f.status == http.StatusTooManyRequests {
		pace := &x.s.refused
		if _, guessing := errors.AsType[*guessError](err); guessing {
			pace = &x.s.guessed
		}
		pace.wait(x.r.Context())
	}
	if x.s.dev {
		f.tell(err)
	}
	f.header(x.w.Header())
	// In HTTP/2 other calls share the connection, and what is left is on a stream of its own.
	shared := x.r.ProtoMajor >= 2
	if x.unread && !shared && (x.r.ContentLength < 0 || x.r.ContentLength > smallBody) {
		x.w.Header().Set("Connection", "close")
	}
	discard := x.unread && (shared || x.w.Header().Get("Connection") == "close")
	// Whoever cannot be answered is gone.
	if err := x.reply(f.status, f.word, f.body(), discard); err == nil && discard {
		x.discard()
	}
}

// discard reads what is left of a body, for a while: many clients look for the answer
// only once they have sent everything, and a connection that is closed under them takes
// the answer with it.
func (x *exchange) discard() {
	if x.r.Header.Get("Expect") != "" {
		return // they ask first, and have their answer
	}
	if x.s.discards.Add(1) > maxDiscards {
		x.s.discards.Add(-1)
		return
	}
	defer x.s.discards.Add(-1)
	// Not every reader has deadlines; those without one are tests.
	_ = x.control.SetReadDeadline(time.Now().Add(discardTimeout))
	// How it ends does not matter: the connection is closed after it.
	_, _ = io.CopyN(io.Discard, x.r.Body, maxDiscard)
}

// reply writes a message as the answer. With flush it returns only when the bytes
// were handed to the connection, or with the error that says that they were not; a
// client that is known to be gone gets none.
func (x *exchange) reply(status int, word string, m proto.Message, flush bool) error {
	if x.codec == nil {
		own, err := requestCodec(x.r.Header.Get("Content-Type"))
		if err != nil {
			own = messageJSON // the answer says so, or is about something before it
		}
		x.codec = replyCodec(x.r.Header.Values("Accept"), own)
	}
	buf := answers.Get().(*[]byte)
	body := x.codec.append((*buf)[:0], m)
	if x.s.dev && status >= http.StatusBadRequest {
		body = indented(body)
	}
	if cap(body) <= maxPooled {
		defer func() {
			*buf = body
			answers.Put(buf)
		}()
	}
	return x.write(status, word, x.codec.mediaType(), body, flush)
}

// indented is for people who read answers in a terminal.
func indented(body []byte) []byte {
	var b bytes.Buffer
	if err := json.Indent(&b, body, "", "  "); err != nil {
		return body // no JSON, which nobody can indent
	}
	return b.Bytes()
}

func (x *exchange) write(status int, word, mediaType string, body []byte, flush bool) error {
	x.status, x.word = status, word
	// Asked before the first byte goes out, and not again: a client that has all of its
	// answer may close the connection before we see that it was written.
	if err := context.Cause(x.r.Context()); flush && err != nil {
		return err
	}
	h := x.w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	// Not every writer has deadlines; those without one are tests.
	_ = x.control.SetWriteDeadline(time.Now().Add(answerTimeout))
	x.w.WriteHeader(status)
	if _, err := x.w.Write(body); err != nil {
		return err
	}
	if !flush {
		return nil
	}
	return x.control.Flush()
}

const maxRequestID = 128

// requestID takes the client's id, if it is one that a log can hold, or makes one.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	if id == "" || len(id) > maxRequestID || !isVisible(id) {
		return queue.NewID().String()
	}
	return id
}

// isVisible says whether s has only visible ASCII characters, no space.
func isVisible(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// clip bounds what logs and answers repeat of the input.
func clip(s string) string {
	const longest = 200
	if len(s) <= longest {
		return s
	}
	return s[:longest] + "…"
}
