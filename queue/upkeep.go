package queue

import (
	"context"
	"errors"
	"fmt"
)

// sweepPage bounds one step of a sweep.
const sweepPage = 1000

// NextDue tells when the next item of each queue is due; see [Store].
func (b *Broker) NextDue(ctx context.Context) (DueAnswer, error) {
	return b.store.NextDue(ctx)
}

// Sweep walks the whole store once and buries what is over its limits or expired,
// and not being worked on. Leasing buries such items too, but only those that
// somebody asks for. What has lapsed within its limits stays as it is.
//
// After an error the sweep has ended where it was; the next one begins anew.
func (b *Broker) Sweep(ctx context.Context) (buried int, err error) {
	for req := (SweepRequest{Limit: sweepPage}); ; {
		page, err := b.store.Sweep(ctx, req)
		if err != nil {
			return buried, fmt.Errorf("sweep: %w", err)
		}
		n, err := b.sweep(ctx, &page)
		buried += n
		if err != nil {
			return buried, fmt.Errorf("sweep: %w", err)
		}
		if page.Next == "" {
			return buried, nil
		}
		req.Cursor = page.Next
	}
}

func (b *Broker) sweep(ctx context.Context, page *SweepPage) (buried int, err error) {
	type ruled struct {
		queue *knownQueue
		limit int32
	}
	queues := map[Number]ruled{}
	var doomed []doomedItem
	for i := range page.Items {
		it := &page.Items[i]
		r, known := queues[it.Queue]
		if !known {
			if r.queue, err = b.known.numbered(ctx, it.Queue); err != nil && !errors.Is(err, ErrNotFound) {
				return 0, err
			}
			if r.queue != nil && b.opts.Limit != nil {
				if r.limit, err = b.opts.Limit(ctx, r.queue.ns, r.queue.name); err != nil {
					return 0, err
				}
			}
			queues[it.Queue] = r
		}
		if r.queue == nil {
			continue // the queue was deleted, and its items are being cancelled
		}
		if reason := r.queue.settings().reasonToBury(it, r.limit, page.Now); reason != "" {
			doomed = append(doomed, doomedItem{key: it.Key, token: it.Token, queue: r.queue, reason: reason})
		}
	}
	return b.bury(doomed, NotLive)
}

// Tidy drops old idempotency keys and journal records, and what deleted queues
// left behind.
func (b *Broker) Tidy(ctx context.Context) error {
	for {
		more, err := b.store.Tidy(ctx, b.opts.KeepRecords)
		if err != nil {
			return fmt.Errorf("tidy: %w", err)
		}
		if !more {
			break
		}
	}
	if err := b.endNumbers(ctx); err != nil {
		return fmt.Errorf("tidy deleted queues: %w", err)
	}
	return nil
}

// Stats counts what a queue holds and what waits for it.
func (b *Broker) Stats(ctx context.Context, ns Namespace, queue string) (QueueStats, error) {
	q, err := b.known.named(ctx, ns, queue)
	if err != nil {
		return QueueStats{}, err
	}
	stats, err := b.store.Stats(ctx, []Number{q.number})
	if err != nil {
		return QueueStats{}, fmt.Errorf("stats of %s: %w", queue, err)
	}
	if len(stats) == 0 {
		stats = []Stats{{Queue: q.number}} // nothing in it
	}
	st := QueueStats{Stats: stats, ProduceWaiting: q.pinned()}
	var leasing int
	st.LeaseWaiting, leasing = b.leases.load(q.number)
	_, producing := b.produces.load()
	var settling int
	st.SettleWaiting, settling = b.settles.load()
	_, extending := b.extends.load()
	st.InFlight = leasing + producing + settling + extending
	return st, nil
}

// Items lists a queue's items in queue order, with content; see [ListRequest].
func (b *Broker) Items(ctx context.Context, query ItemsQuery) (ListPage, error) {
	if query.Limit < 1 || query.Limit > DefaultMaxItems {
		return ListPage{}, Invalid("limit", "is %d; want 1 to %d", query.Limit, DefaultMaxItems)
	}
	q, err := b.known.named(ctx, query.Namespace, query.Queue)
	if err != nil {
		return ListPage{}, err
	}
	page, err := b.store.ListItems(ctx, ListRequest{
		Queue: q.number, States: query.States,
		From: query.From, Cursor: query.Cursor, Limit: query.Limit, Content: true,
	})
	if err != nil {
		return ListPage{}, fmt.Errorf("items of %s: %w", query.Queue, err)
	}
	return page, nil
}
