package resident

import (
	"fmt"

	"github.com/posthaste-io/posthaste/queue"
)

// knownKey is what is remembered of a dedupe key; the zero one is unknown.
type knownKey struct {
	id    queue.ID
	hash  [32]byte
	until int64
}

func (s *Store) known(key []byte, now int64) (knownKey, error) {
	if k, ok := s.fresh[string(key)]; ok {
		return k, nil
	}
	value, err := s.disk.Get(key)
	if err != nil {
		return knownKey{}, fmt.Errorf("look up idempotency key: %w", err)
	}
	if value == nil {
		return knownKey{}, nil
	}
	k, err := decodeKnown(value)
	if err != nil || k.until <= now {
		return knownKey{}, err
	}
	return k, nil
}

func decodeKnown(value []byte) (k knownKey, err error) {
	r := reader{b: value}
	if r.byte() != dedupeFormat {
		return k, fmt.Errorf("idempotency key: %w", errCorrupt)
	}
	copy(k.id[:], r.take(16))
	copy(k.hash[:], r.take(32))
	k.until = int64(r.uint64())
	return k, r.end()
}

// remember keeps a dedupe key. The mark by which it is forgotten names its time,
// so one that was left over from an earlier use of the key forgets nothing.
func (s *Store) remember(d *queue.Dedupe, id queue.ID, now int64) {
	until := now + d.TTL.Microseconds()
	n := 1 + 8 + 1 + len(d.Key)
	value := append(s.arena.bytes(1+16+32+8), dedupeFormat)
	value = append(value, id[:]...)
	value = append(value, d.Hash[:]...)
	value = be.AppendUint64(value, uint64(until))
	key := appendDedupeKey(s.arena.bytes(n), d)
	s.fresh[string(key)] = knownKey{id: id, hash: d.Hash, until: until}
	s.put(key, value, true)
	s.put(appendForgetKey(s.arena.bytes(n+8), until, d), nil, true)
	s.forgotten = min(s.forgotten, until)
}
