package storagetest

import (
	"context"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// Settle implements [queue.HotStore].
func (m *Model) Settle(ctx context.Context, groups []queue.SettleGroup) (queue.SettleAnswer, error) {
	now, end, err := m.begin(ctx)
	if err != nil {
		return queue.SettleAnswer{}, err
	}
	defer end()
	answer := queue.SettleAnswer{Now: now}
	for _, group := range groups {
		answer.Groups = append(answer.Groups, m.settleGroup(group, now))
	}
	return answer, nil
}

// settleGroup judges every entry before it applies any.
func (m *Model) settleGroup(group queue.SettleGroup, now time.Time) []queue.Settled {
	settled := make([]queue.Settled, len(group.Entries))
	for _, s := range group.Entries {
		if m.checkGuards(s.Produce) != nil {
			for i := range settled {
				settled[i].Status = queue.Overtaken
			}
			return settled
		}
	}
	named := map[queue.Key]bool{}
	good := true
	for i, s := range group.Entries {
		settled[i].Status = m.judge(s, now)
		// An earlier entry of the group has used this token up.
		if settled[i].Status == queue.Applied && named[s.Key] {
			settled[i].Status = queue.Stale
		}
		named[s.Key] = true
		good = good && settled[i].Status == queue.Applied
	}
	for i, s := range group.Entries {
		switch {
		case good:
			settled[i] = m.apply(s, now)
		case settled[i].Status == queue.Applied:
			settled[i].Status = queue.Undone
		}
	}
	return settled
}

// judge says what would become of an entry, and changes nothing.
func (m *Model) judge(s queue.Settlement, now time.Time) queue.SettleStatus {
	it, found := m.items[s.Key]
	switch {
	case !found:
		return queue.Gone
	case it.Token != s.Token:
		return queue.Stale
	case s.Guard == queue.Held && !it.Held:
		return queue.Stale
	case s.Guard == queue.NotLive && isLive(it, now):
		return queue.Stale
	}
	attempts := it.Attempts + 1
	if s.Guard == queue.NotLive && hasLapsed(it, now) && it.LapseCounts {
		attempts++
	}
	buries := s.Outcome == queue.Bury || s.Outcome == queue.Retry && atLimit(attempts, it, s)
	if buries && s.DeadQueue == 0 {
		return queue.OverLimit
	}
	return queue.Applied
}

// atLimit says whether attempts use up the limit in force, the item's own first.
func atLimit(attempts int32, it *queue.Item, s queue.Settlement) bool {
	limit := s.MaxAttempts
	if it.MaxAttempts != 0 {
		limit = it.MaxAttempts
	}
	return limit > 0 && attempts >= limit && !s.Undead
}

func (m *Model) apply(s queue.Settlement, now time.Time) queue.Settled {
	it := m.items[s.Key]
	if s.Guard == queue.NotLive && hasLapsed(it, now) {
		m.accountForLapse(it, now)
	}
	found := *it
	settled := queue.Settled{Status: queue.Applied}
	var next queue.Step
	// What is buried keeps its count, to tell why.
	if s.Guard == queue.Held && (s.Outcome == queue.Complete || s.Outcome == queue.Retry) {
		it.Recoveries = 0
	}
	switch s.Outcome {
	case queue.Complete:
		m.remove(it)
		next = queue.StepComplete
	case queue.Retry:
		it.Attempts++
		if atLimit(it.Attempts, it, s) {
			m.bury(it, s, now)
			settled.Buried = true
			next = queue.StepBury
		} else {
			setLast(it, s.Last)
			m.put(it, dueTime(s.DueAt, s.Delay, now), now)
			next = queue.StepRetry
		}
	case queue.Release:
		setLast(it, s.Last)
		due := it.DueAt
		if !s.DueAt.IsZero() || s.Delay != 0 {
			due = dueTime(s.DueAt, s.Delay, now)
		}
		m.put(it, due, now)
		next = queue.StepRelease
	case queue.Bury:
		if s.Counts {
			it.Attempts++
		}
		m.bury(it, s, now)
		next = queue.StepBury
	}
	if s.Outcome != queue.Complete {
		settled.AvailableAt = it.AvailableAt
	}
	if s.Record != nil {
		record := *s.Record
		record.Next = next
		if next == queue.StepRetry || next == queue.StepRelease {
			record.NextAt = it.AvailableAt
		}
		m.append(record, &found, now)
	}
	for _, item := range s.Produce {
		m.insert(item, now)
	}
	return settled
}

// put lets go of an item and gives it a place by right.
func (m *Model) put(it *queue.Item, due, now time.Time) {
	renew(it)
	it.Held = false
	it.Owner = ""
	it.LapseCounts = false
	it.UpdatedAt = now
	m.stand(it, due)
}

func (m *Model) bury(it *queue.Item, s queue.Settlement, now time.Time) {
	from := it.Queue
	setLast(it, s.Last)
	it.Dead = &queue.Dead{
		From:       it.Queue,
		Reason:     s.Reason,
		At:         now,
		Status:     it.Last.Status,
		Attempts:   it.Attempts,
		Recoveries: it.Recoveries,
	}
	it.Attempts = 0
	it.Recoveries = 0
	it.ExpiresAt = time.Time{}
	m.relocate(it, s.DeadQueue, 0)
	m.put(it, now, now)
	m.promote(from, it.OrderingKey)
}

// relocate moves an item to the end of the order of arrival of another queue,
// where an earlier copy of it gives way.
func (m *Model) relocate(it *queue.Item, number queue.Number, partition int32) {
	delete(m.items, it.Key)
	it.Queue = number
	it.Partition = partition
	it.Seq = m.nextSeq()
	m.items[it.Key] = it
}

func setLast(it *queue.Item, last queue.Last) {
	if last != (queue.Last{}) {
		it.Last = last
	}
}
