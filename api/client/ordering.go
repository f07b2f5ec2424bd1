package client

import (
	"context"
	"iter"
	"time"

	v1 "github.com/posthaste-io/posthaste/api/v1"
)

// OrderingKey is what the items of an ordering key wait for.
type OrderingKey struct {
	Key string
	// HeadID names the head: the item that the others wait for.
	HeadID string
	// State is the head's: ready, scheduled, retrying, parked until Unblock or SkipHead,
	// leased or lapsed.
	State string
	// NextAt is when that may change by itself, if it is known.
	NextAt time.Time
	// CreatedAt is when the head was produced, Attempts what it has used up.
	CreatedAt time.Time
	Attempts  int
	// LastStatus and LastError are of its newest outcome that was not a success.
	LastStatus int
	LastError  string
	// Behind is how many wait, up to 1,000.
	Behind int
}

// OrderingKeys lists the keys of a queue that have items waiting, by key.
func (c *Client) OrderingKeys(ctx context.Context, queue string) iter.Seq2[OrderingKey, error] {
	return pages(func(cursor string) ([]OrderingKey, string, error) {
		p := new(v1.KeysReply)
		if err := c.call(ctx, "queue.keys", &v1.KeysRequest{QueueName: queue, Cursor: cursor}, p); err != nil {
			return nil, "", err
		}
		page := make([]OrderingKey, len(p.GetItems()))
		for i, k := range p.GetItems() {
			page[i] = OrderingKey{
				Key: k.GetOrderingKey(), HeadID: k.GetItemId(), State: k.GetState(), NextAt: instant(k.GetNextAt()),
				CreatedAt: instant(k.GetCreatedAt()), Attempts: int(k.GetAttempts()), LastStatus: int(k.GetLastStatus()),
				LastError: k.GetLastError(), Behind: int(k.GetBehind()),
			}
		}
		return page, p.GetCursor(), nil
	})
}

// Unblock has the head of an ordering key tried again at once. It answers not_blocking if the
// item is being worked on, or is no head.
func (c *Client) Unblock(ctx context.Context, queue, headID string) error {
	return c.call(ctx, "queue.unblock", &v1.UnblockRequest{QueueName: queue, ItemId: headID}, nil)
}

// SkipHead buries the head of an ordering key, so that the next item goes. Errors are as with
// Unblock.
func (c *Client) SkipHead(ctx context.Context, queue, headID string) error {
	return c.call(ctx, "queue.unblock", &v1.UnblockRequest{QueueName: queue, ItemId: headID, Skip: true}, nil)
}
