package queue

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"
)

// Broker is how queues are used: it resolves names, judges input, joins calls
// into batches for the store, keeps those that wait for items, and buries what is
// over its limits. Make it with [New]. Its methods may be called concurrently.
//
// The verbs work from [New] on, whether [Broker.Run] was called or not: loops
// start when there is work and end when there is none, so an idle queue costs
// no goroutine. Every call ends with its context at the latest. After Run has
// returned, verbs answer [ErrShuttingDown].
//
// What was refused before the store took it was not done, and its error says so.
// A writing call whose context ends once the store has it answers
// [ErrUnknownOutcome]: it may or may not have been done.
type Broker struct {
	store  Store
	opts   Options
	log    *slog.Logger
	known  *catalog
	onDue  func(queue Number, at time.Time)
	leases *leaser
	// endings are those that wait for items to end.
	endings *endings
	// warnings are those that clients could repeat without end.
	warnings seldom
	ordered  orderedQueues

	produces *batcher[produceRequest, ProduceResult]
	settles  *batcher[settleRequest, []Settled]
	extends  *batcher[[]Extension, []Extended]

	// admin holds one while a queue is made, changed or deleted, so that what these
	// check of other queues still holds when they write.
	admin chan struct{}
}

// Options are what a broker is made of. Queues, Counters and Numbers must be set;
// the zero value of all others works.
type Options struct {
	Queues   QueueDocs
	Counters CounterDocs
	Numbers  NumberDocs
	// Subscribers knows who is pushed to; nil is nobody.
	Subscribers Subscribers
	// Limit returns the limit of attempts that the subscription of a queue sets, or
	// 0 if there is none; nil is no subscriptions. The sweep asks it for each queue.
	Limit func(ctx context.Context, ns Namespace, queue string) (int32, error)
	// AllowsTarget says whether items of a queue may bring their own target, and
	// CheckTarget judges one, with an [InvalidError] on url, method or timeout; nil
	// refuses them all.
	AllowsTarget func(ctx context.Context, ns Namespace, queue string) (bool, error)
	CheckTarget  func(*Target) error
	// OnDone returns the queue that the subscription of a queue tells how items end, or
	// "" if there is none; nil is no subscriptions.
	OnDone func(ctx context.Context, ns Namespace, queue string) (string, error)
	// PushedBy names the subscription of a queue, "" if there is none, and says whether it
	// has all that happens to its items in the attempt log; nil is no subscriptions.
	PushedBy func(ctx context.Context, ns Namespace, queue string) (name string, logs bool, err error)
	// Records returns the journal's records of an item in a namespace, newest first,
	// at most limit; nil knows of none.
	Records func(ctx context.Context, ns Namespace, id ID, limit int) ([]Record, error)
	// Journal reads the journal, for [Broker.Attempts]; nil has nothing in it.
	Journal func(ctx context.Context, q JournalQuery) (JournalPage, error)
	// CompileFilter reads what a topic's subscriber entry has for a filter; nil knows none,
	// so that everybody gets everything. FilterFailed, if not nil, is told of each item that
	// a filter could not judge; it must be quick.
	CompileFilter func(filter json.RawMessage) (Matcher, error)
	FilterFailed  func(ns Namespace, subscription string, err error)
	Logger        *slog.Logger

	// MaxPayload bounds one payload, MaxCallBytes all content of one call.
	MaxPayload   int
	MaxCallBytes int
	// MaxWaiting and MaxBytesWaiting bound the calls of one verb that wait for the
	// store, over all queues: one queue may have as many waiting as there is still room
	// for. MaxLeasesWaiting bounds the leases that wait on one queue. Beyond them calls
	// are refused with [OverloadedError].
	MaxWaiting       int
	MaxBytesWaiting  int
	MaxLeasesWaiting int
	// LeaseBytes bounds the content of a lease's answer that does not say.
	LeaseBytes int
	// StoreTimeout bounds one call of the store. What it cuts off is
	// [ErrUnknownOutcome].
	StoreTimeout time.Duration
	// SettingsAge is how long a queue's settings are used before they are read again:
	// how late a change shows that another node made. Our own show at once.
	SettingsAge time.Duration
	// KeepRecords is how long journal records are kept.
	KeepRecords time.Duration

	// Change changes several documents at once, those that the collections above and
	// Subscribers make, as a store does; nil makes no topics of queues. Alone says that no
	// other process has the store, so that nobody knows of queues what is not true any more.
	Change func(ctx context.Context, changes []DocumentChange) (revisions []uint64, err error)
	Alone  bool
}

// Subscribers is what deleting a queue or a topic needs to know of subscriptions.
type Subscribers interface {
	// Subscribed says whether the items of a queue are pushed.
	Subscribed(ctx context.Context, ns Namespace, queue string) (bool, error)
	// Unsubscribe deletes the subscription of a queue, if it has one. One on a topic takes
	// its queue along, by [Broker.Unsubscribe].
	Unsubscribe(ctx context.Context, ns Namespace, queue string) error
	// Turn says how the subscription of a queue becomes one on a topic of the queue's name,
	// whose own queue has the number. It changes nothing. The zero value is that there is
	// no subscription, an [InvalidError] that it cannot be one on a topic.
	Turn(ctx context.Context, ns Namespace, queue string, number Number) (SubscriptionTurn, error)
}

// SubscriptionTurn is what [Broker.TurnIntoTopic] has to do with a subscription.
type SubscriptionTurn struct {
	Subscription string
	// Filter is what the topic keeps of it.
	Filter json.RawMessage
	// Changes are those of its documents.
	Changes []DocumentChange
	// Done is called when they are written, with their revisions; or with nil where that is
	// not known.
	Done func(revisions []uint64)
}

// DefaultMaxItems bounds one call of a verb, in items or receipts, and a page of a
// list. It is the same for everybody who calls the broker, lanes among them: who
// lets strangers call may bound those further.
const DefaultMaxItems = 1000

// Defaults of [Options].
const (
	DefaultMaxPayload       = 1_000_000
	DefaultMaxCallBytes     = 5_000_000
	DefaultMaxWaiting       = 10_000
	DefaultMaxBytesWaiting  = 64 << 20
	DefaultMaxLeasesWaiting = 1000
	DefaultLeaseBytes       = 4 << 20
	DefaultStoreTimeout     = 30 * time.Second
	DefaultSettingsAge      = 10 * time.Second
	DefaultKeepRecords      = 72 * time.Hour
)

func (o *Options) setDefaults() {
	orDefault(&o.MaxPayload, DefaultMaxPayload)
	orDefault(&o.MaxCallBytes, DefaultMaxCallBytes)
	orDefault(&o.MaxWaiting, DefaultMaxWaiting)
	orDefault(&o.MaxBytesWaiting, DefaultMaxBytesWaiting)
	orDefault(&o.MaxLeasesWaiting, DefaultMaxLeasesWaiting)
	orDefault(&o.LeaseBytes, DefaultLeaseBytes)
	orDefault(&o.StoreTimeout, DefaultStoreTimeout)
	orDefault(&o.SettingsAge, DefaultSettingsAge)
	orDefault(&o.KeepRecords, DefaultKeepRecords)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

func orDefault[T int | time.Duration](value *T, otherwise T) {
	if *value <= 0 {
		*value = otherwise
	}
}

// New returns a broker over a store.
func New(store Store, o Options) *Broker {
	o.setDefaults()
	b := &Broker{
		store: store, opts: o, log: o.Logger,
		known: newCatalog(o.Queues, o.Numbers, o.SettingsAge),
		onDue: func(Number, time.Time) {},
		admin: make(chan struct{}, 1),
	}
	b.leases = newLeaser(b, o.MaxLeasesWaiting)
	b.known.pauseChanged = b.leases.pauseChanged
	b.known.renewed = func(old *knownQueue) { b.leases.dismiss(old.number, errGone(old)) }
	b.known.moved = func(old *knownQueue) { b.leases.dismiss(old.number, errMoved) }
	b.endings = newEndings()
	b.produces = newBatcher("items to produce", o, b.storeProduce)
	b.produces.maxWait = longestWait
	b.produces.ended = func(r produceRequest) { r.queue.leaveOpen() }
	b.settles = newBatcher("receipts to settle", o, b.storeSettle)
	b.settles.ended = func(r settleRequest) { r.pinned.unpin() }
	b.extends = newBatcher("leases to extend", o, b.storeExtend)
	return b
}

// OnDue registers who is told that something will be due on a queue: what was
// produced, retried or released for later, and the deadlines of leases, by the
// store's clock. It is called often, from the loops, and must be quick. Call OnDue
// before any verb.
func (b *Broker) OnDue(f func(queue Number, at time.Time)) { b.onDue = f }

// Wake makes what waits on a queue look again. A wake too many costs a look-up,
// and only if somebody waits.
func (b *Broker) Wake(queues ...Number) {
	woken := make(wakes, 0, len(queues))
	for _, n := range queues {
		woken.add(n)
	}
	b.leases.wake(woken)
}

// Drain makes new leases, and those that wait, answer with [ErrShuttingDown], and
// [Broker.Await] too. What the store is giving out at this moment still arrives. All
// other verbs go on.
func (b *Broker) Drain() {
	b.leases.drain()
	b.endings.drain()
}

// Run works until ctx ends, then stops in this order: leases are drained, as by
// [Broker.Drain], and what nobody waits for any more is given back; batchers take no
// more calls, and run dry of those they have. It returns when all that has ended, and
// the store may be closed then. Whoever calls verbs should have stopped before.
func (b *Broker) Run(ctx context.Context) error {
	<-ctx.Done()
	b.Drain()
	b.leases.await()
	b.produces.close()
	b.settles.close()
	b.extends.close()
	return nil
}

// storeContext is the context of one call of the store, which serves many callers
// and ends with none of them.
func (b *Broker) storeContext() (context.Context, context.CancelFunc) {
	return storeContext(b.opts.StoreTimeout)
}

func storeContext(timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.Background(), timeout, errStoreSlow)
}

var errStoreSlow = errors.New("store did not answer in time")
