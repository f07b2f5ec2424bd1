package storagetest

import (
	"context"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

type dedupeKey struct {
	scope queue.Number
	call  bool
	key   string
}

type knownKey struct {
	hash    [32]byte
	id      queue.ID
	expires time.Time
}

// Produce implements [queue.HotStore].
func (m *Model) Produce(ctx context.Context, groups []queue.ProduceGroup) (queue.ProduceAnswer, error) {
	now, end, err := m.begin(ctx)
	if err != nil {
		return queue.ProduceAnswer{}, err
	}
	defer end()
	answer := queue.ProduceAnswer{Now: now}
	for _, group := range groups {
		answer.Groups = append(answer.Groups, m.produceGroup(group, now))
	}
	return answer, nil
}

// produceGroup judges the whole group before it inserts anything.
func (m *Model) produceGroup(group queue.ProduceGroup, now time.Time) queue.ProduceResult {
	if err := m.checkGuards(group.Items); err != nil {
		return queue.ProduceResult{Err: err}
	}
	first := map[dedupeKey]queue.NewItem{}
	for i, item := range group.Items {
		if item.Dedupe == nil {
			continue
		}
		key := dedupeKeyOf(item)
		known, found := m.known(key, now)
		hash := known.hash
		if !found {
			earlier, repeated := first[key]
			if !repeated {
				first[key] = item
				continue
			}
			hash = earlier.Dedupe.Hash
		}
		if hash != item.Dedupe.Hash {
			return queue.ProduceResult{Err: &queue.MismatchError{Index: i}}
		}
	}
	var result queue.ProduceResult
	for _, item := range group.Items {
		result.Items = append(result.Items, m.insert(item, now))
	}
	return result
}

// checkGuards says whether the documents by which items were made are as they were.
func (m *Model) checkGuards(items []queue.NewItem) error {
	for _, item := range items {
		g := item.Guard
		if g == nil {
			continue
		}
		doc, found := m.documents[storage.DocumentKey{Kind: g.Kind, Namespace: g.Namespace, Name: g.Name}]
		if !found || doc.Revision != g.Revision {
			return queue.ErrOvertaken
		}
	}
	return nil
}

// insert adds an item in all of its places, unless its dedupe key is known or it is there
// already: then it names the first item.
func (m *Model) insert(item queue.NewItem, now time.Time) queue.Produced {
	if item.Dedupe != nil {
		if known, found := m.known(dedupeKeyOf(item), now); found {
			return queue.Produced{ID: known.id, Duplicate: true}
		}
	}
	if item.Dedupe != nil && (item.Places() == 0 || !m.lives(item.ID, item.Place(0).Queue)) {
		m.keys[dedupeKeyOf(item)] = knownKey{hash: item.Dedupe.Hash, id: item.ID, expires: now.Add(item.Dedupe.TTL)}
	}
	due := dueTime(item.DueAt, item.Delay, now)
	inserted, behind := 0, 0
	for i := range item.Places() {
		if place := item.Place(i); !m.lives(item.ID, place.Queue) {
			if m.insertCopy(item, place, due, now).Equal(queue.Forever) {
				behind++
			}
			inserted++
		}
	}
	if inserted == 0 && item.Places() > 0 {
		return queue.Produced{ID: item.ID, Duplicate: true}
	}
	if inserted > 0 && behind == inserted {
		due = queue.Forever
	}
	return queue.Produced{ID: item.ID, DueAt: due}
}

// lives says whether the queue that an item is produced to has it.
func (m *Model) lives(id queue.ID, in queue.Number) bool {
	_, lives := m.items[queue.Key{ID: id, Queue: in, Home: in}]
	return lives
}

// insertCopy adds an item in one of its places, and returns where it stands there.
func (m *Model) insertCopy(item queue.NewItem, place queue.Copy, due, now time.Time) time.Time {
	it := &queue.Item{
		Key:         queue.Key{ID: item.ID, Queue: place.Queue, Home: place.Queue},
		Content:     cloneContent(&item.Content),
		Partition:   place.Partition,
		Seq:         m.nextSeq(),
		CreatedAt:   now,
		UpdatedAt:   now,
		FirstDueAt:  due,
		Attempts:    item.Attempts,
		MaxAttempts: item.MaxAttempts,
		ExpiresAt:   expiry(due, place.ExpireTTL),
	}
	if !item.ExpiresAt.IsZero() {
		it.ExpiresAt = instant(item.ExpiresAt)
	}
	m.items[it.Key] = it
	m.stand(it, due)
	return it.AvailableAt
}

func dedupeKeyOf(item queue.NewItem) dedupeKey {
	return dedupeKey{scope: item.Dedupe.Scope, call: item.Dedupe.Call, key: item.Dedupe.Key}
}

// known finds a dedupe key whose time is not over; whether Tidy has dropped the
// others makes no difference.
func (m *Model) known(key dedupeKey, now time.Time) (knownKey, bool) {
	known, found := m.keys[key]
	return known, found && known.expires.After(now)
}

func expiry(due time.Time, ttl time.Duration) time.Time {
	if ttl == 0 {
		return time.Time{}
	}
	return instant(due.Add(ttl))
}
