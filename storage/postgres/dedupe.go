package postgres

import (
	"maps"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// dedupeKey is an idempotency key with all that tells it from others.
type dedupeKey struct {
	scope queue.Number
	call  bool
	key   string
}

func dedupeKeyOf(d *queue.Dedupe) dedupeKey {
	return dedupeKey{scope: d.Scope, call: d.Call, key: d.Key}
}

// knownKey is what a key was used for first.
type knownKey struct {
	hash [32]byte
	id   queue.ID
}

// plan is what becomes of a call's groups if the keys that the database knows are the
// ones it was told. It holds on to the groups.
type plan struct {
	groups []queue.ProduceGroup
	// stored are the keys that the database knows, known those and the plan's own.
	stored, known map[dedupeKey]knownKey
	results       []queue.ProduceResult

	// fresh are the copies to insert, keys those of their items that have one, and places
	// where the item of each stands in the call. Rows count from 1.
	fresh  insertion
	keys   keys
	places []struct{ group, item int }
	named  map[queue.Key]bool
	// inserted are the items that are, with the rows of each.
	inserted []plannedItem
	// keyed says that any item of the call has a key.
	keyed bool
	// broken are the groups whose guards are known not to hold, and guards those of the
	// others.
	broken map[int]bool
	guards guards
}

// plannedItem is an item that is to be inserted, and how many rows it has.
type plannedItem struct{ group, item, rows int }

func newPlan(groups []queue.ProduceGroup, stored map[dedupeKey]knownKey, broken map[int]bool) *plan {
	p := &plan{
		groups: groups, stored: stored, known: maps.Clone(stored), broken: broken,
		results: make([]queue.ProduceResult, len(groups)), named: map[queue.Key]bool{},
	}
	if p.known == nil {
		p.known = map[dedupeKey]knownKey{}
	}
	for g := range groups {
		if broken[g] {
			p.results[g].Err = queue.ErrOvertaken
			continue
		}
		for i := range groups[g].Items {
			p.guards.add(g, groups[g].Items[i].Guard)
		}
		if i := p.mismatch(&groups[g]); i >= 0 {
			p.results[g].Err = &queue.MismatchError{Index: i}
			continue
		}
		for i := range groups[g].Items {
			p.results[g].Items = append(p.results[g].Items, p.add(g, i))
		}
	}
	return p
}

// mismatch returns the first item of a group whose key is known, or stands earlier in
// the group, for another body; -1 if there is none.
func (p *plan) mismatch(group *queue.ProduceGroup) int {
	own := map[dedupeKey][32]byte{}
	for i := range group.Items {
		d := group.Items[i].Dedupe
		if d == nil {
			continue
		}
		p.keyed = true
		key := dedupeKeyOf(d)
		hash, found := own[key]
		if known, ok := p.known[key]; ok {
			hash, found = known.hash, true
		}
		if found && hash != d.Hash {
			return i
		}
		own[key] = d.Hash
	}
	return -1
}

// add plans to insert an item, unless its key is known or it is planned already.
func (p *plan) add(group, item int) queue.Produced {
	it := &p.groups[group].Items[item]
	if it.Dedupe != nil {
		if known, ok := p.known[dedupeKeyOf(it.Dedupe)]; ok {
			return queue.Produced{ID: known.id, Duplicate: true}
		}
	}
	first, rows := p.fresh.addPlaces(it, group, p.named)
	for range rows {
		p.places = append(p.places, struct{ group, item int }{group, item})
	}
	if rows == 0 && it.Places() > 0 {
		return queue.Produced{ID: it.ID, Duplicate: true}
	}
	p.take(it, first, rows, group)
	p.inserted = append(p.inserted, plannedItem{group, item, rows})
	return queue.Produced{ID: it.ID}
}

// take plans to keep an item's key, if it has one, and its first place is a new one.
func (p *plan) take(it *queue.NewItem, row, rows, group int) {
	if !p.keys.add(it, row, rows, group) {
		return
	}
	p.known[dedupeKeyOf(it.Dedupe)] = knownKey{hash: it.Dedupe.Hash, id: it.ID}
}

// isEmpty says that there is nothing to send: nothing to keep, and no guard to look at.
func (p *plan) isEmpty() bool {
	return len(p.places) == 0 && len(p.keys.rows) == 0 && len(p.guards.rows) == 0
}

// ask returns the keys of the call that are not among the stored ones, and the
// arguments that ask for them. Those of groups that fail by themselves are among them:
// a known key may make an earlier item the one that fails.
func (p *plan) ask() (asked []dedupeKey, args []any) {
	var rows, scopes []int64
	var calls []bool
	var names [][]byte
	seen := map[dedupeKey]bool{}
	for g := range p.groups {
		for i := range p.groups[g].Items {
			d := p.groups[g].Items[i].Dedupe
			if d == nil {
				continue
			}
			key := dedupeKeyOf(d)
			if _, ok := p.stored[key]; ok || seen[key] {
				continue
			}
			seen[key] = true
			rows = append(rows, int64(len(asked)))
			asked = append(asked, key)
			scopes = append(scopes, int64(key.scope))
			calls = append(calls, key.call)
			names = append(names, []byte(key.key))
		}
	}
	return asked, []any{rows, scopes, calls, names}
}

// answer tells what became of the plan: the copies of the rows that are missing lived
// already, all others were inserted at now, some behind another of their ordering key.
func (p *plan) answer(now time.Time, missing, behind []int) queue.ProduceAnswer {
	lived, waiting := map[struct{ group, item int }]int{}, map[struct{ group, item int }]int{}
	for _, row := range behind {
		waiting[p.places[row-1]]++
	}
	for _, row := range missing {
		lived[p.places[row-1]]++
	}
	for _, in := range p.inserted {
		it := &p.groups[in.group].Items[in.item]
		made := queue.Produced{ID: it.ID, DueAt: dueAt(it, now)}
		switch at := (struct{ group, item int }{in.group, in.item}); {
		case in.rows == 0:
		case lived[at] == in.rows:
			made = queue.Produced{ID: it.ID, Duplicate: true}
		case lived[at]+waiting[at] == in.rows:
			made.DueAt = queue.Forever
		}
		p.results[in.group].Items[in.item] = made
	}
	return queue.ProduceAnswer{Now: now, Groups: p.results}
}

// dueAt is when an item that is inserted at now is available, as [insertSQL] has it.
func dueAt(it *queue.NewItem, now time.Time) time.Time {
	due := now.Add(it.Delay)
	if !it.DueAt.IsZero() {
		due = it.DueAt
	}
	if due = due.UTC().Truncate(time.Microsecond); due.Before(now.Add(queue.Soon)) {
		return now
	}
	return due
}

// merge returns what both maps have.
func merge[K comparable, V any](a, b map[K]V) map[K]V {
	all := make(map[K]V, len(a)+len(b))
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}
