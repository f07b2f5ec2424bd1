package storagetest

import (
	"context"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// Lease implements [queue.HotStore].
func (m *Model) Lease(ctx context.Context, calls []queue.LeaseCall) (queue.LeaseAnswer, error) {
	now, end, err := m.begin(ctx)
	if err != nil {
		return queue.LeaseAnswer{}, err
	}
	defer end()
	answer := queue.LeaseAnswer{Now: now}
	for _, call := range calls {
		answer.Calls = append(answer.Calls, m.deal(call, now))
	}
	return answer, nil
}

// deal goes round the takers with one item after the other, as one deals cards.
func (m *Model) deal(call queue.LeaseCall, now time.Time) queue.LeaseResult {
	given := make([][]queue.Item, len(call.Takers))
	lapsed := 0
	full := make([]bool, len(call.Takers))
	turn := 0
	for _, it := range m.partition(call.Queue, call.Partition) {
		if it.AvailableAt.After(now) {
			break
		}
		// Whoever cannot take this item wants no more; it goes to the next in turn.
		taken := false
		for range call.Takers {
			i := turn % len(call.Takers)
			turn++
			if full[i] = full[i] || !fits(call.Takers[i], given[i], it); full[i] {
				continue
			}
			if it.Held {
				lapsed++
			}
			m.lease(it, call.Takers[i], now)
			given[i] = append(given[i], cloneItem(it))
			taken = true
			break
		}
		if !taken {
			break
		}
	}
	return queue.LeaseResult{Takers: given, Lapsed: lapsed}
}

func fits(taker queue.Taker, given []queue.Item, it *queue.Item) bool {
	if len(given) >= taker.Limit {
		return false
	}
	if len(given) == 0 || taker.MaxBytes == 0 {
		return true
	}
	size := it.Size()
	for i := range given {
		size += given[i].Size()
	}
	return size <= taker.MaxBytes
}

func (m *Model) lease(it *queue.Item, taker queue.Taker, now time.Time) {
	if it.Held {
		m.accountForLapse(it, now)
	}
	renew(it)
	it.Held = true
	it.Owner = taker.Owner
	it.LapseCounts = taker.LapseCounts
	it.Deliveries++
	it.AvailableAt = instant(now.Add(taker.TTL))
	it.UpdatedAt = now
}

// Extend implements [queue.HotStore].
func (m *Model) Extend(ctx context.Context, entries []queue.Extension) (queue.ExtendAnswer, error) {
	now, end, err := m.begin(ctx)
	if err != nil {
		return queue.ExtendAnswer{}, err
	}
	defer end()
	answer := queue.ExtendAnswer{Now: now}
	for _, e := range entries {
		answer.Entries = append(answer.Entries, m.extend(e, now))
	}
	return answer, nil
}

func (m *Model) extend(e queue.Extension, now time.Time) queue.Extended {
	it, found := m.items[e.Key]
	if !found {
		return queue.Extended{Status: queue.Gone}
	}
	if it.Token != e.Token || !it.Held {
		return queue.Extended{Status: queue.Stale}
	}
	if deadline := instant(now.Add(e.TTL)); deadline.After(it.AvailableAt) {
		it.AvailableAt = deadline
	}
	it.UpdatedAt = now
	if h := e.Handover; h != nil {
		it.Owner = h.Owner
		it.LapseCounts = h.LapseCounts
		if h.Record != nil {
			record := *h.Record
			record.Next = queue.StepHold
			record.NextAt = it.AvailableAt
			m.append(record, it, now)
		}
	}
	return queue.Extended{Status: queue.Applied, Deadline: it.AvailableAt}
}

// NextDue implements [queue.HotStore].
func (m *Model) NextDue(ctx context.Context) (queue.DueAnswer, error) {
	now, end, err := m.begin(ctx)
	if err != nil {
		return queue.DueAnswer{}, err
	}
	defer end()
	earliest := map[partitionKey]time.Time{}
	for _, it := range m.items {
		if it.AvailableAt.Equal(queue.Forever) {
			continue
		}
		key := partitionKey{it.Queue, it.Partition}
		if at, found := earliest[key]; !found || it.AvailableAt.Before(at) {
			earliest[key] = it.AvailableAt
		}
	}
	answer := queue.DueAnswer{Now: now}
	for key, at := range earliest {
		answer.Queues = append(answer.Queues, queue.QueueDue{Queue: key.queue, Partition: key.partition, At: at})
	}
	return answer, nil
}

type partitionKey struct {
	queue     queue.Number
	partition int32
}
