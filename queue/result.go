package queue

import (
	"cmp"
	"context"
	"errors"
)

// VerdictCompleted is in the ending records of items that a consumer completed.
const VerdictCompleted = "completed"

// checkResult judges a result by itself.
func checkResult(e *SettleEntry) error {
	switch {
	case len(e.Result) == 0:
		return nil
	case e.Outcome != Complete:
		return Invalid("result", "goes with complete only")
	case e.Record != nil:
		return Invalid("result", "goes without a record, whose response says it")
	case len(e.Result) > MaxResponse:
		return &TooLargeError{Field: "result", Limit: MaxResponse, Unit: "bytes"}
	default:
		return nil
	}
}

// ending makes the record of a completion that puts none of its own into the journal, or
// nil if the queue keeps nothing of ended items. It is [ErrNotFound] for a result without a
// queue. A result that is told to somebody may be kept nowhere.
//
// A queue is known where it was leased from, so that this reads its settings once in
// [Options.SettingsAge] at most, however many complete.
func (b *Broker) ending(ctx context.Context, e *SettleEntry) (*Record, error) {
	if e.Record != nil && !e.Unlogged {
		return nil, nil
	}
	q, err := b.known.numbered(ctx, e.Receipt.Key.Queue)
	if errors.Is(err, ErrNotFound) && len(e.Result) == 0 {
		return nil, nil // it was deleted: the store knows whether the item is still there
	}
	if err != nil {
		return nil, err
	}
	by, logs, err := b.pushedBy(ctx, q, e)
	switch {
	case err != nil:
		return nil, err
	case q.settings().KeepEnded > 0 || logs:
		r := &Record{Type: EndingRecord, Verdict: VerdictCompleted, Response: e.Result, Subscription: by}
		if e.Record != nil {
			r.Response = e.Record.Response[:min(len(e.Record.Response), MaxResponse)]
		}
		return r, nil
	case by != "":
		return nil, nil // an endpoint does not know what is kept, and is done all the same
	case len(e.Result) > 0 && !e.tells():
		return nil, errResultLost(q)
	default:
		return nil, nil
	}
}

// VerdictDeferred is in the records of what endpoints did that were to finish later.
const VerdictDeferred = "deferred"

// laterOutcome makes the record of what an endpoint did with an item that it was to finish
// later, other than to complete it, or nil if the attempt log does not have the item.
func (b *Broker) laterOutcome(ctx context.Context, q *knownQueue, e *SettleEntry) (*Record, error) {
	if e.Record != nil {
		return nil, nil
	}
	by, logs, err := b.pushedBy(ctx, q, e)
	if err != nil || !logs {
		return nil, err
	}
	return &Record{Type: OutcomeRecord, Verdict: VerdictDeferred, Subscription: by, Error: cmp.Or(e.Reason, cleanLast(e.Last).Error)}, nil
}

// limitOf is the limit of attempts of a queue's subscription, for an endpoint that was to
// finish later and has the item tried again; 0 is none.
func (b *Broker) limitOf(ctx context.Context, q *knownQueue, e *SettleEntry) (int32, error) {
	if !e.Receipt.Pushed || e.MaxAttempts != 0 || b.opts.Limit == nil {
		return 0, nil
	}
	return b.opts.Limit(ctx, q.number.Namespace(), q.name)
}

// pushedBy names the subscription whose endpoint was given the receipt, and says whether
// what it does goes into the attempt log; "" if there is none, or none any more.
func (b *Broker) pushedBy(ctx context.Context, q *knownQueue, e *SettleEntry) (name string, logs bool, err error) {
	if !e.Receipt.Pushed || b.opts.PushedBy == nil {
		return "", false, nil
	}
	return b.opts.PushedBy(ctx, q.number.Namespace(), q.name)
}

func errResultLost(q *knownQueue) error {
	return Invalid("result", "would be lost, since queue %s keeps nothing of ended items; set its keep_ended", q.name)
}
