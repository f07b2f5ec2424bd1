package queue

import (
	"context"
	"errors"
	"fmt"
)

// Extend moves deadlines, each by itself, to a time from now, never earlier than
// they were. The answer has the entries' order: one whose lease is over is [Stale]
// or [Gone], and the others are extended all the same.
//
// Errors: [InvalidError]; [TooLargeError]; [OverloadedError]; [ErrShuttingDown];
// those of [Store]. A repeat is safe in any case.
func (b *Broker) Extend(ctx context.Context, ns Namespace, queue string, entries []ExtendEntry) ([]Extended, error) {
	if len(entries) == 0 {
		return nil, Invalid("receipts", "none given; want 1 to %d", DefaultMaxItems)
	}
	if len(entries) > DefaultMaxItems {
		return nil, &TooLargeError{Field: "receipts", Limit: DefaultMaxItems, Unit: "receipts"}
	}
	receipts := make([]Receipt, len(entries))
	for i := range entries {
		if err := checkExtend(&entries[i]); err != nil {
			return nil, atEntry("receipts", i, err)
		}
		receipts[i] = entries[i].Receipt
	}
	if err := b.checkPlace(ctx, ns, queue, nil, receipts); err != nil {
		return nil, err
	}
	extended := make([]Extended, len(entries))
	asked := make([]int, 0, len(receipts))
	req := make([]Extension, 0, len(receipts))
	for i := range entries {
		extension, err := b.extension(ctx, ns, &entries[i])
		if errors.Is(err, ErrNotFound) {
			extended[i].Status = Gone
			continue
		}
		if err != nil {
			return nil, err
		}
		asked = append(asked, i)
		req = append(req, extension)
	}
	if len(req) == 0 {
		return extended, nil
	}
	answers, err := b.extends.do(ctx, burden{queue: req[0].Key.Queue, entries: len(req)}, req)
	if err != nil {
		return nil, fmt.Errorf("extend: %w", err)
	}
	for k, i := range asked {
		extended[i] = answers[k]
	}
	return extended, nil
}

func checkExtend(e *ExtendEntry) error {
	if err := checkLeaseTTL("lease_timeout", e.TTL); err != nil {
		return err
	}
	if e.Handover == nil {
		return nil
	}
	return checkLabel("owner", e.Handover.Owner)
}

func (b *Broker) extension(ctx context.Context, ns Namespace, e *ExtendEntry) (Extension, error) {
	r := e.Receipt
	if err := b.checkReceipt(ctx, ns, r); err != nil {
		return Extension{}, err
	}
	x := Extension{Key: r.Key, Token: r.Token, TTL: e.TTL}
	if x.TTL == 0 {
		q, err := b.known.numbered(ctx, r.Key.Queue)
		if err != nil {
			return Extension{}, err
		}
		x.TTL = q.settings().LeaseTTL
	}
	if e.Handover != nil {
		handover := *e.Handover
		handover.Record = cleanRecord(handover.Record)
		x.Handover = &handover
	}
	return x, nil
}

// storeExtend is the extending batcher's call of the store.
func (b *Broker) storeExtend(ctx context.Context, batch [][]Extension) ([][]Extended, error) {
	var all []Extension
	for _, req := range batch {
		all = append(all, req...)
	}
	answer, err := b.store.Extend(ctx, all)
	if err != nil {
		return nil, err
	}
	answers := make([][]Extended, len(batch))
	rest := answer.Entries
	for i, req := range batch {
		answers[i], rest = rest[:len(req):len(req)], rest[len(req):]
		for j := range req {
			if answers[i][j].Status == Applied {
				b.onDue(req[j].Key.Queue, answers[i][j].Deadline)
			}
		}
	}
	return answers, nil
}
