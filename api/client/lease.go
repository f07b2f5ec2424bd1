package client

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	v1 "github.com/posthaste-io/posthaste/api/v1"
)

// LeaseParams ask for items of a queue.
type LeaseParams struct {
	Queue string
	// BatchSize is at most how many, 1 to 1,000; 0 is 1.
	BatchSize int
	// Wait is how long to wait for the first item, 10 ms to 15 min; 0 is a minute.
	Wait time.Duration
	// LeaseTimeout is how long the lease lasts; 0 takes the queue's.
	LeaseTimeout time.Duration
	// ClientID names the consumer, for people and so that it waits once at a time; empty
	// is nobody in particular.
	ClientID string
	// MaxBytes bounds the answer, but for its first item; 0 is 4 MB.
	MaxBytes int
}

// Leased is an item that is yours until LeaseDeadline. Settle it with its Receipt.
type Leased struct {
	ItemID string
	// Receipt proves the lease to Complete, Retry, Release, Bury and Extend.
	Receipt   string
	Kind      string
	Encoding  string
	Reference string
	Payload   []byte
	Headers   map[string]string
	// Deliveries counts leases, this one included.
	Deliveries int
	// Recoveries counts leases in a row that lapsed.
	Recoveries int
	// LastError is what the newest outcome that was not a success said.
	LastError     string
	LeaseDeadline time.Time
	CreatedAt     time.Time
	// Traceparent is the producer's W3C trace context, or empty.
	Traceparent string
	// OrderingKey is the producer's: no other item with it is given out before this one has
	// ended.
	OrderingKey string

	result []byte
}

// SetResult says what came of the work, at most 4,096 bytes. A [Worker] sends it along
// when it completes the item; the queue keeps it for its KeepEnded.
func (l *Leased) SetResult(result []byte) { l.result = result }

// JSON reads the payload into v.
func (l *Leased) JSON(v any) error { return json.Unmarshal(l.Payload, v) }

// Lease waits for items of a queue and returns them, or none when the wait is over. If
// ctx ends earlier than that, the wait is cut, so that the answer comes before its end.
// What is not settled before its deadline is given to somebody else.
func (c *Client) Lease(ctx context.Context, params LeaseParams) ([]Leased, error) {
	q := &v1.LeaseRequest{
		QueueName: params.Queue, BatchSize: count(params.BatchSize), ClientId: params.ClientID,
		RequestTimeout: text(waitWithin(ctx, params.Wait)), LeaseTimeout: text(params.LeaseTimeout), MaxBytes: float64(params.MaxBytes),
	}
	p := new(v1.LeaseReply)
	if err := c.call(ctx, "queue.lease", q, p); err != nil {
		return nil, err
	}
	items := make([]Leased, len(p.GetItems()))
	for i, it := range p.GetItems() {
		items[i] = Leased{
			ItemID: it.GetItemId(), Receipt: it.GetReceipt(), Kind: it.GetKind(), Encoding: it.GetEncoding(),
			Reference: it.GetReference(), Payload: it.GetBytes(), Headers: it.GetHeaders(),
			Deliveries: int(it.GetAttempts()), Recoveries: int(it.GetRecoveries()), LastError: it.GetLastError(), Traceparent: it.GetTraceparent(),
			LeaseDeadline: instant(it.GetLeaseDeadline()), CreatedAt: instant(it.GetCreatedAt()), OrderingKey: it.GetOrderingKey(),
		}
	}
	return items, nil
}

// Bounds of a lease's wait, and what the server takes if it is not told.
const (
	leastWait   = 10 * time.Millisecond
	defaultWait = time.Minute
)

// waitWithin is wait, or what ctx leaves of it, less a tenth for the way.
func waitWithin(ctx context.Context, wait time.Duration) time.Duration {
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return wait
	}
	left := time.Until(deadline)
	left -= min(max(left/10, 50*time.Millisecond), 2*time.Second)
	if left >= cmp.Or(wait, defaultWait) {
		return wait
	}
	return max(left, leastWait)
}
