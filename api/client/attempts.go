package client

import (
	"context"
	"iter"
	"time"

	v1 "github.com/posthaste-io/posthaste/api/v1"
)

// Attempt is a line of the attempt log: one request to an endpoint, a lease that ended
// without an outcome, or the end of an item. An item, its Attempt, Type and At name one.
type Attempt struct {
	ItemID string
	Queue  string
	// Subscription is empty for what consumers did.
	Subscription string
	// Attempt is the number of the delivery, from 1, with gaps, as the request told it.
	Attempt int
	// Type is attempt, lapse, ending or outcome.
	Type string
	// At is when it was written, StartedAt when the request began and Duration how long it
	// took.
	At        time.Time
	StartedAt time.Time
	Duration  time.Duration
	// Verdict is delivered, deferred, retryable, throttled, rejected, gone, blocked or
	// aborted; for an ending its reason.
	Verdict string
	// Status is the endpoint's, 0 if it did not answer.
	Status int
	// Error is its class and what happened.
	Error string
	// Response is the head of the answer, at most 4,096 bytes of anything that an endpoint
	// may send: show it escaped.
	Response []byte
	// Next is what became of the item: complete, retry, release, bury, hold or cancel;
	// NextAt is when it is available again.
	Next   string
	NextAt time.Time
	// Node is the process that did it.
	Node string
}

// AttemptFilter takes the lines of the log to which all that is set applies.
type AttemptFilter struct {
	ItemID       string
	Subscription string
	Queue        string
	// Verdict is that of an attempt, or the reason of an ending.
	Verdict string
	// Type is attempt, lapse, ending or outcome.
	Type string
	// From and To bound At: From <= At < To.
	From, To time.Time
	// OldestFirst turns the order, in which the newest come first.
	OldestFirst bool
	// PageSize is how many one call brings, 1 to 1,000; 0 is 100.
	PageSize int
}

// Attempts reads the attempt log, newest first, for as long as the server keeps it.
func (c *Client) Attempts(ctx context.Context, f AttemptFilter) iter.Seq2[Attempt, error] {
	return pages(func(cursor string) ([]Attempt, string, error) {
		p := new(v1.AttemptsListReply)
		err := c.call(ctx, "attempts.list", &v1.AttemptsListRequest{
			ItemId: f.ItemID, Subscription: f.Subscription, QueueName: f.Queue, Verdict: f.Verdict, Type: f.Type,
			From: stamp(f.From), To: stamp(f.To), OldestFirst: f.OldestFirst, Limit: count(f.PageSize), Cursor: cursor,
		}, p)
		if err != nil {
			return nil, "", err
		}
		page := make([]Attempt, len(p.GetItems()))
		for i, a := range p.GetItems() {
			page[i] = attemptOf(a)
		}
		return page, p.GetCursor(), nil
	})
}

func attemptOf(a *v1.Attempt) Attempt {
	return Attempt{
		ItemID: a.GetItemId(), Queue: a.GetQueueName(), Subscription: a.GetSubscription(), Attempt: int(a.GetAttempt()), Type: a.GetType(),
		At: instant(a.GetAt()), StartedAt: instant(a.GetStartedAt()), Duration: span(a.GetDuration()),
		Verdict: a.GetVerdict(), Status: int(a.GetStatus()), Error: a.GetError(), Response: a.GetResponse(),
		Next: a.GetNext(), NextAt: instant(a.GetNextAt()), Node: a.GetNode(),
	}
}
