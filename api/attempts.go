package api

import (
	"context"
	"time"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/queue"
)

func (s *Server) attemptRoutes() {
	register(s, method[*v1.AttemptsListRequest, *v1.AttemptsListReply]{
		name: "attempts.list", bytes: s.limits.Call,
		noun: "queue", target: (*v1.AttemptsListRequest).GetQueueName, optional: true,
		also: func(q *v1.AttemptsListRequest) names { return ifNamed("subscription", q.GetSubscription()) },
		do:   s.listAttempts,
	})
}

// defaultAttempts is the limit of a page that has none: entries may have 4 KiB each.
const defaultAttempts = 100

func (s *Server) listAttempts(ctx context.Context, c *call, q *v1.AttemptsListRequest) (*v1.AttemptsListReply, error) {
	query, err := attemptsQuery(c.namespace, q)
	if err != nil {
		return nil, err
	}
	mark := attemptsMark(&query)
	if query.Cursor, err = openCursor(q.GetCursor(), mark); err != nil {
		return nil, err
	}
	page, err := s.broker.Attempts(ctx, query)
	if err != nil {
		return nil, err
	}
	c.items = len(page.Records)
	p := &v1.AttemptsListReply{Items: make([]*v1.Attempt, len(page.Records)), Cursor: sealCursor(page.Next, mark)}
	known := make(map[queue.Number]string)
	for i := range page.Records {
		r := &page.Records[i]
		if err := c.hold(len(r.Response) + len(r.Error)); err != nil {
			return nil, err
		}
		name, err := s.queueName(ctx, r.Key.Queue, known)
		if err != nil {
			return nil, err
		}
		p.Items[i] = attempt(r, name)
	}
	return p, nil
}

func attemptsQuery(ns queue.Namespace, q *v1.AttemptsListRequest) (queue.AttemptsQuery, error) {
	query := queue.AttemptsQuery{
		Namespace: ns, Subscription: q.GetSubscription(), Queue: q.GetQueueName(),
		Verdict: q.GetVerdict(), OldestFirst: q.GetOldestFirst(), Limit: defaultAttempts,
	}
	var err error
	if q.GetLimit() != 0 {
		if query.Limit, err = pageLimit(q.GetLimit()); err != nil {
			return query, err
		}
	}
	if q.GetItemId() != "" {
		if query.Item, err = queue.ParseID(q.GetItemId()); err != nil {
			return query, queue.Invalid("item_id", "%v", err)
		}
	}
	if len(query.Verdict) > queue.MaxLabel {
		return query, queue.Invalid("verdict", "is longer than %d bytes", queue.MaxLabel)
	}
	if query.Type, err = parseRecordType("type", q.GetType()); err != nil {
		return query, err
	}
	if q.GetFrom() != nil {
		query.From = q.GetFrom().AsTime()
	}
	if q.GetTo() != nil {
		query.To = q.GetTo().AsTime()
	}
	if !query.From.IsZero() && !query.To.IsZero() && !query.From.Before(query.To) {
		return query, queue.Invalid("to", "is not after from; want the end of the time, which is no part of it")
	}
	return query, nil
}

// parseRecordType reads what an entry of the log tells; an empty word is any.
func parseRecordType(field, word string) (queue.RecordType, error) {
	if word == "" {
		return 0, nil
	}
	for _, t := range []queue.RecordType{queue.AttemptRecord, queue.LapseRecord, queue.EndingRecord, queue.OutcomeRecord} {
		if word == t.String() {
			return t, nil
		}
	}
	return 0, queue.Invalid(field, "%q is not one of attempt, lapse, ending, outcome", clip(word))
}

func attemptsMark(q *queue.AttemptsQuery) string {
	return cursorMark("attempts", q.Namespace, q.Item, q.Subscription, q.Queue, q.Verdict, q.Type,
		q.From.UnixNano(), q.To.UnixNano(), q.OldestFirst)
}

// attempt shows an entry of the log; name is its queue's.
func attempt(r *queue.Record, name string) *v1.Attempt {
	m := &v1.Attempt{
		QueueName: name, Subscription: r.Subscription,
		Attempt: r.Delivery, At: stamp(r.At), StartedAt: stamp(r.StartedAt),
		Verdict: r.Verdict, Status: r.Status, Error: r.Error, Response: r.Response,
		NextAt: stamp(r.NextAt), Node: r.Node,
	}
	if r.Type != 0 {
		m.Type = r.Type.String()
	}
	if r.Key.ID != (queue.ID{}) {
		m.ItemId = r.Key.ID.String()
	}
	if r.Next != 0 {
		m.Next = r.Next.String()
	}
	if r.Duration > 0 {
		m.Duration = formatDuration(r.Duration.Round(time.Microsecond))
	}
	return m
}
