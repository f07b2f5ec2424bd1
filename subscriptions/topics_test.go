package subscriptions

import (
	"context"
	"errors"
	"testing"

	"github.com/posthaste-io/posthaste/queue"
)

func onTopic(name, topic string) CreateParams {
	p := params(name, "")
	p.Topic = topic
	return p
}

func TestTopic_SubscriptionHasAQueueOfItsOwn(t *testing.T) {
	t.Parallel()
	s, k := setup(t)
	ctx, ns := t.Context(), queue.DefaultNamespace
	made, err := s.Create(ctx, onTopic("billing", "events"))
	if err != nil {
		t.Fatal(err)
	}
	if made.Queue != "events~billing" || made.Topic != "events" {
		t.Errorf("got %s on %s, want events~billing on events", made.Queue, made.Topic)
	}
	if len(k.made) != 0 || k.subscribed["events~billing"] == 0 {
		t.Errorf("made queues %v, and on topics %v, want events~billing alone", k.made, k.subscribed)
	}
	// Another one on the same topic is not in its way.
	if _, err := s.Create(ctx, onTopic("search", "events")); err != nil {
		t.Fatal(err)
	}
	// It stays what it is through a change.
	if _, err := s.Pause(ctx, ns, "billing"); err != nil {
		t.Fatal(err)
	}
	got, err := s.ByQueue(ctx, ns, "events~billing")
	if err != nil || got.Topic != "events" || got.QueueNumber != k.subscribed["events~billing"] {
		t.Errorf("by its queue: got %+v, %v", got, err)
	}

	if err := s.Delete(ctx, ns, "billing"); err != nil {
		t.Fatal(err)
	}
	if _, there := k.subscribed["events~billing"]; there {
		t.Error("its queue is still there")
	}
	if _, err := s.Get(ctx, ns, "billing"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("after its deletion: got %v, want ErrNotFound", err)
	}
	if k.subscribed["events~search"] == 0 {
		t.Error("the other one's queue is gone")
	}
}

func TestTopic_SubscriptionNeedsNoURL(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	p := onTopic("pull", "events")
	p.URL = nil
	sub, err := s.Create(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if sub.Pushes() || sub.State() != Active {
		t.Errorf("got state %v, pushes %v, want one that is active and does not push", sub.State(), sub.Pushes())
	}
	p = params("plain", "orders")
	p.URL = nil
	_, err = s.Create(t.Context(), p)
	wantField(t, err, "url")
}

func TestTopic_CreateRefuses(t *testing.T) {
	t.Parallel()
	s, k := setup(t)
	both := onTopic("a", "events")
	both.Queue = "orders"
	_, err := s.Create(t.Context(), both)
	wantField(t, err, "queue_name")
	_, err = s.Create(t.Context(), params("a", ""))
	wantField(t, err, "queue_name")
	_, err = s.Create(t.Context(), onTopic("a", "events~b"))
	wantField(t, err, "topic")

	k.topicErr = queue.ErrNotFound
	if _, err := s.Create(t.Context(), onTopic("a", "nowhere")); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("no topic: got %v, want ErrNotFound", err)
	}
	if n := len(k.docs.all) + len(k.claims.all); n != 0 {
		t.Errorf("a creation that was refused left %d documents", n)
	}
	// Its own answer may be sent again.
	k.topicErr = nil
	same := onTopic("a", "events")
	same.Queue = "events~a"
	if _, err := s.Create(t.Context(), same); err != nil {
		t.Error(err)
	}
}

func TestTopic_DeletionCanBeRepeated(t *testing.T) {
	t.Parallel()
	s, k := setup(t)
	ctx, ns := t.Context(), queue.DefaultNamespace
	if _, err := s.Create(ctx, onTopic("a", "events")); err != nil {
		t.Fatal(err)
	}
	k.topicErr = queue.ErrUnavailable
	if err := s.Delete(ctx, ns, "a"); !errors.Is(err, queue.ErrUnavailable) {
		t.Fatalf("got %v, want ErrUnavailable", err)
	}
	if _, err := s.Get(ctx, ns, "a"); err != nil {
		t.Fatalf("it is gone, and its queue is not: %v", err)
	}
	k.topicErr = nil
	if err := s.Delete(ctx, ns, "a"); err != nil {
		t.Fatal(err)
	}
	if len(k.subscribed) != 0 || len(k.docs.all) != 0 || len(k.claims.all) != 0 {
		t.Errorf("left: queues %v, %d documents, %d claims", k.subscribed, len(k.docs.all), len(k.claims.all))
	}
}

// A change by the lane in the middle of a deletion does not leave half of it.
func TestTopic_DeletionGoesOnOverAChange(t *testing.T) {
	t.Parallel()
	s, k := setup(t)
	ctx, ns := t.Context(), queue.DefaultNamespace
	if _, err := s.Create(ctx, onTopic("a", "events")); err != nil {
		t.Fatal(err)
	}
	other := New(Options{
		Docs: k.docs, Claims: k.claims, Sealer: s.sealer, CheckURL: s.checks.url, CheckHeaders: s.checks.headers,
		CheckAuth: s.checks.auth, Queues: &changing{kit: k, change: func() {
			if _, err := s.Pause(ctx, ns, "a"); err != nil {
				t.Error(err)
			}
		}},
	})
	if err := other.Delete(ctx, ns, "a"); err != nil {
		t.Fatal(err)
	}
	if len(k.subscribed) != 0 || len(k.docs.all) != 0 {
		t.Errorf("left: queues %v, %d documents", k.subscribed, len(k.docs.all))
	}
}

// A deletion that is slow must not remove the claim of who came after it, on a queue that
// has the name of the topic by then.
func TestTopic_SlowDeletionKeepsTheNextClaimOnTheNameOfTheTopic(t *testing.T) {
	t.Parallel()
	s, k := setup(t)
	ctx, ns := t.Context(), queue.DefaultNamespace
	if _, err := s.Create(ctx, onTopic("billing", "orders")); err != nil {
		t.Fatal(err)
	}
	k.claims.put(t, "orders", Claim{Subscription: "billing"}) // as a turn leaves it
	once := true
	k.claims.before = func(op string) error {
		if op == "delete" && once {
			once = false
			if _, err := s.Create(ctx, params("billing", "orders")); err != nil {
				t.Errorf("create within delete: %v", err)
			}
		}
		return nil
	}
	if err := s.Delete(ctx, ns, "billing"); err != nil {
		t.Fatal(err)
	}
	if once {
		t.Error("no claim was deleted")
	}
	if sub, err := s.ByQueue(ctx, ns, "orders"); err != nil || sub.Name != "billing" {
		t.Errorf("the claim is gone: %v", err)
	}
	if _, err := s.Create(ctx, params("mail", "orders")); !errors.As(err, new(*TakenError)) {
		t.Errorf("a second one: got %v, want a TakenError", err)
	}
}

// changing changes something in between.
type changing struct {
	*kit
	change func()
}

func (c *changing) Unsubscribe(ctx context.Context, ns queue.Namespace, topic, name string, number queue.Number) error {
	if c.change != nil {
		c.change()
		c.change = nil
	}
	return c.kit.Unsubscribe(ctx, ns, topic, name, number)
}

func wantField(t *testing.T, err error, field string) {
	t.Helper()
	if invalid, ok := errors.AsType[*queue.InvalidError](err); !ok || invalid.Field != field {
		t.Errorf("got %v, want an InvalidError for %s", err, field)
	}
}
