package webhooks

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
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

// Sender makes attempts. It is safe for concurrent use. What it sends shares idle
// connections, each kept for one tenant, scheme, host and port, client certificate and
// set of authorities.
type Sender struct {
	guard     *Guard
	userAgent string
	pool      *pool
	links     *links
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
		links:     newLinks(idle),
		targets:   newMemo(newTarget),
		keys:      newMemo(newKey),
		heads:     sync.Pool{New: func() any { return new([]byte) }},
		dial:      newDialer(guard, o.RootCAs).connect,
	}
}

// Close closes idle connections. Attempts that are running are not touched; their
// connections are closed when they end.
func (s *Sender) Close() {
	s.pool.close()
	s.links.close()
}

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
	t, err := s.check(r)
	if err != nil {
		return failure(Rejected, ClassInvalidRequest, err.Error(), time.Since(started))
	}
	authorization, err := s.authorize(ctx, a, r)
	if err != nil {
		verdict, class, text := explainToken(ctx, err)
		return failure(verdict, class, text, time.Since(started))
	}
	signedAt := started
	if r.Credentials != nil {
		signedAt = time.Now() // a token may have taken a while
	}
	buf := s.heads.Get().(*[]byte)
	defer s.heads.Put(buf)
	head, err := s.build((*buf)[:0], t, r, authorization, signedAt)
	if err != nil {
		return failure(Rejected, ClassInvalidRequest, err.Error(), time.Since(started))
	}
	if len(head)+len(r.Body) <= inlineWrite {
		head = slices.Grow(head, len(r.Body)) // they are written together
	}
	*buf = head
	resp, handBack, err := s.roundTrip(ctx, a, t, r.Tenant, head, r.Body)
	if err != nil {
		verdict, class, text := a.explain(ctx, err)
		return failure(verdict, class, text, time.Since(started))
	}
	result := answer(resp, r.Info.Receipt != "")
	result.Duration = time.Since(started)
	if resp.StatusCode == http.StatusUnauthorized && r.Credentials != nil {
		r.Credentials.refused(authorization)
	}
	whole := false
	if resp.StatusCode != http.StatusSwitchingProtocols {
		a.via.readUntil(earlier(a.deadline, time.Now().Add(drainTime)))
		if ctx.Err() != nil { // and has moved the deadline before we did
			a.via.interrupt()
		}
		if r.KeepBody {
			result.Body, whole = drain(resp.Body, maxDrain)
			result.Response, result.BodyCut = result.Body[:min(len(result.Body), MaxResponse)], !whole
		} else {
			result.Response, whole = drain(resp.Body, MaxResponse)
		}
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

// drain reads what may be read of a body, and returns keep bytes of it and whether that was
// all of it. Errors are left alone: the verdict is settled. The body is not closed,
// which would read it to its end, but its connection is.
func drain(body io.Reader, keep int64) (head []byte, whole bool) {
	if body == http.NoBody {
		return nil, true
	}
	var buf bytes.Buffer
	// One byte more than allowed: only the read after the last byte meets the end.
	rest := &io.LimitedReader{R: body, N: maxDrain + 1}
	_, err := buf.ReadFrom(io.LimitReader(rest, keep))
	if err == nil {
		_, err = io.Copy(io.Discard, rest)
	}
	return buf.Bytes(), err == nil && rest.N > 0
}
