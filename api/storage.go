package api

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/queue"
)

func (s *Server) storageRoutes() {
	list := func(name string, states ...queue.State) {
		register(s, method[*v1.ItemsListRequest, *v1.ItemsListReply]{
			name: name, bytes: s.limits.Call,
			noun: "queue", target: (*v1.ItemsListRequest).GetQueueName,
			do: func(ctx context.Context, c *call, q *v1.ItemsListRequest) (*v1.ItemsListReply, error) {
				return s.listItems(ctx, c, q, states)
			},
		})
	}
	list("storage/items.list")
	list("storage/scheduled.list", queue.Scheduled, queue.Retrying)
}

func (s *Server) listItems(ctx context.Context, c *call, q *v1.ItemsListRequest, states []queue.State) (*v1.ItemsListReply, error) {
	query := queue.ItemsQuery{Namespace: c.namespace, Queue: q.GetQueueName(), Partition: q.GetPartition(), States: states}
	var err error
	if query.Limit, err = pageLimit(q.GetLimit()); err != nil {
		return nil, err
	}
	if query.Cursor, err = openCursor(q.GetCursor(), itemsMark(&query)); err != nil {
		return nil, err
	}
	if q.GetPivot() != "" && q.GetCursor() == "" {
		if query.From, err = queue.ParseID(q.GetPivot()); err != nil {
			return nil, queue.Invalid("pivot", "%v", err)
		}
	}
	return s.itemPages(ctx, c, query)
}

// itemsMark is that of a list of items. Cursors of partition 0 are those of releases that
// had no other.
func itemsMark(query *queue.ItemsQuery) string {
	if query.Partition == 0 {
		return cursorMark(query.Namespace, query.Queue)
	}
	return cursorMark(query.Namespace, query.Queue, query.Partition)
}

// Cursors are the store's, behind a mark of the list that they were given out for: on
// another one they would begin anywhere.

func sealCursor(cursor, mark string) string {
	if cursor == "" {
		return ""
	}
	return mark + cursor
}

func openCursor(sealed, mark string) (string, error) {
	cursor, ours := strings.CutPrefix(sealed, mark)
	if sealed != "" && !ours {
		return "", queue.Invalid("cursor", "was not given out by this list; send it with what the list was asked for, limit aside")
	}
	return cursor, nil
}

// cursorMark tells lists apart by what they were asked for. It keeps nobody from making
// a cursor up, which the store judges.
func cursorMark(asked ...any) string {
	h := fnv.New32a()
	for _, part := range asked {
		fmt.Fprintf(h, "%v/", part) // a hash takes everything
	}
	return fmt.Sprintf("%08x.", h.Sum32())
}

// Items are listed with their payloads, so a page ends early rather than fill the
// memory: it is read in steps, and the one that passes listBytes is the last.
const (
	listStep  = 50
	listBytes = 4_000_000
)

func (s *Server) itemPages(ctx context.Context, c *call, query queue.ItemsQuery) (*v1.ItemsListReply, error) {
	p, mark := new(v1.ItemsListReply), itemsMark(&query)
	names := make(map[queue.Number]string)
	for size, left := 0, query.Limit; ; {
		query.Limit = min(left, listStep)
		page, err := s.broker.Items(ctx, query)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			it := &page.Items[i]
			if err := c.hold(it.Size()); err != nil {
				return nil, err
			}
			size += it.Size()
			m, err := s.listedItem(ctx, it, page.Now, names)
			if err != nil {
				return nil, err
			}
			p.Items = append(p.Items, m)
		}
		c.items = len(p.Items)
		p.Cursor = sealCursor(page.Next, mark)
		left -= len(page.Items)
		if page.Next == "" || left <= 0 || size > listBytes {
			return p, nil
		}
		query.Cursor = page.Next
	}
}

// listedItem returns an item as lists show it; names remembers queues.
func (s *Server) listedItem(ctx context.Context, it *queue.Item, now time.Time, names map[queue.Number]string) (m *v1.Item, err error) {
	m = storedItem(it, now)
	if it.Dead != nil {
		m.Dead.Queue, err = s.queueName(ctx, it.Dead.From, names)
	}
	return m, err
}

// queueName returns the name of a queue, empty if it was deleted; known remembers.
func (s *Server) queueName(ctx context.Context, n queue.Number, known map[queue.Number]string) (string, error) {
	if name, ok := known[n]; ok {
		return name, nil
	}
	name, err := s.broker.QueueName(ctx, n)
	if err != nil && !errors.Is(err, queue.ErrNotFound) {
		return "", err
	}
	known[n] = name
	return name, nil
}

func storedItem(it *queue.Item, now time.Time) *v1.Item {
	state := it.State(now)
	m := &v1.Item{
		Id: it.ID.String(), SourceId: it.SourceID,
		IsLeased:       it.Held,
		ExpireDeadline: stamp(it.ExpiresAt), DeadDeadline: stamp(it.ExpiresAt),
		CreatedAt: stamp(it.CreatedAt), UpdatedAt: stamp(it.UpdatedAt),
		Attempts: it.Attempts, MaxAttempts: it.MaxAttempts,
		Reference: it.Reference, Encoding: it.Encoding, Kind: it.Kind,
		Payload: it.Payload, Deliveries: it.Deliveries, Headers: it.Headers,
		Recoveries: it.Recoveries, State: state.String(),
		Target: shownTarget(it.Target), OnDone: it.OnDone, OrderingKey: it.OrderingKey,
	}
	switch {
	case it.IsParked(now): // no time ends that, and none that could be imported
	case state == queue.Leased, state == queue.Lapsed:
		m.LeaseDeadline = stamp(it.AvailableAt)
	case state == queue.Scheduled, state == queue.Retrying:
		m.EnqueueAt = stamp(it.AvailableAt)
	}
	if d := it.Dead; d != nil {
		m.Dead = &v1.Dead{
			Reason: d.Reason, At: stamp(d.At),
			LastStatus: d.Status, Attempts: d.Attempts, Recoveries: d.Recoveries,
		}
	}
	return m
}
