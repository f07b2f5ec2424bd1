package resident

import (
	"cmp"
	"context"

	"github.com/tidwall/btree"

	"github.com/posthaste-io/posthaste/queue"
)

// What an ordering key binds is in memory, all of it, whatever the window: whether a key has
// a head is asked at each produce, and the next of a key is wanted as soon as its head ends.

// chain is what one ordering key binds in a queue: the head, and those behind it by seq.
type chain struct {
	head   slot
	behind *btree.BTreeG[ref] // nil until there is one
}

type chainKey struct {
	queue queue.Number
	key   string
}

// chains are all there are. blocked has those with items behind their head, in the order in
// which they are listed.
type chains struct {
	byKey   map[chainKey]*chain
	blocked *btree.BTreeG[chainKey]
}

func newChains() chains {
	less := func(a, b chainKey) bool { return cmp.Or(cmp.Compare(a.queue, b.queue), cmp.Compare(a.key, b.key)) < 0 }
	return chains{map[chainKey]*chain{}, btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})}
}

// chainOf returns the key that binds an item; false if none does.
func (s *Store) chainOf(e *entry) (chainKey, bool) {
	x := s.extOf(e)
	if x == nil || x.orderingKey == "" || x.dead != nil {
		return chainKey{}, false
	}
	return chainKey{s.parts[e.part].queue, x.orderingKey}, true
}

// bind puts a new or lifted item last in the chain of its key, if it has one. Behind a head it
// has no position.
func (s *Store) bind(sl slot) {
	e := s.entries.get(sl)
	k, ok := s.chainOf(e)
	if !ok {
		return
	}
	l := s.chains.byKey[k]
	if l == nil {
		s.chains.byKey[k] = &chain{head: sl}
		return
	}
	e.at = forever
	s.follow(k, l, sl)
}

func (s *Store) follow(k chainKey, l *chain, sl slot) {
	if l.behind == nil {
		l.behind = s.newTree()
	}
	l.behind.Set(ref{forever, sl})
	s.chains.blocked.Set(k)
}

// unbind takes a lifted item out of the chain of its key, before it leaves its queue. Behind a
// head the next one gets the place that it has by right.
func (s *Store) unbind(sl slot, now int64) {
	k, ok := s.chainOf(s.entries.get(sl))
	if !ok {
		return
	}
	l := s.chains.byKey[k]
	if l.head != sl {
		s.unfollow(k, l, sl)
		return
	}
	next := slot(0)
	if l.behind != nil {
		next = first(l.behind)
	}
	if next == 0 {
		delete(s.chains.byKey, k)
		return
	}
	s.unfollow(k, l, next)
	l.head = next
	e := s.lift(next)
	e.at = s.extOf(e).due
	s.lower(next, now)
}

func (s *Store) unfollow(k chainKey, l *chain, sl slot) {
	l.behind.Delete(ref{forever, sl})
	if l.behind.Len() == 0 {
		l.behind = nil
		s.chains.blocked.Delete(k)
	}
}

// isBehind says whether an item waits for another of its key.
func (s *Store) isBehind(sl slot) bool {
	k, ok := s.chainOf(s.entries.get(sl))
	return ok && s.chains.byKey[k] != nil && s.chains.byKey[k].head != sl
}

// adopt takes note of an item that was read at the start, before it has a place in the order.
func (s *Store) adopt(sl slot) {
	e := s.entries.get(sl)
	k, ok := s.chainOf(e)
	if !ok {
		return
	}
	l := s.chains.byKey[k]
	if l == nil {
		l = new(chain)
		s.chains.byKey[k] = l
	}
	if e.at == forever {
		s.follow(k, l, sl)
	} else {
		l.head = sl
	}
}

// mendChains gives chains whose head was lost a new one, at the start: it comes to that only
// where a store was opened with loss of data.
func (s *Store) mendChains() {
	for k, l := range s.chains.byKey {
		if l.head != 0 {
			continue
		}
		l.head = first(l.behind)
		s.unfollow(k, l, l.head)
		e := s.entries.get(l.head)
		c := &s.parts[e.part].counts
		c.add(e, s.extOf(e), -1)
		e.at = s.extOf(e).due
		c.add(e, s.extOf(e), 1)
		s.log.Warn("the head of an ordering key is gone; the next takes its place", "queue", uint64(k.queue), "key", k.key)
	}
}

// ListKeys implements [queue.Store].
func (s *Store) ListKeys(ctx context.Context, req queue.KeysRequest) (queue.KeysPage, error) {
	now, err := s.begin(ctx, reads)
	if err != nil {
		return queue.KeysPage{}, err
	}
	page := queue.KeysPage{Now: instant(now)}
	s.chains.blocked.Ascend(chainKey{req.Queue, req.After}, func(k chainKey) bool {
		if k.queue != req.Queue || len(page.Keys) >= req.Limit {
			return false
		}
		if k.key > req.After {
			l := s.chains.byKey[k]
			page.Keys = append(page.Keys, queue.KeyState{
				Key: k.key, Head: s.view(s.entries.get(l.head)), Behind: min(l.behind.Len(), queue.KeyCap),
			})
		}
		return true
	})
	return page, s.look(ctx)
}
