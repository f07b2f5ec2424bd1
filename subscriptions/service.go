package subscriptions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// Options are what a service is made of. All but Announce, Logger, Namespaces and Now
// must be set.
type Options struct {
	// Docs and Claims are kept apart: one by the subscription's name, the other by
	// its queue's.
	Docs   Collection[Document]
	Claims Collection[Claim]
	Queues Queues
	// Sealer encrypts what is secret. All nodes have the same keys.
	Sealer Sealer
	// CheckURL, CheckHeaders, CheckSecret and CheckAuth judge what only the sender can
	// judge. What they answer is told to the client, so it holds nothing of a secret.
	CheckURL     func(string) error
	CheckHeaders func(map[string]string) error
	CheckSecret  func(string) error
	CheckAuth    func(Auth) error
	// Announce, if not nil, produces an item on the queue of events, if there is one.
	Announce func(ctx context.Context, ns queue.Namespace, kind string, payload []byte) error
	// NewSecret makes the secret of a subscription that brings none.
	NewSecret func() string
	// Namespaces are those that [Service.All] reads; none means the default one.
	Namespaces []queue.Namespace
	Logger     *slog.Logger
	// Now stamps documents, for people to read, and tells until when an old secret signs:
	// nothing else is decided by it. Nil is time.Now.
	Now func() time.Time
}

// Queues makes the queue that a new subscription drains, subscribes to topics, and knows
// the queue that is told outcomes.
type Queues interface {
	Queue(ctx context.Context, ns queue.Namespace, name string) (settings queue.Settings, revision uint64, err error)
	EnsureQueue(ctx context.Context, ns queue.Namespace, name string) (queue.Settings, error)
	// Subscribe makes a subscription's queue on a topic, into which the topic's items are
	// copied from then on; Unsubscribe deletes both that and the queue, if it still is the
	// one with the number. See [queue.Broker].
	Subscribe(ctx context.Context, ns queue.Namespace, topic, subscription string, filter json.RawMessage) (queue.Settings, error)
	Unsubscribe(ctx context.Context, ns queue.Namespace, topic, subscription string, number queue.Number) error
	// Refilter changes what is copied into that queue.
	Refilter(ctx context.Context, ns queue.Namespace, topic, subscription string, number queue.Number, filter json.RawMessage) error
}

// Service keeps the subscriptions. Safe for concurrent use.
type Service struct {
	docs       Collection[Document]
	claims     Collection[Claim]
	queues     Queues
	sealer     Sealer
	checks     checks
	announcing func(ctx context.Context, ns queue.Namespace, kind string, payload []byte) error
	newSecret  func() string
	namespaces []queue.Namespace
	log        *slog.Logger
	now        func() time.Time
	watchers   watchers
	answers    answers
}

var _ queue.Subscribers = (*Service)(nil)

// New returns a service.
func New(o Options) *Service {
	s := &Service{
		docs: o.Docs, claims: o.Claims, queues: o.Queues, sealer: o.Sealer, announcing: o.Announce,
		checks:     checks{url: o.CheckURL, headers: o.CheckHeaders, secret: o.CheckSecret, auth: o.CheckAuth},
		newSecret:  o.NewSecret,
		namespaces: o.Namespaces, log: o.Logger, now: o.Now,
	}
	if len(s.namespaces) == 0 {
		s.namespaces = []queue.Namespace{queue.DefaultNamespace}
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

// CreateParams is a new subscription.
type CreateParams struct {
	Namespace queue.Namespace
	Name      string
	// Queue or Topic, one of them.
	Queue string
	Topic string
	// Secret, if empty, is made.
	Secret Secret
	Paused bool
	Change
}

// Create keeps a new subscription and returns it with its secret, which no later
// answer shows. It makes the queue if it is not there, and none if it is refused. On a
// topic it makes a queue of its own, which gets all that is produced from the answer on.
//
// Errors: [queue.InvalidError]; [queue.ErrNotFound], for the topic; [queue.TopicError], for
// a topic that is given as a queue; [queue.ErrExists], as [TakenError] where the queue
// is pushed to already; [ErrNoKey]; those of the store.
func (s *Service) Create(ctx context.Context, p CreateParams) (Subscription, error) {
	sub, err := s.draft(p)
	if err != nil {
		return Subscription{}, err
	}
	if err := s.checkOnDone(ctx, &sub); err != nil {
		return Subscription{}, err
	}
	if sub.Revision, err = s.enter(ctx, sub); err != nil {
		return Subscription{}, err
	}
	s.log.Info("subscription created", "subscription", sub.Name, "queue", sub.Queue, "topic", sub.Topic)
	s.changed(&sub)
	return sub, nil
}

// checkOnDone refuses a queue or topic of outcomes that is not there.
func (s *Service) checkOnDone(ctx context.Context, sub *Subscription) error {
	if sub.OnDone == "" {
		return nil
	}
	_, _, err := s.queues.Queue(ctx, sub.Namespace, sub.OnDone)
	if errors.Is(err, queue.ErrNotFound) {
		return queue.Invalid("on_done", "names %s, which is not there; create that queue or topic first", sub.OnDone)
	}
	if errors.As(err, new(*queue.TopicError)) {
		return nil // all who subscribe to it are told
	}
	return err
}

// changed tells this process that a subscription is another one now, or gone.
func (s *Service) changed(sub *Subscription) {
	s.answers.forget(sub.Namespace, sub.Queue)
	s.watchers.changed(sub.Key())
}

// resolve judges what the subscription is on, and names the queue that one on a topic has.
func (p *CreateParams) resolve() error {
	if p.Topic == "" {
		if p.Queue == "" {
			return queue.Invalid("queue_name", "is missing; name a queue, or with topic a topic")
		}
		return queue.CheckReference("queue_name", p.Queue)
	}
	if err := queue.CheckName("topic", p.Topic); err != nil {
		return err
	}
	own := queue.CopyQueue(p.Topic, p.Name)
	if p.Queue != "" && p.Queue != own {
		return queue.Invalid("queue_name", "goes without topic: the subscription gets a queue of its own, %s; give one of them", own)
	}
	p.Queue = own
	return nil
}

func (s *Service) draft(p CreateParams) (Subscription, error) {
	if err := queue.CheckName("name", p.Name); err != nil {
		return Subscription{}, err
	}
	if err := p.resolve(); err != nil {
		return Subscription{}, err
	}
	if p.Secret == "" {
		p.Secret = Secret(s.newSecret())
	} else if err := s.checks.secret(p.Secret.Reveal()); err != nil {
		return Subscription{}, asInvalid("secret", err)
	}
	now := s.stamp()
	sub := Subscription{
		Namespace: p.Namespace, Name: p.Name, Queue: p.Queue, Topic: p.Topic,
		Method: DefaultMethod, Timeout: DefaultTimeout, MaxInFlight: DefaultMaxInFlight,
		Retry:   DefaultPolicy(),
		Defer:   Defer{Timeout: DefaultDeferTimeout, Max: DefaultMaxDeferred},
		Paused:  p.Paused,
		Secrets: []SigningSecret{{Secret: p.Secret}}, CreatedAt: now, UpdatedAt: now,
	}
	return sub, p.apply(&sub, s.checks)
}

// Get returns a subscription, or [queue.ErrNotFound].
func (s *Service) Get(ctx context.Context, ns queue.Namespace, name string) (Subscription, error) {
	doc, revision, err := s.document(ctx, ns, name)
	if err != nil {
		return Subscription{}, err
	}
	sub, err := s.opened(&doc, revision)
	if err != nil {
		return Subscription{}, err
	}
	return sub, nil
}

// document returns the document of a subscription, closed, with its revision.
func (s *Service) document(ctx context.Context, ns queue.Namespace, name string) (Document, uint64, error) {
	doc, revision, err := s.docs.Get(ctx, ns, name)
	if err != nil {
		return Document{}, 0, err
	}
	if doc.Pending {
		return Document{}, 0, fmt.Errorf("subscription %s: %w", name, queue.ErrNotFound)
	}
	return doc, revision, nil
}

// ByQueue returns the subscription that drains a queue, or [queue.ErrNotFound]; also by
// the name that the queue had before a topic was made of it.
func (s *Service) ByQueue(ctx context.Context, ns queue.Namespace, name string) (Subscription, error) {
	doc, revision, err := s.lateDocumentOf(ctx, ns, name)
	if err != nil {
		return Subscription{}, err
	}
	sub, err := s.opened(&doc, revision)
	if err != nil {
		return Subscription{}, err
	}
	return sub, nil
}

// documentOf returns the document of the subscription that drains a queue.
func (s *Service) documentOf(ctx context.Context, ns queue.Namespace, name string) (Document, uint64, error) {
	doc, revision, err := s.lateDocumentOf(ctx, ns, name)
	if err == nil && doc.Queue != name {
		return Document{}, 0, fmt.Errorf("subscription of queue %s: %w", name, queue.ErrNotFound)
	}
	return doc, revision, err
}

// lateDocumentOf is documentOf for who may not know yet that a topic was made of the queue,
// under its name: the subscription drains it still, under another one. It is for what is
// asked alone; what is changed is that of a queue as it is named now.
func (s *Service) lateDocumentOf(ctx context.Context, ns queue.Namespace, name string) (Document, uint64, error) {
	claim, _, err := s.claims.Get(ctx, ns, name)
	if err != nil {
		return Document{}, 0, err
	}
	doc, revision, err := s.document(ctx, ns, claim.Subscription)
	if err != nil {
		return Document{}, 0, err
	}
	if doc.Queue != name && doc.Topic != name {
		// The claim was left over by a deletion, and the name is used anew.
		return Document{}, 0, fmt.Errorf("subscription of queue %s: %w", name, queue.ErrNotFound)
	}
	return doc, revision, nil
}

// Subscribed says whether a queue is pushed. What was made a topic is no queue any more.
func (s *Service) Subscribed(ctx context.Context, ns queue.Namespace, name string) (bool, error) {
	_, _, err := s.documentOf(ctx, ns, name)
	if errors.Is(err, queue.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Unsubscribe deletes the subscription of a queue, if it has one; not that of a topic that
// was made of the queue.
func (s *Service) Unsubscribe(ctx context.Context, ns queue.Namespace, name string) error {
	doc, _, err := s.documentOf(ctx, ns, name)
	if err == nil {
		err = s.Delete(ctx, ns, doc.Name)
	}
	if errors.Is(err, queue.ErrNotFound) {
		return nil
	}
	return err
}

// Limit returns the limit of attempts that the subscription of a queue sets (-1 is
// none), or 0 if the queue is not pushed.
func (s *Service) Limit(ctx context.Context, ns queue.Namespace, name string) (int32, error) {
	doc, _, err := s.lateDocumentOf(ctx, ns, name)
	if errors.Is(err, queue.ErrNotFound) {
		return 0, nil
	}
	return doc.Retry.MaxAttempts, err
}

// List returns subscriptions in the order of their names, after the one named. A
// page that is shorter than limit is the last. One whose secrets do not open is listed
// without them.
func (s *Service) List(ctx context.Context, ns queue.Namespace, after string, limit int) ([]Subscription, error) {
	var subs []Subscription
	closed, why := 0, error(nil)
	for len(subs) < limit {
		want := limit - len(subs)
		page, err := s.docs.List(ctx, ns, after, want)
		if err != nil {
			return nil, err
		}
		for i := range page {
			after = page[i].Name
			if page[i].Value.Pending {
				continue
			}
			sub, err := s.opened(&page[i].Value, page[i].Revision)
			if err != nil {
				closed, why = closed+1, err
			}
			subs = append(subs, sub)
		}
		if len(page) < want {
			break
		}
	}
	if closed > 0 { // one line, for there may be thousands
		s.log.Error("subscriptions have secrets that do not open, and are not pushed from here", "count", closed, "error", why)
	}
	return subs, nil
}

// All returns every subscription of every namespace that is served, but for those
// whose secrets do not open: they cannot be pushed from here, and those of others can.
func (s *Service) All(ctx context.Context) ([]Subscription, error) {
	const page = 500
	var all []Subscription
	for _, ns := range s.namespaces {
		for after := ""; ; {
			subs, err := s.List(ctx, ns, after, page)
			if err != nil {
				return nil, err
			}
			for i := range subs {
				if len(subs[i].Secrets) > 0 {
					all = append(all, subs[i])
				}
			}
			if len(subs) < page {
				break
			}
			after = subs[len(subs)-1].Name
		}
	}
	return all, nil
}
