package subscriptions

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/seal"
	"github.com/posthaste-io/posthaste/storage"
)

// node is a broker and the subscriptions that it asks, over a store.
type node struct {
	*Service
	broker *queue.Broker
	// meanwhile runs once, before the broker is next told who is subscribed, or unsubscribes.
	meanwhile func()
}

func (n *node) Subscribed(ctx context.Context, ns queue.Namespace, name string) (bool, error) {
	n.doMeanwhile()
	return n.Service.Subscribed(ctx, ns, name)
}

func (n *node) Unsubscribe(ctx context.Context, ns queue.Namespace, name string) error {
	n.doMeanwhile()
	return n.Service.Unsubscribe(ctx, ns, name)
}

func (n *node) doMeanwhile() {
	if f := n.meanwhile; f != nil {
		n.meanwhile = nil
		f()
	}
}

func (n *node) options(s storage.Backend, sealer Sealer) {
	o := (&kit{}).options()
	o.Docs = storage.NewCollection[Document](s, "subscription")
	o.Claims = storage.NewCollection[Claim](s, "claim")
	o.Sealer, o.Announce = sealer, nil
	n.Service = New(o)
	n.broker = queue.New(s, queue.Options{
		Queues:      storage.NewCollection[queue.Settings](s, "queue"),
		Counters:    storage.NewCollection[queue.Counter](s, "counter"),
		Numbers:     storage.NewCollection[queue.NumberEntry](s, "number"),
		Subscribers: n, Limit: n.Limit, OnDone: n.OnDone,
		Change: s.Change, Alone: true,
	})
	n.queues = n.broker
}

func newNode(s storage.Backend, sealer Sealer) *node {
	n := new(node)
	n.options(s, sealer)
	return n
}

func (n *node) turn(t *testing.T, name string) error {
	t.Helper()
	_, err := n.broker.TurnIntoTopic(t.Context(), queue.DefaultNamespace, name, "")
	return err
}

func TestTurn_SubscriptionIsOnTheTopic(t *testing.T) {
	t.Parallel()
	store, sealer := newRawStore(t), seal.Random()
	n, ctx, ns := newNode(store, sealer), t.Context(), queue.DefaultNamespace
	p := params("billing", "orders")
	p.OnDone, p.Retry.MaxAttempts = new("told"), new(int32(7))
	if _, err := n.broker.CreateQueue(ctx, queue.Settings{Namespace: ns, Name: "told"}); err != nil {
		t.Fatal(err)
	}
	before, err := n.Create(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	if told, err := n.OnDone(ctx, ns, "orders"); err != nil || told != "told" {
		t.Fatalf("on_done: got %q, %v", told, err)
	}
	old, _, err := n.broker.Queue(ctx, ns, "orders")
	if err != nil {
		t.Fatal(err)
	}
	var updates []Subscription
	watcher := n.Watch(func(s *Subscription) { updates = append(updates, *s) })
	defer watcher.Stop()
	if err := n.turn(t, "orders"); err != nil {
		t.Fatal(err)
	}
	after, err := n.Get(ctx, ns, "billing")
	if err != nil {
		t.Fatal(err)
	}
	if after.Queue != "orders~billing" || after.Topic != "orders" || after.QueueNumber != old.Number ||
		after.URL != before.URL || !slices.Equal(after.Secrets, before.Secrets) || after.Retry.MaxAttempts != 7 || after.OnDone != "told" {
		t.Errorf("got %+v, want what it was, on the topic", after)
	}
	if len(updates) != 1 || updates[0].Queue != after.Queue || updates[0].Revision != after.Revision || len(updates[0].Secrets) != 1 {
		t.Errorf("told %+v, want what it is now", updates)
	}
	if keys := watcher.Take(); len(keys) != 1 || keys[0].Name != "billing" {
		t.Errorf("changed: %v, want billing", keys)
	}
	// Also by the old name, for nodes that do not know the new one yet.
	for _, name := range []string{"orders", "orders~billing"} {
		sub, err := n.ByQueue(ctx, ns, name)
		if err != nil || sub.Name != "billing" {
			t.Errorf("subscription of %s: got %s, %v", name, sub.Name, err)
		}
		limit, err := n.Limit(ctx, ns, name)
		told, toldErr := n.OnDone(ctx, ns, name)
		if limit != 7 || told != "told" || err != nil || toldErr != nil {
			t.Errorf("%s: got the limit %d and on_done %q, %v, %v", name, limit, told, err, toldErr)
		}
	}
	// Nobody gets the queue that was.
	if _, err := n.Create(ctx, params("other", "orders")); !errors.As(err, new(*queue.TopicError)) {
		t.Errorf("another one on the queue: got %v, want a TopicError", err)
	}
	if _, err := n.Create(ctx, params("other", "orders~billing")); !errors.Is(err, queue.ErrExists) {
		t.Errorf("another one on its queue: got %v, want ErrExists", err)
	}
	other := newNode(store, sealer)
	if _, err := other.Create(ctx, params("other", "orders")); !errors.As(err, new(*queue.TopicError)) {
		t.Errorf("on another node: got %v, want a TopicError", err)
	}
	// It changes, subscribes and goes as any on a topic.
	if _, err := n.Update(ctx, UpdateParams{Namespace: ns, Name: "billing", Change: Change{
		Filter: &Filter{Kinds: []string{"order.paid"}},
	}}); err != nil {
		t.Errorf("filter: %v", err)
	}
	topic, _, err := n.broker.Topic(ctx, ns, "orders")
	if err != nil || len(topic.Topic.Subscribers[0].Filter) == 0 {
		t.Errorf("topic: got %+v, %v, want the filter on it", topic.Topic, err)
	}
	if _, err := n.Create(ctx, onTopic("search", "orders")); err != nil {
		t.Errorf("another on the topic: %v", err)
	}
	if err := n.Delete(ctx, ns, "billing"); err != nil {
		t.Fatal(err)
	}
	claims, err := n.claims.List(ctx, ns, "", 10)
	if err != nil || len(claims) != 1 || claims[0].Name != "orders~search" {
		t.Errorf("claims that are left: %v, %v, want that of search", claims, err)
	}
}

func TestTurn_NeedsNoSecrets(t *testing.T) {
	t.Parallel()
	store, sealer := newRawStore(t), seal.Random()
	n := newNode(store, sealer)
	if _, err := n.Create(t.Context(), params("billing", "orders")); err != nil {
		t.Fatal(err)
	}
	if err := newNode(store, seal.Random()).turn(t, "orders"); err != nil {
		t.Fatalf("with another key: %v", err)
	}
	if sub, err := n.Get(t.Context(), queue.DefaultNamespace, "billing"); err != nil || len(sub.Secrets) != 1 || sub.Topic != "orders" {
		t.Errorf("with its key: got %+v, %v", sub, err)
	}
}

func TestTurn_Refuses(t *testing.T) {
	t.Parallel()
	n, ns := newNode(newRawStore(t), seal.Random()), queue.DefaultNamespace
	create := func(p CreateParams) {
		t.Helper()
		if _, err := n.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	targets := params("any", "targets")
	targets.AllowTarget = new(true)
	create(targets)
	create(params("dead", "clash"))
	if _, err := n.broker.CreateQueue(t.Context(), queue.Settings{Namespace: ns, Name: "lonely"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"targets": "allow_target", "clash": "another name", "lonely": "no subscription",
	} {
		err := n.turn(t, name)
		wantField(t, err, "from_queue")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q in it", name, err, want)
		}
	}
}

// A deletion of the queue that was read before the turn does not reach the subscription
// through the claim that is kept, and does not wait for itself.
func TestTurn_DeletionOfTheQueueOnAnotherNodeLosesToIt(t *testing.T) {
	t.Parallel()
	for _, force := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			store, sealer, ns := newRawStore(t), seal.Random(), queue.DefaultNamespace
			a, b := newNode(store, sealer), newNode(store, sealer)
			if _, err := a.Create(t.Context(), params("billing", "orders")); err != nil {
				t.Fatal(err)
			}
			b.meanwhile = func() {
				if err := a.turn(t, "orders"); err != nil {
					t.Error(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := b.broker.DeleteQueue(ctx, ns, "orders", force); !errors.Is(err, queue.ErrRevision) {
				t.Errorf("force %v: got %v, want ErrRevision", force, err)
			}
			sub, err := b.Get(t.Context(), ns, "billing")
			if err != nil || sub.Topic != "orders" {
				t.Errorf("force %v: subscription: got %+v, %v, want it on the topic", force, sub, err)
			}
			for name, want := range map[string]bool{"orders": false, "orders~billing": true} {
				if got, err := b.Subscribed(t.Context(), ns, name); got != want || err != nil {
					t.Errorf("force %v: %s is subscribed: got %v, %v, want %v", force, name, got, err, want)
				}
			}
			if err := b.broker.DeleteTopic(t.Context(), ns, "orders", true); err != nil {
				t.Errorf("force %v: delete the topic: %v", force, err)
			}
			if _, err := b.Get(t.Context(), ns, "billing"); !errors.Is(err, queue.ErrNotFound) {
				t.Errorf("force %v: subscription: got %v, want ErrNotFound", force, err)
			}
		})
	}
}

// Who is refused on the old name takes nothing from nodes that go by it still.
func TestTurn_CreationThatIsRefusedLeavesTheKeptClaim(t *testing.T) {
	t.Parallel()
	store, sealer, ctx, ns := newRawStore(t), seal.Random(), t.Context(), queue.DefaultNamespace
	n := newNode(store, sealer)
	p := params("billing", "orders")
	p.OnDone, p.Retry.MaxAttempts = new("told"), new(int32(7))
	if _, err := n.broker.CreateQueue(ctx, queue.Settings{Namespace: ns, Name: "told"}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Create(ctx, p); err != nil {
		t.Fatal(err)
	}
	if err := n.turn(t, "orders"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"other", "billing"} {
		_, err := newNode(store, sealer).Create(ctx, params(name, "orders"))
		topic, isTopic := errors.AsType[*queue.TopicError](err)
		if name == "other" && (!isTopic || topic.Topic != "orders") || name == "billing" && !errors.Is(err, queue.ErrExists) {
			t.Errorf("%s: got %v", name, err)
		}
		late := newNode(store, sealer)
		limit, err := late.Limit(ctx, ns, "orders")
		told, toldErr := late.OnDone(ctx, ns, "orders")
		if limit != 7 || told != "told" || err != nil || toldErr != nil {
			t.Errorf("after %s: got the limit %d and on_done %q, %v, %v", name, limit, told, err, toldErr)
		}
	}
	if subs, err := n.docs.List(ctx, ns, "", 10); err != nil || len(subs) != 1 {
		t.Errorf("got %v, %v, want billing alone", subs, err)
	}
}

// A subscription whose topic is gone, since its deletion was not carried through, is in
// nobody's way on a queue that has the name.
func TestTurn_ClaimOnATopicThatIsGoneIsFree(t *testing.T) {
	t.Parallel()
	n, ctx, ns := newNode(newRawStore(t), seal.Random()), t.Context(), queue.DefaultNamespace
	if _, err := n.Create(ctx, params("billing", "orders")); err != nil {
		t.Fatal(err)
	}
	if err := n.turn(t, "orders"); err != nil {
		t.Fatal(err)
	}
	sub, err := n.Get(ctx, ns, "billing")
	if err != nil {
		t.Fatal(err)
	}
	if err := n.broker.Unsubscribe(ctx, ns, "orders", "billing", sub.QueueNumber); err != nil {
		t.Fatal(err)
	}
	if err := n.broker.DeleteTopic(ctx, ns, "orders", false); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Create(ctx, params("other", "orders")); err != nil {
		t.Errorf("on a queue of that name: %v", err)
	}
	if err := n.Delete(ctx, ns, "billing"); err != nil {
		t.Errorf("repeat of the deletion: %v", err)
	}
	if by, err := n.ByQueue(ctx, ns, "orders"); err != nil || by.Name != "other" {
		t.Errorf("subscription of orders: got %s, %v, want other", by.Name, err)
	}
}
