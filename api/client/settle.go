package client

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	v1 "github.com/posthaste-io/posthaste/api/v1"
)

// SettleResult is what became of one receipt.
type SettleResult struct {
	Receipt string
	// Status is ok; or stale_lease, not_found, already_dead; or undone, for a good
	// receipt whose call was refused because of others.
	Status string
	// Buried says that the item went to the dead-letter queue.
	Buried bool
	// AvailableAt is when the item can be leased again, after retry and release.
	AvailableAt time.Time
	// LeaseDeadline is the new one, after extend.
	LeaseDeadline time.Time
}

// OK says whether it was settled.
func (r SettleResult) OK() bool { return r.Status == "ok" }

func settleResults(results []*v1.Settled) []SettleResult {
	if len(results) == 0 {
		return nil
	}
	out := make([]SettleResult, len(results))
	for i, r := range results {
		out[i] = SettleResult{
			Receipt: r.GetReceipt(), Status: r.GetStatus(), Buried: r.GetBuried(),
			AvailableAt: instant(r.GetAvailableAt()), LeaseDeadline: instant(r.GetLeaseDeadline()),
		}
	}
	return out
}

// Complete says that items are done: all receipts are settled, or none, and then the
// [*Error] has Results that name those at fault.
func (c *Client) Complete(ctx context.Context, receipts ...string) error {
	_, err := c.settle(ctx, "queue.complete", &v1.CompleteRequest{Receipts: receipts})
	return err
}

// Completion is a receipt and what came of the work, at most 4,096 bytes, which is kept
// for the queue's KeepEnded.
type Completion struct {
	Receipt string
	Result  []byte
}

// CompleteWith is Complete with results.
func (c *Client) CompleteWith(ctx context.Context, completions ...Completion) error {
	q := &v1.CompleteRequest{Items: make([]*v1.Complete, len(completions))}
	for i, done := range completions {
		q.Items[i] = &v1.Complete{Receipt: done.Receipt, Result: done.Result}
	}
	_, err := c.settle(ctx, "queue.complete", q)
	return err
}

// Retry is a receipt and when to try again: at At, after Delay, or at once.
type Retry struct {
	Receipt string
	At      time.Time
	Delay   time.Duration
	// Dead sends it to the dead-letter queue instead.
	Dead bool
	// Reason is kept with the item, at most 500 bytes.
	Reason string
}

// Retry gives items back to be tried later, which counts an attempt each and buries
// those that have none left: all are settled, or none.
func (c *Client) Retry(ctx context.Context, retries ...Retry) ([]SettleResult, error) {
	q := &v1.RetryRequest{Items: make([]*v1.Retry, len(retries))}
	for i, r := range retries {
		q.Items[i] = &v1.Retry{Id: r.Receipt, RetryAt: stamp(r.At), Delay: text(r.Delay), Dead: r.Dead, Reason: r.Reason}
	}
	return c.settle(ctx, "queue.retry", q)
}

// Release gives items back uncounted, to where they stood or after a delay: all are
// settled, or none.
func (c *Client) Release(ctx context.Context, delay time.Duration, receipts ...string) error {
	_, err := c.settle(ctx, "queue.release", &v1.ReleaseRequest{Receipts: receipts, Delay: text(delay)})
	return err
}

// Bury moves items to the dead-letter queue, with a reason of at most 500 bytes: all
// are settled, or none.
func (c *Client) Bury(ctx context.Context, reason string, receipts ...string) error {
	_, err := c.settle(ctx, "queue.bury", &v1.BuryRequest{Receipts: receipts, Reason: reason})
	return err
}

// Extend moves lease deadlines to now + ttl, or by the queue's own if ttl is 0, each by
// itself: results name those that were lost, and there is no error for them.
func (c *Client) Extend(ctx context.Context, ttl time.Duration, receipts ...string) ([]SettleResult, error) {
	return c.settle(ctx, "queue.extend", &v1.ExtendRequest{Receipts: receipts, LeaseTimeout: text(ttl)})
}

func (c *Client) settle(ctx context.Context, method string, q proto.Message) ([]SettleResult, error) {
	p := new(v1.SettleReply)
	if err := c.call(ctx, method, q, p); err != nil {
		return nil, err
	}
	return settleResults(p.GetResults()), nil
}
