package client

import (
	"context"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"

	v1 "github.com/posthaste-io/posthaste/api/v1"
)

// ItemInfo is where an item is in one queue, or how it ended there.
type ItemInfo struct {
	Queue string
	// State is ready, scheduled, retrying, leased, lapsed, behind or buried; completed or
	// cancelled, once it has ended.
	State string
	// Why is the one reason why it is not delivered now, Message the same in words.
	Why     string
	Message string
	// NextAt is when that will change by itself, if it is known.
	NextAt     time.Time
	Deliveries int
	Attempts   int
	Recoveries int
	// LastStatus and LastError are of the newest outcome that was not a success.
	LastStatus int
	LastError  string
	// Subscription is whom the queue is pushed to.
	Subscription string
	// Result is what came of the work.
	Result  []byte
	EndedAt time.Time
}

// Ended says whether the item is done with in this queue: completed, cancelled, or in a
// dead-letter queue.
func (i ItemInfo) Ended() bool {
	return i.State == "completed" || i.State == "cancelled" || i.State == "buried"
}

// ItemInfo tells where an item is, with an entry for each queue that holds or held it;
// queue, if not empty, asks for that one only.
func (c *Client) ItemInfo(ctx context.Context, itemID, queue string) ([]ItemInfo, error) {
	return c.itemInfo(ctx, "items.info", &v1.ItemsInfoRequest{ItemId: itemID, QueueName: queue})
}

// WaitItem is ItemInfo once the item has ended, or when wait is over: 10 ms to 15 min,
// 0 is a minute. An item that ends in a queue that keeps none is not_found.
func (c *Client) WaitItem(ctx context.Context, itemID, queue string, wait time.Duration) ([]ItemInfo, error) {
	return c.itemInfo(ctx, "items.wait", &v1.ItemsWaitRequest{ItemId: itemID, QueueName: queue, RequestTimeout: text(wait)})
}

func (c *Client) itemInfo(ctx context.Context, method string, q proto.Message) ([]ItemInfo, error) {
	p := new(v1.ItemsInfoReply)
	if err := c.call(ctx, method, q, p); err != nil {
		return nil, err
	}
	out := make([]ItemInfo, len(p.GetItems()))
	for i, it := range p.GetItems() {
		out[i] = ItemInfo{
			Queue: it.GetQueueName(), State: it.GetState(), Why: it.GetWhy(), Message: it.GetMessage(), NextAt: instant(it.GetNextAt()),
			Deliveries: int(it.GetDeliveries()), Attempts: int(it.GetAttempts()), Recoveries: int(it.GetRecoveries()),
			LastStatus: int(it.GetLastStatus()), LastError: it.GetLastError(), Subscription: it.GetSubscription(),
			Result: it.GetResult(), EndedAt: instant(it.GetEndedAt()),
		}
	}
	return out, nil
}

// Cancelled counts.
type Cancelled struct {
	Count int
	// More says that the time was up before all was done: call again.
	More bool
	// NotFound are those of the ids that no item has.
	NotFound []string
}

// CancelItems ends items without delivering them, leased ones too, and erases them. At
// most 1,000 ids; queue, if not empty, limits it to that one's copies.
func (c *Client) CancelItems(ctx context.Context, queue string, itemIDs ...string) (Cancelled, error) {
	return c.cancel(ctx, &v1.ItemsCancelRequest{ItemIds: itemIDs, QueueName: queue})
}

// ItemFilter takes the items of a queue to which all that is set applies.
type ItemFilter struct {
	Queue string
	Kind  string
	// State is ready, scheduled, retrying, leased, lapsed or behind.
	State string
	// Before is when they were created.
	Before time.Time
}

// CancelMatching is CancelItems by a filter.
func (c *Client) CancelMatching(ctx context.Context, f ItemFilter) (Cancelled, error) {
	return c.cancel(ctx, &v1.ItemsCancelRequest{Filter: &v1.ItemsFilter{
		QueueName: f.Queue, Kind: f.Kind, State: f.State, Before: stamp(f.Before),
	}})
}

func (c *Client) cancel(ctx context.Context, q *v1.ItemsCancelRequest) (Cancelled, error) {
	p := new(v1.CountReply)
	err := c.call(ctx, "items.cancel", q, p)
	return Cancelled{Count: int(p.GetCount()), More: p.GetMore(), NotFound: p.GetNotFound()}, err
}

// StoredItem is an item as a queue holds it.
type StoredItem struct {
	ItemID   string
	SourceID string
	// State is ready, scheduled, retrying, leased, lapsed or behind.
	State       string
	Kind        string
	Encoding    string
	Reference   string
	Payload     []byte
	Headers     map[string]string
	OrderingKey string
	// EnqueueAt is when it is available, for one that is not yet.
	EnqueueAt     time.Time
	LeaseDeadline time.Time
	ExpiresAt     time.Time
	CreatedAt     time.Time
	UpdatedAt     time.Time
	Deliveries    int
	Attempts      int
	MaxAttempts   int
	Recoveries    int
	// Target is the item's own endpoint, or nil, OnDone the queue or topic that is told how it ends.
	Target *Target
	OnDone string
	// Dead is set in a dead-letter queue.
	Dead *Dead
}

// Dead says why an item was buried.
type Dead struct {
	Queue      string
	Reason     string
	At         time.Time
	LastStatus int
	Attempts   int
	Recoveries int
}

// Items lists what a queue holds, in its order; where it has several partitions, one after
// the other.
func (c *Client) Items(ctx context.Context, queue string) iter.Seq2[StoredItem, error] {
	return c.items(ctx, "storage/items.list", queue)
}

// ScheduledItems lists what is not yet due.
func (c *Client) ScheduledItems(ctx context.Context, queue string) iter.Seq2[StoredItem, error] {
	return c.items(ctx, "storage/scheduled.list", queue)
}

// itemsPage is small, since payloads come along.
const itemsPage = 100

func (c *Client) items(ctx context.Context, method, queue string) iter.Seq2[StoredItem, error] {
	return func(yield func(StoredItem, error) bool) {
		partitions := []int32{0} // which others there are is asked when they are needed
		for i := 0; i < len(partitions); i++ {
			for it, err := range c.partitionItems(ctx, method, queue, partitions[i]) {
				if !yield(it, err) || err != nil {
					return
				}
			}
			if i > 0 {
				continue
			}
			info := new(v1.QueueInfo)
			if err := c.call(ctx, "queues.info", &v1.QueuesInfoRequest{QueueName: queue}, info); err != nil {
				yield(StoredItem{}, err)
				return
			}
			for _, p := range info.GetPartitions() {
				if p.GetPartition() > 0 {
					partitions = append(partitions, p.GetPartition())
				}
			}
		}
	}
}

func (c *Client) partitionItems(ctx context.Context, method, queue string, partition int32) iter.Seq2[StoredItem, error] {
	return pages(func(cursor string) ([]StoredItem, string, error) {
		p := new(v1.ItemsListReply)
		q := &v1.ItemsListRequest{QueueName: queue, Partition: partition, Limit: itemsPage, Cursor: cursor}
		if err := c.call(ctx, method, q, p); err != nil {
			return nil, "", err
		}
		return storedItems(p.GetItems()), p.GetCursor(), nil
	})
}

func storedItems(items []*v1.Item) []StoredItem {
	out := make([]StoredItem, len(items))
	for i, it := range items {
		out[i] = StoredItem{
			ItemID: it.GetId(), SourceID: it.GetSourceId(), State: it.GetState(), Kind: it.GetKind(), Encoding: it.GetEncoding(),
			Reference: it.GetReference(), Payload: it.GetPayload(), Headers: it.GetHeaders(),
			EnqueueAt: instant(it.GetEnqueueAt()), LeaseDeadline: instant(it.GetLeaseDeadline()), ExpiresAt: instant(it.GetExpireDeadline()),
			CreatedAt: instant(it.GetCreatedAt()), UpdatedAt: instant(it.GetUpdatedAt()),
			Deliveries: int(it.GetDeliveries()), Attempts: int(it.GetAttempts()), MaxAttempts: int(it.GetMaxAttempts()), Recoveries: int(it.GetRecoveries()),
			Target: targetOf(it.GetTarget()), OnDone: it.GetOnDone(), OrderingKey: it.GetOrderingKey(),
		}
		if d := it.GetDead(); d != nil {
			out[i].Dead = &Dead{
				Queue: d.GetQueue(), Reason: d.GetReason(), At: instant(d.GetAt()), LastStatus: int(d.GetLastStatus()),
				Attempts: int(d.GetAttempts()), Recoveries: int(d.GetRecoveries()),
			}
		}
	}
	return out
}

// ImportItems brings items along from elsewhere, all of them or none, at most 1,000.
// ItemID must be set: it becomes the SourceID, and an item whose SourceID lives in the
// queue already is left out. Attempts, MaxAttempts, EnqueueAt, ExpiresAt, Target, OnDone and
// OrderingKey are kept.
func (c *Client) ImportItems(ctx context.Context, queue string, items ...StoredItem) ([]StoredItem, error) {
	q := &v1.ItemsImportRequest{QueueName: queue, Items: make([]*v1.Item, len(items))}
	for i := range items {
		it := &items[i]
		q.Items[i] = &v1.Item{
			Id: it.ItemID, Kind: it.Kind, Encoding: it.Encoding, Reference: it.Reference, Payload: it.Payload, Headers: it.Headers,
			EnqueueAt: stamp(it.EnqueueAt), ExpireDeadline: stamp(it.ExpiresAt),
			IsLeased: !it.LeaseDeadline.IsZero(), LeaseDeadline: stamp(it.LeaseDeadline),
			Attempts: count(it.Attempts), MaxAttempts: count(it.MaxAttempts),
			Target: it.Target.wire(), OnDone: it.OnDone, OrderingKey: it.OrderingKey,
		}
	}
	p := new(v1.ItemsImportReply)
	if err := c.call(ctx, "storage/items.import", q, p); err != nil {
		return nil, err
	}
	return storedItems(p.GetItems()), nil
}
