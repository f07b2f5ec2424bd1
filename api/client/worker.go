package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Handler works on an item. A nil error completes it. Any other error, and a panic, has
// it tried again later; see [Bury] and [RetryAfter]. ctx ends with [ErrLeaseLost] or
// [ErrStopping] as its cause, and carries the producer's trace.
type Handler func(ctx context.Context, it *Leased) error

// Middleware wraps a handler: for logs, metrics, spans, deadlines.
type Middleware func(Handler) Handler

// WorkerOptions configure a worker. Queue must be set, and Handlers or Default.
type WorkerOptions struct {
	Queue string
	// Handlers are chosen by an item's kind, Default works on all other kinds. Without
	// one their items are retried, counted, in case another worker knows them.
	Handlers map[string]Handler
	Default  Handler
	// Middleware wraps every handler, the first of them outermost.
	Middleware []Middleware
	// Concurrency is how many handlers run at one time: 10.
	Concurrency int
	// LeaseTimeout is how long a lease lasts before it is extended; 0 takes the queue's.
	// Leases are extended while their handlers run, so it bounds how long an item stays
	// behind when this process ends hard, not how long a handler may take.
	LeaseTimeout time.Duration
	// Backoff is how long a failed item waits; nil is [DefaultBackoff].
	Backoff func(it *Leased, err error) time.Duration
	// StopTimeout is how long handlers may go on once Run's context has ended: 30 s; then
	// their contexts end, and their items are given back uncounted unless they return
	// [Bury]'s or [RetryAfter]'s error. Negative is not at all. Run waits for a handler that
	// ignores its context as long as that takes.
	StopTimeout time.Duration
	// ClientID names the worker. The server has one wait at a time of each, so no two that
	// run may share it: the default is made for each Run, of the host's name, the process id
	// and a random part.
	ClientID string
	Logger   *slog.Logger
	Hooks    Hooks
}

// Hooks are told what a worker does, for metrics. They are called from its loops and
// must be quick; nil ones are left out.
type Hooks struct {
	// Leased: a lease brought n items after so long; none when its wait was over.
	Leased func(n int, took time.Duration)
	// Done: an item was worked on; err is the handler's.
	Done func(it *Leased, outcome Outcome, took time.Duration, err error)
	// Settled: the server was told of n outcomes, or could not be.
	Settled func(n int, took time.Duration, err error)
}

// Defaults of [WorkerOptions].
const (
	DefaultConcurrency = 10
	DefaultStopTimeout = 30 * time.Second
)

// Worker leases items of a queue and has handlers work on them. Make it with
// [NewWorker].
type Worker struct {
	client *Client
	opts   WorkerOptions
	log    *slog.Logger
}

// NewWorker returns a worker, which does nothing before [Worker.Run].
func NewWorker(c *Client, o WorkerOptions) (*Worker, error) {
	switch {
	case o.Queue == "":
		return nil, errors.New("posthaste: worker: Queue is missing")
	case len(o.Handlers) == 0 && o.Default == nil:
		return nil, errors.New("posthaste: worker: there is no handler; set Handlers or Default")
	case o.Concurrency < 0 || o.Concurrency > 10_000:
		return nil, fmt.Errorf("posthaste: worker: Concurrency is %d; want 1 to 10000", o.Concurrency)
	}
	o.Concurrency = cmp.Or(o.Concurrency, DefaultConcurrency)
	o.StopTimeout = max(cmp.Or(o.StopTimeout, DefaultStopTimeout), 0)
	if o.Backoff == nil {
		o.Backoff = DefaultBackoff
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	wrapped := make(map[string]Handler, len(o.Handlers))
	for kind, h := range o.Handlers {
		if h == nil {
			return nil, fmt.Errorf("posthaste: worker: the handler of kind %q is nil", kind)
		}
		wrapped[kind] = wrap(h, o.Middleware)
	}
	o.Handlers = wrapped
	if o.Default != nil {
		o.Default = wrap(o.Default, o.Middleware)
	}
	return &Worker{client: c, opts: o, log: o.Logger.With("queue", o.Queue)}, nil
}

// newClientID is for people to read but for its random part: in containers, all may have
// one process id and even one host name.
func newClientID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), uuid.NewString()[:8])
}

func wrap(h Handler, middleware []Middleware) Handler {
	for _, m := range slices.Backward(middleware) {
		h = m(h)
	}
	return h
}

// Run works until ctx ends, then stops: no more items are leased, those that no handler
// has begun are given back, handlers that run get StopTimeout, and all outcomes are
// sent. It returns nil then, and an error when the queue can not be worked on: it does
// not exist, or the key does not allow it. Whatever else fails is tried again.
//
// Run may be called again once it has returned.
func (w *Worker) Run(ctx context.Context) error {
	ttl := w.opts.LeaseTimeout
	if ttl == 0 {
		var err error
		if ttl, err = w.leaseTimeout(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("worker: %w", err)
		}
	}
	r := newShift(w, ttl)

	// What settles and extends goes on after ctx has ended, until nothing is held.
	late, end := context.WithCancel(context.WithoutCancel(ctx))
	var loops sync.WaitGroup
	loops.Go(func() { r.settle(late) })
	loops.Go(func() { r.extend(late) })
	loops.Go(func() { r.expire(late) })
	err := r.fetch(ctx)
	r.stop(late)
	end()
	loops.Wait()
	return err
}

// leaseTimeout asks for the queue's, until there is an answer.
func (w *Worker) leaseTimeout(ctx context.Context) (time.Duration, error) {
	for failures := 0; ; failures++ {
		var q Queue
		err := within(ctx, callTimeout, func(ctx context.Context) (err error) {
			q, err = w.client.GetQueue(ctx, w.opts.Queue)
			return err
		})
		if err == nil || ctx.Err() != nil || isFinal(err) {
			return q.LeaseTimeout, err
		}
		wait := backoff(DefaultMinWait, DefaultMaxWait, failures, nil)
		w.log.Warn("the queue's settings could not be read; that is tried again", "wait", wait.String(), "error", err)
		pause(ctx, wait)
	}
}
