package resident

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/posthaste-io/posthaste/queue"
)

// What has no room in memory lies on the disk under keys in the order of its
// partition, and is read from there when its turn comes.
//
// A partition's horizon is not after any item that is on the disk only. A lease
// that reaches it reads on from there, never from the partition's first key: what
// was taken leaves marks behind, and a read would have to pass them all. An item
// that goes to the disk before the horizon lowers it.
//
// An item that was read stays stored where it is, so that reading writes nothing;
// the scan passes over it if the horizon is lowered again. Its first change takes
// it out of the cold space in the same commit.

// chunk is how many items are read ahead at a time, and bounds how long a read
// holds the lock.
const chunk = 500

// farAhead is what is not wanted soon: it goes to the disk while there is still
// room for what is.
const farAhead = 60_000_000 // µs

// spills says whether a lifted or new item has to go to the disk.
func (s *Store) spills(p *partition, e *entry, now int64) bool {
	window := s.options.Window
	if window == 0 || e.is(held) {
		return false
	}
	if _, bound := s.chainOf(e); bound {
		return false
	}
	if s.live > window {
		return true
	}
	// Behind what is on the disk already there is no hurry, and memory is for what
	// comes before it.
	behind := p.away > 0 && !e.position().before(p.horizon)
	return behind || s.live > window/2 && e.at > now+farAhead
}

// spill stores a lifted item in the cold space and lets go of its slot. It stays
// in the counts.
func (s *Store) spill(sl slot, e *entry, p *partition) {
	s.forgetState(e)
	place := s.coldPlace(e)
	key := appendColdKey(s.arena.bytes(coldKeySize), place)
	s.put(key, s.encodeState(e), true)
	s.put(appendItemKey(s.arena.bytes(itemKeySize), spacePointer, place.key), key, true)
	if x := s.extOf(e); x != nil && x.expires != 0 {
		s.put(appendExpiryKey(s.arena.bytes(8+coldKeySize), x.expires, place), nil, true)
	}
	if place.before(p.horizon) {
		p.horizon = place.position
	}
	p.away++
	s.away++
	s.replaced[place.key] = true
	s.free(sl)
}

func (s *Store) coldPlace(e *entry) coldPlace {
	return coldPlace{key: s.key(e), part: s.parts[e.part].number, position: e.position()}
}

// deleteCold takes an item that was read from the cold space out of it.
func (s *Store) deleteCold(e *entry) {
	place := s.coldPlace(e)
	s.replaced[place.key] = true
	s.del(appendColdKey(s.arena.bytes(coldKeySize), place), true)
	s.del(appendItemKey(s.arena.bytes(itemKeySize), spacePointer, place.key), true)
	if x := s.extOf(e); x != nil && x.expires != 0 {
		s.del(appendExpiryKey(s.arena.bytes(8+coldKeySize), x.expires, place), true)
	}
}

// readAhead brings what is available from the horizon on into memory, at least
// want items if there are that many.
func (s *Store) readAhead(p *partition, now int64, want int) error {
	if s.options.Window > 0 && s.live < s.options.Window {
		want = max(want, min(chunk, s.options.Window-s.live))
	}
	want = min(want, chunk)
	from := appendPosition([]byte{spaceCold}, p.queue, p.number, p.horizon)
	end := after(from[:1+8+4])
	seen := 0
	next := never
	err := s.scanCold(Range{From: from, To: end, Reread: true}, func(place coldPlace, value []byte) bool {
		if place.at > now || seen == want {
			next = place.position
			return false
		}
		seen++
		if s.find(place.key) == 0 {
			s.admit(p, place, value, now)
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("read on in queue %d: %w", p.queue, err)
	}
	s.visited += seen
	p.horizon = next
	return nil
}

// scanCold visits places of the cold space.
func (s *Store) scanCold(r Range, visit func(place coldPlace, value []byte) bool) error {
	var broken error
	err := s.disk.Scan(r, func(key, value []byte) bool {
		place, ok := parseColdTail(key[1:])
		if !ok {
			broken = fmt.Errorf("key %x: %w", key, errCorrupt)
			return false
		}
		return visit(place, value)
	})
	if err == nil {
		err = broken
	}
	return err
}

// admit gives an item of the cold space a slot; 0 if its state cannot be read. It
// is in the counts already.
func (s *Store) admit(p *partition, place coldPlace, value []byte, now int64) slot {
	st, err := decodeState(value)
	if err != nil {
		s.log.Error("item left alone", "item", place.key.ID, "queue", uint64(place.key.Queue), "err", err)
		return 0
	}
	st.entry.set(cold, true)
	sl := s.settleIn(p, place.key, st)
	s.link(sl, s.entries.get(sl), now)
	p.away--
	s.away--
	return sl
}

// settleIn gives a decoded state a slot.
func (s *Store) settleIn(p *partition, key queue.Key, st state) slot {
	e := st.entry
	e.id = key.ID
	e.part = p.index
	e.origin = s.origins.index(origin{key.Home, st.topic})
	if st.touched {
		e.ext = s.exts.take()
		*s.exts.get(e.ext) = st.ext
	}
	return s.occupy(e)
}

// lives says whether there is an item with this key, in memory or on the disk.
func (s *Store) lives(key queue.Key) (bool, error) {
	if s.find(key) != 0 {
		return true, nil
	}
	place, err := s.pointer(key)
	return place != nil, err
}

// pointer returns the cold key of an item that is on the disk only, or nil.
func (s *Store) pointer(key queue.Key) ([]byte, error) {
	if s.away == 0 {
		return nil, nil
	}
	at, err := s.stored(key, appendItemKey(nil, spacePointer, key))
	if err != nil {
		return nil, fmt.Errorf("look up item %s: %w", key.ID, err)
	}
	return at, nil
}

// stored reads what the cold space has of an item. What the group at work does there is
// not the disk's yet.
func (s *Store) stored(item queue.Key, key []byte) ([]byte, error) {
	if s.replaced[item] {
		for _, w := range slices.Backward(s.batch) {
			if bytes.Equal(w.Key, key) {
				return w.Value, nil
			}
		}
	}
	return s.disk.Get(key)
}

// summon returns an item's slot and brings it into memory if need be; 0 if there
// is no such item.
func (s *Store) summon(key queue.Key, now int64) (slot, error) {
	if sl := s.find(key); sl != 0 {
		return sl, nil
	}
	at, err := s.pointer(key)
	if at == nil {
		return 0, err
	}
	value, err := s.stored(key, at)
	if err != nil {
		return 0, fmt.Errorf("read item %s: %w", key.ID, err)
	}
	place, ok := parseColdTail(at[1:])
	p := s.partition(place.key.Queue, place.part)
	if !ok || value == nil || p == nil {
		return 0, fmt.Errorf("read item %s: %w", key.ID, errCorrupt)
	}
	return s.admit(p, place, value, now), nil
}

// abandon ends a verb that could not read what it needed. Groups before the one
// that met the error stay done; a group that is half done ends the store, since
// what is in memory is no state that it may have.
func (s *Store) abandon(err error) error {
	if len(s.batch) > 0 {
		s.fail(err)
	}
	s.mu.Unlock()
	return fmt.Errorf("%w: %w", queue.ErrUnknownOutcome, err)
}
