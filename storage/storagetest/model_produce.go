package storagetest

import (
	"context"
	"time"

	"github.com/posthaste-io/posthaste/queue"
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

// insert adds an item, unless its dedupe key is known or it is there already: then
// it names the first item.
func (m *Model) insert(item queue.NewItem, now time.Time) queue.Produced {
	if item.Dedupe != nil {
		if known, found := m.known(dedupeKeyOf(item), now); found {
			return queue.Produced{ID: known.id, Duplicate: true}
		}
	}
	place := queue.Key{ID: item.ID, Queue: item.Queue, Home: item.Queue}
	if _, lives := m.items[place]; lives {
		return queue.Produced{ID: item.ID, Duplicate: true}
	}
	if item.Dedupe != nil {
		m.keys[dedupeKeyOf(item)] = knownKey{hash: item.Dedupe.Hash, id: item.ID, expires: now.Add(item.Dedupe.TTL)}
	}
	due := dueTime(item.DueAt, item.Delay, now)
	it := &queue.Item{
		Key:         place,
		Content:     cloneContent(&item.Content),
		Partition:   item.Partition,
		Seq:         m.nextSeq(),
		CreatedAt:   now,
		UpdatedAt:   now,
		FirstDueAt:  due,
		Attempts:    item.Attempts,
		MaxAttempts: item.MaxAttempts,
		ExpiresAt:   expiry(due, item.ExpireTTL),
	}
	if !item.ExpiresAt.IsZero() {
		it.ExpiresAt = instant(item.ExpiresAt)
	}
	m.items[it.Key] = it
	m.stand(it, due)
	return queue.Produced{ID: item.ID, DueAt: it.AvailableAt}
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
