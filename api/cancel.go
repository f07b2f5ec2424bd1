package api

import (
	"context"
	"net/http"
	"strings"

	"google.golang.org/protobuf/proto"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/queue"
)

// cancelRoutes are the calls that end items, or take them out of a dead-letter queue,
// without delivering them.
func (s *Server) cancelRoutes() {
	register(s, method[*v1.ClearRequest, *v1.CountReply]{
		name: "queue.clear", bytes: s.limits.Call,
		noun: "queue", target: (*v1.ClearRequest).GetQueueName,
		do: s.clear,
	})
	register(s, method[*v1.ItemsDeleteRequest, *v1.CountReply]{
		name: "storage/items.delete", bytes: s.limits.Call,
		noun: "queue", target: (*v1.ItemsDeleteRequest).GetQueueName,
		do: s.deleteItems,
	})
	register(s, method[*v1.ItemsCancelRequest, *v1.CountReply]{
		name: "items.cancel", bytes: s.limits.Call,
		noun: "queue", target: cancelTarget, place: cancelPlace, optional: true,
		do: s.cancelItems,
	})
	register(s, method[*v1.RedriveRequest, *v1.RedriveReply]{
		name: "queue.redrive", bytes: s.limits.Call,
		noun: "queue", target: (*v1.RedriveRequest).GetQueueName,
		// Without a target they go wherever they came from, so any queue is asked for.
		also: func(q *v1.RedriveRequest) names { return names{{"target", q.GetTarget()}} },
		do:   s.redrive,
	})
}

func (s *Server) clear(ctx context.Context, c *call, q *v1.ClearRequest) (*v1.CountReply, error) {
	return c.counted(s.broker.Clear(ctx, queue.ClearCall{
		Namespace: c.namespace, Queue: q.GetQueueName(),
		Scheduled: q.GetScheduled(), Ready: q.GetQueue(), Leased: q.GetDestructive(),
	}))
}

func (s *Server) deleteItems(ctx context.Context, c *call, q *v1.ItemsDeleteRequest) (*v1.CountReply, error) {
	ids, err := s.itemIDs("ids", q.GetIds())
	if err != nil {
		return nil, err
	}
	return c.counted(s.broker.Cancel(ctx, queue.CancelCall{
		Namespace: c.namespace, Queue: q.GetQueueName(), Partition: q.GetPartition(), IDs: ids,
	}))
}

// cancelTarget is the queue of the filter, which must have one, or that of the ids,
// which may go without.
func cancelTarget(q *v1.ItemsCancelRequest) string {
	if q.GetFilter() != nil {
		return q.GetFilter().GetQueueName()
	}
	return q.GetQueueName()
}

func cancelPlace(q *v1.ItemsCancelRequest) string {
	if q.GetFilter() != nil {
		return "filter.queue_name"
	}
	return "queue_name"
}

func (s *Server) cancelItems(ctx context.Context, c *call, q *v1.ItemsCancelRequest) (*v1.CountReply, error) {
	call := queue.CancelCall{Namespace: c.namespace, Queue: cancelTarget(q)}
	var err error
	switch f := q.GetFilter(); {
	case (f != nil) == (len(q.GetItemIds()) > 0):
		return nil, queue.Invalid("item_ids", "give one of item_ids and filter")
	case f == nil:
		call.IDs, err = s.itemIDs("item_ids", q.GetItemIds())
	case q.GetQueueName() != "":
		err = queue.Invalid("queue_name", "goes with item_ids; a filter has filter.queue_name")
	case f.GetQueueName() == "":
		err = queue.Invalid("filter.queue_name", "is missing; a filter is about one queue")
	default:
		call.Kind = f.GetKind()
		if f.GetBefore() != nil {
			call.Before = f.GetBefore().AsTime()
		}
		call.State, err = parseState("filter.state", f.GetState())
	}
	if err != nil {
		return nil, err
	}
	return c.counted(s.broker.Cancel(ctx, call))
}

// parseState reads the word of a living item's state; an empty one is any.
func parseState(field, word string) (queue.State, error) {
	if word == "" {
		return 0, nil
	}
	states := []queue.State{queue.Ready, queue.Scheduled, queue.Retrying, queue.Leased, queue.Lapsed, queue.Behind}
	words := make([]string, len(states))
	for i, state := range states {
		if words[i] = state.String(); words[i] == word {
			return state, nil
		}
	}
	if word == wordBuried {
		return 0, queue.Invalid(field, "buried items are in a dead-letter queue; name that one")
	}
	return 0, queue.Invalid(field, "%q is no state; want one of %s", clip(word), strings.Join(words, ", "))
}

// itemIDs reads a list of items.
func (s *Server) itemIDs(field string, texts []string) ([]queue.ID, error) {
	if err := s.checkCount(field, "ids", len(texts)); err != nil {
		return nil, err
	}
	ids := make([]queue.ID, len(texts))
	for i, text := range texts {
		id, err := queue.ParseID(text)
		if err != nil {
			return nil, queue.Invalid(entry(field, i, ""), "%v", err)
		}
		ids[i] = id
	}
	return ids, nil
}

// counted answers what a call ended.
func (c *call) counted(ended queue.Cancelled, err error) (*v1.CountReply, error) {
	if err != nil {
		return nil, err
	}
	c.items = ended.Count
	p := &v1.CountReply{Code: http.StatusOK, CodeText: "ok", Count: count(ended.Count), More: ended.More}
	for _, id := range ended.NotFound {
		p.NotFound = append(p.NotFound, id.String())
	}
	return p, nil
}

// defaultRedrive is the limit of a call that has none.
const defaultRedrive = 10_000

func (s *Server) redrive(ctx context.Context, c *call, q *v1.RedriveRequest) (*v1.RedriveReply, error) {
	f := q.GetFilter()
	call := queue.RedriveCall{
		Namespace: c.namespace, Queue: q.GetQueueName(), Target: q.GetTarget(),
		Kind: f.GetKind(), Reason: f.GetReason(), From: f.GetFrom(),
		Limit: int(q.GetLimit()), DryRun: q.GetDryRun(),
	}
	if call.Limit == 0 {
		call.Limit = defaultRedrive
	}
	var err error
	if call.Every, err = readEvery("rate", q.GetRate()); err != nil {
		return nil, err
	}
	if f != nil && proto.Size(f) == 0 {
		// Protobuf cannot tell an empty list from none, and a program whose list came out
		// empty does not mean the whole queue.
		return nil, queue.Invalid("filter", "has no condition; leave it out to move all items")
	}
	if len(f.GetItemIds()) > 0 {
		if call.IDs, err = s.itemIDs("filter.item_ids", f.GetItemIds()); err != nil {
			return nil, err
		}
	}
	if f.GetBefore() != nil {
		call.Before = f.GetBefore().AsTime()
	}
	moved, err := s.broker.Redrive(ctx, call)
	if err != nil {
		return nil, err
	}
	c.items = moved.Moved
	return &v1.RedriveReply{
		Code: http.StatusOK, CodeText: "ok",
		Moved: count(moved.Moved), Skipped: count(moved.Skipped), More: moved.More,
		Until: stamp(moved.Until),
	}, nil
}
