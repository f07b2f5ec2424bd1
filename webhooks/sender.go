package webhooks

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
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
	transport *http.Transport
	urls      *memo[*url.URL]
	keys      *memo[*key]
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
	d := newDialer(guard, o.RootCAs)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &Sender{
		guard:     guard,
		userAgent: orElse(o.UserAgent, "posthaste"),
		urls:      newMemo(ParseURL),
		keys:      newMemo(newKey),
		// Used without an http.Client, which would follow redirects and keep cookies.
		transport: &http.Transport{
			Proxy:                  nil, // the guard would see the proxy's address only
			DialContext:            d.dialPlain,
			DialTLSContext:         d.dialTLS,
			DisableCompression:     true,
			MaxIdleConns:           0, // bounded by host and by time
			MaxIdleConnsPerHost:    idle,
			IdleConnTimeout:        idleTime,
			MaxResponseHeaderBytes: maxHeaderAnswer,
			Protocols:              protocols,
		},
	}
}

// Close closes idle connections. Attempts that are running are not touched.
func (s *Sender) Close() { s.transport.CloseIdleConnections() }

// errDeadline is the cause of an attempt's own deadline, which tells it from a
// deadline or a cancellation of the caller's.
var errDeadline = errors.New("attempt deadline")

// Send makes one attempt. If ctx ends before there is an answer, the verdict is
// [Aborted], with the context's cause in the error; that an answer's body is still
// being read then does not change its verdict.
func (s *Sender) Send(ctx context.Context, r Request) Result {
	timeout := r.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	started := time.Now()
	a := &attempt{timeout: timeout, deadline: started.Add(timeout), mayDefer: r.Info.Receipt != ""}
	ctx, cancel := context.WithDeadlineCause(ctx, a.deadline, errDeadline)
	defer cancel()
	result := s.send(ctx, cancel, a, &r, started)
	result.StartedAt = started
	return result
}

func (s *Sender) send(ctx context.Context, cancel func(), a *attempt, r *Request, started time.Time) Result {
	req, err := s.build(a.context(ctx), r, started)
	if err != nil {
		return failure(Rejected, ClassInvalidRequest, err.Error(), time.Since(started))
	}
	resp, err := s.transport.RoundTrip(req)
	if err != nil && a.reused.Load() && a.unsent() && ctx.Err() == nil {
		// The endpoint closed an idle connection just as we took it. Not a byte was
		// written, so this is still the first time that the request is sent.
		req.Body = newBody(req.Method, r.Body)
		resp, err = s.transport.RoundTrip(req)
	}
	if err != nil {
		verdict, class, text := a.explain(ctx, err)
		return failure(verdict, class, text, time.Since(started))
	}

	result := answer(resp, a.mayDefer)
	result.Duration = time.Since(started)
	result.Response = drain(resp, cancel)
	return result
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

// drain reads what may be read of a body and returns its head. Errors are left
// alone: the verdict is settled, and a connection that is not read to its end is
// closed.
func drain(resp *http.Response, cancel func()) []byte {
	defer resp.Body.Close()
	switch {
	case resp.Body == http.NoBody:
		return nil
	case resp.StatusCode == http.StatusSwitchingProtocols:
		return nil // the body would be the connection, and no cancel ends a read of it
	}
	timer := time.AfterFunc(drainTime, cancel)
	defer timer.Stop()
	var head bytes.Buffer
	if n, err := head.ReadFrom(io.LimitReader(resp.Body, MaxResponse)); err == nil && n == MaxResponse {
		// One byte more than allowed: only the read after the last byte meets the end.
		io.CopyN(io.Discard, resp.Body, maxDrain-MaxResponse+1)
	}
	return head.Bytes()
}

// attempt is what is watched of one request on its way.
type attempt struct {
	timeout  time.Duration
	deadline time.Time
	mayDefer bool

	handshaking atomic.Bool
	reused      atomic.Bool
	answered    atomic.Bool
	// conn carries the request, and before is its count of writes at that moment.
	conn   atomic.Pointer[conn]
	before atomic.Int64
}

type attemptKey struct{}

// context lets the attempt be found from within net/http, which hands to a dial the
// values of the request's context, and nothing else of it.
func (a *attempt) context(ctx context.Context) context.Context {
	ctx = context.WithValue(ctx, attemptKey{}, a)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { // also when net/http or Send tries a second connection
			a.conn.Store(nil)
			a.handshaking.Store(false)
			a.answered.Store(false)
		},
		GotConn: func(info httptrace.GotConnInfo) {
			if c, ok := info.Conn.(*conn); ok {
				a.before.Store(c.writes.Load())
				a.reused.Store(info.Reused)
				a.conn.Store(c)
			}
		},
		GotFirstResponseByte: func() { a.answered.Store(true) },
	})
}

func attemptOf(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

// unsent says whether it is certain that no byte of the request was, or will be,
// written to the connection that it was given.
func (a *attempt) unsent() bool {
	c := a.conn.Load()
	if c == nil {
		return false
	}
	c.Close() // net/http has, after an error; to be certain that no write follows
	return c.writes.Load() == a.before.Load()
}
