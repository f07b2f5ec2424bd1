package api

import (
	"context"
	"time"

	"github.com/posthaste-io/posthaste/cron"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/schedules"
	"github.com/posthaste-io/posthaste/subscriptions"
)

// Broker is how queues are used; see [queue.Broker] for what its methods promise.
type Broker interface {
	Produce(ctx context.Context, call queue.ProduceCall) ([]queue.Produced, error)
	Lease(ctx context.Context, p queue.LeaseParams) (queue.LeaseReply, error)
	Settle(ctx context.Context, call queue.SettleCall) ([]queue.Settled, error)
	Extend(ctx context.Context, ns queue.Namespace, name string, entries []queue.ExtendEntry) ([]queue.Extended, error)
	Stats(ctx context.Context, ns queue.Namespace, name string) (queue.QueueStats, error)
	Keys(ctx context.Context, q queue.KeysQuery) (queue.KeysPage, error)
	Unblock(ctx context.Context, call queue.UnblockCall) error

	CreateQueue(ctx context.Context, s queue.Settings) (queue.Settings, error)
	UpdateQueue(ctx context.Context, u queue.SettingsUpdate) (queue.Settings, error)
	Queue(ctx context.Context, ns queue.Namespace, name string) (queue.Settings, uint64, error)
	Queues(ctx context.Context, ns queue.Namespace, pivot string, limit int) ([]queue.Versioned[queue.Settings], error)
	CreateTopic(ctx context.Context, ns queue.Namespace, name, reference string) (queue.Settings, error)
	TurnIntoTopic(ctx context.Context, ns queue.Namespace, queue, reference string) (queue.Settings, error)
	UpdateTopic(ctx context.Context, u queue.TopicUpdate) (queue.Settings, error)
	Topic(ctx context.Context, ns queue.Namespace, name string) (queue.Settings, uint64, error)
	Topics(ctx context.Context, ns queue.Namespace, pivot string, limit int) ([]queue.Versioned[queue.Settings], error)
	DeleteTopic(ctx context.Context, ns queue.Namespace, name string, force bool) error
	// Draining returns what is left in the read-only partitions of queues.
	Draining(ctx context.Context, queues []queue.Settings) (map[queue.Number][]queue.Stats, error)
	DeleteQueue(ctx context.Context, ns queue.Namespace, name string, force bool) error
	QueueName(ctx context.Context, n queue.Number) (string, error)
	Pause(ctx context.Context, ns queue.Namespace, name string, what queue.Paused) (queue.Settings, error)
	Resume(ctx context.Context, ns queue.Namespace, name string, what queue.Paused) (queue.Settings, error)
	Reload(ctx context.Context, ns queue.Namespace, name string) error
	Clear(ctx context.Context, call queue.ClearCall) (queue.Cancelled, error)
	Cancel(ctx context.Context, call queue.CancelCall) (queue.Cancelled, error)
	Import(ctx context.Context, call queue.ImportCall) ([]queue.Item, error)
	Redrive(ctx context.Context, call queue.RedriveCall) (queue.Redriven, error)
	// Look returns where an item is, one entry for each queue that holds or held it;
	// Await does so once it has ended there, or when wait is over.
	Look(ctx context.Context, ns queue.Namespace, id queue.ID, queueName string) ([]queue.ItemState, error)
	Await(ctx context.Context, ns queue.Namespace, id queue.ID, queueName string, wait time.Duration) ([]queue.ItemState, error)
	Items(ctx context.Context, q queue.ItemsQuery) (queue.ListPage, error)
	Attempts(ctx context.Context, q queue.AttemptsQuery) (queue.AttemptsPage, error)

	// Drain ends the waits of leases with [queue.ErrShuttingDown].
	Drain()
}

// Subscriptions is who is pushed to; see [subscriptions.Service].
type Subscriptions interface {
	Create(ctx context.Context, p subscriptions.CreateParams) (subscriptions.Subscription, error)
	Get(ctx context.Context, ns queue.Namespace, name string) (subscriptions.Subscription, error)
	ByQueue(ctx context.Context, ns queue.Namespace, name string) (subscriptions.Subscription, error)
	List(ctx context.Context, ns queue.Namespace, after string, limit int) ([]subscriptions.Subscription, error)
	Update(ctx context.Context, p subscriptions.UpdateParams) (subscriptions.Subscription, error)
	Delete(ctx context.Context, ns queue.Namespace, name string) error
	Pause(ctx context.Context, ns queue.Namespace, name string) (subscriptions.Subscription, error)
	Resume(ctx context.Context, ns queue.Namespace, name string) (subscriptions.Subscription, error)
	Enable(ctx context.Context, ns queue.Namespace, name string) (subscriptions.Subscription, error)
	RotateSecret(ctx context.Context, ns queue.Namespace, name string, p subscriptions.RotateParams) (subscriptions.Subscription, error)
}

// Schedules is what is produced by the clock; see [schedules.Service].
type Schedules interface {
	Create(ctx context.Context, p schedules.CreateParams) (schedules.Schedule, error)
	Get(ctx context.Context, ns queue.Namespace, name string) (schedules.Schedule, error)
	List(ctx context.Context, ns queue.Namespace, after string, limit int) ([]schedules.Schedule, error)
	Update(ctx context.Context, p schedules.UpdateParams) (schedules.Schedule, error)
	Delete(ctx context.Context, ns queue.Namespace, name string) error
	Pause(ctx context.Context, ns queue.Namespace, name string) (schedules.Schedule, error)
	Resume(ctx context.Context, ns queue.Namespace, name string) (schedules.Schedule, error)
	Trigger(ctx context.Context, p schedules.TriggerParams) (queue.Produced, error)
	Preview(ctx context.Context, p schedules.PreviewParams) ([]cron.Fire, error)
}

var (
	_ Broker        = (*queue.Broker)(nil)
	_ Subscriptions = (*subscriptions.Service)(nil)
	_ Schedules     = (*schedules.Service)(nil)
)

// LaneState is what the push loop of a subscription does now.
type LaneState struct {
	// Window is how many requests may run, InFlight how many do.
	Window   int
	InFlight int
	// Breaker is closed, open or half-open; BreakerUntil, if not zero, is when an
	// open one probes.
	Breaker      string
	BreakerUntil time.Time
	// PausedUntil, if not zero, is how long the endpoint asked us to wait.
	PausedUntil time.Time
	// RateUntil, if not zero, is when the rate lets the next request start.
	RateUntil time.Time
	// Deferred is how many items the endpoint keeps, to finish later, and MaxDeferred how
	// many it may; 0 where it may keep none.
	Deferred    int
	MaxDeferred int
	// LastError is the newest failure, empty if there was none.
	LastError   string
	LastErrorAt time.Time
	// Hosts are those of items' own targets that have requests or trouble. What stands
	// above is then about the subscription's own endpoint.
	Hosts []HostState
}

// HostState is the part of a [LaneState] about one host, with the same meanings.
type HostState struct {
	// Host is that of the URL, in lower case and with its port: [queue.Target.Host].
	Host         string
	Window       int
	InFlight     int
	Breaker      string
	BreakerUntil time.Time
	PausedUntil  time.Time
	RateUntil    time.Time
	LastError    string
	LastErrorAt  time.Time
}
