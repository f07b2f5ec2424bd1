package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Topic is what makes a document of the kind of queues a topic. A topic holds nothing: what
// is produced to it is copied into the queues of its subscribers.
type Topic struct {
	// Subscribers are in the order of their names. Every change of them is a new revision
	// of the document, by which a produce knows whether it has read the newest.
	Subscribers []Subscriber `json:",omitempty"`
	// KeyScope is the number under which idempotency keys are known, if it is not the
	// topic's own: that of the queue that it was; see [Broker.TurnIntoTopic].
	KeyScope Number `json:",omitempty"`
	// Unsettled says that other nodes may still take the topic for that queue.
	Unsettled bool `json:",omitempty"`
}

// Subscriber is one subscription of a topic.
type Subscriber struct {
	Subscription string
	// Number is that of its queue, which is named [CopyQueue].
	Number Number
	// Filter says which items it gets, in the words of [Options.CompileFilter]; none is all.
	Filter json.RawMessage `json:",omitempty"`
}

// MaxSubscribers bounds the subscriptions of one topic.
const MaxSubscribers = 5000

// find returns where a subscription is, or would be.
func (t *Topic) find(subscription string) (int, bool) {
	return slices.BinarySearchFunc(t.Subscribers, subscription, func(s Subscriber, name string) int {
		return strings.Compare(s.Subscription, name)
	})
}

// clone is for a change: the other is what producers read.
func (t *Topic) clone() *Topic {
	c := *t
	c.Subscribers = slices.Clone(t.Subscribers)
	return &c
}

// topicError says that settings are those of a topic.
func topicError(s *Settings) *TopicError {
	e := &TopicError{Topic: s.Name}
	for i := range s.Topic.Subscribers {
		if sub := &s.Topic.Subscribers[i]; sub.Number == s.Topic.KeyScope {
			e.Was = CopyQueue(s.Name, sub.Subscription)
		}
	}
	return e
}

// asQueue refuses a topic.
func asQueue(q *knownQueue, err error) (*knownQueue, error) {
	if err == nil && q.settings().Topic != nil {
		return nil, topicError(q.settings())
	}
	return q, err
}

// CreateTopic makes a topic without subscriptions. It shares its names with queues.
//
// Errors: [InvalidError]; [ErrExists]; those of [Store].
func (b *Broker) CreateTopic(ctx context.Context, ns Namespace, name, reference string) (Settings, error) {
	if err := CheckName("topic", name); err != nil {
		return Settings{}, err
	}
	s := Settings{Namespace: ns, Name: name, Reference: reference, Topic: new(Topic)}
	if err := checkReference(reference); err != nil {
		return Settings{}, err
	}
	leave, err := b.enterAdmin(ctx)
	if err != nil {
		return Settings{}, err
	}
	defer leave()
	if err := b.insert(ctx, &s); err != nil {
		return Settings{}, err
	}
	b.log.Info("topic created", "topic", name, "number", s.Number.Own())
	return s, nil
}

// Topic returns a topic as the store has it, and its revision.
//
// Errors: [ErrNotFound], also for a queue; those of [Store].
func (b *Broker) Topic(ctx context.Context, ns Namespace, name string) (Settings, uint64, error) {
	s, revision, err := b.opts.Queues.Get(ctx, ns, name)
	switch {
	case errors.Is(err, ErrNotFound):
		return Settings{}, 0, fmt.Errorf("topic %s: %w", name, ErrNotFound)
	case err == nil && s.Topic == nil:
		return Settings{}, 0, fmt.Errorf("topic %s: %w: it is a queue", name, ErrNotFound)
	}
	return s, revision, err
}

// Topics lists topics as [Broker.Queues] does queues.
func (b *Broker) Topics(ctx context.Context, ns Namespace, pivot string, limit int) ([]Versioned[Settings], error) {
	return b.list(ctx, ns, pivot, limit, func(s *Settings) bool { return s.Topic != nil })
}

// TopicUpdate changes what is set.
type TopicUpdate struct {
	Namespace Namespace
	Name      string
	// Revision, if not 0, must be the stored one; it rises with every subscription, too.
	Revision  uint64
	Reference *string
}

// UpdateTopic changes a topic. Errors are those of [Broker.UpdateQueue].
func (b *Broker) UpdateTopic(ctx context.Context, u TopicUpdate) (Settings, error) {
	if u.Reference != nil {
		if err := checkReference(*u.Reference); err != nil {
			return Settings{}, err
		}
	}
	return b.changeTopic(ctx, u.Namespace, u.Name, u.Revision, func(s *Settings) (bool, error) {
		setTo(&s.Reference, u.Reference)
		return true, nil
	})
}

// changeTopic writes what change makes of a topic, again where somebody was quicker,
// unless the caller insists on a revision.
func (b *Broker) changeTopic(ctx context.Context, ns Namespace, name string, insist uint64, change func(*Settings) (bool, error)) (Settings, error) {
	for range topicRounds {
		s, revision, err := b.Topic(ctx, ns, name)
		if err != nil {
			return Settings{}, err
		}
		if insist != 0 && insist != revision {
			return Settings{}, fmt.Errorf("topic %s: %w", name, ErrRevision)
		}
		changed, err := change(&s)
		if err != nil || !changed {
			return s, err
		}
		s.UpdatedAt = stamp()
		err = b.replace(ctx, s, revision)
		if errors.As(err, new(*TooLargeError)) {
			return Settings{}, Invalid("topic", "%s has no room for more subscriptions: its document would be over 1 MB; make a second topic", name)
		}
		if !errors.Is(err, ErrRevision) {
			return s, err
		}
	}
	return Settings{}, overtakenTooOften("topic " + name)
}

// Subscribe makes the queue of a subscription on a topic, if it is not there, and has
// every item copied into it that is produced after the answer, on any node, and that the
// filter lets through; nil is all.
//
// Errors: [ErrNotFound], for the topic; [InvalidError], for too many; those of [Store].
func (b *Broker) Subscribe(ctx context.Context, ns Namespace, topic, subscription string, filter json.RawMessage) (q Settings, err error) {
	err = b.whenSettled(ctx, ns, topic, func() (err error) {
		q, err = b.subscribe(ctx, ns, topic, subscription, filter)
		return err
	})
	return q, err
}

// subscribe is Subscribe on a topic that all nodes know.
func (b *Broker) subscribe(ctx context.Context, ns Namespace, topic, subscription string, filter json.RawMessage) (Settings, error) {
	leave, err := b.enterAdmin(ctx)
	if err != nil {
		return Settings{}, err
	}
	defer leave()
	switch s, _, err := b.Topic(ctx, ns, topic); {
	case err != nil:
		return Settings{}, err
	case s.Topic.Unsettled:
		return Settings{}, errUnsettled // before a queue is made, too
	}
	q, err := b.copyQueue(ctx, ns, topic, subscription)
	if err != nil {
		return Settings{}, err
	}
	entry := Subscriber{Subscription: subscription, Number: q.Number, Filter: filter}
	_, err = b.changeTopic(ctx, ns, topic, 0, func(s *Settings) (bool, error) {
		i, found := s.Topic.find(subscription)
		switch {
		case s.Topic.Unsettled:
			return false, errUnsettled
		case !found && len(s.Topic.Subscribers) >= MaxSubscribers:
			return false, Invalid("topic", "%s has %d subscriptions already, the most that one topic has; make a second topic", topic, MaxSubscribers)
		case !found:
			s.Topic = s.Topic.clone()
			s.Topic.Subscribers = slices.Insert(s.Topic.Subscribers, i, entry)
		default:
			s.Topic = s.Topic.clone()
			s.Topic.Subscribers[i] = entry
		}
		return true, nil
	})
	if err != nil {
		return Settings{}, err
	}
	b.log.Info("subscription gets the items of a topic", "topic", topic, "subscription", subscription, "queue", q.Name)
	return q, nil
}

// Refilter gives a subscription on a topic another filter, by which everything is judged
// that is produced after the answer, on any node. The number is that of its queue. Where it
// subscribes no more, nothing is changed.
func (b *Broker) Refilter(ctx context.Context, ns Namespace, topic, subscription string, number Number, filter json.RawMessage) error {
	return b.whenSettled(ctx, ns, topic, func() error {
		_, err := b.changeTopic(ctx, ns, topic, 0, func(s *Settings) (bool, error) {
			i, found := s.Topic.find(subscription)
			if !found || s.Topic.Subscribers[i].Number != number || bytes.Equal(s.Topic.Subscribers[i].Filter, filter) {
				return false, nil
			}
			if s.Topic.Unsettled {
				return false, errUnsettled
			}
			s.Topic = s.Topic.clone()
			s.Topic.Subscribers[i].Filter = filter
			return true, nil
		})
		return err
	})
}

// copyQueue returns the queue of a subscription on a topic, which it makes.
func (b *Broker) copyQueue(ctx context.Context, ns Namespace, topic, subscription string) (Settings, error) {
	s := Settings{Namespace: ns, Name: CopyQueue(topic, subscription), SubscribesTo: topic}
	s.setDefaults()
	err := b.insert(ctx, &s)
	if !errors.Is(err, ErrExists) {
		return s, err
	}
	there, _, err := b.Queue(ctx, ns, s.Name)
	if err == nil && there.SubscribesTo != topic {
		err = fmt.Errorf("queue %s: %w", s.Name, ErrExists) // a dead-letter queue: the name is dead
	}
	return there, err
}

// Unsubscribe ends what Subscribe began, and deletes the queue with the copies in it: the
// one with the number, so that a subscription which came later under the same name keeps
// its own. What is gone already is no error.
func (b *Broker) Unsubscribe(ctx context.Context, ns Namespace, topic, subscription string, number Number) error {
	// What other nodes take for a queue still must not go: they put items on it.
	if t, _, err := b.Topic(ctx, ns, topic); err == nil && t.Topic.Unsettled && t.Topic.KeyScope == number {
		if err := b.awaitSettled(ctx, ns, topic); err != nil {
			return err
		}
	}
	leave, err := b.enterAdmin(ctx)
	if err != nil {
		return err
	}
	defer leave()
	// First, so that nothing is copied into a queue that is gone.
	_, err = b.changeTopic(ctx, ns, topic, 0, func(s *Settings) (bool, error) {
		i, found := s.Topic.find(subscription)
		if !found || s.Topic.Subscribers[i].Number != number {
			return false, nil
		}
		s.Topic = s.Topic.clone()
		s.Topic.Subscribers = slices.Delete(s.Topic.Subscribers, i, i+1)
		return true, nil
	})
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	name := CopyQueue(topic, subscription)
	s, _, err := b.Queue(ctx, ns, name)
	if errors.Is(err, ErrNotFound) || err == nil && s.Number != number {
		return nil
	}
	if err != nil {
		return err
	}
	return b.deleteQueue(ctx, ns, name, deletion{force: true, unsubscribed: true})
}

// DeleteTopic removes a topic. It answers [ErrNotEmpty] while it has subscriptions. With
// force they are deleted first, with their queues and what is in these. Dead-letter queues
// stay.
//
// Other errors: [ErrNotFound]; those of [Store]. After an error the call may be repeated.
func (b *Broker) DeleteTopic(ctx context.Context, ns Namespace, name string, force bool) error {
	for range topicRounds {
		s, revision, err := b.Topic(ctx, ns, name)
		if err != nil {
			return err
		}
		if n := len(s.Topic.Subscribers); n > 0 && !force {
			return fmt.Errorf("delete topic %s: %w: it has %d subscriptions, such as %s", name, ErrNotEmpty, n, s.Topic.Subscribers[0].Subscription)
		}
		if len(s.Topic.Subscribers) == 0 {
			err := b.dropTopic(ctx, &s, revision)
			if errors.Is(err, ErrRevision) {
				continue // somebody subscribed just now
			}
			return err
		}
		for _, sub := range s.Topic.Subscribers {
			if err := b.endSubscriber(ctx, &s, sub); err != nil {
				return fmt.Errorf("delete topic %s: subscription %s: %w", name, sub.Subscription, err)
			}
		}
	}
	return overtakenTooOften("topic " + name)
}

// endSubscriber deletes a topic's subscription, also one of which only the entry is left.
func (b *Broker) endSubscriber(ctx context.Context, topic *Settings, sub Subscriber) error {
	if b.opts.Subscribers != nil {
		if err := b.opts.Subscribers.Unsubscribe(ctx, topic.Namespace, CopyQueue(topic.Name, sub.Subscription)); err != nil {
			return err
		}
	}
	return b.Unsubscribe(ctx, topic.Namespace, topic.Name, sub.Subscription, sub.Number)
}

func (b *Broker) dropTopic(ctx context.Context, s *Settings, revision uint64) error {
	leave, err := b.enterAdmin(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if err := b.linger(ctx, s, true); err != nil { // its number is forgotten later
		return err
	}
	if err := b.opts.Queues.Delete(ctx, s.Namespace, s.Name, revision); err != nil {
		return err
	}
	if topic, err := b.known.numberedEither(ctx, s.Number); err == nil {
		b.known.removed(topic)
	}
	b.log.Info("topic deleted", "topic", s.Name, "number", s.Number.Own())
	return nil
}
