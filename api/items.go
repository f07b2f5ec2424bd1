package api

import (
	"context"
	"errors"
	"fmt"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/queue"
)

func (s *Server) itemRoutes() {
	register(s, method[*v1.ItemsInfoRequest, *v1.ItemsInfoReply]{
		name: "items.info", bytes: s.limits.Call,
		noun: "queue", target: (*v1.ItemsInfoRequest).GetQueueName, optional: true,
		do: func(ctx context.Context, c *call, q *v1.ItemsInfoRequest) (*v1.ItemsInfoReply, error) {
			return s.itemInfo(ctx, c, q, s.broker.Look)
		},
	})
	register(s, method[*v1.ItemsWaitRequest, *v1.ItemsInfoReply]{
		name: "items.wait", bytes: s.limits.Call, slack: waitSlack,
		noun: "queue", target: (*v1.ItemsWaitRequest).GetQueueName, optional: true,
		do: func(ctx context.Context, c *call, q *v1.ItemsWaitRequest) (*v1.ItemsInfoReply, error) {
			return s.itemInfo(ctx, c, q, func(ctx context.Context, ns queue.Namespace, id queue.ID, name string) ([]queue.ItemState, error) {
				return s.broker.Await(ctx, ns, id, name, c.timeout)
			})
		},
	})
}

// itemRequest is what items.info and items.wait have.
type itemRequest interface {
	GetItemId() string
	GetQueueName() string
}

// lookFunc finds where an item is; see [Broker].
type lookFunc func(ctx context.Context, ns queue.Namespace, id queue.ID, queueName string) ([]queue.ItemState, error)

func (s *Server) itemInfo(ctx context.Context, c *call, q itemRequest, look lookFunc) (*v1.ItemsInfoReply, error) {
	id, err := queue.ParseID(q.GetItemId())
	if err != nil {
		return nil, queue.Invalid("item_id", "%v", err)
	}
	states, err := look(ctx, c.namespace, id, q.GetQueueName())
	if _, ended := errors.AsType[*queue.EndedError](err); !ended && errors.Is(err, queue.ErrNotFound) {
		return nil, s.missing(ctx, c, q)
	}
	if err != nil {
		return nil, err
	}
	c.items = 1
	p := &v1.ItemsInfoReply{Items: make([]*v1.ItemInfo, len(states))}
	for i := range states {
		var around surroundings
		if states[i].Ending == nil {
			if around, err = s.around(ctx, c.namespace, &states[i]); err != nil {
				return nil, err
			}
		}
		p.Items[i] = itemInfo(&states[i], around)
	}
	return p, nil
}

// missingItemError is an item that nothing is known of. It is a [queue.ErrNotFound].
type missingItemError struct{ id, queue string }

func (e *missingItemError) Error() string {
	where := ""
	if e.queue != "" {
		where = " on queue " + e.queue
	}
	return fmt.Sprintf("nothing is known of item %s%s: it never was there, or it has ended; queues know ended items for their keep_ended", e.id, where)
}

func (e *missingItemError) Is(target error) bool { return target == queue.ErrNotFound }

// missing says whether it is the item that there is none of, or the queue.
func (s *Server) missing(ctx context.Context, c *call, q itemRequest) error {
	if q.GetQueueName() != "" {
		if _, _, err := s.broker.Queue(ctx, c.namespace, q.GetQueueName()); err != nil {
			return err
		}
	}
	return &missingItemError{id: q.GetItemId(), queue: q.GetQueueName()}
}

// around reads what decides about the delivery of an item beside itself.
func (s *Server) around(ctx context.Context, ns queue.Namespace, st *queue.ItemState) (around surroundings, err error) {
	name := st.Queue.Name
	stats, err := s.broker.Stats(ctx, ns, name)
	if err != nil && !errors.Is(err, queue.ErrNotFound) { // deleted while we look
		return around, err
	}
	for _, part := range stats.Stats {
		around.ready += part.Total - part.Held - part.Scheduled - part.Behind
	}
	sub, err := s.subs.ByQueue(ctx, ns, name)
	if errors.Is(err, queue.ErrNotFound) || err == nil && sub.Pulls() {
		around.leasesWaiting = stats.LeaseWaiting
		return around, nil
	}
	if err != nil {
		return around, err
	}
	around.sub = &sub
	if lane, ok := s.lane(ns, sub.Name); ok {
		around.lane = &lane
	}
	if sub.AllowTarget && around.lane != nil {
		around.target, err = s.targetOf(ctx, ns, st)
	}
	return around, err
}

// targetOf reads an item's own target, which the looks for an item leave out.
func (s *Server) targetOf(ctx context.Context, ns queue.Namespace, st *queue.ItemState) (*queue.Target, error) {
	page, err := s.broker.Items(ctx, queue.ItemsQuery{Namespace: ns, Queue: st.Queue.Name, From: st.Item.ID, Limit: 1})
	if err != nil && !errors.Is(err, queue.ErrNotFound) { // deleted while we look
		return nil, err
	}
	if len(page.Items) == 0 || page.Items[0].ID != st.Item.ID {
		return nil, nil // it has ended, or somebody has taken it
	}
	return page.Items[0].Target, nil
}

func itemInfo(st *queue.ItemState, around surroundings) *v1.ItemInfo {
	why := whyOf(st, around)
	info := &v1.ItemInfo{
		QueueName: st.Queue.Name, State: stateWord(st),
		Why: why.word, Message: why.message, NextAt: stamp(why.nextAt),
	}
	if around.sub != nil {
		info.Subscription = around.sub.Name
	}
	if r := st.Ending; r != nil {
		info.Deliveries, info.LastStatus, info.LastError = r.Delivery, r.Status, r.Error
		info.Result, info.EndedAt = r.Response, stamp(r.At)
		info.Subscription, info.Attempts = r.Subscription, st.Attempts
		return info
	}
	it := &st.Item
	info.Deliveries, info.Attempts, info.Recoveries = it.Deliveries, it.Attempts, it.Recoveries
	info.LastStatus, info.LastError = it.Last.Status, it.Last.Error
	return info
}
