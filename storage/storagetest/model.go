package storagetest

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// Model is the contract of [storage.Backend] in its plainest form: one lock, maps
// and slices, everything found by looking at everything. It is slow on purpose;
// what it does can be checked by reading it next to the contract.
//
// It loses everything when it is closed.
type Model struct {
	clock func() time.Time

	mu     sync.Mutex
	closed bool
	// latest keeps the store's now from running backwards when the clock does.
	latest    time.Time
	items     map[queue.Key]*queue.Item
	seq       uint64
	keys      map[dedupeKey]knownKey
	documents map[storage.DocumentKey]storage.Document
	revision  uint64
	journal   []journalLine
	line      uint64
	failed    chan struct{}
}

var _ storage.Backend = (*Model)(nil)

// NewModel returns an empty store that lives by the clock now.
func NewModel(now func() time.Time) *Model {
	return &Model{
		clock:     now,
		items:     map[queue.Key]*queue.Item{},
		keys:      map[dedupeKey]knownKey{},
		documents: map[storage.DocumentKey]storage.Document{},
		failed:    make(chan struct{}),
	}
}

// Durable implements [queue.Store].
func (m *Model) Durable() bool { return false }

// Close implements [storage.Backend].
func (m *Model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

// Failed implements [storage.Backend]; it is never closed.
func (m *Model) Failed() <-chan struct{} { return m.failed }

// Err implements [storage.Backend].
func (m *Model) Err() error { return nil }

// begin opens the transaction of a verb: the lock is held until end is called,
// and now is its time.
func (m *Model) begin(ctx context.Context) (now time.Time, end func(), err error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, nil, err
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return time.Time{}, nil, queue.ErrUnavailable
	}
	if now = instant(m.clock()); now.Before(m.latest) {
		now = m.latest
	}
	m.latest = now
	return now, m.mu.Unlock, nil
}

// instant is how every time is kept: UTC, to the microsecond.
func instant(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// dueTime is when something is due that was asked for at a time or after a delay.
func dueTime(at time.Time, delay time.Duration, now time.Time) time.Time {
	due := now.Add(delay)
	if !at.IsZero() {
		due = at
	}
	if due = instant(due); due.Before(now.Add(queue.Soon)) {
		return now
	}
	return due
}

// isLive says that an item is under a lease that has not ended.
func isLive(it *queue.Item, now time.Time) bool {
	return it.Held && it.AvailableAt.After(now)
}

// hasLapsed says that an item's lease ended without a settlement.
func hasLapsed(it *queue.Item, now time.Time) bool {
	return it.Held && !it.AvailableAt.After(now)
}

// partition returns the items of one partition in the order of their positions.
func (m *Model) partition(number queue.Number, partition int32) []*queue.Item {
	var items []*queue.Item
	for _, it := range m.items {
		if it.Queue == number && it.Partition == partition {
			items = append(items, it)
		}
	}
	slices.SortFunc(items, func(a, b *queue.Item) int {
		return cmp.Or(a.AvailableAt.Compare(b.AvailableAt), cmp.Compare(a.Seq, b.Seq))
	})
	return items
}

// isBound says whether an item's ordering key binds it.
func isBound(it *queue.Item) bool { return it.OrderingKey != "" && it.Dead == nil }

// bound returns the items of a queue that a key binds, the head first.
func (m *Model) bound(number queue.Number, key string) []*queue.Item {
	var items []*queue.Item
	for _, it := range m.items {
		if it.Queue == number && isBound(it) && it.OrderingKey == key {
			items = append(items, it)
		}
	}
	slices.SortFunc(items, func(a, b *queue.Item) int { return cmp.Compare(a.Seq, b.Seq) })
	return items
}

// stand gives an item a place by right; behind the head of its key that is no place yet.
func (m *Model) stand(it *queue.Item, due time.Time) {
	it.DueAt, it.AvailableAt = due, due
	if isBound(it) && m.bound(it.Queue, it.OrderingKey)[0] != it {
		it.AvailableAt = queue.Forever
	}
}

// promote puts the head of a key at its due time; an item has left the queue.
func (m *Model) promote(number queue.Number, key string) {
	if items := m.bound(number, key); key != "" && len(items) > 0 && items[0].AvailableAt.Equal(queue.Forever) {
		items[0].AvailableAt = items[0].DueAt
	}
}

// remove takes an item out.
func (m *Model) remove(it *queue.Item) {
	delete(m.items, it.Key)
	m.promote(it.Queue, it.OrderingKey)
}

// nextSeq is the place at the end of the order of arrival.
func (m *Model) nextSeq() uint64 {
	m.seq++
	return m.seq
}

// renew fences off whoever knew the item's token.
func renew(it *queue.Item) {
	it.Token = queue.Token{Counter: it.Token.Counter + 1, Random: rand.Uint64()}
}

// accountForLapse makes an item pay for a lease that lapsed, once: an attempt or
// a recovery, by the flag of that lease. It stands at the lapsed deadline then.
func (m *Model) accountForLapse(it *queue.Item, now time.Time) {
	m.append(queue.Record{Type: queue.LapseRecord}, it, now)
	chargeLapse(it)
	it.DueAt = it.AvailableAt
}

func chargeLapse(it *queue.Item) {
	if it.LapseCounts {
		it.Attempts++
	} else {
		it.Recoveries++
	}
}
