package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"go.opentelemetry.io/otel/propagation"
)

// shift is one run of a worker: what it holds, and what becomes of it. Leased items
// wait in line, are worked on, and have an outcome that waits to be sent; all the while
// their leases are extended.
type shift struct {
	w   *Worker
	ttl time.Duration

	id string

	// workers are the goroutines that work on items, hooks included.
	workers sync.WaitGroup

	mu sync.Mutex
	// held are all leased items whose outcome the server does not have, by receipt.
	held    map[string]*work
	line    []*work
	running int
	// outcomes wait to be sent.
	outcomes []*work
	stopping bool
	// most is the most that one call may name, as far as the server has told.
	most int
	// pace and trip are moving means: how many items end in a second, and how long a
	// lease takes that finds some. rated is when pace was last reckoned, and ended what
	// has ended since.
	pace  float64
	trip  time.Duration
	rated time.Time
	ended int

	// changed and toSend hold one each: something is to be looked at.
	changed chan struct{}
	toSend  chan struct{}
}

// work is one leased item.
type work struct {
	it     Leased
	cancel context.CancelCauseFunc
	// deadline is when the lease is over, by our clock. The lease began when the server
	// sent the item, which is a little before we had it.
	deadline time.Time
	// lost says that the lease is over.
	lost bool
	// stopped says that the handler was told to stop.
	stopped bool
	outcome Outcome
	delay   time.Duration
	reason  string
	// result is kept from the item, whose handler's hooks may still look at it.
	result []byte
}

func newShift(w *Worker, ttl time.Duration) *shift {
	return &shift{
		w: w, ttl: ttl, id: cmp.Or(w.opts.ClientID, newClientID()), held: map[string]*work{}, most: maxBatch, rated: time.Now(),
		changed: make(chan struct{}, 1), toSend: make(chan struct{}, 1),
	}
}

// notify wakes who waits on a channel that holds one.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// take puts leased items in line.
func (s *shift) take(ctx context.Context, items []Leased, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = s.stopping || ctx.Err() != nil
	ctx = context.WithoutCancel(ctx)
	for _, it := range items {
		x := &work{it: it, deadline: began.Add(s.ttl)}
		s.held[it.Receipt] = x
		s.line = append(s.line, x)
	}
	s.begin(ctx)
}

// begin has handlers work on what is in line, as many as may run. s.mu is held.
func (s *shift) begin(ctx context.Context) {
	for !s.stopping && s.running < s.w.opts.Concurrency && len(s.line) > 0 {
		x := s.line[0]
		s.line = s.line[1:]
		if time.Now().After(x.deadline) {
			s.lose(x, "over before a handler was free")
			continue
		}
		s.running++
		own, cancel := context.WithCancelCause(ctx)
		x.cancel = cancel
		s.workers.Go(func() { s.work(ctx, own, x) })
	}
}

// work has the handler work on an item and keeps its outcome.
func (s *shift) work(ctx, own context.Context, x *work) {
	began := time.Now()
	// A handler may end its goroutine, as t.FailNow does: then handle does not return.
	err := errHandlerExited
	defer func() {
		x.cancel(nil)
		took := time.Since(began)
		delay, reason := s.verdict(x, err)

		s.mu.Lock()
		s.running--
		s.ended++
		s.conclude(x, err, delay, reason)
		outcome := x.outcome
		s.begin(ctx)
		s.mu.Unlock()
		notify(s.changed)
		if done := s.w.opts.Hooks.Done; done != nil {
			done(&x.it, outcome, took, err)
		}
	}()
	err = s.handle(own, &x.it)
	if err == nil && len(x.it.result) > maxResult {
		err = fmt.Errorf("result of %d bytes; want %d at most", len(x.it.result), maxResult)
	}
	x.result = x.it.result
}

var errHandlerExited = errors.New("the handler ended its goroutine")

// handle calls the handler for the item's kind. A panic is an error.
func (s *shift) handle(ctx context.Context, it *Leased) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			s.w.log.Error("handler panicked; the item is tried again", "item_id", it.ItemID, "kind", it.Kind, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	h := s.w.opts.Handlers[it.Kind]
	if h == nil {
		h = s.w.opts.Default
	}
	if h == nil {
		return fmt.Errorf("no handler for kind %q", it.Kind)
	}
	if it.Traceparent != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": it.Traceparent})
	}
	return h(ctx, it)
}
