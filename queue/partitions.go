package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// MaxPartitions bounds [Settings.Partitions]. A lease that finds nothing has looked at
// each of them, and past some dozens they bring no more throughput.
const MaxPartitions = 64

// extent is how many partitions may hold items: at least 1, and those from Partitions on
// are read-only.
func (s *Settings) extent() int32 { return max(s.Extent, s.Partitions, 1) }

// Drains says that there may be items in read-only partitions.
func (s *Settings) Drains() bool { return s.extent() > s.Partitions }

// extent is how many partitions may hold items, by the settings and by what was seen.
func (q *knownQueue) extent() int32 {
	return max(q.settings().extent(), q.seen.Load())
}

// found is told of a partition that holds items: one that the settings do not count any
// more got them from a node that was late, and is looked at from here on.
func (q *knownQueue) found(partition int32) {
	for {
		seen := q.seen.Load()
		if partition < q.settings().extent() || partition < seen || partition >= MaxPartitions {
			return
		}
		if q.seen.CompareAndSwap(seen, partition+1) {
			return
		}
	}
}

// foundAll is found for all partitions that hold items: no other does.
func (q *knownQueue) foundAll(stats []Stats) {
	seen := int32(0)
	for i := range stats {
		if p := stats[i].Partition; p >= q.settings().extent() && p < MaxPartitions {
			seen = max(seen, p+1)
		}
	}
	q.seen.Store(seen)
}

// foundDue is found for what is due next.
func (c *catalog) foundDue(due []QueueDue) {
	for i := range due {
		if due[i].Partition == 0 {
			continue
		}
		c.mu.RLock()
		q := c.byNumber[due[i].Queue]
		c.mu.RUnlock()
		if q != nil {
			q.found(due[i].Partition)
		}
	}
}

// next turns a list of one partition to what follows a page: the rest of the partition, or
// the next one of as many as there are. It says whether there is any.
func (r *ListRequest) next(cursor string, partitions int32) (more bool) {
	if r.Cursor = cursor; cursor == "" {
		r.Partition++
	}
	return r.Partition < partitions
}

// checkPartition judges a partition that a caller names. What this node knows of the queue
// may be old, so it is read again before one is refused.
func (b *Broker) checkPartition(ctx context.Context, q *knownQueue, partition int32) error {
	if partition >= 0 && partition < q.extent() {
		return nil
	}
	if partition > 0 && partition < MaxPartitions {
		reread, err := b.known.reread(ctx, q.ns, q.name)
		if err != nil {
			return err
		}
		if partition < reread.extent() {
			return nil
		}
	}
	if last := q.extent() - 1; last > 0 {
		return Invalid("partition", "is %d; the queue has partitions 0 to %d", partition, last)
	}
	return Invalid("partition", "is %d; the queue has only partition 0", partition)
}

// checkWritable judges a partition to which a caller wants to add; 0 is always there.
func (b *Broker) checkWritable(ctx context.Context, q *knownQueue, partition int32) error {
	if partition == 0 {
		return nil
	}
	if err := b.checkPartition(ctx, q, partition); err != nil {
		return err
	}
	if n := q.settings().Partitions; partition >= n {
		return Invalid("partition", "is %d, which is read-only; want less than %d", partition, n)
	}
	return nil
}

// checkReceipt says whether a receipt can be of an item of a namespace. The partition that
// it names is no part of the proof; one that the queue, as far as is known here, does not
// have must be the item's.
func (b *Broker) checkReceipt(ctx context.Context, ns Namespace, r Receipt) error {
	if !r.namesItemOf(ns) {
		return ErrNotFound
	}
	if r.Partition == 0 {
		return nil
	}
	q, err := b.known.numbered(ctx, r.Key.Queue)
	if err != nil || r.Partition < q.extent() {
		return err
	}
	found, err := b.store.Find(ctx, []ID{r.Key.ID}, false)
	if err != nil {
		return fmt.Errorf("find items: %w", err)
	}
	for i := range found {
		if found[i].Key == r.Key && found[i].Partition == r.Partition {
			q.found(r.Partition)
			return nil
		}
	}
	return ErrNotFound
}

// Draining returns what is left in the read-only partitions of some queues, in order, one
// entry for each that holds anything. Queues that have none cost nothing.
func (b *Broker) Draining(ctx context.Context, queues []Settings) (map[Number][]Stats, error) {
	writable := map[Number]int32{}
	var numbers []Number
	for i := range queues {
		if s := &queues[i]; s.Drains() {
			writable[s.Number] = s.Partitions
			numbers = append(numbers, s.Number)
		}
	}
	if len(numbers) == 0 {
		return nil, nil
	}
	stats, err := b.store.Stats(ctx, numbers)
	if err != nil {
		return nil, fmt.Errorf("read-only partitions: %w", err)
	}
	slices.SortFunc(stats, func(a, b Stats) int { return cmp.Compare(a.Partition, b.Partition) })
	left := map[Number][]Stats{}
	for _, st := range stats {
		if st.Partition >= writable[st.Queue] && st.Total > 0 {
			left[st.Queue] = append(left[st.Queue], st)
		}
	}
	return left, nil
}

// partitionsOf returns the partitions under a number that hold anything, and the first in
// any case.
func (b *Broker) partitionsOf(ctx context.Context, n Number) ([]int32, error) {
	stats, err := b.store.Stats(ctx, []Number{n})
	if err != nil {
		return nil, err
	}
	parts := []int32{0}
	for i := range stats {
		if p := stats[i].Partition; p != 0 {
			parts = append(parts, p)
		}
	}
	return parts, nil
}

// drain sees to it that changed settings cover all partitions that may hold items, and has
// the tidying look after a while whether they still do. Until then other nodes, and calls
// that are under way, may put items by the settings that they know.
func (b *Broker) drain(ctx context.Context, s, old *Settings) error {
	s.Extent = 0
	if extent := max(old.extent(), s.Partitions); extent > s.Partitions {
		s.Extent = extent
	}
	if s.Partitions >= old.Partitions {
		return nil
	}
	// First, so that it is done if we end in the middle.
	name := numberName(s.Number)
	for {
		entry, revision, err := b.opts.Numbers.Get(ctx, s.Namespace, name)
		if err != nil {
			return err
		}
		_, err = b.opts.Numbers.Put(ctx, s.Namespace, name, entry, revision, stamp().Add(lingerAfterDelete))
		if !errors.Is(err, ErrRevision) {
			return err
		}
	}
}

// forgetDrained takes partitions that are read-only and empty off a queue, and looks again
// later if others are left. e is the entry of the queue's number.
func (b *Broker) forgetDrained(ctx context.Context, e *Versioned[NumberEntry], s Settings, revision uint64) error {
	if !s.Drains() {
		return b.keepNumber(ctx, e, time.Time{})
	}
	parts, err := b.partitionsOf(ctx, s.Number)
	if err != nil {
		return err
	}
	extent := s.Partitions
	for _, p := range parts {
		extent = max(extent, p+1)
	}
	if extent < s.Extent {
		if s.Extent = extent; extent == s.Partitions {
			s.Extent = 0
		}
		if err := b.replace(ctx, s, revision); ignoreOvertaken(err) != nil {
			return err
		}
		b.log.Info("partitions drained", "queue", s.Name, "partitions", extent)
	}
	if s.Drains() {
		return b.keepNumber(ctx, e, stamp().Add(lingerAfterDelete))
	}
	return b.keepNumber(ctx, e, time.Time{})
}

// placeMoves gives items that are moved, at most a page, their partitions in queues that have
// several: each page goes whole to one of a queue, but for those with an ordering key.
func (b *Broker) placeMoves(ctx context.Context, moves []Move, targets map[Number]*knownQueue) error {
	spread := map[Number][]int{}
	var ids []ID
	for i := range moves {
		if to := targets[moves[i].Target]; to != nil && to.settings().Partitions > 1 {
			spread[to.number] = append(spread[to.number], i)
			ids = append(ids, moves[i].Key.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	found, err := b.read(ctx, ids) // for their ordering keys
	if err != nil {
		return err
	}
	for n, group := range spread {
		items := make([]NewItem, len(group))
		for j, i := range group {
			items[j].Delay = moves[i].Delay
			if it := found[moves[i].Key]; it != nil {
				items[j].OrderingKey = it.OrderingKey
			}
		}
		b.place(targets[n], items)
		for j, i := range group {
			moves[i].Partition = items[j].Partition
		}
	}
	return nil
}
