package api

import (
	"context"
	"net/http"
	"time"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/queue"
)

func (s *Server) queuesRoutes() {
	register(s, method[*v1.QueueInfo, *v1.Reply]{
		name: "queues.create", bytes: s.limits.Call,
		noun: "queue", target: (*v1.QueueInfo).GetQueueName, also: deadQueue,
		do: s.createQueue,
	})
	register(s, method[*v1.QueueInfo, *v1.Reply]{
		name: "queues.update", bytes: s.limits.Call,
		noun: "queue", target: (*v1.QueueInfo).GetQueueName, also: deadQueue,
		do: s.updateQueue,
	})
	register(s, method[*v1.QueuesListRequest, *v1.QueuesListReply]{
		name: "queues.list", bytes: s.limits.Call,
		noun: "queue", target: noTarget[*v1.QueuesListRequest], optional: true,
		do: s.listQueues,
	})
	register(s, method[*v1.QueuesInfoRequest, *v1.QueueInfo]{
		name: "queues.info", bytes: s.limits.Call,
		noun: "queue", target: (*v1.QueuesInfoRequest).GetQueueName,
		do: s.queueInfo,
	})
	side := func(name string, do func(context.Context, queue.Namespace, string, queue.Paused) (queue.Settings, error)) {
		register(s, method[*v1.QueuesPauseRequest, *v1.Reply]{
			name: "queues." + name, bytes: s.limits.Call,
			noun: "queue", target: (*v1.QueuesPauseRequest).GetQueueName,
			do: func(ctx context.Context, c *call, q *v1.QueuesPauseRequest) (*v1.Reply, error) {
				what, err := parseSide(q.GetWhat())
				if err != nil {
					return nil, err
				}
				_, err = do(ctx, c.namespace, q.GetQueueName(), what)
				return done(err)
			},
		})
	}
	side("pause", s.broker.Pause)
	side("resume", s.broker.Resume)
	register(s, method[*v1.ReloadRequest, *v1.Reply]{
		name: "queue.reload", bytes: s.limits.Call,
		noun: "queue", target: (*v1.ReloadRequest).GetQueueName,
		do: func(ctx context.Context, c *call, q *v1.ReloadRequest) (*v1.Reply, error) {
			return done(s.broker.Reload(ctx, c.namespace, q.GetQueueName()))
		},
	})
	register(s, method[*v1.QueuesDeleteRequest, *v1.Reply]{
		name: "queues.delete", bytes: s.limits.Call,
		noun: "queue", target: (*v1.QueuesDeleteRequest).GetQueueName,
		do: s.deleteQueue,
	})
}

func deadQueue(q *v1.QueueInfo) names { return ifNamed("dead_queue", q.GetDeadQueue()) }

// noTarget is for calls about all of them.
func noTarget[Q any](Q) string { return "" }

// done answers calls that return nothing.
func done(err error) (*v1.Reply, error) {
	if err != nil {
		return nil, err
	}
	return &v1.Reply{Code: http.StatusOK, CodeText: "ok"}, nil
}

// parseSide reads which side of a queue is to be paused or resumed.
func parseSide(word string) (queue.Paused, error) {
	if word == "" {
		return queue.PausedBoth, nil
	}
	for _, side := range []queue.Paused{queue.PausedLease, queue.PausedProduce, queue.PausedBoth} {
		if word == side.String() {
			return side, nil
		}
	}
	return 0, queue.Invalid("what", "%q is none of lease, produce and both", clip(word))
}

// queueDurations are the durations of a queue's settings; nil ones were not given.
type queueDurations struct {
	lease, expire, keep *time.Duration
}

// checkQueueInfo judges what only the wire has.
func checkQueueInfo(q *v1.QueueInfo) (d queueDurations, err error) {
	if n := q.GetRequestedPartitions(); n < 0 || n > queue.MaxPartitions {
		return d, queue.Invalid("requested_partitions", "is %d; want 1 to %d", n, queue.MaxPartitions)
	}
	if d.lease, err = leaseTimeout(q.GetLeaseTimeout()); err != nil {
		return d, err
	}
	if d.expire, err = optionalDuration("expire_timeout", q.GetExpireTimeout(), 0, maxDelay); err != nil {
		return d, err
	}
	d.keep, err = optionalDuration("keep_ended", q.GetKeepEnded(), 0, forever)
	return d, err
}

func (s *Server) createQueue(ctx context.Context, c *call, q *v1.QueueInfo) (*v1.Reply, error) {
	d, err := checkQueueInfo(q)
	if err != nil {
		return nil, err
	}
	switch {
	case q.GetRevision() != "":
		return nil, queue.Invalid("revision", "is for updates; a new queue has none")
	case q.GetPause() != "":
		return nil, queue.Invalid("pause", "is not set here; call queues.pause once the queue is there")
	}
	settings := queue.Settings{
		Namespace: c.namespace, Name: q.GetQueueName(), Reference: q.GetReference(),
		MaxAttempts: q.GetMaxAttempts(), MaxRecoveries: q.GetMaxRecoveries(),
		Partitions: q.GetRequestedPartitions(), DeadQueue: q.GetDeadQueue(), ParkAfter: q.GetParkAfter(),
	}
	if d.lease != nil {
		settings.LeaseTTL = *d.lease
	}
	if d.expire != nil {
		settings.ExpireTTL = *d.expire
	}
	if d.keep != nil {
		settings.KeepEnded = *d.keep
	}
	_, err = s.broker.CreateQueue(ctx, settings)
	return done(err)
}

func (s *Server) updateQueue(ctx context.Context, c *call, q *v1.QueueInfo) (*v1.Reply, error) {
	d, err := checkQueueInfo(q)
	if err != nil {
		return nil, err
	}
	update := queue.SettingsUpdate{
		Namespace: c.namespace, Name: q.GetQueueName(),
		Reference: q.Reference, LeaseTTL: d.lease, ExpireTTL: d.expire, KeepEnded: d.keep,
		MaxAttempts: given(q.GetMaxAttempts()), MaxRecoveries: given(q.GetMaxRecoveries()),
		DeadQueue: q.DeadQueue, ParkAfter: q.ParkAfter, Partitions: given(q.GetRequestedPartitions()),
	}
	if update.Revision, err = revision(q.GetRevision()); err != nil {
		return nil, err
	}
	_, err = s.broker.UpdateQueue(ctx, update)
	return done(err)
}

// given is nil for a zero value, which stands for a field that was left out.
func given[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func (s *Server) listQueues(ctx context.Context, c *call, q *v1.QueuesListRequest) (*v1.QueuesListReply, error) {
	pivot, field := q.GetPivot(), "pivot"
	if q.GetCursor() != "" {
		pivot, field = q.GetCursor(), "cursor"
	}
	limit, err := namePage(q.GetLimit(), field, pivot)
	if err != nil {
		return nil, err
	}
	// One more than wanted: it is the pivot of the next page.
	found, err := s.broker.Queues(ctx, c.namespace, pivot, limit+1)
	if err != nil {
		return nil, err
	}
	p := new(v1.QueuesListReply)
	if len(found) > limit {
		p.Cursor = found[limit].Name
		found = found[:limit]
	}
	c.items = len(found)
	all := make([]queue.Settings, len(found))
	for i := range found {
		all[i] = found[i].Value
	}
	draining, err := s.broker.Draining(ctx, all)
	if err != nil {
		return nil, err
	}
	for i := range found {
		p.Items = append(p.Items, queueInfo(&all[i], found[i].Revision, draining[all[i].Number]))
	}
	return p, nil
}

func (s *Server) queueInfo(ctx context.Context, c *call, q *v1.QueuesInfoRequest) (*v1.QueueInfo, error) {
	settings, revision, err := s.broker.Queue(ctx, c.namespace, q.GetQueueName())
	if err != nil {
		return nil, err
	}
	draining, err := s.broker.Draining(ctx, []queue.Settings{settings})
	if err != nil {
		return nil, err
	}
	return queueInfo(&settings, revision, draining[settings.Number]), nil
}

// queueInfo shows a queue; draining is what its read-only partitions hold, those that hold
// nothing left out.
func queueInfo(s *queue.Settings, revision uint64, draining []queue.Stats) *v1.QueueInfo {
	info := &v1.QueueInfo{
		QueueName: s.Name, CreatedAt: stamp(s.CreatedAt), UpdatedAt: stamp(s.UpdatedAt),
		DeadQueue: given(s.DeadQueue), Reference: given(s.Reference),
		LeaseTimeout: formatDuration(s.LeaseTTL), MaxAttempts: s.MaxAttempts,
		RequestedPartitions: s.Partitions, MaxRecoveries: s.MaxRecoveries,
		Revision: formatRevision(revision), Pause: s.Paused.String(),
	}
	if s.ExpireTTL > 0 {
		info.ExpireTimeout = formatDuration(s.ExpireTTL)
	}
	if s.ParkAfter > 0 {
		info.ParkAfter = &s.ParkAfter
	}
	if s.KeepEnded > 0 {
		info.KeepEnded = formatDuration(s.KeepEnded)
	}
	for i := range s.Partitions {
		info.Partitions = append(info.Partitions, &v1.Partition{Partition: i})
	}
	for _, part := range draining {
		info.Partitions = append(info.Partitions, &v1.Partition{Partition: part.Partition, ReadOnly: new(true), Total: new(count(part.Total))})
	}
	return info
}

func (s *Server) deleteQueue(ctx context.Context, c *call, q *v1.QueuesDeleteRequest) (*v1.Reply, error) {
	return done(s.broker.DeleteQueue(ctx, c.namespace, q.GetQueueName(), q.GetForce()))
}
