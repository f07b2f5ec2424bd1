package queue

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// countEvery is how often the partitions of a queue are counted anew, at most and only
	// while the queue is in use.
	countEvery = time.Second
	// turnEvery look goes to the next partition in turn instead of the fullest, so that a
	// partition with few items is looked at in bounded time.
	turnEvery = 8
)

// partitionOfKey is where the items of an ordering key go among n partitions: the first
// eight bytes of the key's SHA-256, as a big-endian number, modulo n. It is the same on every
// node and in every release.
func partitionOfKey(key string, n int32) int32 {
	sum := sha256.Sum256([]byte(key))
	return int32(binary.BigEndian.Uint64(sum[:8]) % uint64(n))
}

// spread is how the items of a queue lie in its partitions, as far as this node knows: what
// the store counted of late, and what was put and taken here since. It is an estimate, which
// decides only where to put and where to look first. Queues of one partition have none.
type spread struct {
	mu    sync.Mutex
	parts []load
	// since is what was put, less what was taken, while the store counts. Whether it was
	// counted is not known: rather twice for a moment than not at all, which would have the
	// next call go where the last one went.
	since    []load
	at       time.Time
	counting bool
	// looks counts looks, turn is the partition of the last one that went in turn.
	looks uint
	turn  int32
}

// load is about one partition: waiting are the items in it that nobody has leased, ready
// those that may be leased now.
type load struct{ waiting, ready int }

// plus is never less than nothing.
func (l load) plus(o load) load {
	return load{waiting: max(l.waiting+o.waiting, 0), ready: max(l.ready+o.ready, 0)}
}

func (s *spread) grow(n int32) {
	for int32(len(s.parts)) < n {
		s.parts, s.since = append(s.parts, load{}), append(s.since, load{})
	}
}

// place gives new items, all of one call, their partitions among the first n: those with an
// ordering key the one of the key, all others the emptiest.
func (s *spread) place(items []NewItem, n int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grow(n)
	emptiest := int32(-1)
	for i := range items {
		it := &items[i]
		if it.OrderingKey != "" {
			it.Partition = partitionOfKey(it.OrderingKey, n)
			continue
		}
		if emptiest < 0 {
			emptiest = s.emptiest(n)
		}
		it.Partition = emptiest
	}
	// Only now, so that the keyed ones of the call do not drive the others away.
	for i := range items {
		s.add(items[i].Partition, 1, items[i].DueAt.IsZero() && items[i].Delay < Soon)
	}
}

// emptiest returns one of the first n partitions, from a random one on where several are.
func (s *spread) emptiest(n int32) int32 {
	start := rand.Int32N(n)
	best := start
	for i := int32(1); i < n; i++ {
		if p := (start + i) % n; s.parts[p].waiting < s.parts[best].waiting {
			best = p
		}
	}
	return best
}

func (s *spread) add(p int32, n int, ready bool) {
	more := load{waiting: n}
	if ready {
		more.ready = n
	}
	s.parts[p] = s.parts[p].plus(more)
	if s.counting {
		s.since[p].waiting += more.waiting
		s.since[p].ready += more.ready
	}
}

// choose returns the partition to look at next, of those whose bit is set in among, which
// is not empty: the fullest one, or now and then the next in turn.
func (s *spread) choose(among uint64, n int32) int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grow(n)
	s.looks++
	if s.looks%turnEvery == 0 {
		for i := int32(1); i <= n; i++ {
			if p := (s.turn + i) % n; among>>p&1 == 1 {
				s.turn = p
				return p
			}
		}
	}
	best := int32(-1)
	start := rand.Int32N(n)
	for i := range n {
		p := (start + i) % n
		if among>>p&1 == 1 && (best < 0 || s.parts[p].ready > s.parts[best].ready) {
			best = p
		}
	}
	return best
}

// took is told what a look brought; drained says that there was nothing more.
func (s *spread) took(p int32, items int, drained bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grow(p + 1)
	s.add(p, -items, true)
	if drained {
		s.parts[p].ready = 0
	}
}

// wantsCount says that the partitions are to be counted, and by whoever asks.
func (s *spread) wantsCount() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counting || !s.at.IsZero() && time.Since(s.at) < countEvery {
		return false
	}
	s.counting = true
	clear(s.since)
	return true
}

// counted takes what the store counted, or that it could not.
func (s *spread) counted(stats []Stats, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counting, s.at = false, time.Now()
	if err != nil {
		return
	}
	clear(s.parts)
	for i := range stats {
		st := &stats[i]
		s.grow(st.Partition + 1)
		waiting := max(st.Total-st.Held, 0)
		s.parts[st.Partition] = load{waiting: waiting, ready: max(waiting-st.Scheduled-st.Behind, 0)}
	}
	for p := range s.since {
		s.parts[p] = s.parts[p].plus(s.since[p])
	}
}

// count has the partitions of a queue counted, if it has several and they were not of late.
func (l *leaser) count(q *knownQueue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.countLocked(q)
}

// countLocked is count for who holds l.mu.
func (l *leaser) countLocked(q *knownQueue) {
	if l.draining || !q.spread.wantsCount() {
		return
	}
	l.refreshes.Go(func() {
		ctx, cancel := l.b.storeContext()
		defer cancel()
		stats, err := l.b.store.Stats(ctx, []Number{q.number})
		if err != nil {
			l.b.log.Warn("partitions could not be counted; items are spread by what was known", "queue", q.name, "error", err)
		}
		if err == nil {
			q.foundAll(stats)
		}
		q.spread.counted(stats, err)
	})
}

// place gives new items of a queue, all of one call, their partitions.
func (b *Broker) place(q *knownQueue, items []NewItem) {
	n := q.settings().Partitions
	if n <= 1 || len(items) == 0 {
		return
	}
	b.leases.count(q)
	q.spread.place(items, n)
}
