package webhooks

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"
)

// stream carries one request over HTTP/2, on a link that others may share.
type stream struct {
	links    *links
	link     *link
	target   *target
	deadline time.Time
	fresh    bool
	// written says that some of the request may have reached the endpoint.
	written atomic.Bool
	// cancel ends the stream; tooLate does at a time.
	cancel  context.CancelFunc
	tooLate *time.Timer
}

var _ carrier = (*stream)(nil)

// newStream takes a link on which a place is reserved.
func (p *links) newStream(l *link, t *target, deadline time.Time) *stream {
	return &stream{links: p, link: l, target: t, deadline: deadline, fresh: !l.used.Load()}
}

// exchange implements carrier. The head is the one that HTTP/1 would have, so that there is
// one place where it is written.
func (s *stream) exchange(ctx context.Context, head, body []byte) (*http.Response, error) {
	ctx, s.cancel = context.WithDeadline(ctx, s.deadline)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { s.written.Store(true) }})
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(head)))
	if err != nil {
		s.link.Release()
		return nil, fmt.Errorf("read our own head: %w", err)
	}
	req.URL, req.Body, req.ContentLength = s.target.url, nil, int64(len(body))
	if len(body) > 0 {
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, err := s.link.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	s.links.answered(s.link)
	if resp.StatusCode < 100 || resp.StatusCode > 999 {
		return nil, errNoStatus
	}
	return resp, nil
}

var errNoStatus = errors.New("a status that is not of three digits")

// interrupt implements carrier. The context of exchange does it.
func (s *stream) interrupt() {}

// readUntil implements carrier.
func (s *stream) readUntil(t time.Time) { s.tooLate = time.AfterFunc(time.Until(t), s.cancel) }

// untouched implements carrier.
func (s *stream) untouched() bool { return !s.fresh && !s.written.Load() }

// release implements carrier. A link on which a request ended before its time is left to
// those that are on it: to reset stream after stream is what attackers do, and endpoints
// take it for that.
func (s *stream) release(whole bool) {
	if s.tooLate != nil {
		s.tooLate.Stop()
	}
	s.cancel()
	s.links.done(s.link, whole)
}

// explain implements carrier. What the endpoint gave as its reason is left out: it may be
// anything, also what we sent to it.
func (s *stream) explain(err error) (class, text string) {
	var reset streamError
	isReset := errors.As(err, &reset)
	end := s.link.wire.end() // which the error may have lost
	alert, isAlert := tlsAlert(end)
	switch {
	case isReset && reset.is("received from peer"):
		return ClassResetAfterWrite, fmt.Sprintf("the endpoint reset the stream: %v", reset.Code)
	case isReset && reset.is("header list"):
		return ClassTooLargeHeaders, textTooLargeHeaders
	case isReset:
		return ClassBadResponse, fmt.Sprintf("the answer breaks the rules of HTTP/2: %v", reset.Code)
	case errors.Is(err, errNoStatus):
		return ClassBadResponse, err.Error()
	case strings.HasPrefix(err.Error(), "connection error: "):
		return ClassBadResponse, err.Error() // and an error code
	case errors.Is(end, errNotFrames), errors.Is(end, errTooMuch):
		return ClassBadResponse, end.Error()
	case isAlert:
		return ClassTLS, alert
	case !s.written.Load():
		return ClassClosedBeforeWrite, "the endpoint closed the connection"
	default:
		return ClassResetAfterWrite, textNoAnswer
	}
}

// streamError is what net/http calls the end of one stream. Its own type is not exported,
// but turns itself into one of the same fields.
type streamError struct {
	StreamID uint32
	Code     fmt.Stringer
	Cause    error
}

// Error implements error.
func (e streamError) Error() string { return fmt.Sprintf("stream error: %v", e.Code) }

// is says whether it was caused by something that net/http describes with these words.
func (e streamError) is(words string) bool {
	return e.Cause != nil && strings.Contains(e.Cause.Error(), words)
}
