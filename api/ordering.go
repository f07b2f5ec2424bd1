package api

import (
	"context"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/queue"
)

func (s *Server) orderingRoutes() {
	register(s, method[*v1.KeysRequest, *v1.KeysReply]{
		name: "queue.keys", bytes: s.limits.Call,
		noun: "queue", target: (*v1.KeysRequest).GetQueueName,
		do: s.listKeys,
	})
	register(s, method[*v1.UnblockRequest, *v1.Reply]{
		name: "queue.unblock", bytes: s.limits.Call,
		noun: "queue", target: (*v1.UnblockRequest).GetQueueName,
		do: s.unblock,
	})
}

func (s *Server) listKeys(ctx context.Context, c *call, q *v1.KeysRequest) (*v1.KeysReply, error) {
	limit, err := pageLimit(q.GetLimit())
	if err != nil {
		return nil, err
	}
	mark := cursorMark("keys", c.namespace, q.GetQueueName())
	after, err := openCursor(q.GetCursor(), mark)
	if err != nil {
		return nil, err
	}
	page, err := s.broker.Keys(ctx, queue.KeysQuery{Namespace: c.namespace, Queue: q.GetQueueName(), After: after, Limit: limit})
	if err != nil {
		return nil, err
	}
	c.items = len(page.Keys)
	p := &v1.KeysReply{Items: make([]*v1.OrderingKey, len(page.Keys))}
	for i := range page.Keys {
		p.Items[i] = orderingKey(&page.Keys[i], &page)
	}
	if len(page.Keys) == limit {
		p.Cursor = sealCursor(page.Keys[limit-1].Key, mark)
	}
	return p, nil
}

// keyParked is the state of a head that waits for queue.unblock.
const keyParked = "parked"

func orderingKey(k *queue.KeyState, page *queue.KeysPage) *v1.OrderingKey {
	it := &k.Head
	state := it.State(page.Now)
	m := &v1.OrderingKey{
		OrderingKey: k.Key, ItemId: it.ID.String(), State: state.String(), CreatedAt: stamp(it.CreatedAt),
		Attempts: it.Attempts, LastStatus: it.Last.Status, LastError: it.Last.Error, Behind: count(k.Behind),
	}
	switch {
	case it.IsParked(page.Now):
		m.State = keyParked // until somebody says so, and at no time by itself
	case state == queue.Scheduled, state == queue.Retrying, state == queue.Leased:
		m.NextAt = stamp(it.AvailableAt)
	}
	return m
}

func (s *Server) unblock(ctx context.Context, c *call, q *v1.UnblockRequest) (*v1.Reply, error) {
	if q.GetItemId() == "" {
		return nil, queue.Invalid("item_id", "is missing; name the head of a key, as queue.keys tells it")
	}
	id, err := queue.ParseID(q.GetItemId())
	if err != nil {
		return nil, queue.Invalid("item_id", "%v", err)
	}
	c.items = 1
	return done(s.broker.Unblock(ctx, queue.UnblockCall{Namespace: c.namespace, Queue: q.GetQueueName(), Item: id, Skip: q.GetSkip()}))
}
