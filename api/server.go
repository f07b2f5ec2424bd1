package api

import (
	"cmp"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"go.opentelemetry.io/otel/trace"

	"github.com/posthaste-io/posthaste/queue"
)

// Options are what a server is made of. Broker and Subscriptions must be set.
type Options struct {
	Broker        Broker
	Subscriptions Subscriptions
	// Schedules, if nil, refuses schedules.*: nothing here would fire them.
	Schedules Schedules
	// Lane tells what the push loop of a subscription does, and false if this
	// process has none. Nil knows of none.
	Lane func(ns queue.Namespace, name string) (LaneState, bool)
	// Test is what subscriptions.test does. Nil refuses it: this process does not push.
	Test TestFunc
	// Access, if nil, is [OpenAccess]: nobody has keys.
	Access Access
	// Durable says whether what was produced survives a crash and power loss.
	Durable bool
	// Dev writes errors for people: indented, and with the cause of a 5xx, which
	// others find in the log alone.
	Dev     bool
	Version string
	// Ready is asked by /readyz and /health; it may be called at any time and must
	// not block. Nil has nothing to check.
	Ready  func() []Check
	Logger *slog.Logger
	Limits Limits
	// Observer, if not nil, is told of each request.
	Observer Observer
	// Tracer, if not nil, has a span for each call. What is produced then carries the
	// span of its call on, so that pushes and leases are found from there.
	Tracer trace.Tracer
	// Metrics, if not nil, is served at /metrics of the admin handler.
	Metrics http.Handler
}

// Limits bound requests, in bytes unless they say otherwise; zero values take the
// defaults.
type Limits struct {
	// Call bounds bodies of calls: 256,000.
	Call int64
	// ItemCall bounds bodies of calls that carry items: 5,000,000.
	ItemCall int64
	// Payload bounds a raw item: 1,000,000.
	Payload int64
	// Bodies bounds all bodies that are in memory at one time, but for the first 16 KiB
	// of each: 256 MiB. A quarter of it is kept for those that bring no items.
	Bodies int64
	// Answers bounds the items of all answers that are in memory at one time, at twice
	// their size and a KiB each: 256 MiB.
	Answers int64
	// Items bounds one call, in items or receipts: 1,000, which is also the most that
	// the broker takes. Lists have a bound of their own.
	Items int
}

// DefaultCallBytes bounds bodies of calls that carry no items.
const DefaultCallBytes = 256_000

func (l Limits) withDefaults() Limits {
	l.Call = cmp.Or(l.Call, DefaultCallBytes)
	l.ItemCall = cmp.Or(l.ItemCall, 5_000_000)
	l.Payload = cmp.Or(l.Payload, 1_000_000)
	l.Bodies = cmp.Or(l.Bodies, 256<<20)
	l.Answers = cmp.Or(l.Answers, 256<<20)
	l.Items = cmp.Or(l.Items, queue.DefaultMaxItems)
	return l
}

// Server answers requests. Safe for concurrent use.
type Server struct {
	broker Broker
	subs   Subscriptions
	// schedules is nil where there are none.
	schedules Schedules
	lane      func(queue.Namespace, string) (LaneState, bool)
	test      TestFunc
	access    Access
	durable   bool
	dev       bool
	version   string
	ready     func() []Check
	log       *slog.Logger
	limits    Limits
	metrics   http.Handler
	tracer    trace.Tracer
	// observer is nil where nobody counts.
	observer Observer
	bodies   budget
	answers  budget
	// refused paces the refusals of overload, guessed those of too many wrong keys or receipts: whoever
	// sends these must not hold up those.
	refused, guessed refusalPace
	// guesses counts the receipts of callers without a key that settled nothing.
	guesses guesses
	origins *http.CrossOriginProtection
	router  chi.Router

	// open says that callers have no keys.
	open bool
	// keyless is done once somebody has sent a key all the same.
	keyless sync.Once

	draining atomic.Bool
	// discards counts refused bodies that are being read.
	discards atomic.Int64
}

// New returns a server.
func New(o Options) *Server {
	s := &Server{
		broker: o.Broker, subs: o.Subscriptions, schedules: o.Schedules, lane: o.Lane, test: o.Test, access: o.Access,
		durable: o.Durable, dev: o.Dev, version: o.Version, ready: o.Ready, log: o.Logger,
		limits:  o.Limits.withDefaults(),
		metrics: o.Metrics, tracer: o.Tracer, observer: o.Observer,
		guesses: newGuesses(),
		origins: http.NewCrossOriginProtection(),
		router:  chi.NewRouter(),
	}
	s.bodies.what, s.bodies.reason, s.bodies.limit = "bytes of request bodies", "request_bodies", s.limits.Bodies
	s.answers.what, s.answers.reason, s.answers.limit = "bytes of answers that their clients have not read", "unread_answers", s.limits.Answers
	if s.lane == nil {
		s.lane = func(queue.Namespace, string) (LaneState, bool) { return LaneState{}, false }
	}
	if s.access == nil {
		s.access, s.open = OpenAccess{}, true
	}
	if s.ready == nil {
		s.ready = func() []Check { return nil }
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.routes()
	return s
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.router.ServeHTTP(w, r) }

// Drain begins the end: /readyz answers 503, long polls answer at once, and
// connections are closed after their next answer. It returns at once; calls that
// run go on, and http.Server.Shutdown waits for them.
func (s *Server) Drain() {
	s.draining.Store(true)
	s.broker.Drain()
}

func (s *Server) routes() {
	s.queueRoutes()
	s.orderingRoutes()
	s.settleRoutes()
	s.queuesRoutes()
	s.topicRoutes()
	s.storageRoutes()
	s.importRoutes()
	s.itemRoutes()
	s.cancelRoutes()
	s.subscriptionRoutes()
	s.rotateRoutes()
	s.trialRoutes()
	s.scheduleRoutes()
	s.attemptRoutes()
	s.router.Post("/v1/produce/{queue}", s.exchange(rawProduce, (*exchange).produceRaw))
	s.unsupported(laterMethods)
	s.healthRoutes(s.router, false)
	s.documentRoutes()
	s.router.NotFound(s.exchange(unknownMethod, func(x *exchange) { x.fail(errNoSuchMethod) }))
	s.router.MethodNotAllowed(s.exchange(unknownMethod, func(x *exchange) { x.fail(&verbError{allow: x.allowed()}) }))
}

// unsupported refuses methods.
func (s *Server) unsupported(methods []string) {
	for _, name := range methods {
		s.router.Post("/v1/"+name, s.exchange(name, func(x *exchange) {
			_, err := x.admit()
			if err == nil {
				err = &queue.UnsupportedError{What: "method " + name}
			}
			x.fail(err)
		}))
	}
}

// unknownMethod is what requests are called that ask for what there is not.
const unknownMethod = "unknown"

// allowed are the verbs of the request's path.
func (x *exchange) allowed() string {
	if len(x.r.URL.Path) >= 4 && x.r.URL.Path[:4] == "/v1/" {
		return http.MethodPost
	}
	return "GET, HEAD"
}

// NewHTTPServer returns a server for a handler of this package that holds out
// against slow and greedy clients.
func NewHTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		// The HTTP server takes this deadline off when the body was read, so it cuts no
		// long poll. A WriteTimeout would: the handlers set theirs when they answer.
		ReadTimeout:    30 * time.Second,
		IdleTimeout:    60 * time.Second,
		MaxHeaderBytes: 32 << 10,
		// What a connection may send before somebody reads it is a part of each stream's
		// body, lest a hundred streams hold as many whole ones.
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 100, MaxReceiveBufferPerStream: 128 << 10, MaxReceiveBufferPerConnection: 512 << 10,
		},
		// OPTIONS * is answered like any other unknown path.
		DisableGeneralOptionsHandler: true,
		// What clients do wrong on the line is nothing that an operator must act on.
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
