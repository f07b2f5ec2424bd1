package api

import (
	"context"
	"math"
	"time"
	"unicode/utf8"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/queue"
)

const (
	// waitSlack is what a call may take beyond its wait, which ends by itself: a
	// deadline at the same moment would turn no items into an error.
	waitSlack = 15 * time.Second
	// releaseTimeout bounds the giving back of items that did not reach their consumer.
	releaseTimeout = 10 * time.Second
)

func (s *Server) lease(ctx context.Context, c *call, q *v1.LeaseRequest) (*v1.LeaseReply, error) {
	params, err := s.leaseParams(c, q)
	if err != nil {
		return nil, err
	}
	leased, err := s.broker.Lease(ctx, params)
	if err != nil {
		return nil, err
	}
	c.items = len(leased.Items)
	linkProducers(ctx, leased.Items)
	for i := range leased.Items {
		if err := c.hold(leased.Items[i].Size()); err != nil {
			s.giveBack(ctx, params, leased.Items)
			return nil, err
		}
	}
	if c.items > 0 {
		c.unsent = func() { s.giveBack(ctx, params, leased.Items) }
	}
	p := &v1.LeaseReply{
		QueueName: q.GetQueueName(), Partition: leased.Partition,
		Items: make([]*v1.Leased, c.items),
	}
	for i := range leased.Items {
		p.Items[i] = leasedItem(&leased.Items[i], q.GetText())
	}
	return p, nil
}

func (s *Server) leaseParams(c *call, q *v1.LeaseRequest) (queue.LeaseParams, error) {
	params := queue.LeaseParams{
		Namespace: c.namespace, Queue: q.GetQueueName(),
		Limit: int(q.GetBatchSize()), Wait: c.timeout, Client: q.GetClientId(),
	}
	if params.Limit == 0 {
		params.Limit = 1
	}
	if params.Limit < 1 || params.Limit > s.limits.Items {
		return params, queue.Invalid("batch_size", "is %d; want 1 to %d", params.Limit, s.limits.Items)
	}
	if n := q.GetMaxBytes(); n != 0 {
		if n < 1 || n > queue.MaxLeaseBytes || n != math.Trunc(n) {
			return params, queue.Invalid("max_bytes", "is %v; want a whole number, 1 to %d", n, queue.MaxLeaseBytes)
		}
		params.MaxBytes = int(n)
	}
	ttl, err := leaseTimeout(q.GetLeaseTimeout())
	if ttl != nil {
		params.TTL = *ttl
	}
	return params, err
}

func leasedItem(it *queue.Item, text bool) *v1.Leased {
	receipt := it.Receipt().String()
	l := &v1.Leased{
		Encoding: it.Encoding, Kind: it.Kind, Reference: it.Reference,
		Id: receipt, Receipt: receipt, ItemId: it.ID.String(),
		Attempts: it.Deliveries, Recoveries: it.Recoveries,
		LeaseDeadline: stamp(it.AvailableAt), CreatedAt: stamp(it.CreatedAt),
		Headers: it.Headers, LastError: it.Last.Error, Traceparent: it.Trace, OrderingKey: it.OrderingKey,
	}
	if text && utf8.Valid(it.Payload) {
		s := string(it.Payload)
		l.Utf8 = &s
		return l
	}
	if l.Bytes = it.Payload; l.Bytes == nil {
		l.Bytes = []byte{} // an empty payload is there, and says so
	}
	return l
}

// giveBack releases items that did not reach their consumer: nobody has their
// receipts, so nobody would do anything with them until they lapse.
func (s *Server) giveBack(ctx context.Context, params queue.LeaseParams, items []queue.Item) {
	// The request's own context ended with its connection.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	settle := queue.SettleCall{Namespace: params.Namespace, Queue: params.Queue, Entries: make([]queue.SettleEntry, len(items))}
	for i := range items {
		settle.Entries[i] = queue.SettleEntry{Receipt: items[i].Receipt(), Outcome: queue.Release}
	}
	if _, err := s.broker.Settle(ctx, settle); err != nil {
		s.log.Warn("leased items did not reach their consumer and could not be given back; they lapse at their deadline",
			"queue", params.Queue, "items", len(items), "error", err)
	}
}

func (s *Server) stats(ctx context.Context, c *call, q *v1.StatsRequest) (*v1.StatsReply, error) {
	st, err := s.broker.Stats(ctx, c.namespace, q.GetQueueName())
	if err != nil {
		return nil, err
	}
	logical := &v1.Logical{
		ProduceWaiting: count(st.ProduceWaiting), LeaseWaiting: count(st.LeaseWaiting),
		CompleteWaiting: count(st.SettleWaiting), InFlight: count(st.InFlight),
	}
	for _, part := range st.Stats {
		logical.Partitions = append(logical.Partitions, &v1.Part{
			Partition: part.Partition, Total: count(part.Total), TotalLeased: count(part.Held),
			Failures: count(part.Failing), Scheduled: count(part.Scheduled), Capped: part.Capped, Behind: count(part.Behind),
			AverageAge:       formatDuration(part.MeanAge.Round(time.Millisecond)),
			AverageLeasedAge: formatDuration(part.MeanHeldAge.Round(time.Millisecond)),
		})
	}
	return &v1.StatsReply{QueueName: q.GetQueueName(), LogicalQueues: []*v1.Logical{logical}}, nil
}
