package client

import (
	"context"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"

	v1 "github.com/posthaste-io/posthaste/api/v1"
)

// Queue are a queue's settings. What a creation leaves out takes its default.
type Queue struct {
	Name string
	// DeadQueue receives what is buried; empty is the queue's own, <name>~dead.
	DeadQueue string
	// Reference is a note of yours.
	Reference string
	// LeaseTimeout is how long a lease lasts that does not say: 60 s.
	LeaseTimeout time.Duration
	// ExpireTimeout is how long an item has from when it is first due; 0 is for ever.
	ExpireTimeout time.Duration
	// KeepEnded is how long items that have ended are known, with their results; 0 is
	// not at all.
	KeepEnded time.Duration
	// MaxAttempts is how often an item may fail: 25; -1 is no limit.
	MaxAttempts int
	// MaxRecoveries is how many lapses in a row bury an item: 3.
	MaxRecoveries int
	// ParkAfter is after how many failures the head of an ordering key is not tried again by
	// itself, so that the key waits for Unblock; 0 is never.
	ParkAfter int
	// Partitions is how many ordered sets new items are spread over, 1 to 64: 1.
	Partitions int

	// What follows is the server's to set.

	// Draining are partitions that take nothing new any more, and still hold items.
	Draining []DrainingPartition
	// Pause is lease, produce, both, or empty.
	Pause     string
	CreatedAt time.Time
	UpdatedAt time.Time
	// Revision names the version, for [QueueUpdate].
	Revision string
}

// DrainingPartition is one that an update took away, until it is empty.
type DrainingPartition struct {
	Partition int
	// Total counts all items in it.
	Total int
}

// QueueUpdate changes what is set and nothing else.
type QueueUpdate struct {
	// Revision, if set, must be the queue's: the update is refused if somebody else was
	// quicker.
	Revision string
	// DeadQueue, if it points to "", goes back to the queue's own.
	DeadQueue *string
	Reference *string
	// Zeros keep what is there.
	LeaseTimeout  time.Duration
	MaxAttempts   int
	MaxRecoveries int
	// Partitions may be raised and lowered at any time; nothing moves.
	Partitions int
	// ExpireTimeout and KeepEnded, if they point to 0, are turned off.
	ExpireTimeout *time.Duration
	KeepEnded     *time.Duration
	// ParkAfter, if it points to 0, is turned off.
	ParkAfter *int
}

// CreateQueue makes a queue, or answers already_exists.
func (c *Client) CreateQueue(ctx context.Context, q Queue) error {
	w := &v1.QueueInfo{
		QueueName: q.Name, LeaseTimeout: text(q.LeaseTimeout), ExpireTimeout: text(q.ExpireTimeout), KeepEnded: text(q.KeepEnded),
		MaxAttempts: count(q.MaxAttempts), MaxRecoveries: count(q.MaxRecoveries), RequestedPartitions: count(q.Partitions),
	}
	if q.ParkAfter != 0 {
		w.ParkAfter = new(count(q.ParkAfter))
	}
	if q.DeadQueue != "" {
		w.DeadQueue = &q.DeadQueue
	}
	if q.Reference != "" {
		w.Reference = &q.Reference
	}
	return c.call(ctx, "queues.create", w, nil)
}

// UpdateQueue changes a queue.
func (c *Client) UpdateQueue(ctx context.Context, name string, u QueueUpdate) error {
	w := &v1.QueueInfo{
		QueueName: name, Revision: u.Revision, DeadQueue: u.DeadQueue, Reference: u.Reference,
		LeaseTimeout: text(u.LeaseTimeout), ExpireTimeout: presentText(u.ExpireTimeout), KeepEnded: presentText(u.KeepEnded),
		MaxAttempts: count(u.MaxAttempts), MaxRecoveries: count(u.MaxRecoveries), RequestedPartitions: count(u.Partitions),
	}
	if u.ParkAfter != nil {
		w.ParkAfter = new(count(*u.ParkAfter))
	}
	return c.call(ctx, "queues.update", w, nil)
}

// presentText writes a duration that is set also if it is 0.
func presentText(d *time.Duration) string {
	if d == nil {
		return ""
	}
	return d.String()
}

// GetQueue returns a queue's settings.
func (c *Client) GetQueue(ctx context.Context, name string) (Queue, error) {
	p := new(v1.QueueInfo)
	if err := c.call(ctx, "queues.info", &v1.QueuesInfoRequest{QueueName: name}, p); err != nil {
		return Queue{}, err
	}
	return queueOf(p), nil
}

// Queues lists queues by name.
func (c *Client) Queues(ctx context.Context) iter.Seq2[Queue, error] {
	return pages(func(cursor string) ([]Queue, string, error) {
		p := new(v1.QueuesListReply)
		if err := c.call(ctx, "queues.list", &v1.QueuesListRequest{Cursor: cursor}, p); err != nil {
			return nil, "", err
		}
		page := make([]Queue, len(p.GetItems()))
		for i, q := range p.GetItems() {
			page[i] = queueOf(q)
		}
		return page, p.GetCursor(), nil
	})
}

// DeleteQueue removes an empty queue; with force also one that holds items, which are
// cancelled, and its subscription.
func (c *Client) DeleteQueue(ctx context.Context, name string, force bool) error {
	return c.call(ctx, "queues.delete", &v1.QueuesDeleteRequest{QueueName: name, Force: force}, nil)
}

// Side is what a pause stops.
type Side string

// The sides of a queue.
const (
	LeaseSide   Side = "lease"
	ProduceSide Side = "produce"
	BothSides   Side = "both"
)

// PauseQueue stops leases and pushes, or produces, or both, until ResumeQueue.
func (c *Client) PauseQueue(ctx context.Context, name string, what Side) error {
	return c.call(ctx, "queues.pause", &v1.QueuesPauseRequest{QueueName: name, What: string(what)}, nil)
}

// ResumeQueue ends a pause.
func (c *Client) ResumeQueue(ctx context.Context, name string, what Side) error {
	return c.call(ctx, "queues.resume", &v1.QueuesPauseRequest{QueueName: name, What: string(what)}, nil)
}

// ReloadQueue has the node that answers read the queue's settings again. Changes reach
// all nodes by themselves within seconds.
func (c *Client) ReloadQueue(ctx context.Context, name string) error {
	return c.call(ctx, "queue.reload", &v1.ReloadRequest{QueueName: name}, nil)
}

func queueOf(q *v1.QueueInfo) Queue {
	var draining []DrainingPartition
	for _, p := range q.GetPartitions() {
		if p.GetReadOnly() {
			draining = append(draining, DrainingPartition{Partition: int(p.GetPartition()), Total: int(p.GetTotal())})
		}
	}
	return Queue{
		Name: q.GetQueueName(), DeadQueue: q.GetDeadQueue(), Reference: q.GetReference(),
		LeaseTimeout: span(q.GetLeaseTimeout()), ExpireTimeout: span(q.GetExpireTimeout()), KeepEnded: span(q.GetKeepEnded()),
		MaxAttempts: int(q.GetMaxAttempts()), MaxRecoveries: int(q.GetMaxRecoveries()),
		ParkAfter:  int(q.GetParkAfter()),
		Partitions: int(q.GetRequestedPartitions()), Draining: draining,
		Pause: q.GetPause(), CreatedAt: instant(q.GetCreatedAt()), UpdatedAt: instant(q.GetUpdatedAt()), Revision: q.GetRevision(),
	}
}

// Stats counts what a queue holds.
type Stats struct {
	// Total counts all items, Leased those that are leased and not settled, Scheduled
	// those that are not yet due, and Failing those that used up some of their attempts.
	Total     int
	Leased    int
	Scheduled int
	// Behind counts those that stand behind another of their ordering key.
	Behind int
	// Capped says that Scheduled and Behind were counted up to a bound, so that there are at
	// least so many.
	Capped  bool
	Failing int
	// MeanAge is the mean time since items were produced, MeanLeasedAge that since leased
	// ones were leased or extended.
	MeanAge       time.Duration
	MeanLeasedAge time.Duration
	// ProduceWaiting, LeaseWaiting and SettleWaiting count calls at the node that answers.
	ProduceWaiting int
	LeaseWaiting   int
	SettleWaiting  int
}

// Ready counts what could be leased now, lapsed leases left out.
func (s Stats) Ready() int { return max(s.Total-s.Leased-s.Scheduled-s.Behind, 0) }

// Stats counts what a queue holds.
func (c *Client) Stats(ctx context.Context, queue string) (Stats, error) {
	p := new(v1.StatsReply)
	if err := c.call(ctx, "queue.stats", &v1.StatsRequest{QueueName: queue}, p); err != nil {
		return Stats{}, err
	}
	var s Stats
	var age, leasedAge time.Duration
	for _, l := range p.GetLogicalQueues() {
		s.ProduceWaiting += int(l.GetProduceWaiting())
		s.LeaseWaiting += int(l.GetLeaseWaiting())
		s.SettleWaiting += int(l.GetCompleteWaiting())
		for _, part := range l.GetPartitions() {
			s.Total += int(part.GetTotal())
			s.Leased += int(part.GetTotalLeased())
			s.Scheduled += int(part.GetScheduled())
			s.Behind += int(part.GetBehind())
			s.Failing += int(part.GetFailures())
			s.Capped = s.Capped || part.GetCapped()
			age += span(part.GetAverageAge()) * time.Duration(part.GetTotal())
			leasedAge += span(part.GetAverageLeasedAge()) * time.Duration(part.GetTotalLeased())
		}
	}
	s.MeanAge = age / time.Duration(max(s.Total, 1))
	s.MeanLeasedAge = leasedAge / time.Duration(max(s.Leased, 1))
	return s, nil
}

// ClearParams say what to cancel of a queue; at least one of them.
type ClearParams struct {
	// Scheduled is what is not yet due, Ready what could be leased and what stands behind its
	// ordering key, Leased what is leased.
	Scheduled, Ready, Leased bool
}

// ClearQueue cancels items without delivering them and returns how many. more says
// that the time was up before all was done: call again.
func (c *Client) ClearQueue(ctx context.Context, queue string, what ClearParams) (n int, more bool, err error) {
	p := new(v1.CountReply)
	err = c.call(ctx, "queue.clear", &v1.ClearRequest{
		QueueName: queue, Scheduled: what.Scheduled, Queue: what.Ready, Destructive: what.Leased,
	}, p)
	return int(p.GetCount()), p.GetMore(), err
}

// RedriveParams say which items of a dead-letter queue to move; those that are set all
// apply.
type RedriveParams struct {
	// ItemIDs are at most 1,000. Nil is any; an empty list that is not nil moves nothing.
	ItemIDs []string
	Kind    string
	// Reason is why they were buried, such as max_attempts.
	Reason string
	// Before is when they were buried.
	Before time.Time
	// From is the queue that buried them.
	From string
	// Limit is 1 to 100,000; 0 is 10,000.
	Limit int
	// DryRun counts and moves nothing.
	DryRun bool
	// Target is where to, a queue or a topic; empty is where each came from.
	Target string
	// Rate spreads the items: each is due so much after the one before it, the first of a
	// call at once; Limit items take 720 h at most. Zero is all of them at once.
	Rate Rate
}

// Redriven counts.
type Redriven struct {
	Moved int
	// Skipped stay where they are: leased, in the target already, without one, or wanted by
	// no subscription of the topic.
	Skipped int
	// More says that the limit or the time ended the call early.
	More bool
	// Until is when the last of them is due, with a Rate.
	Until time.Time
}

// Redrive moves items out of a dead-letter queue, with a fresh budget.
func (c *Client) Redrive(ctx context.Context, deadQueue string, params RedriveParams) (Redriven, error) {
	q := &v1.RedriveRequest{
		QueueName: deadQueue, Limit: count(params.Limit), DryRun: params.DryRun, Target: params.Target,
		Rate: params.Rate.wire(),
	}
	filter := &v1.RedriveFilter{
		ItemIds: params.ItemIDs, Kind: params.Kind, Reason: params.Reason, Before: stamp(params.Before), From: params.From,
	}
	switch {
	case proto.Size(filter) > 0:
		q.Filter = filter
	case params.ItemIDs != nil:
		return Redriven{}, nil // a list that came out empty names nothing, which is not all
	}
	p := new(v1.RedriveReply)
	err := c.call(ctx, "queue.redrive", q, p)
	return Redriven{Moved: int(p.GetMoved()), Skipped: int(p.GetSkipped()), More: p.GetMore(), Until: instant(p.GetUntil())}, err
}
