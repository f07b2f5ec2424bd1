package resident

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/tidwall/btree"

	"github.com/posthaste-io/posthaste/queue"
)

// partition is one ordered set, in three sequences. Its order is their merge.
type partition struct {
	index  uint32
	queue  queue.Number
	number int32

	// fresh holds what was available when it came in, which is nearly everything;
	// later what is not held and did not fit there; held what is under a lease that
	// was not settled, by deadline.
	fresh ring
	later *btree.BTreeG[ref]
	held  *btree.BTreeG[ref]

	// horizon is not after any item that is on the disk only; see cold.go.
	horizon position
	away    int // how many those are

	counts counts
}

// ref is an item in a tree. The time stands in it, since most comparisons need no
// more; ties go by seq, which is looked up.
type ref struct {
	at   int64
	slot slot
}

// never is a position after all others.
var never = position{math.MaxInt64, math.MaxUint64}

func (s *Store) newTree() *btree.BTreeG[ref] {
	less := func(a, b ref) bool {
		return a.at < b.at || a.at == b.at && s.entries.get(a.slot).seq < s.entries.get(b.slot).seq
	}
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}

// pivot makes a ref for a place where no item need be. Slot 0 lends its entry, so
// it is good until the next call.
func (s *Store) pivot(pos position) ref {
	s.entries.get(0).seq = pos.seq
	return ref{pos.at, 0}
}

func (s *Store) partition(number queue.Number, part int32) *partition {
	return s.byKey[partitionKey{number, part}]
}

type partitionKey struct {
	queue  queue.Number
	number int32
}

func (p *partition) key() partitionKey { return partitionKey{p.queue, p.number} }

func (k partitionKey) compare(o partitionKey) int {
	return cmp.Or(cmp.Compare(k.queue, o.queue), cmp.Compare(k.number, o.number))
}

// ensure returns a partition, and makes it if there is none.
func (s *Store) ensure(number queue.Number, part int32) *partition {
	key := partitionKey{number, part}
	if p := s.byKey[key]; p != nil {
		return p
	}
	p := &partition{
		queue: number, number: part,
		later: s.newTree(), held: s.newTree(), horizon: never,
	}
	if n := len(s.freeParts); n > 0 {
		p.index = s.freeParts[n-1]
		s.freeParts = s.freeParts[:n-1]
		s.parts[p.index] = p
	} else {
		p.index = uint32(len(s.parts))
		s.parts = append(s.parts, p)
	}
	s.byKey[key] = p
	i, _ := slices.BinarySearchFunc(s.sorted, key, func(p *partition, k partitionKey) int { return p.key().compare(k) })
	s.sorted = slices.Insert(s.sorted, i, p)
	return p
}

// dropEmpty lets go of partitions that hold nothing.
func (s *Store) dropEmpty() {
	s.sorted = slices.DeleteFunc(s.sorted, func(p *partition) bool {
		if p.counts.total > 0 {
			return false
		}
		delete(s.byKey, p.key())
		s.parts[p.index] = nil
		s.freeParts = append(s.freeParts, p.index)
		return true
	})
}

// link puts an item into the sequence where it belongs.
func (s *Store) link(sl slot, e *entry, now int64) {
	p := s.parts[e.part]
	switch {
	case e.is(held):
		p.held.Set(ref{e.at, sl})
	case e.at <= now && p.fresh.tail.before(e.position()):
		e.ring = p.fresh.push(sl, e.position())
		e.set(inRing, true)
	default:
		p.later.Set(ref{e.at, sl})
	}
	if x := s.extOf(e); x != nil && x.expires != 0 {
		s.expiring.Set(ref{x.expires, sl})
	}
}

func (s *Store) unlink(sl slot, e *entry) {
	p := s.parts[e.part]
	switch {
	case e.is(held):
		p.held.Delete(ref{e.at, sl})
	case e.is(inRing):
		e.set(inRing, false)
		p.fresh.remove(e.ring)
		p.fresh.compact(func(sl slot, place uint32) { s.entries.get(sl).ring = place })
	default:
		p.later.Delete(ref{e.at, sl})
	}
	if x := s.extOf(e); x != nil && x.expires != 0 {
		s.expiring.Delete(ref{x.expires, sl})
	}
}

// head is the first item of a partition in memory, or slot 0.
func (s *Store) head(p *partition) (slot, position) {
	best, pos := slot(0), never
	for _, sl := range [...]slot{p.fresh.first(), first(p.later), first(p.held)} {
		if sl == 0 {
			continue
		}
		s.visited++
		if at := s.entries.get(sl).position(); best == 0 || at.before(pos) {
			best, pos = sl, at
		}
	}
	return best, pos
}

func first(tree *btree.BTreeG[ref]) slot {
	r, _ := tree.Min()
	return r.slot
}

// ring is a queue of slots whose positions rise. What is taken from its middle
// leaves a gap, which is closed when it reaches the head, or when gaps are most
// of what there is.
type ring struct {
	slots []slot // a power of two long
	head  uint32 // places count up for ever, modulo 2^32; so does the end
	end   uint32
	live  int
	tail  position // of what was pushed last
}

func (r *ring) push(sl slot, pos position) uint32 {
	if r.end-r.head == uint32(len(r.slots)) {
		r.resize(max(16, 2*len(r.slots)))
	}
	place := r.end
	r.slots[place&uint32(len(r.slots)-1)] = sl
	r.end++
	r.live++
	r.tail = pos
	return place
}

func (r *ring) resize(n int) {
	slots := make([]slot, n)
	for i := r.head; i != r.end; i++ {
		slots[i&uint32(n-1)] = r.slots[i&uint32(len(r.slots)-1)]
	}
	r.slots = slots
}

func (r *ring) first() slot {
	if r.live == 0 {
		return 0
	}
	return r.at(r.head)
}

func (r *ring) at(place uint32) slot { return r.slots[place&uint32(len(r.slots)-1)] }

func (r *ring) remove(place uint32) {
	r.slots[place&uint32(len(r.slots)-1)] = 0
	r.live--
	for r.head != r.end && r.at(r.head) == 0 {
		r.head++
	}
	if r.live == 0 && len(r.slots) > 1024 {
		r.slots = nil
	}
}

// compact closes the gaps when they are most of the ring; moved is told of every
// new place.
func (r *ring) compact(moved func(slot, uint32)) {
	if n := int(r.end - r.head); n < 64 || r.live > n/4 {
		return
	}
	old := *r
	r.slots, r.head, r.end = make([]slot, max(16, ceilPower(2*old.live))), 0, 0
	for i := old.head; i != old.end; i++ {
		if sl := old.at(i); sl != 0 {
			r.slots[r.end] = sl
			moved(sl, r.end)
			r.end++
		}
	}
}

func ceilPower(n int) int {
	p := 1
	for p < n {
		p *= 2
	}
	return p
}

// from calls visit with the slots at or after a position, in order.
func (r *ring) from(pos position, at func(slot) position, visit func(slot) bool) {
	n := int(r.end - r.head)
	// A gap stands for the next live slot, so the search sees a rising sequence.
	start := sort.Search(n, func(i int) bool {
		for ; i < n; i++ {
			if sl := r.at(r.head + uint32(i)); sl != 0 {
				return !at(sl).before(pos)
			}
		}
		return true
	})
	for i := start; i < n; i++ {
		if sl := r.at(r.head + uint32(i)); sl != 0 && !visit(sl) {
			return
		}
	}
}
