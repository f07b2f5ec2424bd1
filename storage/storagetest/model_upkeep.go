package storagetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// Sweep implements [queue.ColdStore]. It walks in the order of arrival; a cursor
// is the seq after which the page begins.
func (m *Model) Sweep(ctx context.Context, req queue.SweepRequest) (queue.SweepPage, error) {
	now, end, err := m.begin(ctx)
	if err != nil {
		return queue.SweepPage{}, err
	}
	defer end()
	var after uint64
	if req.Cursor != "" {
		if after, err = strconv.ParseUint(req.Cursor, 10, 64); err != nil {
			return queue.SweepPage{}, fmt.Errorf("cursor: %w", err)
		}
	}
	all := slices.SortedFunc(maps.Values(m.items), func(a, b *queue.Item) int { return cmp.Compare(a.Seq, b.Seq) })
	page := queue.SweepPage{Now: now}
	for _, it := range all {
		if it.Seq <= after || !hasLapsed(it, now) && (isLive(it, now) || !it.Expired(now)) {
			continue
		}
		if len(page.Items) == req.Limit {
			page.Next = strconv.FormatUint(page.Items[len(page.Items)-1].Seq, 10)
			break
		}
		swept := cloneItem(it)
		swept.Content = queue.Content{}
		if hasLapsed(it, now) {
			chargeLapse(&swept)
		}
		page.Items = append(page.Items, swept)
	}
	return page, nil
}

// Tidy implements [queue.ColdStore].
func (m *Model) Tidy(ctx context.Context, keep time.Duration) (more bool, err error) {
	now, end, err := m.begin(ctx)
	if err != nil {
		return false, err
	}
	defer end()
	maps.DeleteFunc(m.keys, func(_ dedupeKey, known knownKey) bool { return !known.expires.After(now) })
	const page = 1000
	dropped := 0
	m.journal = slices.DeleteFunc(m.journal, func(l journalLine) bool {
		if !l.At.Before(now.Add(-keep)) {
			return false
		}
		dropped++
		return dropped <= page
	})
	return dropped > page, nil
}

// Move implements [queue.ColdStore].
func (m *Model) Move(ctx context.Context, entries []queue.Move) ([]queue.MoveStatus, error) {
	now, end, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	var answer []queue.MoveStatus
	for _, e := range entries {
		answer = append(answer, m.move(e, now))
	}
	return answer, nil
}

func (m *Model) move(e queue.Move, now time.Time) queue.MoveStatus {
	it, found := m.items[e.Key]
	if !found || it.Held {
		return queue.MoveGone
	}
	if _, taken := m.items[queue.Key{ID: it.ID, Queue: e.Target, Home: it.Home}]; taken {
		return queue.MoveTaken
	}
	from := it.Queue
	it.Generation++
	it.Attempts = 0
	it.Recoveries = 0
	it.Dead = nil
	due := dueTime(time.Time{}, e.Delay, now)
	it.FirstDueAt = due
	it.ExpiresAt = expiry(due, e.ExpireTTL)
	m.relocate(it, e.Target, e.Partition)
	m.put(it, due, now)
	m.promote(from, it.OrderingKey)
	return queue.Moved
}

// Purge implements [queue.ColdStore].
func (m *Model) Purge(ctx context.Context, req queue.PurgeRequest) (queue.PurgeAnswer, error) {
	now, end, err := m.begin(ctx)
	if err != nil {
		return queue.PurgeAnswer{}, err
	}
	defer end()
	var matching []*queue.Item
	if len(req.Keys) > 0 {
		for _, key := range req.Keys {
			if it, found := m.items[key]; found && !slices.Contains(matching, it) {
				matching = append(matching, it)
			}
		}
	} else {
		for _, it := range m.partition(req.Queue, req.Partition) {
			if len(req.States) == 0 || slices.Contains(req.States, it.State(now)) {
				matching = append(matching, it)
			}
		}
	}
	var answer queue.PurgeAnswer
	for _, it := range matching {
		if answer.Purged == req.Limit {
			answer.More = true
			break
		}
		m.append(queue.Record{Type: queue.EndingRecord, Next: queue.StepCancel, Verdict: req.Reason}, it, now)
		m.remove(it)
		answer.Purged++
	}
	return answer, nil
}
