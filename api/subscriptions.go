package api

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
)

func (s *Server) subscriptionRoutes() {
	queues := func(q *v1.Subscription) names {
		return slices.Concat(ifNamed("queue_name", q.GetQueueName()), ifNamed("topic", q.GetTopic()), ifNamed("on_done", q.GetOnDone()))
	}
	whole := func(name string, do func(context.Context, *call, *v1.Subscription) (*v1.Subscription, error)) {
		register(s, method[*v1.Subscription, *v1.Subscription]{
			name: "subscriptions." + name, bytes: s.limits.Call,
			noun: "subscription", target: (*v1.Subscription).GetName, also: queues,
			do: do,
		})
	}
	whole("create", s.createSubscription)
	whole("update", s.updateSubscription)

	named := func(name string, do func(context.Context, queue.Namespace, string) (subscriptions.Subscription, error)) {
		register(s, method[*v1.SubscriptionRequest, *v1.Subscription]{
			name: "subscriptions." + name, bytes: s.limits.Call,
			noun: "subscription", target: (*v1.SubscriptionRequest).GetName,
			do: func(ctx context.Context, c *call, q *v1.SubscriptionRequest) (*v1.Subscription, error) {
				sub, err := do(ctx, c.namespace, q.GetName())
				if err != nil {
					return nil, err
				}
				return subscription(&sub), nil
			},
		})
	}
	named("pause", s.subs.Pause)
	named("resume", s.subs.Resume)
	named("enable", s.subs.Enable)

	register(s, method[*v1.SubscriptionRequest, *v1.Subscription]{
		name: "subscriptions.info", bytes: s.limits.Call,
		noun: "subscription", target: (*v1.SubscriptionRequest).GetName,
		do: s.subscriptionInfo,
	})
	register(s, method[*v1.SubscriptionRequest, *v1.Reply]{
		name: "subscriptions.delete", bytes: s.limits.Call,
		noun: "subscription", target: (*v1.SubscriptionRequest).GetName,
		do: func(ctx context.Context, c *call, q *v1.SubscriptionRequest) (*v1.Reply, error) {
			return done(s.subs.Delete(ctx, c.namespace, q.GetName()))
		},
	})
	register(s, method[*v1.SubscriptionsListRequest, *v1.SubscriptionsListReply]{
		name: "subscriptions.list", bytes: s.limits.Call,
		noun: "subscription", target: noTarget[*v1.SubscriptionsListRequest], optional: true,
		do: s.listSubscriptions,
	})
}

func (s *Server) createSubscription(ctx context.Context, c *call, q *v1.Subscription) (*v1.Subscription, error) {
	change, err := subscriptionChange(q)
	if err != nil {
		return nil, err
	}
	if q.GetRevision() != "" {
		return nil, queue.Invalid("revision", "is for updates; a new subscription has none")
	}
	if isMasked(&change) {
		if err := unmask(&change, new(subscriptions.Subscription)); err != nil {
			return nil, err
		}
	}
	sub, err := s.subs.Create(ctx, subscriptions.CreateParams{
		Namespace: c.namespace, Name: q.GetName(), Queue: q.GetQueueName(), Topic: q.GetTopic(),
		Secret: subscriptions.Secret(q.GetSecret()), Paused: q.GetPaused(), Change: change,
	})
	topic, isTopic := errors.AsType[*queue.TopicError](err)
	switch {
	case err == nil:
		return revealed(&sub), nil
	case isTopic && topic.Topic == q.GetQueueName():
		return nil, &advisedError{err, "queue_name", "queue_name: " + topic.Topic + " is a topic; give topic, not queue_name"}
	case q.GetTopic() != "":
		return nil, s.noTopic(ctx, c, q.GetTopic(), err, "give queue_name, not topic, or make a topic of it with topics.create and from_queue")
	}
	return nil, err
}

func (s *Server) updateSubscription(ctx context.Context, c *call, q *v1.Subscription) (*v1.Subscription, error) {
	change, err := subscriptionChange(q)
	if err != nil {
		return nil, err
	}
	params := subscriptions.UpdateParams{Namespace: c.namespace, Name: q.GetName(), Change: change}
	if params.Revision, err = revision(q.GetRevision()); err != nil {
		return nil, err
	}
	if q.GetSecret() != "" {
		return nil, queue.Invalid("secret", "is changed by subscriptions.rotate_secret")
	}
	if err := s.compare(ctx, c, q, &params); err != nil {
		return nil, err
	}
	sub, err := s.subs.Update(ctx, params)
	if err != nil {
		return nil, err
	}
	return subscription(&sub), nil
}

// compare refuses an update that names another queue or topic or, without saying so in its
// name, would end a pause or begin one, and gives it the values that its masks stand
// for. What info answered may be sent back.
func (s *Server) compare(ctx context.Context, c *call, q *v1.Subscription, params *subscriptions.UpdateParams) error {
	masked := isMasked(&params.Change)
	if q.GetQueueName() == "" && q.GetTopic() == "" && !q.GetPaused() && !masked {
		return nil
	}
	sub, err := s.subs.Get(ctx, c.namespace, q.GetName())
	switch {
	case err != nil:
		return err
	case q.GetQueueName() != "" && q.GetQueueName() != sub.Queue:
		return queue.Invalid("queue_name", "is %s and cannot be changed; delete the subscription and create it anew", sub.Queue)
	case q.GetTopic() != "" && q.GetTopic() != sub.Topic:
		return queue.Invalid("topic", "is %s and cannot be changed; delete the subscription and create it anew", cmp.Or(sub.Topic, "none"))
	case q.GetPaused() && !sub.Paused:
		return queue.Invalid("paused", "is changed by subscriptions.pause and subscriptions.resume")
	case !masked:
		return nil
	}
	if params.Revision == 0 {
		params.Revision = sub.Revision // what was read here must not undo a change in between
	}
	return unmask(&params.Change, &sub)
}

func (s *Server) subscriptionInfo(ctx context.Context, c *call, q *v1.SubscriptionRequest) (*v1.Subscription, error) {
	sub, err := s.subs.Get(ctx, c.namespace, q.GetName())
	if err != nil {
		return nil, err
	}
	answer := subscription(&sub)
	state, ok := s.lane(c.namespace, sub.Name)
	if !ok {
		return answer, nil
	}
	answer.Lane = shownLane(&state)
	lag, err := s.lag(ctx, c.namespace, sub.Queue)
	if err != nil {
		return nil, err
	}
	answer.Lane.Lag = formatDuration(lag)
	return answer, nil
}

// lag is how long the oldest item has waited that could be leased.
func (s *Server) lag(ctx context.Context, ns queue.Namespace, name string) (time.Duration, error) {
	stats, err := s.broker.Stats(ctx, ns, name)
	if err != nil {
		return 0, err
	}
	var lag time.Duration
	for _, part := range stats.Stats {
		// The store's clock may not be ours; near enough for people.
		if at := part.OldestReady; !at.IsZero() {
			lag = max(lag, time.Since(at).Round(time.Millisecond))
		}
	}
	return lag, nil
}

func (s *Server) listSubscriptions(ctx context.Context, c *call, q *v1.SubscriptionsListRequest) (*v1.SubscriptionsListReply, error) {
	limit, err := namePage(q.GetLimit(), "cursor", q.GetCursor())
	if err != nil {
		return nil, err
	}
	// One more than wanted: that it is there says that the list goes on.
	found, err := s.subs.List(ctx, c.namespace, q.GetCursor(), limit+1)
	if err != nil {
		return nil, err
	}
	p := new(v1.SubscriptionsListReply)
	if len(found) > limit {
		found = found[:limit]
		p.Cursor = found[limit-1].Name
	}
	c.items = len(found)
	for i := range found {
		p.Items = append(p.Items, subscription(&found[i]))
	}
	return p, nil
}
