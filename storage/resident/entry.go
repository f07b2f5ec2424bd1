package resident

import (
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// slot is an item's place in memory while it is there; 0 is none.
type slot = uint32

// entry is all that is to know of an item that nobody has touched yet: 64 bytes
// without a pointer, so that the collector need not look at a million of them.
type entry struct {
	id      queue.ID
	at      int64 // available_at, µs
	seq     uint64
	created int64
	part    uint32 // index of its partition
	origin  uint32 // index of where it came in
	size    uint32 // of its content, as budgets count it
	ring    uint32 // its place in the ring, while inRing
	ext     uint32 // the rest, once there is any; 0 is none
	flags   flags
	nth     uint16 // of the copies that share its content, until it is touched
}

type flags uint8

const (
	inRing flags = 1 << iota
	held
	lapseCounts
	// warm and cold say where the state is stored: under its fixed key, or in the
	// ordered space for what has no place in memory. A new item is in neither.
	warm
	cold
	// named marks the entries of a settling group while it is judged.
	named
)

// ext is what is to know of an item beyond its entry: once it was leased or
// moved, or if its producer gave it an expiry or a limit of its own.
type ext struct {
	token       queue.Token
	first       int64 // when it was first due
	due         int64
	updated     int64
	expires     int64  // 0 is never
	body        uint64 // names the content; bury and redrive leave it alone
	owner       string
	orderingKey string
	last        queue.Last
	dead        *queue.Dead
	generation  int32
	deliveries  int32
	attempts    int32
	recoveries  int32
	maxAttempts int32
}

func (e *entry) is(f flags) bool { return e.flags&f != 0 }

func (e *entry) set(f flags, on bool) {
	if on {
		e.flags |= f
	} else {
		e.flags &^= f
	}
}

func (e *entry) position() position { return position{e.at, e.seq} }

// position is a place in a partition's order.
type position struct {
	at  int64
	seq uint64
}

func (p position) before(q position) bool {
	return p.at < q.at || p.at == q.at && p.seq < q.seq
}

func (p position) compare(q position) int {
	switch {
	case p.before(q):
		return -1
	case q.before(p):
		return 1
	default:
		return 0
	}
}

// slab hands out places for T, in chunks that never move. Place 0 exists and is
// never handed out. What was freed is used again, but not given back.
type slab[T any] struct {
	chunks []*[slabChunk]T
	free   []uint32
	next   uint32
}

const slabChunk = 1 << 10

func newSlab[T any]() slab[T] {
	return slab[T]{chunks: []*[slabChunk]T{new([slabChunk]T)}, next: 1}
}

func (s *slab[T]) get(i uint32) *T { return &s.chunks[i/slabChunk][i%slabChunk] }

func (s *slab[T]) take() uint32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i
	}
	i := s.next
	if i/slabChunk == uint32(len(s.chunks)) {
		s.chunks = append(s.chunks, new([slabChunk]T))
	}
	s.next++
	return i
}

// reach returns place i of a slab whose places are given out by another one.
func (s *slab[T]) reach(i uint32) *T {
	for i/slabChunk >= uint32(len(s.chunks)) {
		s.chunks = append(s.chunks, new([slabChunk]T))
	}
	return s.get(i)
}

func (s *slab[T]) drop(i uint32) {
	var zero T
	*s.get(i) = zero
	s.free = append(s.free, i)
}

// view is an item without its content, as the contract speaks of it.
func (s *Store) view(e *entry) queue.Item { return s.viewWith(e, s.extOf(e)) }

func (s *Store) viewWith(e *entry, x *ext) queue.Item {
	p := s.parts[e.part]
	it := queue.Item{
		Key:         queue.Key{ID: e.id, Queue: p.queue, Home: s.origin(e).home},
		Partition:   p.number,
		Seq:         e.seq,
		CreatedAt:   instant(e.created),
		UpdatedAt:   instant(e.created),
		FirstDueAt:  instant(e.at),
		DueAt:       instant(e.at),
		AvailableAt: instant(e.at),
		Held:        e.is(held),
		LapseCounts: e.is(lapseCounts),
	}
	if x == nil {
		return it
	}
	it.UpdatedAt = instant(x.updated)
	it.FirstDueAt = instant(x.first)
	it.DueAt = instant(x.due)
	it.Token = x.token
	it.Owner = x.owner
	it.Generation = x.generation
	it.Deliveries = x.deliveries
	it.Attempts = x.attempts
	it.Recoveries = x.recoveries
	it.MaxAttempts = x.maxAttempts
	it.ExpiresAt = optional(x.expires)
	it.Last = x.last
	if x.dead != nil {
		dead := *x.dead
		it.Dead = &dead
	}
	return it
}

func (s *Store) key(e *entry) queue.Key {
	return queue.Key{ID: e.id, Queue: s.parts[e.part].queue, Home: s.origin(e).home}
}

func (s *Store) origin(e *entry) origin { return s.origins.list[e.origin] }

// name is that of an item's content, for ever.
func (s *Store) name(e *entry) contentName { return nameWith(e, s.extOf(e), s.origin(e).topic) }

// nameWith goes by the number of the first copy, which all that share a content were
// inserted after in one go.
func nameWith(e *entry, x *ext, topic queue.Number) contentName {
	if x != nil {
		return contentName{topic, x.body}
	}
	return contentName{topic, e.seq - uint64(e.nth)}
}

func (s *Store) extOf(e *entry) *ext {
	if e.ext == 0 {
		return nil
	}
	return s.exts.get(e.ext)
}

// touch gives an entry what it needs to change. The pointer is good until the
// item leaves memory.
func (s *Store) touch(e *entry) *ext {
	if e.ext == 0 {
		x := ext{first: e.at, due: e.at, updated: e.created, body: nameWith(e, nil, 0).body}
		e.ext = s.exts.take()
		*s.exts.get(e.ext) = x
	}
	return s.exts.get(e.ext)
}

// renew fences off whoever knew the item's token.
func (s *Store) renew(x *ext) {
	x.token = queue.Token{Counter: x.token.Counter + 1, Random: s.dice.roll()}
}

// origin is where an item came in: its home, and the topic whose copies it shares its
// content with, or 0.
type origin struct{ home, topic queue.Number }

// origins gives them a small index, so that an entry needs four bytes.
type origins struct {
	indexes map[origin]uint32
	list    []origin
}

func (o *origins) index(at origin) uint32 {
	if i, ok := o.indexes[at]; ok {
		return i
	}
	if o.indexes == nil {
		o.indexes = map[origin]uint32{}
	}
	i := uint32(len(o.list))
	o.indexes[at] = i
	o.list = append(o.list, at)
	return i
}

// deadline is the end of a lease that begins now; the shortest lasts a microsecond,
// since one that ends as it begins could be given out twice in one call.
func deadline(now int64, ttl time.Duration) int64 {
	return now + max(1, ttl.Microseconds())
}
