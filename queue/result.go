package queue

import (
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

// ending makes the record of a completion that brings none of its own, or nil if the
// queue keeps nothing of ended items. It is [ErrNotFound] for a result without a queue.
//
// A queue is known where it was leased from, so that this reads its settings once in
// [Options.SettingsAge] at most, however many complete.
func (b *Broker) ending(ctx context.Context, e *SettleEntry) (*Record, error) {
	if e.Record != nil {
		return nil, nil
	}
	q, err := b.known.numbered(ctx, e.Receipt.Key.Queue)
	if errors.Is(err, ErrNotFound) && len(e.Result) == 0 {
		return nil, nil // it was deleted: the store knows whether the item is still there
	}
	if err != nil {
		return nil, err
	}
	switch {
	case q.settings().KeepEnded > 0:
		return &Record{Type: EndingRecord, Verdict: VerdictCompleted, Response: e.Result}, nil
	case len(e.Result) > 0:
		return nil, Invalid("result", "would be lost, since queue %s keeps nothing of ended items; set its keep_ended", q.name)
	default:
		return nil, nil
	}
}
