package resident

import (
	"context"

	"github.com/posthaste-io/posthaste/queue"
)

// Settle implements [queue.Store]. Groups over a bound of the disk make the whole
// call fail, with a [queue.TooLargeError].
func (s *Store) Settle(ctx context.Context, groups []queue.SettleGroup) (queue.SettleAnswer, error) {
	follow := make([][]arrival, len(groups))
	for i := range groups {
		var err error
		if follow[i], err = s.prepareSettle(&groups[i]); err != nil {
			return queue.SettleAnswer{}, err
		}
	}
	now, err := s.begin(ctx, writes)
	if err != nil {
		return queue.SettleAnswer{}, err
	}
	answer := queue.SettleAnswer{Now: instant(now), Groups: make([][]queue.Settled, len(groups))}
	for i := range groups {
		if answer.Groups[i], err = s.settle(groups[i].Entries, follow[i], now); err != nil {
			return queue.SettleAnswer{}, s.abandon(err)
		}
		s.seal()
	}
	if err := s.leave(ctx); err != nil {
		return queue.SettleAnswer{}, err
	}
	return answer, nil
}

// prepareSettle encodes what a group produces, entry after entry, and measures
// what it writes at most.
func (s *Store) prepareSettle(group *queue.SettleGroup) ([]arrival, error) {
	var follow []arrival
	total := 0
	for i := range group.Entries {
		e := &group.Entries[i]
		total += entrySize(e)
		if len(e.Produce) == 0 {
			continue
		}
		arrivals, size, err := s.prepare(e.Produce, "produce")
		if err != nil {
			return nil, err
		}
		total += size
		follow = append(follow, arrivals...)
	}
	return follow, s.checkSize(total, "entries")
}

// entrySize is what an entry writes at most beside what it produces. Of the texts
// that the item has already only the bounds are known.
func entrySize(t *queue.Settlement) int {
	size := entryOverhead
	if t.Record != nil {
		size += recordSize(t.Record)
	}
	if t.Outcome == queue.Complete {
		return size
	}
	lastError, reason := len(t.Last.Error), len(t.Reason)
	if t.Last == (queue.Last{}) {
		lastError = queue.MaxLastError
	}
	if t.Outcome != queue.Bury {
		reason = queue.MaxLastError
	}
	return size + lastError + reason
}

// settle judges every entry of a group before it applies any.
func (s *Store) settle(entries []queue.Settlement, follow []arrival, now int64) ([]queue.Settled, error) {
	settled := make([]queue.Settled, len(entries))
	if s.checkGuards(follow) != nil {
		for i := range settled {
			settled[i].Status = queue.Overtaken
		}
		return settled, nil
	}
	slots := make([]slot, len(entries))
	good := true
	var err error
	for i := range entries {
		if err == nil {
			slots[i], settled[i].Status, err = s.judge(&entries[i], now)
		}
		good = good && settled[i].Status == queue.Applied
		if slots[i] != 0 {
			s.entries.get(slots[i]).set(named, true)
		}
	}
	for _, sl := range slots {
		if sl != 0 {
			s.entries.get(sl).set(named, false)
		}
	}
	if err != nil {
		return nil, err
	}
	if !good {
		for i := range settled {
			if settled[i].Status == queue.Applied {
				settled[i].Status = queue.Undone
			}
		}
		return settled, nil
	}
	for i := range entries {
		settled[i] = s.apply(slots[i], &entries[i], now)
		for range entries[i].Produce {
			if _, err := s.insert(follow[0], now); err != nil {
				return nil, err
			}
			follow = follow[1:]
		}
	}
	return settled, nil
}

// judge says what would become of an entry, and changes nothing. It returns the
// slot of any item that it finds.
func (s *Store) judge(t *queue.Settlement, now int64) (slot, queue.SettleStatus, error) {
	if t.Guard == queue.Held {
		sl, status, err := s.holder(t.Key, t.Token)
		if err != nil || status != queue.Applied {
			return sl, status, err
		}
		return s.judgeFound(sl, t, now)
	}
	sl, err := s.summon(t.Key, now)
	if err != nil || sl == 0 {
		return 0, queue.Gone, err
	}
	return s.judgeFound(sl, t, now)
}

func (s *Store) judgeFound(sl slot, t *queue.Settlement, now int64) (slot, queue.SettleStatus, error) {
	e := s.entries.get(sl)
	var token queue.Token
	var attempts, own int32
	if x := s.extOf(e); x != nil {
		token, attempts, own = x.token, x.attempts, x.maxAttempts
	}
	switch {
	case token != t.Token,
		t.Guard == queue.NotLive && e.is(held) && e.at > now,
		e.is(named): // an earlier entry of the group uses this token up
		return sl, queue.Stale, nil
	case t.Guard == queue.NotLive && e.is(held) && e.is(lapseCounts):
		attempts++
	}
	buries := t.Outcome == queue.Bury || t.Outcome == queue.Retry && atLimit(attempts+1, own, t)
	if !buries {
		return sl, queue.Applied, nil
	}
	if t.DeadQueue == 0 {
		return sl, queue.OverLimit, nil
	}
	// Should an earlier copy be there, it has to be at hand when this one comes.
	_, err := s.summon(queue.Key{ID: e.id, Queue: t.DeadQueue, Home: s.origin(e).home}, now)
	return sl, queue.Applied, err
}

// atLimit says whether attempts use up the limit in force, the item's own first.
func atLimit(attempts, own int32, t *queue.Settlement) bool {
	limit := t.MaxAttempts
	if own != 0 {
		limit = own
	}
	return limit > 0 && attempts >= limit && !t.Undead
}

func (s *Store) apply(sl slot, t *queue.Settlement, now int64) queue.Settled {
	e := s.lift(sl)
	x := s.touch(e)
	if t.Guard == queue.NotLive && e.is(held) {
		s.accountForLapse(e, x, now)
	}
	found, delivery := s.key(e), x.deliveries
	// What is buried keeps its count, to tell why.
	if t.Guard == queue.Held && (t.Outcome == queue.Complete || t.Outcome == queue.Retry) {
		x.recoveries = 0
	}
	settled := queue.Settled{Status: queue.Applied}
	var next queue.Step
	switch t.Outcome {
	case queue.Complete:
		s.erase(sl, now)
		next = queue.StepComplete
	case queue.Retry:
		x.attempts++
		if atLimit(x.attempts, x.maxAttempts, t) {
			settled.Buried = true
			s.bury(sl, t, now)
			next = queue.StepBury
			break
		}
		setLast(x, t.Last)
		s.stand(sl, dueTime(t.DueAt, t.Delay, now), now)
		next = queue.StepRetry
	case queue.Release:
		setLast(x, t.Last)
		due := x.due
		if !t.DueAt.IsZero() || t.Delay != 0 {
			due = dueTime(t.DueAt, t.Delay, now)
		}
		s.stand(sl, due, now)
		next = queue.StepRelease
	case queue.Bury:
		if t.Counts {
			x.attempts++
		}
		s.bury(sl, t, now)
		next = queue.StepBury
	}
	if t.Outcome != queue.Complete {
		settled.AvailableAt = instant(e.at)
		s.lower(sl, now)
	}
	if t.Record != nil {
		record := *t.Record
		record.Key, record.Delivery, record.Next = found, delivery, next
		if next == queue.StepRetry || next == queue.StepRelease {
			record.NextAt = settled.AvailableAt
		}
		s.record(record, now)
	}
	return settled
}

// bury makes a lifted item the last of a dead-letter queue, with a fresh budget.
// Should the same item be there already, from an earlier life, it gives way: it
// is the same work, and its newer copy knows the whole story.
func (s *Store) bury(sl slot, t *queue.Settlement, now int64) {
	e := s.entries.get(sl)
	x := s.touch(e)
	s.unbind(sl, now)
	setLast(x, t.Last)
	x.dead = &queue.Dead{
		From:       s.parts[e.part].queue,
		Reason:     t.Reason,
		At:         instant(now),
		Status:     x.last.Status,
		Attempts:   x.attempts,
		Recoveries: x.recoveries,
	}
	x.attempts, x.recoveries, x.expires = 0, 0, 0
	target := queue.Key{ID: e.id, Queue: t.DeadQueue, Home: s.origin(e).home}
	older := s.find(target)
	if older == 0 && s.replaced[target] {
		older, _ = s.summon(target, now) // of this very group: nothing is read from the disk
	}
	if older != 0 && older != sl {
		s.lift(older)
		s.erase(older, now)
	}
	s.rehome(sl, t.DeadQueue, 0)
	s.stand(sl, now, now)
}

func setLast(x *ext, last queue.Last) {
	if last != (queue.Last{}) {
		x.last = last
	}
}
