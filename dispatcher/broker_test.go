package dispatcher_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/dispatcher"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/storagetest"
	"github.com/posthaste-io/posthaste/subscriptions"
)

// broker is the real one, with faults that are scripted.
type broker struct {
	*queue.Broker
	store *storagetest.Model
	subs  *subscriptions.Service

	mu     sync.Mutex
	leases int
	// delay is how long each lease takes.
	delay time.Duration
	// Asked before each call; an error is answered, and nothing done.
	refuseLease  func() error
	refuseSettle func() error
	refuseExtend func() error
	extends      []int
	// late is called when items were leased, before they are answered.
	late func()
}

var _ dispatcher.Broker = (*broker)(nil)

func newBroker(store *storagetest.Model) *broker {
	b := &broker{store: store}
	b.Broker = b.node(store)
	b.OnDue(func(q queue.Number, at time.Time) {
		time.AfterFunc(time.Until(at), func() { b.Wake(q) })
	})
	return b
}

// node returns a broker over the store, which knows the subscriptions of b.
func (b *broker) node(store *storagetest.Model) *queue.Broker {
	return queue.New(store, queue.Options{
		Queues:   storage.NewCollection[queue.Settings](store, "queue"),
		Counters: storage.NewCollection[queue.Counter](store, "counter"),
		Numbers:  storage.NewCollection[queue.NumberEntry](store, "queue-number"),

		Subscribers: subscribersOf{b},
		Change:      store.Change,
		Limit: func(ctx context.Context, ns queue.Namespace, name string) (int32, error) {
			if b.subs == nil {
				return 0, nil
			}
			return b.subs.Limit(ctx, ns, name)
		},
		PushedBy: func(ctx context.Context, ns queue.Namespace, name string) (string, bool, error) {
			if b.subs == nil {
				return "", false, nil
			}
			return b.subs.PushedBy(ctx, ns, name)
		},
		AllowsTarget: func(context.Context, queue.Namespace, string) (bool, error) { return true, nil },
		CheckTarget:  func(*queue.Target) error { return nil },
	})
}

// subscribersOf asks the subscriptions that there are by then.
type subscribersOf struct{ b *broker }

func (s subscribersOf) Subscribed(ctx context.Context, ns queue.Namespace, name string) (bool, error) {
	return s.b.subs.Subscribed(ctx, ns, name)
}

func (s subscribersOf) Unsubscribe(ctx context.Context, ns queue.Namespace, name string) error {
	return s.b.subs.Unsubscribe(ctx, ns, name)
}

func (s subscribersOf) Turn(ctx context.Context, ns queue.Namespace, name string, number queue.Number) (queue.SubscriptionTurn, error) {
	return s.b.subs.Turn(ctx, ns, name, number)
}

func (b *broker) produce(t *testing.T, name string, items []queue.ProduceItem) []queue.ID {
	t.Helper()
	if _, err := b.EnsureQueue(t.Context(), ns, name); err != nil {
		t.Fatal(err)
	}
	produced, err := b.Produce(t.Context(), queue.ProduceCall{Namespace: ns, Queue: name, Items: items})
	if err != nil {
		t.Fatal(err)
	}
	var ids []queue.ID
	for _, p := range produced {
		ids = append(ids, p.ID)
	}
	return ids
}

// refuse scripts a fault, or ends it with nil.
func (b *broker) refuse(f *func() error, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*f = func() error { return err }
}

func (b *broker) ask(f *func() error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if *f == nil {
		return nil
	}
	return (*f)()
}

func (b *broker) Lease(ctx context.Context, p queue.LeaseParams) (queue.LeaseReply, error) {
	if err := b.ask(&b.refuseLease); err != nil {
		return queue.LeaseReply{}, err
	}
	b.mu.Lock()
	b.leases++
	delay := b.delay
	b.mu.Unlock()
	<-time.After(delay)
	reply, err := b.Broker.Lease(ctx, p)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.late != nil && len(reply.Items) > 0 {
		b.late()
	}
	return reply, err
}

func (b *broker) Settle(ctx context.Context, call queue.SettleCall) ([]queue.Settled, error) {
	if err := b.ask(&b.refuseSettle); err != nil {
		return nil, err
	}
	return b.Broker.Settle(ctx, call)
}

func (b *broker) Extend(ctx context.Context, ns queue.Namespace, name string, entries []queue.ExtendEntry) ([]queue.Extended, error) {
	b.mu.Lock()
	b.extends = append(b.extends, len(entries))
	b.mu.Unlock()
	if err := b.ask(&b.refuseExtend); err != nil {
		return nil, err
	}
	return b.Broker.Extend(ctx, ns, name, entries)
}

// lateLease has f called between the store's lease and its answer.
func (b *broker) lateLease(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.late = f
}

// slow makes each lease take so long.
func (b *broker) slow(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.delay = d
}

func (b *broker) leaseCalls() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leases
}

func (b *broker) extendCalls() []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.extends
}
