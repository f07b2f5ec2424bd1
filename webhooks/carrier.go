package webhooks

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"time"
)

// carrier is what one request goes out on: a connection that nobody else uses meanwhile, or
// a stream of one that is shared. One goroutine uses it, but for interrupt.
type carrier interface {
	// exchange writes a request and reads the head of its answer. Interim answers are
	// skipped.
	exchange(ctx context.Context, head, body []byte) (*http.Response, error)
	// interrupt ends whatever waits for the endpoint, now and later.
	interrupt()
	// readUntil bounds the time that is spent on an answer's body.
	readUntil(t time.Time)
	// untouched says, after an exchange that failed, that no byte of the request was
	// written, and that others have gone this way before: the endpoint may just have
	// closed it, and another way be open.
	untouched() bool
	// release ends an exchange, or what is left of one that failed. whole says that the
	// answer was read to its end; only then may others go the same way.
	release(whole bool)
	// explain tells why an exchange failed.
	explain(err error) (class, text string)
}

// attempt is what is known of one request on its way.
type attempt struct {
	timeout  time.Duration
	deadline time.Time
	// via carries the request, nil before there is a connection.
	via carrier
}

// ended returns an error if there is nothing left to try.
func (a *attempt) ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !time.Now().Before(a.deadline) {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// roundTrip sends the request on an idle connection or a new one, and reads the head of the
// answer. handBack must be called then, and told whether the answer was read to its end.
//
// An endpoint may close an idle connection just as we take it. If not a byte of the request
// was written to it, the next one is tried: it is still the first time that it is sent.
func (s *Sender) roundTrip(ctx context.Context, a *attempt, t *target, tenant string, head, body []byte) (resp *http.Response, handBack func(whole bool), err error) {
	key := t.key(tenant)
	for {
		if err := a.ended(ctx); err != nil {
			return nil, nil, err
		}
		via, err := s.connect(ctx, a, t, key)
		if err != nil {
			return nil, nil, err
		}
		a.via = via
		stop := context.AfterFunc(ctx, via.interrupt)
		resp, err := via.exchange(ctx, head, body)
		if err == nil {
			return resp, func(whole bool) {
				// In this order: a connection that may yet be cancelled is of no use to others.
				undisturbed := stop()
				via.release(whole && undisturbed)
			}, nil
		}
		stop()
		again := via.untouched()
		via.release(false)
		if !again || a.ended(ctx) != nil {
			return nil, nil, err
		}
	}
}

// connect returns what carries the request until the attempt's deadline.
func (s *Sender) connect(ctx context.Context, a *attempt, t *target, key poolKey) (carrier, error) {
	if t.http2 {
		if l := s.links.reserve(key); l != nil {
			return s.links.newStream(l, t, a.deadline), nil
		}
	}
	for c := s.pool.get(key); c != nil; c = s.pool.get(key) {
		c.SetDeadline(a.deadline)
		if c.silent() {
			c.SetReadDeadline(a.deadline)
			return c, nil
		}
		c.Close()
	}
	a.via = nil
	ctx, cancel := context.WithDeadline(ctx, a.deadline)
	defer cancel()
	nc, err := s.dial(ctx, t)
	if err != nil {
		return nil, err
	}
	if over, ok := nc.(*tls.Conn); ok && over.ConnectionState().NegotiatedProtocol == protoHTTP2 {
		l, err := s.links.open(ctx, key, t.address, over, a.deadline)
		if err != nil {
			return nil, err
		}
		return s.links.newStream(l, t, a.deadline), nil
	}
	return s.newConn(nc, key, a.deadline), nil
}

func (s *Sender) newConn(nc net.Conn, key poolKey, deadline time.Time) *conn {
	nc.SetDeadline(deadline)
	c := newConn(nc)
	c.pool, c.key = s.pool, key
	return c
}
