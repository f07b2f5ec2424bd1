package resident

import (
	"context"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// Every change of an item is a move in the order, in three steps: lift takes it
// out, the caller changes it, lower puts it back and writes it down; or erase
// instead of lower. Counts, trees and stored keys are right in between no matter
// what was changed.

// lift takes an item out of its sequence and out of the counts.
func (s *Store) lift(sl slot) *entry {
	e := s.entries.get(sl)
	s.unlink(sl, e)
	s.parts[e.part].counts.add(e, s.extOf(e), -1)
	if e.is(cold) {
		s.deleteCold(e)
		e.set(cold, false)
	}
	return e
}

// lower puts an item into its place and writes its state, in memory or, where
// there is no room for it, on the disk alone; then the slot is free.
func (s *Store) lower(sl slot, now int64) {
	e := s.entries.get(sl)
	p := s.parts[e.part]
	p.counts.add(e, s.extOf(e), 1)
	if s.spills(p, e, now) {
		s.spill(sl, e, p)
		return
	}
	s.link(sl, e, now)
	if !s.options.Volatile {
		s.put(appendItemKey(s.arena.bytes(itemKeySize), spaceState, s.key(e)), s.encodeState(e), false)
		e.set(warm, true)
	}
}

// erase ends a lifted item, content and all; of a shared content, its part in it.
func (s *Store) erase(sl slot, now int64) {
	s.unbind(sl, now)
	e := s.entries.get(sl)
	s.forgetState(e)
	s.dropContent(sl, e)
	s.free(sl)
}

// forgetState takes the state of a lifted item from where it was stored.
func (s *Store) forgetState(e *entry) {
	if e.is(warm) {
		s.del(appendItemKey(s.arena.bytes(itemKeySize), spaceState, s.key(e)), false)
		e.set(warm, false)
	}
}

// free gives a slot back; nothing refers to it any more.
func (s *Store) free(sl slot) {
	s.indexRemove(sl)
	if e := s.entries.get(sl); e.ext != 0 {
		s.exts.drop(e.ext)
	}
	if s.options.Volatile {
		*s.contents.reach(sl) = nil
	}
	s.entries.drop(sl)
	s.live--
}

// occupy takes a slot for an item that enters memory.
func (s *Store) occupy(e entry) slot {
	sl := s.entries.take()
	*s.entries.get(sl) = e
	s.indexAdd(sl)
	s.live++
	return sl
}

// rehome makes a lifted item the last in the order of arrival of another queue.
func (s *Store) rehome(sl slot, number queue.Number, part int32) {
	e := s.entries.get(sl)
	s.touch(e)
	s.forgetState(e)
	e.part = s.ensure(number, part).index
	e.seq = s.next()
}

// stand lets go of a lifted item and gives it a place by right, which one behind another of
// its key takes later.
func (s *Store) stand(sl slot, due, now int64) {
	e := s.entries.get(sl)
	x := s.touch(e)
	s.renew(x)
	e.set(held, false)
	e.set(lapseCounts, false)
	x.owner = ""
	x.due = due
	x.updated = now
	e.at = due
	if s.isBehind(sl) {
		e.at = forever
	}
}

// Move implements [queue.Store].
func (s *Store) Move(ctx context.Context, entries []queue.Move) ([]queue.MoveStatus, error) {
	now, err := s.begin(ctx, writes)
	if err != nil {
		return nil, err
	}
	statuses := make([]queue.MoveStatus, len(entries))
	for i, m := range entries {
		if statuses[i], err = s.move(m, now); err != nil {
			break
		}
		s.seal()
	}
	if err != nil {
		return nil, s.abandon(err)
	}
	return statuses, s.leave(ctx)
}

func (s *Store) move(m queue.Move, now int64) (queue.MoveStatus, error) {
	sl, err := s.summon(m.Key, now)
	if err != nil {
		return 0, err
	}
	if sl == 0 || s.entries.get(sl).is(held) {
		return queue.MoveGone, nil
	}
	target := queue.Key{ID: m.Key.ID, Queue: m.Target, Home: m.Key.Home}
	if taken, err := s.lives(target); err != nil || taken {
		return queue.MoveTaken, err
	}
	e := s.lift(sl)
	x := s.touch(e)
	x.generation++
	s.unbind(sl, now)
	s.rehome(sl, m.Target, m.Partition)
	x.attempts, x.recoveries, x.dead = 0, 0, nil
	due := dueTime(time.Time{}, m.Delay, now)
	x.first, x.expires = due, expiry(due, m.ExpireTTL)
	s.stand(sl, due, now)
	s.bind(sl)
	s.lower(sl, now)
	return queue.Moved, nil
}
