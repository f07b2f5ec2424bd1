package resident

import (
	"encoding/binary"

	"github.com/posthaste-io/posthaste/queue"
)

// index finds slots by key: open addressing over bare slots, four bytes each; the
// keys are compared through the slab. The hash is made of the id alone, so that
// one probe run holds every copy of an item, in whatever queue.
//
// It is split, so that no single growth holds the lock for long.
type index struct {
	shards [shards]shard
}

const shards = 64

type shard struct {
	table []slot // a power of two long, 0 is free
	used  int
}

// hash mixes both halves: the random one decides, the time in the other one
// helps where ids were not made at random.
func hash(id queue.ID) uint64 {
	h := binary.LittleEndian.Uint64(id[8:]) ^ binary.LittleEndian.Uint64(id[:8])*0x9E3779B97F4A7C15
	h ^= h >> 32
	h *= 0xD6E8FEB86659FD93
	return h ^ h>>32
}

func (x *index) shard(h uint64) *shard { return &x.shards[h>>(64-6)] }

// each visits the slots of all items with an id, until visit says false.
func (s *Store) each(id queue.ID, visit func(slot, *entry) bool) {
	h := hash(id)
	sh := s.index.shard(h)
	if sh.used == 0 {
		return
	}
	mask := uint64(len(sh.table) - 1)
	for i := h & mask; sh.table[i] != 0; i = (i + 1) & mask {
		if e := s.entries.get(sh.table[i]); e.id == id && !visit(sh.table[i], e) {
			return
		}
	}
}

// find returns an item's slot, or 0.
func (s *Store) find(key queue.Key) slot {
	var found slot
	s.each(key.ID, func(sl slot, e *entry) bool {
		if s.key(e) == key {
			found = sl
		}
		return found == 0
	})
	return found
}

func (s *Store) indexAdd(sl slot) {
	h := hash(s.entries.get(sl).id)
	sh := s.index.shard(h)
	if (sh.used+1)*4 > len(sh.table)*3 {
		s.grow(sh)
	}
	sh.place(h, sl)
	sh.used++
}

func (sh *shard) place(h uint64, sl slot) {
	mask := uint64(len(sh.table) - 1)
	i := h & mask
	for sh.table[i] != 0 {
		i = (i + 1) & mask
	}
	sh.table[i] = sl
}

func (s *Store) grow(sh *shard) {
	old := sh.table
	sh.table = make([]slot, max(8, 2*len(old)))
	for _, sl := range old {
		if sl != 0 {
			sh.place(hash(s.entries.get(sl).id), sl)
		}
	}
}

// indexRemove takes a slot out and closes the gap, so that no marker stays.
func (s *Store) indexRemove(sl slot) {
	h := hash(s.entries.get(sl).id)
	sh := s.index.shard(h)
	mask := uint64(len(sh.table) - 1)
	gap := h & mask
	for sh.table[gap] != sl {
		gap = (gap + 1) & mask
	}
	sh.used--
	for i := gap; ; {
		i = (i + 1) & mask
		if sh.table[i] == 0 {
			break
		}
		// What may stand no earlier than after the gap stays.
		ideal := hash(s.entries.get(sh.table[i]).id) & mask
		if (i-ideal)&mask >= (i-gap)&mask {
			sh.table[gap] = sh.table[i]
			gap = i
		}
	}
	sh.table[gap] = 0
}
