package resident

// mend makes whole what damage may have left in halves: items on the disk that nothing points
// at, pointers and expiries of such items that are gone, and contents of items that are gone,
// which are marked for [Store.reap]. It looks where a loss was accepted, and where there are
// more or fewer pointers than items.
func (s *Store) mend() error {
	if s.options.Volatile {
		return nil
	}
	if !s.options.AcceptLoss {
		pointers := 0
		err := s.disk.Scan(Range{From: []byte{spacePointer}, To: []byte{spacePointer + 1}, KeysOnly: true}, func(_, _ []byte) bool {
			pointers++
			return true
		})
		if err != nil || pointers == s.away {
			return err
		}
	}
	for _, step := range []func() error{s.dropDangling, s.pointAtAll, s.suspectAll} {
		err := step()
		s.seal()
		if err != nil {
			return err
		}
	}
	return nil
}

// dropDangling deletes the pointers and expiries of items that are not on the disk.
func (s *Store) dropDangling() error {
	var broken error
	dropped := 0
	drop := func(key, at []byte) bool {
		var value []byte
		if value, broken = s.disk.Get(at); value == nil && broken == nil {
			dropped++
			s.mendWith(Write{Key: append([]byte(nil), key...), Delete: true})
		}
		return broken == nil
	}
	err := s.disk.Scan(Range{From: []byte{spacePointer}, To: []byte{spacePointer + 1}}, drop)
	if err = firstError(err, broken); err != nil {
		return err
	}
	err = s.disk.Scan(Range{From: []byte{spaceExpiry}, To: []byte{spaceExpiry + 1}, KeysOnly: true}, func(key, _ []byte) bool {
		return len(key) != expiryKeySize || drop(key, append([]byte{spaceCold}, key[1+8:]...))
	})
	if dropped > 0 {
		s.log.Warn("what pointed at items that are not on the disk was deleted", "pointers", dropped)
	}
	return firstError(err, broken)
}

// pointAtAll gives the items on the disk that nothing points at a pointer.
func (s *Store) pointAtAll() error {
	var broken error
	missing := 0
	err := s.scanCold(Range{From: []byte{spaceCold}, To: []byte{spaceCold + 1}, KeysOnly: true}, func(place coldPlace, _ []byte) bool {
		var at []byte
		pointer := appendItemKey(nil, spacePointer, place.key)
		if at, broken = s.disk.Get(pointer); at == nil && broken == nil {
			missing++
			s.mendWith(Write{Key: pointer, Value: appendColdKey(nil, place)})
		}
		return broken == nil
	})
	if missing > 0 {
		s.log.Warn("items on the disk were not to be found by their ids, and are again", "items", missing)
	}
	return firstError(err, broken)
}

// suspectAll marks all contents that are shared. It is not left to the first round after the
// start, since the next start may come before that.
func (s *Store) suspectAll() error {
	return s.disk.Scan(Range{From: []byte{spaceShared}, To: []byte{spaceShared + 1}, KeysOnly: true}, func(key, _ []byte) bool {
		if id, name, ok := parseSharedKey(key); ok {
			s.suspect(id, name)
			s.sealMany()
		}
		return true
	})
}

// mendWith writes one thing, to be seen by what looks after it.
func (s *Store) mendWith(w Write) {
	w.Reread = true
	s.batch = append(s.batch, w)
	s.sealMany()
}

// sealMany bounds how much is written at once.
func (s *Store) sealMany() {
	if len(s.batch) >= sealAfter {
		s.seal()
	}
}
