package webhooks

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// maxHeaderAnswer bounds the headers of an answer, those of 1xx before it included.
	maxHeaderAnswer = 64 << 10
	// An answer's body is read this far, and for so long, that its connection can be
	// used again; beyond, a new connection is cheaper than the rest of it.
	maxDrain  = 64 << 10
	drainTime = 2 * time.Second
	// idleTime is under the usual 60 s of load balancers, so that mostly we close first.
	idleTime = 45 * time.Second

	defaultIdlePerHost = 32
)

// SenderOptions configure a [Sender]; the zero value works.
type SenderOptions struct {
	// UserAgent is posthaste/<version>; empty is posthaste.
	UserAgent string
	// Guard decides what may be dialled; nil denies all that is not public.
	Guard *Guard
	// MaxIdlePerHost should be the most requests that run to one host at a time: with
	// fewer, connections are closed and made anew all the time. 0 is 32.
	MaxIdlePerHost int
	// RootCAs verify endpoints; nil takes the system's. Verification cannot be off.
	RootCAs *x509.CertPool
}

// Sender makes attempts. It is safe for concurrent use. All that it sends shares
// its idle connections, each kept for one scheme, host and port: tenants that must
// not share connections have a Sender each.
type Sender struct {
	guard     *Guard
	userAgent string
	pool      *pool
	targets   *memo[*target]
	keys      *memo[*key]
	heads     sync.Pool // of *[]byte
	// dial makes a connection; its context ends with the attempt.
	dial func(ctx context.Context, t *target) (net.Conn, error)
}

// NewSender returns a sender.
func NewSender(o SenderOptions) *Sender {
	guard := o.Guard
	if guard == nil {
		guard = NewGuard(GuardOptions{})
	}
	idle := o.MaxIdlePerHost
	if idle <= 0 {
		idle = defaultIdlePerHost
	}
	return &Sender{
		guard:     guard,
		userAgent: encodeValue(orElse(o.UserAgent, "posthaste")),
		pool:      newPool(idle),
		targets:   newMemo(newTarget),
		keys:      newMemo(newKey),
		heads:     sync.Pool{New: func() any { return new([]byte) }},
		dial:      newDialer(guard, o.RootCAs).connect,
	}
}

// Close closes idle connections. Attempts that are running are not touched; their
// connections are closed when they end.
func (s *Sender) Close() { s.pool.close() }

// Send makes one attempt. If ctx ends before there is an answer, the verdict is
// [Aborted], with the context's cause in the error; that an answer's body is still
// being read then does not change its verdict.
func (s *Sender) Send(ctx context.Context, r Request) Result {
	timeout := r.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	started := time.Now()
	a := &attempt{timeout: timeout, deadline: started.Add(timeout)}
	result := s.send(ctx, a, &r, started)
	result.StartedAt = started
	return result
}

func (s *Sender) send(ctx context.Context, a *attempt, r *Request, started time.Time) Result {
	buf := s.heads.Get().(*[]byte)
	defer s.heads.Put(buf)
	t, head, err := s.build((*buf)[:0], r, started)
	if err != nil {
		return failure(Rejected, ClassInvalidRequest, err.Error(), time.Since(started))
	}
	if len(head)+len(r.Body) <= inlineWrite {
		head = slices.Grow(head, len(r.Body)) // they are written together
	}
	*buf = head
	resp, handBack, err := s.roundTrip(ctx, a, t, head, r.Body)
	if err != nil {
		verdict, class, text := a.explain(ctx, err)
		return failure(verdict, class, text, time.Since(started))
	}
	result := answer(resp, r.Info.Receipt != "")
	result.Duration = time.Since(started)
	whole := false
	if resp.StatusCode != http.StatusSwitchingProtocols {
		a.conn.SetReadDeadline(earlier(a.deadline, time.Now().Add(drainTime)))
		if ctx.Err() != nil { // and has moved the deadline before we did
			a.conn.SetDeadline(past)
		}
		result.Response, whole = drain(resp.Body)
	}
	handBack(whole && !resp.Close)
	return result
}

// past is a deadline that ends what waits.
var past = time.Unix(1, 0)

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// roundTrip sends the request on an idle connection or a new one, and reads the head of the
// answer. handBack must be called then, and told whether the answer was read to its end.
//
// An endpoint may close an idle connection just as we take it. If not a byte of the request
// was written to it, the next one is tried: it is still the first time that it is sent.
func (s *Sender) roundTrip(ctx context.Context, a *attempt, t *target, head, body []byte) (resp *http.Response, handBack func(whole bool), err error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		if !time.Now().Before(a.deadline) {
			return nil, nil, os.ErrDeadlineExceeded
		}
		c, err := s.connect(ctx, a, t)
		if err != nil {
			return nil, nil, err
		}
		a.conn = c
		stop := context.AfterFunc(ctx, func() { c.SetDeadline(past) })
		resp, err := c.exchange(head, body)
		if err == nil {
			return resp, func(whole bool) {
				// In this order: a connection that may yet be cancelled is of no use to others.
				if untouched := stop(); c.finish(whole) && untouched {
					s.pool.put(t.key, c)
				} else {
					c.Close()
				}
			}, nil
		}
		stop()
		c.Close()
		if c.written || !c.used || ctx.Err() != nil || !time.Now().Before(a.deadline) {
			return nil, nil, err
		}
	}
}

// connect returns a connection whose deadline is the attempt's.
func (s *Sender) connect(ctx context.Context, a *attempt, t *target) (*conn, error) {
	for c := s.pool.get(t.key); c != nil; c = s.pool.get(t.key) {
		c.SetDeadline(a.deadline)
		if c.silent() {
			c.SetReadDeadline(a.deadline)
			return c, nil
		}
		c.Close()
	}
	a.conn = nil
	ctx, cancel := context.WithDeadline(ctx, a.deadline)
	defer cancel()
	nc, err := s.dial(ctx, t)
	if err != nil {
		return nil, err
	}
	nc.SetDeadline(a.deadline)
	return newConn(nc), nil
}

// answer judges the status line and the headers.
func answer(resp *http.Response, mayDefer bool) Result {
	outcome := Classify(resp.StatusCode, resp.Header, mayDefer, time.Now())
	result := Result{
		Verdict: outcome.Verdict, Status: resp.StatusCode,
		RetryAfter: outcome.RetryAfter, Never: outcome.Never,
	}
	switch {
	case outcome.Verdict == Delivered, outcome.Verdict == Deferred:
	case resp.StatusCode < 200, resp.StatusCode > 599:
		result.Class = ClassBadResponse
		result.Error = fmt.Sprintf("%s: %03d is not a final status", ClassBadResponse, resp.StatusCode)
	default:
		result.Class = ClassStatus
		result.Error = fmt.Sprintf("%s: %d %s", ClassStatus, resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	return result
}

// drain reads what may be read of a body, and returns its head and whether that was
// all of it. Errors are left alone: the verdict is settled. The body is not closed,
// which would read it to its end, but its connection is.
func drain(body io.Reader) (head []byte, whole bool) {
	if body == http.NoBody {
		return nil, true
	}
	var buf bytes.Buffer
	// One byte more than allowed: only the read after the last byte meets the end.
	rest := &io.LimitedReader{R: body, N: maxDrain + 1}
	_, err := buf.ReadFrom(io.LimitReader(rest, MaxResponse))
	if err == nil {
		_, err = io.Copy(io.Discard, rest)
	}
	return buf.Bytes(), err == nil && rest.N > 0
}

// attempt is what is known of one request on its way.
type attempt struct {
	timeout  time.Duration
	deadline time.Time
	// conn carries the request, nil before there is one.
	conn *conn
}
