package queue

import (
	"context"
	"slices"
)

// selectBound chooses what is to be moved before anything is, where ordering keys bind what
// is in the queue: what was produced there, and not what was buried. It goes by the order of
// the queue as a whole, and what stands behind an item that stays, stays with it: since it
// is leased, or the call does not ask for it. Elsewhere it only puts in order what the call
// names.
//
// While items are moved others take the places of heads, and stand where a walk has been.
func (r *redrive) selectBound(ctx context.Context) (err error) {
	if r.bound, err = r.b.hasBehind(ctx, r.dead); err != nil {
		return err
	}
	if !r.bound {
		return r.order(ctx)
	}
	r.stuck = map[string]bool{}
	r.list.Limit, r.list.Content = kindPage, true // a key is content
	if r.now, err = r.b.storeNow(ctx, r.dead.number); err != nil {
		return err
	}
	if len(r.call.IDs) > 0 {
		return r.selectNamed(ctx)
	}
	r.began = r.now
	parts := make([]int32, r.dead.extent())
	for i := range parts {
		parts[i] = int32(i)
	}
	list := r.b.listMerged(r.dead.number, parts)
	s := selection{r: r, stays: map[string]bool{}}
	full := false
	timeUp, err := inPages(ctx, func() (more bool, err error) {
		items, more, err := list.next(ctx)
		for i := range items {
			if full = len(s.ids) == r.call.Limit; full {
				return false, err
			}
			s.judge(&items[i])
		}
		return more, err
	})
	r.ids, r.cut = s.ids, full || timeUp
	return err
}

// order has the items that the call names in the order of the queue, where they are looked for
// in several pages.
func (r *redrive) order(ctx context.Context) error {
	if len(r.ids) <= r.list.Limit {
		return nil
	}
	limit, content := r.list.Limit, r.list.Content
	r.list.Limit, r.list.Content = len(r.ids), false
	found, err := r.find(ctx)
	r.list.Limit, r.list.Content = limit, content
	for i := range found {
		r.ids = append(r.ids, found[i].ID)
	}
	return err
}

// selectNamed does so for a call that names its items.
func (r *redrive) selectNamed(ctx context.Context) error {
	var all []Item
	for len(r.ids) > 0 {
		items, err := r.find(ctx)
		if err != nil {
			return err
		}
		for i := range items {
			items[i].Payload = nil
		}
		all = append(all, items...)
	}
	slices.SortFunc(all, func(a, b Item) int { return inOrder(&a, &b) })
	s := selection{r: r, stays: map[string]bool{}}
	for i := range all {
		s.judge(&all[i])
	}
	r.ids = s.ids
	return nil
}

// selection is what was chosen so far, and the keys of which an item stays.
type selection struct {
	r     *redrive
	ids   []ID
	stays map[string]bool
}

func (s *selection) judge(it *Item) {
	r := s.r
	wanted, bound := r.wants(it), r.isBound(it)
	switch {
	case bound && (s.stays[it.OrderingKey] || it.State(r.now) == Leased):
		s.stays[it.OrderingKey] = true
		if wanted {
			r.done.Skipped++
		}
	case wanted:
		s.ids = append(s.ids, it.ID)
	case bound:
		s.stays[it.OrderingKey] = true
	}
}

// isBound says whether the key of an item binds it in the queue.
func (r *redrive) isBound(it *Item) bool { return r.bound && it.Dead == nil && it.OrderingKey != "" }

// mayGo says whether an item is the head of its key, which nobody holds, or goes with those
// before it. One that was not selected may be the head by now: another call took what was
// before that, while this one walked past its place.
func (r *redrive) mayGo(it *Item, going map[string]bool) bool {
	switch it.State(r.now) {
	case Leased:
		return false
	case Behind:
		return going[it.OrderingKey]
	default:
		return true
	}
}

// isStuck says that an item stands behind one that stayed.
func (r *redrive) isStuck(it *Item) bool { return r.isBound(it) && r.stuck[it.OrderingKey] }

// stay counts an item that is not moved. What its key binds to it is not either, but what is
// in the same page already: somebody has just leased it, then.
func (r *redrive) stay(it *Item) {
	r.done.Skipped++
	if r.isBound(it) {
		r.stuck[it.OrderingKey] = true
	}
}
