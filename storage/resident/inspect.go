package resident

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"

	"github.com/tidwall/btree"

	"github.com/posthaste-io/posthaste/queue"
)

// listed is an item on its way into a page.
type listed struct {
	item    queue.Item
	name    contentName
	content []byte // of a volatile store
}

func (l *listed) position() position { return position{l.item.AvailableAt.UnixMicro(), l.item.Seq} }

func (s *Store) list(sl slot) listed {
	e := s.entries.get(sl)
	l := listed{item: s.view(e), name: s.name(e)}
	if s.options.Volatile {
		l.content = *s.contents.get(sl)
	}
	return l
}

// viewCold makes an item of a state that stays on the disk.
func (s *Store) viewCold(place coldPlace, value []byte) (listed, error) {
	st, err := decodeState(value)
	if err != nil {
		return listed{}, err
	}
	e := st.entry
	e.id = place.key.ID
	e.part = s.ensure(place.key.Queue, place.part).index
	e.origin = s.origins.index(origin{place.key.Home, st.topic})
	return listed{item: s.viewWith(&e, st.extOrNil()), name: st.name()}, nil
}

// Find implements [queue.Store].
func (s *Store) Find(ctx context.Context, ids []queue.ID, content bool) ([]queue.Item, error) {
	var found []listed
	for first := true; first || len(ids) > 0; first = false {
		part := ids[:min(chunk, len(ids))]
		ids = ids[len(part):]
		var err error
		if found, err = s.copies(ctx, found, part); err != nil {
			return nil, err
		}
	}
	if content {
		return s.withContent(found), nil
	}
	var items []queue.Item
	for i := range found {
		items = append(items, found[i].item)
	}
	return items, nil
}

// copies adds every living copy of some items to found, in one hold of the lock.
func (s *Store) copies(ctx context.Context, found []listed, ids []queue.ID) ([]listed, error) {
	if _, err := s.begin(ctx, reads); err != nil {
		return nil, err
	}
	for _, id := range ids {
		s.each(id, func(sl slot, _ *entry) bool {
			found = append(found, s.list(sl))
			return true
		})
		if s.away == 0 {
			continue
		}
		var err error
		if found, err = s.findCold(found, id); err != nil {
			s.mu.Unlock()
			return nil, err
		}
	}
	return found, s.look(ctx)
}

func (s *Store) findCold(found []listed, id queue.ID) ([]listed, error) {
	prefix := append([]byte{spacePointer}, id[:]...)
	var places [][]byte
	err := s.disk.Scan(Range{From: prefix, To: after(prefix), Reread: true}, func(key, value []byte) bool {
		if k, ok := parseItemKey(key); ok && s.find(k) == 0 {
			places = append(places, slices.Clone(value))
		}
		return true
	})
	for _, key := range places {
		if err != nil {
			break
		}
		var l listed
		if l, err = s.readCold(key); err == nil {
			found = append(found, l)
		}
	}
	return found, err
}

// readCold reads the item that lies under a key of the cold space.
func (s *Store) readCold(key []byte) (listed, error) {
	value, err := s.disk.Get(key)
	if err != nil {
		return listed{}, err
	}
	place, ok := parseColdTail(key[1:])
	if !ok {
		return listed{}, errCorrupt
	}
	return s.viewCold(place, value)
}

// withContent reads the contents of what was found; what is gone by now is left
// out, and what cannot be read is shown without.
func (s *Store) withContent(found []listed) []queue.Item {
	var items []queue.Item
	for i := range found {
		l := &found[i]
		content, err := s.content(l.item.Key, l.name, l.content)
		if errors.Is(err, errMissing) && s.isGone(l.item.Key) {
			continue
		}
		if err != nil {
			s.log.Error("item shown without its content", "item", l.item.ID, "queue", uint64(l.item.Queue), "err", err)
		}
		l.item.Content = content
		items = append(items, l.item)
	}
	return items
}

// isGone says whether an item whose content is not there was settled in between; if
// not, the content was lost.
func (s *Store) isGone(key queue.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	alive, err := s.lives(key)
	return !alive && err == nil
}

// ListItems implements [queue.Store].
func (s *Store) ListItems(ctx context.Context, req queue.ListRequest) (queue.ListPage, error) {
	from := position{}
	if req.Cursor != "" {
		b, err := parseCursor(req.Cursor, cursorList)
		if err != nil {
			return queue.ListPage{}, err
		}
		if len(b) != 16 {
			return queue.ListPage{}, errCursor
		}
		from = position{int64(be.Uint64(b)), be.Uint64(b[8:]) + 1}
	}
	var page queue.ListPage
	var found []listed
	for first := true; ; first = false {
		now, err := s.begin(ctx, reads)
		if err != nil {
			return queue.ListPage{}, err
		}
		if first {
			page.Now = instant(now)
			if req.Cursor == "" && !req.From.IsZero() {
				from, err = s.place(req)
			}
		}
		var part []listed
		if err == nil {
			part, err = s.collect(req.Queue, req.Partition, from, chunk)
		}
		if err != nil {
			s.mu.Unlock()
			return queue.ListPage{}, err
		}
		if err := s.look(ctx); err != nil {
			return queue.ListPage{}, err
		}
		for i := range part {
			if len(req.States) > 0 && !slices.Contains(req.States, part[i].item.State(page.Now)) {
				continue
			}
			if len(found) == req.Limit {
				last := found[len(found)-1].position()
				page.Next = listCursor(last)
				break
			}
			found = append(found, part[i])
		}
		if page.Next != "" || len(part) < chunk {
			break
		}
		from = part[len(part)-1].position()
		from.seq++
	}
	if req.Content {
		page.Items = s.withContent(found)
		return page, nil
	}
	for i := range found {
		page.Items = append(page.Items, found[i].item)
	}
	return page, nil
}

// place is where a list that starts at an item begins.
func (s *Store) place(req queue.ListRequest) (position, error) {
	var copies []listed
	s.each(req.From, func(sl slot, _ *entry) bool {
		copies = append(copies, s.list(sl))
		return true
	})
	if s.away > 0 {
		var err error
		if copies, err = s.findCold(copies, req.From); err != nil {
			return position{}, err
		}
	}
	best := never
	for i := range copies {
		it, at := &copies[i].item, copies[i].position()
		if it.Queue == req.Queue && it.Partition == req.Partition && at.before(best) {
			best = at
		}
	}
	if best == never {
		// A UUIDv7 begins with its time, 48 bits of milliseconds.
		made := int64(be.Uint64(req.From[:8])>>16) * 1000
		best = position{made + 1, 0}
	}
	return best, nil
}

// collect returns up to n items of a partition from a position on, in order.
func (s *Store) collect(number queue.Number, part int32, from position, n int) ([]listed, error) {
	p := s.partition(number, part)
	if p == nil {
		return nil, nil
	}
	var slots []slot
	p.fresh.from(from, func(sl slot) position { return s.entries.get(sl).position() }, func(sl slot) bool {
		slots = append(slots, sl)
		return len(slots) < n
	})
	for _, tree := range []*btree.BTreeG[ref]{p.later, p.held} {
		taken := 0
		tree.Ascend(s.pivot(from), func(r ref) bool {
			slots = append(slots, r.slot)
			taken++
			return taken < n
		})
	}
	slices.SortFunc(slots, func(a, b slot) int {
		return s.entries.get(a).position().compare(s.entries.get(b).position())
	})
	found := make([]listed, 0, min(n, len(slots)))
	for _, sl := range slots[:min(n, len(slots))] {
		found = append(found, s.list(sl))
	}
	if p.away == 0 {
		return found, nil
	}
	away, err := s.collectCold(p, from, n)
	if err != nil {
		return nil, err
	}
	found = append(found, away...)
	slices.SortFunc(found, func(a, b listed) int { return a.position().compare(b.position()) })
	return found[:min(n, len(found))], nil
}

// collectCold returns up to n items that are on the disk only. It too begins at
// the horizon, if that is later.
func (s *Store) collectCold(p *partition, from position, n int) ([]listed, error) {
	if from.before(p.horizon) {
		from = p.horizon
	}
	key := appendPosition([]byte{spaceCold}, p.queue, p.number, from)
	var found []listed
	err := s.scanCold(Range{From: key, To: after(key[:1+8+4]), Reread: true}, func(place coldPlace, value []byte) bool {
		if s.find(place.key) != 0 {
			return true
		}
		if l, err := s.viewCold(place, value); err == nil {
			found = append(found, l)
		}
		return len(found) < n
	})
	return found, err
}

// Cursors are opaque to clients: format, what it is for, the place, in base64url.
const (
	cursorList    = 'l'
	cursorSweep   = 's'
	cursorRecords = 'r'
)

func listCursor(pos position) string {
	return cursor(cursorList, be.AppendUint64(be.AppendUint64(nil, uint64(pos.at)), pos.seq))
}

func cursor(purpose byte, place []byte) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{cursorFormat, purpose}, place...))
}

// parseCursor returns the place in a cursor, at least a byte of it.
func parseCursor(text string, purpose byte) ([]byte, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < 3 || b[0] != cursorFormat || b[1] != purpose {
		return nil, errCursor
	}
	return b[2:], nil
}

var errCursor = queue.Invalid("cursor", "is not one that this call gave out")
