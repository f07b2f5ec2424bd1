package subscriptions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// Options are what a service is made of. All but Logger, Namespaces and Now must be set.
type Options struct {
	// Docs and Claims are kept apart: one by the subscription's name, the other by
	// its queue's.
	Docs   Collection[Document]
	Claims Collection[Claim]
	Queues Queues
	// CheckURL, CheckHeaders and CheckSecret judge what only the sender can judge. What
	// they answer is told to the client, so it holds nothing of a secret.
	CheckURL     func(string) error
	CheckHeaders func(map[string]string) error
	CheckSecret  func(string) error
	// NewSecret makes the secret of a subscription that brings none.
	NewSecret func() string
	// Namespaces are those that [Service.All] reads; none means the default one.
	Namespaces []queue.Namespace
	Logger     *slog.Logger
	// Now stamps documents, for people to read: nothing is decided by it. Nil is time.Now.
	Now func() time.Time
}

// Queues makes the queue that a new subscription drains.
type Queues interface {
	EnsureQueue(ctx context.Context, ns queue.Namespace, name string) (queue.Settings, error)
}

// Service keeps the subscriptions. Safe for concurrent use.
type Service struct {
	docs       Collection[Document]
	claims     Collection[Claim]
	queues     Queues
	checks     checks
	newSecret  func() string
	namespaces []queue.Namespace
	log        *slog.Logger
	now        func() time.Time
	watchers   watchers
}

var _ queue.Subscribers = (*Service)(nil)

// New returns a service.
func New(o Options) *Service {
	s := &Service{
		docs: o.Docs, claims: o.Claims, queues: o.Queues,
		checks:     checks{url: o.CheckURL, headers: o.CheckHeaders, secret: o.CheckSecret},
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
	Queue     string
	// Secret, if empty, is made.
	Secret Secret
	Paused bool
	Change
}

// Create keeps a new subscription and returns it with its secret, which no later
// answer shows. It makes the queue if it is not there, and none if it is refused.
//
// Errors: [queue.InvalidError]; [queue.ErrExists], as [TakenError] where the queue
// is pushed to already; those of the store.
func (s *Service) Create(ctx context.Context, p CreateParams) (Subscription, error) {
	sub, err := s.draft(p)
	if err != nil {
		return Subscription{}, err
	}
	if sub.Revision, err = s.enter(ctx, sub); err != nil {
		return Subscription{}, err
	}
	s.log.Info("subscription created", "subscription", sub.Name, "queue", sub.Queue)
	s.watchers.changed(sub.Key())
	return sub, nil
}

func (s *Service) draft(p CreateParams) (Subscription, error) {
	if err := queue.CheckName("name", p.Name); err != nil {
		return Subscription{}, err
	}
	if err := queue.CheckReference("queue_name", p.Queue); err != nil {
		return Subscription{}, err
	}
	if p.Secret == "" {
		p.Secret = Secret(s.newSecret())
	} else if err := s.checks.secret(p.Secret.Reveal()); err != nil {
		return Subscription{}, asInvalid("secret", err)
	}
	now := s.stamp()
	sub := Subscription{
		Namespace: p.Namespace, Name: p.Name, Queue: p.Queue,
		Method: DefaultMethod, Timeout: DefaultTimeout, MaxInFlight: DefaultMaxInFlight,
		Retry:   DefaultPolicy(),
		Paused:  p.Paused,
		Secrets: []Secret{p.Secret}, CreatedAt: now, UpdatedAt: now,
	}
	return sub, p.apply(&sub, s.checks)
}

// Get returns a subscription, or [queue.ErrNotFound].
func (s *Service) Get(ctx context.Context, ns queue.Namespace, name string) (Subscription, error) {
	doc, revision, err := s.docs.Get(ctx, ns, name)
	if err != nil {
		return Subscription{}, err
	}
	if doc.Pending {
		return Subscription{}, fmt.Errorf("subscription %s: %w", name, queue.ErrNotFound)
	}
	return fromDocument(doc, revision), nil
}

// ByQueue returns the subscription that drains a queue, or [queue.ErrNotFound].
func (s *Service) ByQueue(ctx context.Context, ns queue.Namespace, name string) (Subscription, error) {
	claim, _, err := s.claims.Get(ctx, ns, name)
	if err != nil {
		return Subscription{}, err
	}
	sub, err := s.Get(ctx, ns, claim.Subscription)
	if err != nil {
		return Subscription{}, err
	}
	if sub.Queue != name {
		// The claim was left over by a deletion, and the name is used anew.
		return Subscription{}, fmt.Errorf("subscription of queue %s: %w", name, queue.ErrNotFound)
	}
	return sub, nil
}

// Subscribed says whether a queue is pushed.
func (s *Service) Subscribed(ctx context.Context, ns queue.Namespace, name string) (bool, error) {
	_, err := s.ByQueue(ctx, ns, name)
	if errors.Is(err, queue.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Unsubscribe deletes the subscription of a queue, if it has one.
func (s *Service) Unsubscribe(ctx context.Context, ns queue.Namespace, name string) error {
	sub, err := s.ByQueue(ctx, ns, name)
	if err == nil {
		err = s.Delete(ctx, ns, sub.Name)
	}
	if errors.Is(err, queue.ErrNotFound) {
		return nil
	}
	return err
}

// Limit returns the limit of attempts that the subscription of a queue sets (-1 is
// none), or 0 if the queue is not pushed.
func (s *Service) Limit(ctx context.Context, ns queue.Namespace, name string) (int32, error) {
	sub, err := s.ByQueue(ctx, ns, name)
	if errors.Is(err, queue.ErrNotFound) {
		return 0, nil
	}
	return sub.Retry.MaxAttempts, err
}

// List returns subscriptions in the order of their names, after the one named. A
// page that is shorter than limit is the last.
func (s *Service) List(ctx context.Context, ns queue.Namespace, after string, limit int) ([]Subscription, error) {
	var subs []Subscription
	for len(subs) < limit {
		want := limit - len(subs)
		page, err := s.docs.List(ctx, ns, after, want)
		if err != nil {
			return nil, err
		}
		for _, entry := range page {
			after = entry.Name
			if !entry.Value.Pending {
				subs = append(subs, fromDocument(entry.Value, entry.Revision))
			}
		}
		if len(page) < want {
			break
		}
	}
	return subs, nil
}

// All returns every subscription of every namespace that is served.
func (s *Service) All(ctx context.Context) ([]Subscription, error) {
	const page = 500
	var all []Subscription
	for _, ns := range s.namespaces {
		for after := ""; ; {
			subs, err := s.List(ctx, ns, after, page)
			if err != nil {
				return nil, err
			}
			all = append(all, subs...)
			if len(subs) < page {
				break
			}
			after = subs[len(subs)-1].Name
		}
	}
	return all, nil
}

// Delete removes a subscription. Its items stay on the queue; requests that run
// end and are settled.
func (s *Service) Delete(ctx context.Context, ns queue.Namespace, name string) error {
	sub, err := s.Get(ctx, ns, name)
	if err != nil {
		return err
	}
	// Read before the subscription is gone: whoever takes the queue afterwards
	// renews the claim, and this revision cannot remove it any more.
	claim, claimed, err := s.claims.Get(ctx, ns, sub.Queue)
	if err != nil && !errors.Is(err, queue.ErrNotFound) {
		return err
	}
	// A claim without its subscription counts for nothing, so this order may be
	// broken off at any place, and the other may not.
	if err := s.docs.Delete(ctx, ns, name, sub.Revision); err != nil {
		return err
	}
	s.log.Info("subscription deleted", "subscription", name, "queue", sub.Queue)
	s.watchers.changed(sub.Key())
	if claim.Subscription != name {
		return nil
	}
	if err := s.claims.Delete(ctx, ns, sub.Queue, claimed); err != nil && !overtaken(err) {
		s.log.Warn("claim on a queue was left over; the next subscription takes it", "queue", sub.Queue, "error", err)
	}
	return nil
}
