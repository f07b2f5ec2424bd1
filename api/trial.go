package api

import (
	"context"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/queue"
)

// TestFunc sends one item to the endpoint of a subscription, whatever state that is in,
// or a sample if item is nil, and tells what came of it. Nothing is queued, counted or
// kept. A request that ran is no error, however it ended.
type TestFunc func(ctx context.Context, ns queue.Namespace, name string, item *queue.Content) (queue.Record, error)

func (s *Server) trialRoutes() {
	register(s, method[*v1.SubscriptionTestRequest, *v1.SubscriptionTestReply]{
		name: "subscriptions.test", bytes: s.limits.ItemCall, slack: waitSlack,
		noun: "subscription", target: (*v1.SubscriptionTestRequest).GetName,
		do: s.testSubscription,
	})
}

func (s *Server) testSubscription(ctx context.Context, c *call, q *v1.SubscriptionTestRequest) (*v1.SubscriptionTestReply, error) {
	if s.test == nil {
		return nil, &queue.UnsupportedError{What: "subscriptions.test on a server that does not push"}
	}
	sub, err := s.subs.Get(ctx, c.namespace, q.GetName())
	if err != nil {
		return nil, err
	}
	item, err := s.trialItem(q.GetItem())
	if err != nil {
		return nil, err
	}
	if item != nil {
		item.Trace, item.Hop = c.trace, c.hop
	}
	// The slack is for the answer: what the endpoint did within the time is told.
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := s.test(ctx, c.namespace, sub.Name, item)
	if err != nil {
		return nil, err
	}
	c.items = 1
	return &v1.SubscriptionTestReply{Attempt: attempt(&r, sub.Queue)}, nil
}

// trialItem is the item that was given, or nil.
func (s *Server) trialItem(q *v1.Produce) (*queue.Content, error) {
	if q == nil {
		return nil, nil
	}
	c, err := readContent(q)
	if err != nil {
		return nil, within("item", err)
	}
	if int64(len(c.Payload)) > s.limits.Payload {
		return nil, &queue.TooLargeError{Field: "item", Limit: int(s.limits.Payload), Unit: "bytes"}
	}
	for _, label := range []struct{ field, text string }{
		{"item.kind", c.Kind}, {"item.encoding", c.Encoding}, {"item.reference", c.Reference},
	} {
		if len(label.text) > queue.MaxLabel {
			return nil, queue.Invalid(label.field, "is longer than %d bytes", queue.MaxLabel)
		}
	}
	return &c, nil
}
