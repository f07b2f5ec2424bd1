package dispatcher

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
	"github.com/posthaste-io/posthaste/webhooks"
)

const (
	// Leases are short, so that the items of a process that dies come back soon, and
	// renewed, so that a request may take longer.
	leaseTTL     = 30 * time.Second
	renewEvery   = 10 * time.Second
	renewAgain   = time.Second
	renewTimeout = 4 * time.Second
	// leaseMargin before its lease ends a request is cancelled: time for the
	// connection to close, and for clocks that run at different speeds.
	leaseMargin = 5 * time.Second
	// leaseWait is one wait for items; the next follows at once.
	leaseWait = time.Minute
	// maxNode leaves room for the random number in what an owner may be.
	maxNode = 200
	// maxLease bounds one call of the broker, in entries.
	maxLease = 1000

	leaseRetryMin, leaseRetryMax   = 100 * time.Millisecond, 5 * time.Second
	settleRetryMin, settleRetryMax = 50 * time.Millisecond, 2 * time.Second

	// reloadEvery bounds how late a change shows that another node made.
	reloadEvery = 10 * time.Second
	// closingTime follows the grace time: what was cancelled is given back in it.
	closingTime = 1500 * time.Millisecond
)

// Defaults of [Options].
const (
	DefaultMaxPushes = 1024
	DefaultMaxBytes  = 128 << 20
	DefaultGrace     = 10 * time.Second
)

// Broker leases and settles.
type Broker interface {
	Lease(ctx context.Context, p queue.LeaseParams) (queue.LeaseReply, error)
	Settle(ctx context.Context, call queue.SettleCall) ([]queue.Settled, error)
	Extend(ctx context.Context, ns queue.Namespace, queue string, entries []queue.ExtendEntry) ([]queue.Extended, error)
	Stats(ctx context.Context, ns queue.Namespace, queue string) (queue.QueueStats, error)
}

var _ Broker = (*queue.Broker)(nil)

// Subscriptions says who is pushed to.
type Subscriptions interface {
	Watch(update func(*subscriptions.Subscription)) *subscriptions.Watcher
	All(ctx context.Context) ([]subscriptions.Subscription, error)
	Get(ctx context.Context, ns queue.Namespace, name string) (subscriptions.Subscription, error)
	Disable(ctx context.Context, ns queue.Namespace, name, url, reason string) (subscriptions.Subscription, error)
	MarkFailing(ctx context.Context, ns queue.Namespace, name, url string, since time.Time) (subscriptions.Subscription, error)
	MarkWell(ctx context.Context, ns queue.Namespace, name string) (subscriptions.Subscription, error)
}

var _ Subscriptions = (*subscriptions.Service)(nil)

// Sender makes one request. It never returns before the request has ended.
type Sender interface {
	Send(ctx context.Context, r webhooks.Request) webhooks.Result
}

var _ Sender = (*webhooks.Sender)(nil)

// Options are what a dispatcher is made of. The first three must be set.
type Options struct {
	Broker        Broker
	Subscriptions Subscriptions
	Sender        Sender
	Logger        *slog.Logger
	// Credentials makes a subscription's credentials fit for the sender; nil knows none.
	Credentials func(subscriptions.Auth) (*webhooks.Credentials, error)
	// Peers keeps who else pushes from the same store, to share the limits of subscriptions;
	// nil is nobody.
	Peers PeerDocs
	// Node is a label for people, such as the host's name. Leases are told apart by
	// a random number beside it, made anew at each start. Cut to 200 bytes.
	Node string
	// MaxPushes and MaxBytes bound what runs at one time, over all subscriptions.
	MaxPushes int
	MaxBytes  int
	// Grace is how long running requests may go on once Run is told to stop; 0 is
	// the default, and a negative one none.
	Grace time.Duration
	// Rand returns numbers in [0, 1); nil is the standard source. Called concurrently.
	Rand func() float64
	// Observe, if not nil, is told of each push once it is settled. It is called
	// concurrently, on the way of pushes, and must be quick.
	Observe func(Attempt)
	// Tracer, if not nil, has a span for each push, in the trace of the item's producer.
	Tracer trace.Tracer
}

// Dispatcher pushes. Make it with [New] and call Run once.
type Dispatcher struct {
	broker Broker
	subs   Subscriptions
	sender Sender
	log    *slog.Logger
	owner  string
	grace  time.Duration
	rnd    func() float64
	slots  *slots

	observe func(Attempt)
	tracer  trace.Tracer

	credentials func(subscriptions.Auth) (*webhooks.Credentials, error)
	trials      chan struct{}

	// peers is nil for a node that is alone.
	peers *peers

	running running
	// pushes counts what must have ended before Run returns, and workers the goroutines
	// that do most of it. next hands them a push; it holds nothing, so that only one
	// that waits takes it.
	pushes  sync.WaitGroup
	workers sync.WaitGroup
	next    chan *push

	// stale counts settlements whose receipt was refused.
	stale atomic.Int64

	// work is the parent of all requests, closing of all that ends them in the store.
	work    context.Context
	closing context.Context

	mu      sync.Mutex
	lanes   map[subscriptions.Key]*lane
	laneRun sync.WaitGroup
}

// New returns a dispatcher.
func New(o Options) *Dispatcher {
	var id [16]byte
	rand.Read(id[:]) // never returns an error
	d := &Dispatcher{
		broker: o.Broker, subs: o.Subscriptions, sender: o.Sender,
		log: o.Logger, grace: o.Grace, rnd: o.Rand,
		owner:   hex.EncodeToString(id[:]),
		observe: o.Observe, tracer: o.Tracer,
		credentials: o.Credentials, trials: make(chan struct{}, maxTrials),
		next:  make(chan *push),
		lanes: map[subscriptions.Key]*lane{},
	}
	if o.Node != "" {
		d.owner = strings.ToValidUTF8(o.Node[:min(len(o.Node), maxNode)], "") + "/" + d.owner
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if d.grace == 0 {
		d.grace = DefaultGrace
	}
	if d.rnd == nil {
		d.rnd = mathrand.Float64
	}
	if o.Peers != nil {
		d.peers = newPeers(o.Peers, hex.EncodeToString(id[:]), d.log, d.reshare)
	}
	if d.credentials == nil {
		d.credentials = func(subscriptions.Auth) (*webhooks.Credentials, error) {
			return nil, errors.New("this server has no means for them")
		}
	}
	if o.MaxPushes <= 0 {
		o.MaxPushes = DefaultMaxPushes
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	d.slots = newSlots(o.MaxPushes, o.MaxBytes)
	return d
}

// Owner is what this process's leases carry as their owner.
func (d *Dispatcher) Owner() string { return d.owner }

// Run pushes until ctx ends. Then no lane leases any more; running requests get the
// grace time, and those that take longer are cancelled and their items given back,
// uncounted. Run returns at most two seconds after the grace time.
func (d *Dispatcher) Run(ctx context.Context) error {
	detached := context.WithoutCancel(ctx)
	work, cancelWork := context.WithCancelCause(detached)
	defer cancelWork(nil)
	closing, cancelClosing := context.WithCancel(detached)
	defer cancelClosing()
	d.work, d.closing = work, closing

	var renewing sync.WaitGroup
	renewing.Go(func() { d.renew(closing) })

	if d.peers != nil {
		renewing.Go(func() { d.peers.run(closing) })
	}

	d.manage(ctx)

	d.laneRun.Wait()
	pushed := make(chan struct{})
	go func() {
		d.pushes.Wait()
		close(pushed)
	}()
	if !within(pushed, d.grace) {
		d.log.Info("grace time is over; cancelling requests")
		cancelWork(errStopping)
		if !within(pushed, closingTime) {
			d.log.Warn("store did not take everything back; what is left lapses")
		}
	}
	cancelClosing()
	renewing.Wait()
	<-pushed
	d.workers.Wait()
	return nil
}

// within waits for done, and says whether it came in time.
func within(done <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// background runs what must end before Run returns, such as giving items back.
func (d *Dispatcher) background(f func(ctx context.Context)) {
	d.pushes.Go(func() { f(d.closing) })
}

// manage keeps a lane for each subscription until ctx ends.
func (d *Dispatcher) manage(ctx context.Context) {
	watcher := d.subs.Watch(d.update)
	defer watcher.Stop()
	ticker := time.NewTicker(reloadEvery)
	defer ticker.Stop()

	failing := false
	note := func(err error) {
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			d.log.Warn("subscriptions cannot be read; lanes go on with what they know", "error", err)
		case err == nil && failing:
			d.log.Info("subscriptions are read again")
		}
		failing = err != nil
	}
	note(d.reload(ctx))
	for {
		select {
		case <-ctx.Done():
			return
		case <-watcher.Changed():
			for _, key := range watcher.Take() {
				note(d.refresh(ctx, key))
			}
		case <-ticker.C:
			note(d.reload(ctx))
			d.review(ctx)
		}
	}
}

// reload brings all lanes up to date.
func (d *Dispatcher) reload(ctx context.Context) error {
	subs, err := d.subs.All(ctx)
	if err != nil {
		return err
	}
	there := make(map[subscriptions.Key]bool, len(subs))
	for i := range subs {
		there[subs[i].Key()] = true
		d.keep(ctx, &subs[i])
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, l := range d.lanes {
		if !there[key] {
			d.end(l)
		}
	}
	return nil
}

// review has each lane write down what lasts.
func (d *Dispatcher) review(ctx context.Context) {
	for _, l := range d.all() {
		l.review(ctx)
	}
}

// reshare has each lane take this node's part of its limits anew.
func (d *Dispatcher) reshare() {
	for _, l := range d.all() {
		l.reshare()
	}
}

func (d *Dispatcher) all() []*lane {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Values(d.lanes))
}

// refresh brings one lane up to date.
func (d *Dispatcher) refresh(ctx context.Context, key subscriptions.Key) error {
	sub, err := d.subs.Get(ctx, key.Namespace, key.Name)
	if errors.Is(err, queue.ErrNotFound) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if l := d.lanes[key]; l != nil {
			d.end(l)
		}
		return nil
	}
	if err != nil {
		return err
	}
	d.keep(ctx, &sub)
	return nil
}

// update brings the lane of a subscription up to date, if it has one.
func (d *Dispatcher) update(sub *subscriptions.Subscription) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.lanes[sub.Key()]; l != nil && l.isOf(sub) {
		l.update(sub)
	}
}

// keep starts or updates the lane of a subscription.
func (d *Dispatcher) keep(ctx context.Context, sub *subscriptions.Subscription) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lanes[sub.Key()]
	if l != nil && l.isOf(sub) {
		l.update(sub)
		return
	}
	if l != nil {
		d.end(l) // deleted and made anew for another queue before we looked
	}
	ctx, cancel := context.WithCancel(ctx)
	l = newLane(d, sub, ctx.Done(), cancel)
	d.lanes[l.key] = l
	d.laneRun.Go(func() {
		defer cancel()
		l.run(ctx)
	})
}

// end stops a lane; its running requests end by themselves. d.mu is held.
func (d *Dispatcher) end(l *lane) {
	delete(d.lanes, l.key)
	l.cancel()
}
