package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// settleMargin is added to the age of settings where all nodes must have read them anew:
// for clocks that run at different speeds.
const settleMargin = time.Second

// errUnsettled says that other nodes may not know yet that a topic is one.
var errUnsettled = errors.New("topic is not known to all nodes")

// keyScope is the number under which idempotency keys of a queue or topic are known.
func (q *knownQueue) keyScope() Number {
	if t := q.settings().Topic; t != nil && t.KeyScope != 0 {
		return t.KeyScope
	}
	return q.number
}

// TurnIntoTopic makes a topic of a queue, under its name: the queue, with its items, its
// settings and its number, becomes that of its subscription, which is one on the topic from
// then on. All of it is one transaction, and nothing is moved: items lie under the number of
// their queue, which has another name. Producers go on; idempotency keys that the queue has
// known are known to the topic. Receipts stay good, and what was buried goes back to where
// it came from. An empty reference keeps the queue's.
//
// It answers when no node takes the topic for a queue any more: at once where there is one
// node, and otherwise a little after [Options.SettingsAge]. If ctx ends before, the topic is
// there all the same, and the next call that needs this waits for it.
//
// Errors: [InvalidError]; [ErrExists], where that was done already; [ErrNotFound];
// [ErrNotSupported]; [OverloadedError]; those of [Store].
func (b *Broker) TurnIntoTopic(ctx context.Context, ns Namespace, name, reference string) (Settings, error) {
	if err := checkTurn(name, reference); err != nil {
		return Settings{}, err
	}
	if b.opts.Change == nil || b.opts.Subscribers == nil {
		return Settings{}, &UnsupportedError{What: "from_queue", Field: fromQueue}
	}
	if err := b.turn(ctx, ns, name, reference); err != nil {
		return Settings{}, err
	}
	if err := b.awaitSettled(ctx, ns, name); err != nil {
		return Settings{}, err
	}
	s, _, err := b.Topic(ctx, ns, name)
	return s, err
}

// fromQueue is the field that names the queue.
const fromQueue = "from_queue"

func checkTurn(name, reference string) error {
	if err := CheckReference(fromQueue, name); err != nil {
		return err
	}
	if base, _, made := strings.Cut(name, "~"); made {
		return Invalid(fromQueue, "is %s, which the system made for %s; name a queue that you created", name, base)
	}
	return checkReference(reference)
}

// turn writes what makes a topic of a queue, again where somebody was quicker.
func (b *Broker) turn(ctx context.Context, ns Namespace, name, reference string) error {
	leave, err := b.enterAdmin(ctx)
	if err != nil {
		return err
	}
	defer leave()
	var number Number // the topic's
	for range topicRounds {
		t, err := b.prepareTurn(ctx, ns, name)
		if errors.Is(err, ErrRevision) {
			continue
		}
		if err != nil {
			return err
		}
		if number == 0 {
			own, err := b.nextNumber(ctx, ns)
			if err != nil {
				return err
			}
			number = NewNumber(ns, own)
		}
		err = b.carryOut(ctx, t, number, reference)
		if err == nil {
			b.log.Info("topic made of a queue", "topic", name, "number", number.Own(), "queue", t.moved.Name, "subscription", t.sub.Subscription)
			return nil
		}
		if !errors.Is(err, ErrRevision) && !errors.Is(err, ErrExists) && !errors.Is(err, ErrNotFound) {
			return fmt.Errorf("make a topic of %s: %w", name, err)
		}
	}
	return &OverloadedError{What: "changes of queue " + name, Reason: "topic_changes", RetryAfter: time.Second}
}

// queueTurn is a turn as far as it could be read.
type queueTurn struct {
	queue *knownQueue
	// moved is the queue as it will be, revision that of its document now.
	moved    Settings
	revision uint64
	// number changes the entry of its number.
	number DocumentChange
	sub    SubscriptionTurn
}

// prepareTurn judges a queue, and makes what must be there before.
func (b *Broker) prepareTurn(ctx context.Context, ns Namespace, name string) (*queueTurn, error) {
	s, revision, err := b.Queue(ctx, ns, name)
	if err := checkTurned(&s, name, err); err != nil {
		return nil, err
	}
	t := &queueTurn{moved: s, revision: revision}
	if t.sub, err = b.opts.Subscribers.Turn(ctx, ns, name, s.Number); err != nil {
		return nil, err
	}
	// Read once more, so that a queue that has gone since is told as gone, and not as one that
	// has no subscription. Its settings are held to their revision.
	if t.queue, err = b.known.reread(ctx, ns, name); err != nil {
		return nil, checkTurned(&s, name, err)
	}
	if t.sub.Subscription == "" {
		return nil, Invalid(fromQueue, "is %s, which has no subscription that could have its items; create one first, "+
			"with the url that they are to be pushed to; or, for consumers that lease, one that is paused and stays so: "+
			"they lease from %s then", name, CopyQueue(name, "<subscription>"))
	}
	t.moved.Name, t.moved.SubscribesTo = CopyQueue(name, t.sub.Subscription), name
	t.moved.UpdatedAt = stamp()
	switch there, _, err := b.opts.Queues.Get(ctx, ns, t.moved.Name); {
	case err == nil && there.Number == s.Number:
		return nil, ErrRevision // somebody was quicker
	case err == nil:
		return nil, Invalid(fromQueue, "is %s, whose items would be in %s, and there is a queue of that name; delete it, or the subscription %s",
			name, t.moved.Name, t.sub.Subscription)
	case !errors.Is(err, ErrNotFound):
		return nil, err
	}
	if s.DeadQueue == "" {
		// It keeps the one that it has, or would have had on any node.
		dead, err := b.ownDead(ctx, t.queue)
		if err != nil {
			return nil, fmt.Errorf("dead-letter queue of %s: %w", name, err)
		}
		t.moved.DeadQueue = dead.name
	}
	entry, entered, err := b.opts.Numbers.Get(ctx, ns, numberName(s.Number))
	if err != nil {
		return nil, err
	}
	entry.Queue, entry.Deleted = t.moved.Name, nil
	// Looked at once more, since it may have been about to be: for what is left in
	// partitions that go, or a deletion that was given up.
	t.number, err = b.opts.Numbers.PutChange(ns, numberName(s.Number), entry, entered, stamp().Add(lingerAfterDelete))
	return t, err
}

// checkTurned says why a queue cannot become a topic, by its settings.
func checkTurned(s *Settings, name string, err error) error {
	topic, isTopic := errors.AsType[*TopicError](err)
	switch {
	case isTopic && topic.Was != "":
		return fmt.Errorf("topic %s: %w", name, ErrExists) // perhaps by a call that had no answer
	case errors.Is(err, ErrNotFound):
		return Invalid(fromQueue, "is %s, which does not exist; without from_queue the topic is created anew", name)
	case isTopic:
		return Invalid(fromQueue, "is %s, which is a topic already", name)
	case err != nil:
		return err
	case s.DeadLetter:
		return Invalid(fromQueue, "is %s, which is a dead-letter queue; redrive what is in it to another, or have no queue name it", name)
	case s.Paused.Has(PausedProduce):
		return Invalid(fromQueue, "is %s, which is paused for producers, and a topic cannot be; resume it first", name)
	default:
		return nil
	}
}

// carryOut writes a turn, while nobody on this node adds to the queue.
func (b *Broker) carryOut(ctx context.Context, t *queueTurn, number Number, reference string) error {
	topic := Settings{
		Number: number, Namespace: t.moved.Namespace, Name: t.moved.SubscribesTo, Reference: reference,
		CreatedAt: t.moved.UpdatedAt, UpdatedAt: t.moved.UpdatedAt,
		Topic: &Topic{
			Subscribers: []Subscriber{{Subscription: t.sub.Subscription, Number: t.moved.Number, Filter: t.sub.Filter}},
			KeyScope:    t.moved.Number, Unsettled: !b.opts.Alone,
		},
	}
	if reference == "" {
		topic.Reference = t.moved.Reference
	}
	changes, err := b.turnChanges(t, &topic)
	if err != nil {
		return err
	}
	// Those who wait meanwhile find the topic, and go on there.
	if err := t.queue.close(ctx); err != nil {
		return err
	}
	revisions, err := b.opts.Change(ctx, changes)
	// Where it is not known, whoever comes reads what there is.
	turned := err == nil || errors.Is(err, ErrUnknownOutcome)
	if turned {
		t.queue.moved.Store(true)
	}
	t.queue.reopen(turned)
	if !turned {
		return err
	}
	b.known.left(t.queue)
	if t.sub.Done != nil {
		n := len(t.sub.Changes)
		if err != nil {
			revisions, n = nil, 0
		}
		t.sub.Done(revisions[:n])
	}
	return err
}

// turnChanges are all changes of a turn, those of the subscription first.
func (b *Broker) turnChanges(t *queueTurn, topic *Settings) ([]DocumentChange, error) {
	ns := topic.Namespace
	was, err := b.opts.Queues.PutChange(ns, topic.Name, *topic, t.revision, time.Time{})
	if err != nil {
		return nil, err
	}
	is, err := b.opts.Queues.PutChange(ns, t.moved.Name, t.moved, 0, time.Time{})
	if err != nil {
		return nil, err
	}
	entry := NumberEntry{Queue: topic.Name, Number: topic.Number}
	numbered, err := b.opts.Numbers.PutChange(ns, numberName(topic.Number), entry, 0, time.Time{})
	if err != nil {
		return nil, err
	}
	return append(t.sub.Changes[:len(t.sub.Changes):len(t.sub.Changes)], was, is, t.number, numbered), nil
}

// left forgets a queue that this node has given another name, also as it was read anew
// meanwhile.
func (c *catalog) left(q *knownQueue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	c.move(q)
	if other := c.byNumber[q.number]; other != nil {
		c.move(other)
	}
	if other := c.byName[queueName{q.ns, q.name}]; other != nil {
		c.drop(other)
	}
}

// awaitSettled returns when every node knows that a topic is one.
//
// A node goes by what it has read of a name for [Options.SettingsAge], and by nothing older,
// so that a call of a producer that begins after that finds the topic. Nobody's clock is
// compared: the wait begins when the mark is seen, and whoever has waited takes it away.
func (b *Broker) awaitSettled(ctx context.Context, ns Namespace, topic string) error {
	s, _, err := b.Topic(ctx, ns, topic)
	if err != nil || !s.Topic.Unsettled {
		return err
	}
	timer := time.NewTimer(b.opts.SettingsAge + settleMargin)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	_, err = b.changeTopic(ctx, ns, topic, 0, func(now *Settings) (bool, error) {
		if now.Number != s.Number || !now.Topic.Unsettled {
			return false, nil
		}
		now.Topic = now.Topic.clone()
		now.Topic.Unsettled = false
		return true, nil
	})
	return err
}

// whenSettled does what must count for every item that is produced after its answer, on any
// node: change refuses with errUnsettled what is not settled.
func (b *Broker) whenSettled(ctx context.Context, ns Namespace, topic string, change func() error) error {
	for {
		err := change()
		if !errors.Is(err, errUnsettled) {
			return err
		}
		if err := b.awaitSettled(ctx, ns, topic); err != nil {
			return err
		}
	}
}
