package storagetest

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// Find implements [queue.ColdStore].
func (m *Model) Find(ctx context.Context, ids []queue.ID, content bool) ([]queue.Item, error) {
	_, end, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	var found []queue.Item
	for _, it := range m.items {
		if !slices.Contains(ids, it.ID) {
			continue
		}
		one := cloneItem(it)
		if !content {
			one.Content = queue.Content{}
		}
		found = append(found, one)
	}
	return found, nil
}

// ListItems implements [queue.ColdStore]. A cursor is the place after which the
// page begins.
func (m *Model) ListItems(ctx context.Context, req queue.ListRequest) (queue.ListPage, error) {
	now, end, err := m.begin(ctx)
	if err != nil {
		return queue.ListPage{}, err
	}
	defer end()
	items := m.partition(req.Queue, req.Partition)
	switch {
	case req.Cursor != "":
		var micros int64
		var seq uint64
		if _, err := fmt.Sscanf(req.Cursor, "%d.%d", &micros, &seq); err != nil {
			return queue.ListPage{}, fmt.Errorf("cursor %q: %w", req.Cursor, err)
		}
		items = slices.DeleteFunc(items, func(it *queue.Item) bool {
			at := it.AvailableAt.UnixMicro()
			return at < micros || at == micros && it.Seq <= seq
		})
	case !req.From.IsZero():
		items = items[placeOf(req.From, items):]
	}
	page := queue.ListPage{Now: now}
	for _, it := range items {
		if len(req.States) > 0 && !slices.Contains(req.States, it.State(now)) {
			continue
		}
		if len(page.Items) == req.Limit {
			last := page.Items[len(page.Items)-1]
			page.Next = fmt.Sprintf("%d.%d", last.AvailableAt.UnixMicro(), last.Seq)
			break
		}
		listed := cloneItem(it)
		if !req.Content {
			listed.Content = queue.Content{}
		}
		page.Items = append(page.Items, listed)
	}
	return page, nil
}

// placeOf returns where a page that starts from an item begins.
func placeOf(from queue.ID, items []*queue.Item) int {
	for i, it := range items {
		if it.ID == from {
			return i
		}
	}
	// A UUIDv7 begins with its time, 48 bits of milliseconds.
	made := time.UnixMilli(int64(binary.BigEndian.Uint64(from[:8]) >> 16))
	for i, it := range items {
		if it.AvailableAt.After(made) {
			return i
		}
	}
	return len(items)
}

// ListKeys implements [queue.ColdStore].
func (m *Model) ListKeys(ctx context.Context, req queue.KeysRequest) (queue.KeysPage, error) {
	now, end, err := m.begin(ctx)
	if err != nil {
		return queue.KeysPage{}, err
	}
	defer end()
	names := map[string]bool{}
	for _, it := range m.items {
		if it.Queue == req.Queue && isBound(it) && it.OrderingKey > req.After {
			names[it.OrderingKey] = true
		}
	}
	page := queue.KeysPage{Now: now}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		items := m.bound(req.Queue, name)
		if len(items) < 2 || len(page.Keys) == req.Limit {
			continue
		}
		head := cloneItem(items[0])
		head.Content = queue.Content{}
		page.Keys = append(page.Keys, queue.KeyState{Key: name, Head: head, Behind: min(len(items)-1, queue.KeyCap)})
	}
	return page, nil
}

// Stats implements [queue.ColdStore].
func (m *Model) Stats(ctx context.Context, queues []queue.Number) ([]queue.Stats, error) {
	now, end, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	partitions := map[partitionKey]bool{}
	for key := range m.items {
		if len(queues) == 0 || slices.Contains(queues, key.Queue) {
			partitions[partitionKey{key.Queue, m.items[key].Partition}] = true
		}
	}
	var all []queue.Stats
	for key := range partitions {
		all = append(all, count(m.partition(key.queue, key.partition), now))
	}
	return all, nil
}

// count tells about the items of one partition, of which there is at least one.
func count(items []*queue.Item, now time.Time) queue.Stats {
	s := queue.Stats{Queue: items[0].Queue, Partition: items[0].Partition, Total: len(items)}
	var age, heldAge time.Duration
	for _, it := range items {
		age += now.Sub(it.CreatedAt)
		if it.Attempts > 0 {
			s.Failing++
		}
		switch {
		case it.Held:
			s.Held++
			heldAge += now.Sub(it.UpdatedAt)
		case it.AvailableAt.Equal(queue.Forever):
			s.Behind++
		case it.AvailableAt.After(now):
			s.Scheduled++
		case s.OldestReady.IsZero():
			s.OldestReady = it.DueAt
		}
	}
	if s.Scheduled >= queue.StatsCap {
		s.Scheduled, s.Capped = queue.StatsCap, true
	}
	s.MeanAge = age / time.Duration(len(items))
	if s.Held > 0 {
		s.MeanHeldAge = heldAge / time.Duration(s.Held)
	}
	return s
}
