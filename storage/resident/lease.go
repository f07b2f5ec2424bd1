package resident

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/posthaste-io/posthaste/queue"
)

// errMissing says that an item lives and its content does not.
var errMissing = errors.New("content is missing")

// dealt is an item that a taker was given; its content is read when the lease is
// durable.
type dealt struct {
	slot    slot
	item    *queue.Item
	lapsed  bool
	name    contentName
	content []byte // of a volatile store
}

// Lease implements [queue.Store].
func (s *Store) Lease(ctx context.Context, calls []queue.LeaseCall) (queue.LeaseAnswer, error) {
	now, err := s.begin(ctx, writes)
	if err != nil {
		return queue.LeaseAnswer{}, err
	}
	answer := queue.LeaseAnswer{Now: instant(now), Calls: make([]queue.LeaseResult, len(calls))}
	hands := make([][][]dealt, len(calls))
	given := false
	for i := range calls {
		if hands[i], err = s.deal(&calls[i], now); err != nil {
			return queue.LeaseAnswer{}, s.abandon(err)
		}
		given = given || slices.ContainsFunc(hands[i], func(hand []dealt) bool { return len(hand) > 0 })
		s.seal()
	}
	if !given {
		s.mu.Unlock()
	} else if err := s.leave(ctx); err != nil {
		return queue.LeaseAnswer{}, err
	}
	for i := range calls {
		answer.Calls[i] = s.answer(hands[i])
	}
	return answer, nil
}

// sealAfter is after how many writes a call's leases go to the disk, so that no
// commit is too large for it, however many takers there are.
const sealAfter = 1000

// deal goes round the takers with one item after the other. Whoever cannot take
// an item wants no more; it goes to the next in turn.
func (s *Store) deal(call *queue.LeaseCall, now int64) ([][]dealt, error) {
	hands := make([][]dealt, len(call.Takers))
	p := s.partition(call.Queue, call.Partition)
	if p == nil {
		return hands, nil
	}
	wanted := 0
	for i := range call.Takers {
		wanted += call.Takers[i].Limit
	}
	done := make([]bool, len(call.Takers))
	bytes := make([]int, len(call.Takers))
	turn := 0
	for wanted > 0 {
		sl, err := s.ready(p, now, wanted)
		if err != nil && turn > 0 {
			// What was dealt is good; the next call meets the error by itself.
			return hands, nil
		}
		if err != nil || sl == 0 {
			return hands, err
		}
		size := int(s.entries.get(sl).size)
		taker := -1
		for range call.Takers {
			i := turn % len(call.Takers)
			turn++
			t := &call.Takers[i]
			if len(hands[i]) >= t.Limit || len(hands[i]) > 0 && t.MaxBytes > 0 && bytes[i]+size > t.MaxBytes {
				done[i] = true
			}
			if !done[i] {
				taker = i
				break
			}
		}
		if taker < 0 {
			return hands, nil
		}
		bytes[taker] += size
		wanted--
		hands[taker] = append(hands[taker], s.lease(sl, &call.Takers[taker], now))
		// A lease is whole by the item, and there may be many.
		if len(s.batch) >= sealAfter {
			s.seal()
		}
	}
	return hands, nil
}

// ready returns the first item of a partition if it is available, or slot 0.
func (s *Store) ready(p *partition, now int64, want int) (slot, error) {
	for {
		sl, pos := s.head(p)
		if p.horizon.at <= now && p.horizon.before(pos) {
			if err := s.readAhead(p, now, max(1, want)); err != nil {
				return 0, err
			}
			continue
		}
		if pos.at > now {
			return 0, nil
		}
		return sl, nil
	}
}

func (s *Store) lease(sl slot, t *queue.Taker, now int64) dealt {
	e := s.lift(sl)
	x := s.touch(e)
	lapsed := e.is(held)
	if lapsed {
		s.accountForLapse(e, x, now)
	}
	s.renew(x)
	e.set(held, true)
	e.set(lapseCounts, t.LapseCounts)
	x.owner = t.Owner
	x.deliveries++
	x.updated = now
	e.at = deadline(now, t.TTL)
	s.lower(sl, now)
	it := s.view(e)
	d := dealt{slot: sl, item: &it, lapsed: lapsed, name: s.name(e)}
	if s.options.Volatile {
		d.content = *s.contents.get(sl)
	}
	return d
}

// accountForLapse makes a lifted item pay for a lease that lapsed, once. It stands
// at the lapsed deadline then.
func (s *Store) accountForLapse(e *entry, x *ext, now int64) {
	s.record(queue.Record{Type: queue.LapseRecord, Key: s.key(e), Delivery: x.deliveries}, now)
	charge(&x.attempts, &x.recoveries, e.is(lapseCounts))
	x.due = e.at
}

func charge(attempts, recoveries *int32, lapseCounts bool) {
	if lapseCounts {
		*attempts++
	} else {
		*recoveries++
	}
}

// answer reads the contents of what was dealt. What cannot be read is left under
// its lease, for others to look at when that lapses.
func (s *Store) answer(hands [][]dealt) queue.LeaseResult {
	result := queue.LeaseResult{Takers: make([][]queue.Item, len(hands))}
	for i, hand := range hands {
		if len(hand) == 0 {
			continue
		}
		items := make([]queue.Item, 0, len(hand))
		for j := range hand {
			d := &hand[j]
			if d.lapsed {
				result.Lapsed++
			}
			content, err := s.content(d.item.Key, d.name, d.content)
			switch {
			case err == nil:
				d.item.Content = content
				items = append(items, *d.item)
			case s.holds(d):
				result.Corrupt++
				s.log.Error("item left alone", "item", d.item.ID, "queue", uint64(d.item.Queue), "err", err)
			}
			// Otherwise somebody cancelled it in between, content and all.
		}
		result.Takers[i] = items
	}
	return result
}

// holds says whether an item is still under the lease that was dealt.
func (s *Store) holds(d *dealt) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := s.find(d.item.Key)
	return sl != 0 && s.extOf(s.entries.get(sl)) != nil && s.extOf(s.entries.get(sl)).token == d.item.Token
}

// content reads a content; resident is it if it is in memory, where it must stay
// as it is.
func (s *Store) content(of queue.Key, name contentName, resident []byte) (queue.Content, error) {
	if resident != nil {
		c, err := decodeContent(resident)
		c.Payload = bytes.Clone(c.Payload)
		return c, err
	}
	b, err := s.disk.Get(appendContentKey(make([]byte, 0, contentKeySize), of, name))
	if err != nil {
		return queue.Content{}, fmt.Errorf("read content: %w", err)
	}
	if b == nil {
		return queue.Content{}, errMissing
	}
	return decodeContent(b)
}

// Extend implements [queue.Store].
func (s *Store) Extend(ctx context.Context, entries []queue.Extension) (queue.ExtendAnswer, error) {
	now, err := s.begin(ctx, writes)
	if err != nil {
		return queue.ExtendAnswer{}, err
	}
	answer := queue.ExtendAnswer{Now: instant(now), Entries: make([]queue.Extended, len(entries))}
	for i := range entries {
		if answer.Entries[i], err = s.extend(&entries[i], now); err != nil {
			return queue.ExtendAnswer{}, s.abandon(err)
		}
		s.seal()
	}
	if err := s.leave(ctx); err != nil {
		return queue.ExtendAnswer{}, err
	}
	return answer, nil
}

func (s *Store) extend(x *queue.Extension, now int64) (queue.Extended, error) {
	sl, status, err := s.holder(x.Key, x.Token)
	if err != nil || status != queue.Applied {
		return queue.Extended{Status: status}, err
	}
	e := s.lift(sl)
	state := s.touch(e)
	e.at = max(e.at, deadline(now, x.TTL))
	state.updated = now
	if h := x.Handover; h != nil {
		state.owner = h.Owner
		e.set(lapseCounts, h.LapseCounts)
		if h.Record != nil {
			record := *h.Record
			record.Key, record.Delivery = s.key(e), state.deliveries
			record.Next, record.NextAt = queue.StepHold, instant(e.at)
			s.record(record, now)
		}
	}
	s.lower(sl, now)
	return queue.Extended{Status: queue.Applied, Deadline: instant(e.at)}, nil
}

// holder finds the item of a lease that was not settled. What is on the disk only
// is under no lease. The slot is that of any item that is found.
func (s *Store) holder(key queue.Key, token queue.Token) (slot, queue.SettleStatus, error) {
	sl := s.find(key)
	if sl == 0 {
		at, err := s.pointer(key)
		if at != nil {
			return 0, queue.Stale, nil
		}
		return 0, queue.Gone, err
	}
	if e := s.entries.get(sl); !e.is(held) || s.extOf(e).token != token {
		return sl, queue.Stale, nil
	}
	return sl, queue.Applied, nil
}
