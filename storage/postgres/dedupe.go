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

	// fresh are the items to insert, keys those of them that have one, and places
	// where each stands in the call. Rows count from 1.
	fresh  insertion
	keys   keys
	places []struct{ group, item int }
	named  map[queue.Key]bool
	// keyed says that any item of the call has a key.
	keyed bool
}

func newPlan(groups []queue.ProduceGroup, stored map[dedupeKey]knownKey) *plan {
	p := &plan{
		groups: groups, stored: stored, known: maps.Clone(stored),
		results: make([]queue.ProduceResult, len(groups)), named: map[queue.Key]bool{},
	}
	if p.known == nil {
		p.known = map[dedupeKey]knownKey{}
	}
	for g := range groups {
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
	key := queue.Key{ID: it.ID, Queue: it.Queue, Home: it.Queue}
	if p.named[key] {
		return queue.Produced{ID: it.ID, Duplicate: true}
	}
	p.named[key] = true
	p.fresh.add(it, group)
	p.places = append(p.places, struct{ group, item int }{group, item})
	if it.Dedupe != nil {
		p.keys.add(it, len(p.places), group)
		p.known[dedupeKeyOf(it.Dedupe)] = knownKey{hash: it.Dedupe.Hash, id: it.ID}
	}
	return queue.Produced{ID: it.ID}
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

// item is the one of a row.
func (p *plan) item(row int) *queue.NewItem {
	place := p.places[row-1]
	return &p.groups[place.group].Items[place.item]
}

// answer tells what became of the plan: the items of the rows that are missing lived
// already, all others were inserted at now, some behind another of their ordering key.
func (p *plan) answer(now time.Time, missing, behind []int) queue.ProduceAnswer {
	for row := range len(p.places) {
		place := p.places[row]
		it := p.item(row + 1)
		p.results[place.group].Items[place.item] = queue.Produced{ID: it.ID, DueAt: dueAt(it, now)}
	}
	for _, row := range behind {
		place := p.places[row-1]
		p.results[place.group].Items[place.item].DueAt = queue.Forever
	}
	for _, row := range missing {
		place := p.places[row-1]
		p.results[place.group].Items[place.item] = queue.Produced{ID: p.item(row).ID, Duplicate: true}
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

// merge returns the keys of both maps.
func merge(a, b map[dedupeKey]knownKey) map[dedupeKey]knownKey {
	all := make(map[dedupeKey]knownKey, len(a)+len(b))
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}
