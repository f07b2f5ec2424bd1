package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/posthaste-io/posthaste/queue"
)

// method describes a call to the wrapper that serves it. Q is the request, P the
// reply, both as messages of api/v1.
type method[Q, P any] struct {
	name string
	// bytes bounds the body.
	bytes int64
	// noun says what target returns: queue, subscription or schedule.
	noun string
	// target returns the name that the call is about.
	target func(Q) string
	// optional says that the target may be left out.
	optional bool
	// place returns the field that target reads, where it is none of the usual ones.
	place func(Q) string
	// also returns what else the call is about.
	also func(Q) names
	// receipts, if set, returns the receipts that let a caller in who has no key.
	receipts func(Q) receiptList
	// keyed says that the call takes Idempotency-Key.
	keyed bool
	// slack is how much longer than its timeout a call may take that ends by itself.
	slack time.Duration
	do    func(ctx context.Context, c *call, q Q) (P, error)
}

// names are further names that a call is about, with their fields. An empty name is any.
type names []struct{ field, name string }

// ifNamed leaves an empty name out.
func ifNamed(field, name string) names {
	if name == "" {
		return nil
	}
	return names{{field, name}}
}

// call is what a method needs to know beside the message.
type call struct {
	namespace queue.Namespace
	// timeout is what the caller asked for, or the default.
	timeout time.Duration
	// trace and hop are about the request that carries the call.
	trace string
	hop   int32
	// key makes the repeat of a keyed call safe, or is empty.
	key string
	// items is how many items or receipts the call was about, for the log.
	items int
	// unsent, if set, is told that the answer did not reach the connection.
	unsent func()
	// stranger says that the caller has no key, but receipts.
	stranger bool
	// allow asks whether the caller may do this to another name that the call turns out to be
	// about.
	allow func(name string) error
	// answers is where hold takes from, held what it took.
	answers *budget
	held    int64
	// reserved is what the body has of the budget.
	reserved int64
}

// itemOverhead, in bytes, is what an item has beside its content: two structs, its
// receipt, and the names of the fields.
const itemOverhead = 1 << 10

// hold takes from the budget of answers what an item, or a record, of a size in bytes
// needs until the answer was written: a client that does not read keeps it in memory
// for so long.
func (c *call) hold(size int) error {
	n := 2*int64(size) + itemOverhead // as it is, and once more as it is encoded
	if err := c.answers.take(n); err != nil {
		return err
	}
	c.held += n
	return nil
}

// message is a pointer to a generated struct.
type message[T any] interface {
	*T
	proto.Message
}

// register serves a method under its name.
func register[T any, Q message[T], P proto.Message](s *Server, m method[Q, P]) {
	s.router.Post("/v1/"+m.name, s.exchange(m.name, func(x *exchange) {
		x.noun = m.noun
		if err := serve[T](x, m); err != nil {
			x.fail(err)
		}
	}))
}

// serve does for a call what every call needs.
func serve[T any, Q message[T], P proto.Message](x *exchange, m method[Q, P]) error {
	principal, denied := x.admit()
	x.stranger = m.receipts != nil && hasNoKey(denied)
	if denied != nil && !x.stranger {
		return denied
	}
	c := &call{
		namespace: principal.Namespace, answers: &x.s.answers,
		allow: func(name string) error { return x.s.access.Allow(principal, m.name, name) },
	}
	defer func() {
		x.s.bodies.give(c.reserved)
		c.answers.give(c.held)
	}()
	p, err := perform[T](x, m, c, func(q Q) (err error) {
		if x.stranger {
			c.namespace, err = m.receiptsOf(q, denied)
			return err
		}
		x.name = m.target(q)
		return m.allow(x.s.access, principal, q)
	})
	x.items = c.items
	if x.stranger {
		err = x.s.paced(x.r, p, err)
	}
	if err != nil {
		return err
	}
	if err := x.reply(http.StatusOK, "ok", p, c.unsent != nil); err != nil && c.unsent != nil {
		x.cause = err
		c.unsent()
	}
	return nil
}

// perform reads a call, asks whether it is allowed, and does it.
func perform[T any, Q message[T], P proto.Message](x *exchange, m method[Q, P], c *call, allow func(Q) error) (p P, err error) {
	info, err := readHeaders(x.r.Header, false)
	if err != nil {
		return p, err
	}
	if info.key != "" && !m.keyed {
		return p, queue.Invalid(headerIdempotency, "is for queue.produce, for raw items and for schedules.trigger; this call takes none")
	}
	request, err := requestCodec(x.r.Header.Get("Content-Type"))
	if err != nil {
		return p, err
	}
	x.codec = replyCodec(x.r.Header.Values("Accept"), request)

	q, limit := Q(new(T)), m.bytes
	if x.stranger {
		limit = min(limit, x.s.limits.Call)
	}
	if c.reserved, err = x.decode(request, q, limit); err != nil {
		return p, err
	}
	if err := allow(q); err != nil {
		return p, err
	}
	c.trace, c.hop, c.key, c.stranger = x.traceOf(info), info.hop, info.key, x.stranger
	if c.timeout, err = requestTimeout(q); err != nil {
		return p, err
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), c.timeout+m.slack)
	defer cancel()
	p, err = m.do(ctx, c, q)
	if topic, ok := errors.AsType[*queue.TopicError](err); ok && topic.Topic == m.target(q) {
		err = &placedError{err, m.field(q)}
	}
	return p, err
}

// allow judges the names that the call is about, and asks whether the principal may
// make it on them.
func (m *method[Q, P]) allow(access Access, p Principal, q Q) error {
	name := m.target(q)
	if name != "" || !m.optional {
		if err := queue.CheckReference(m.field(q), name); err != nil {
			return err
		}
	}
	if err := access.Allow(p, m.name, name); err != nil {
		return err
	}
	if m.also == nil {
		return nil
	}
	for _, other := range m.also(q) {
		if other.name != "" {
			if err := queue.CheckReference(other.field, other.name); err != nil {
				return err
			}
		}
		if err := access.Allow(p, m.name, other.name); err != nil {
			return err
		}
	}
	return nil
}

// field is the name of the field that target reads.
func (m *method[Q, P]) field(q Q) string {
	switch {
	case m.place != nil:
		return m.place(q)
	case m.noun == "queue":
		return "queue_name"
	case m.noun == "topic":
		return "topic"
	default:
		return "name"
	}
}

// admit refuses what no call may be, before anything of it is read.
func (x *exchange) admit() (Principal, error) {
	if x.r.RequestURI != "" && x.r.RequestURI[0] != '/' {
		return Principal{}, queue.Invalid("", "the request line must name a path, not a whole URL")
	}
	if x.r.URL.RawQuery != "" || x.r.URL.ForceQuery {
		return Principal{}, queue.Invalid("", "query strings are not read: parameters go into the body, keys into the Authorization header")
	}
	if err := x.s.checkBrowser(x.r); err != nil {
		return Principal{}, err
	}
	if x.s.open && x.r.Header.Get("Authorization") != "" {
		x.s.keyless.Do(func() {
			x.s.log.Warn("a request has an Authorization header, which is not read: this server runs without keys, and whoever reaches the port may do everything")
		})
	}
	principal, err := x.s.access.Identify(x.r)
	x.key = principal.Key
	return principal, err
}

// decode reads the body into a message. It returns how many bytes of the budget
// the caller has to give back.
func (x *exchange) decode(request codec, m proto.Message, limit int64) (reserved int64, err error) {
	buf := getBuffer()
	defer putBuffer(buf)
	if reserved, err = x.readBody(buf, limit); err != nil {
		return 0, err
	}
	if err := request.decode(buf.Bytes(), m); err != nil {
		x.s.bodies.give(reserved)
		return 0, err
	}
	return reserved, nil
}

// Bounds of request_timeout.
const (
	minRequestTimeout     = 10 * time.Millisecond
	maxRequestTimeout     = 15 * time.Minute
	defaultRequestTimeout = time.Minute
)

func requestTimeout(q any) (time.Duration, error) {
	timed, ok := q.(interface{ GetRequestTimeout() string })
	if !ok || timed.GetRequestTimeout() == "" {
		return defaultRequestTimeout, nil
	}
	return parseDuration("request_timeout", timed.GetRequestTimeout(), minRequestTimeout, maxRequestTimeout)
}
