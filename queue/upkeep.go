package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// sweepPage bounds one step of a sweep.
const sweepPage = 1000

// NextDue tells when the next item of each queue is due; see [Store].
func (b *Broker) NextDue(ctx context.Context) (DueAnswer, error) {
	answer, err := b.store.NextDue(ctx)
	b.known.foundDue(answer.Queues)
	return answer, err
}

// Sweep walks the whole store once and buries what is over its limits or expired,
// and not being worked on. Leasing buries such items too, but only those that
// somebody asks for. What has lapsed within its limits stays as it is.
//
// A queue that cannot be judged, or buried from, keeps its items and holds up no
// other; the error tells of each. An error of the walk itself ends it; the next one
// begins anew.
func (b *Broker) Sweep(ctx context.Context) (buried int, err error) {
	for req := (SweepRequest{Limit: sweepPage}); ; {
		page, walkErr := b.store.Sweep(ctx, req)
		if walkErr != nil {
			return buried, errors.Join(err, fmt.Errorf("sweep: %w", walkErr))
		}
		n, pageErr := b.sweep(ctx, &page)
		buried += n
		if pageErr != nil {
			err = errors.Join(err, fmt.Errorf("sweep: %w", pageErr))
		}
		if page.Next == "" {
			return buried, err
		}
		req.Cursor = page.Next
	}
}

func (b *Broker) sweep(ctx context.Context, page *SweepPage) (buried int, err error) {
	queues := map[Number]ruledQueue{}
	var doomed []doomedItem
	for i := range page.Items {
		it := &page.Items[i]
		r, known := queues[it.Queue]
		if !known {
			var ruleErr error
			if r, ruleErr = b.ruled(ctx, it.Queue); ruleErr != nil {
				err = errors.Join(err, ruleErr)
			}
			queues[it.Queue] = r
		}
		if r.queue == nil {
			continue
		}
		if reason := r.queue.settings().reasonToBury(it, r.limit, page.Now); reason != "" {
			doomed = append(doomed, doomedItem{item: *it, queue: r.queue, reason: reason})
		}
	}
	buried, buryErr := b.bury(doomed, NotLive)
	return buried, errors.Join(err, buryErr)
}

// ruledQueue is a queue with the limit of attempts that its subscription sets. The
// zero value is one whose items are left alone.
type ruledQueue struct {
	queue *knownQueue
	limit int32
}

func (b *Broker) ruled(ctx context.Context, n Number) (ruledQueue, error) {
	q, err := b.known.numbered(ctx, n)
	if errors.Is(err, ErrNotFound) {
		return ruledQueue{}, nil // it was deleted, and its items are being cancelled
	}
	if err != nil {
		return ruledQueue{}, fmt.Errorf("queue number %d: %w", n.Own(), err)
	}
	r := ruledQueue{queue: q}
	if b.opts.Limit == nil {
		return r, nil
	}
	if r.limit, err = b.opts.Limit(ctx, q.ns, q.name); err != nil {
		return ruledQueue{}, fmt.Errorf("limit of %s: %w", q.name, err)
	}
	return r, nil
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
	slices.SortFunc(stats, func(a, b Stats) int { return cmp.Compare(a.Partition, b.Partition) })
	st := QueueStats{Stats: withEmpty(stats, q), ProduceWaiting: q.pinned()}
	var leasing int
	st.LeaseWaiting, leasing = b.leases.load(q.number)
	_, producing := b.produces.load(q.number)
	var settling int
	st.SettleWaiting, settling = b.settles.load(q.number)
	_, extending := b.extends.load(q.number)
	st.InFlight = leasing + producing + settling + extending
	return st, nil
}

// withEmpty adds the partitions of a queue that hold nothing, of those that are not
// read-only: the store leaves them out.
func withEmpty(stats []Stats, q *knownQueue) []Stats {
	for p := range max(q.settings().Partitions, 1) {
		i, found := slices.BinarySearchFunc(stats, p, func(st Stats, p int32) int { return cmp.Compare(st.Partition, p) })
		if !found {
			stats = slices.Insert(stats, i, Stats{Queue: q.number, Partition: p})
		}
	}
	return stats
}

// Items lists the items of one partition of a queue in their order, with content; see
// [ListRequest].
func (b *Broker) Items(ctx context.Context, query ItemsQuery) (ListPage, error) {
	if query.Limit < 1 || query.Limit > DefaultMaxItems {
		return ListPage{}, Invalid("limit", "is %d; want 1 to %d", query.Limit, DefaultMaxItems)
	}
	q, err := b.known.named(ctx, query.Namespace, query.Queue)
	if err != nil {
		return ListPage{}, err
	}
	if err := b.checkPartition(ctx, q, query.Partition); err != nil {
		return ListPage{}, err
	}
	page, err := b.store.ListItems(ctx, ListRequest{
		Queue: q.number, Partition: query.Partition, States: query.States,
		From: query.From, Cursor: query.Cursor, Limit: query.Limit, Content: true,
	})
	if err != nil {
		return ListPage{}, fmt.Errorf("items of %s: %w", query.Queue, err)
	}
	return page, nil
}
