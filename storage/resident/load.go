package resident

import (
	"fmt"
	"slices"
)

// load rebuilds the order from the disk. Contents and the journal are not read.
//
// A state or document that cannot be read stops it: an item left out here would
// be lost without a word, since nothing but its state knows of it.
func (s *Store) load() error {
	if s.options.Volatile {
		return nil
	}
	now := s.clock.stamp()
	if err := s.loadStates(now); err != nil {
		return fmt.Errorf("load items: %w", err)
	}
	if err := s.loadCold(); err != nil {
		return fmt.Errorf("load items on the disk: %w", err)
	}
	if err := s.loadDocuments(); err != nil {
		return fmt.Errorf("load documents: %w", err)
	}
	return nil
}

func (s *Store) loadStates(now int64) error {
	var broken error
	var slots []slot
	err := s.disk.Scan(Range{From: []byte{spaceState}, To: []byte{spaceState + 1}}, func(key, value []byte) bool {
		k, ok := parseItemKey(key)
		st, err := decodeState(value)
		if !ok {
			err = errCorrupt
		}
		if err != nil {
			broken = fmt.Errorf("item %s of queue %d: %w", k.ID, k.Queue, err)
			return false
		}
		st.entry.set(warm, true)
		p := s.ensure(k.Queue, st.part)
		sl := s.settleIn(p, k, st)
		p.counts.add(s.entries.get(sl), s.extOf(s.entries.get(sl)), 1)
		s.adopt(sl)
		slots = append(slots, sl)
		s.seq = max(s.seq, st.entry.seq)
		return true
	})
	if err != nil || broken != nil {
		return firstError(err, broken)
	}
	s.mendChains()
	// In order, so that the rings take what is available.
	slices.SortFunc(slots, func(a, b slot) int {
		return s.entries.get(a).position().compare(s.entries.get(b).position())
	})
	for _, sl := range slots {
		s.link(sl, s.entries.get(sl), now)
	}
	return nil
}

// loadCold counts what stays on the disk and finds the horizons.
func (s *Store) loadCold() error {
	var broken error
	err := s.scanCold(Range{From: []byte{spaceCold}, To: []byte{spaceCold + 1}}, func(place coldPlace, value []byte) bool {
		st, err := decodeState(value)
		if err != nil {
			broken = fmt.Errorf("item %s of queue %d: %w", place.key.ID, place.key.Queue, err)
			return false
		}
		p := s.ensure(place.key.Queue, place.part)
		p.counts.add(&st.entry, &st.ext, 1)
		if p.away == 0 {
			p.horizon = place.position
		}
		p.away++
		s.away++
		s.seq = max(s.seq, place.seq)
		return true
	})
	return firstError(err, broken)
}

func (s *Store) loadDocuments() error {
	var broken error
	err := s.disk.Scan(Range{From: []byte{spaceDocument}, To: []byte{spaceDocument + 1}}, func(key, value []byte) bool {
		var d *document
		if d, broken = decodeDocument(key, value); broken != nil {
			return false
		}
		s.documents.add(d)
		s.seq = max(s.seq, d.Revision)
		return true
	})
	return firstError(err, broken)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
