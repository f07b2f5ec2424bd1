package telemetry

import (
	"context"
	"errors"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

const (
	// statsAge is how long what was read of queues is used again, so that who scrapes
	// often cannot load the store.
	statsAge = 5 * time.Second
	// statsTimeout bounds the reading: a scrape has to end.
	statsTimeout = 3 * time.Second
	// namesPage and maxNames bound how many queues are listed for their names; those
	// beyond are looked up one by one, as far as they have series.
	namesPage = 1000
	maxNames  = 10_000
)

// Broker names queues and tells what it has to do; see [queue.Broker].
type Broker interface {
	Queues(ctx context.Context, ns queue.Namespace, pivot string, limit int) ([]queue.Versioned[queue.Settings], error)
	QueueName(ctx context.Context, n queue.Number) (string, error)
	Load() queue.Load
}

var _ Broker = (*queue.Broker)(nil)

// statsReader is the store below.
type statsReader interface {
	Stats(ctx context.Context, queues []queue.Number) ([]queue.Stats, error)
}

// queueMetrics is what stands in queues, and their names. Its caller lets one in at a time.
type queueMetrics struct {
	items  *counts[byQueue]
	oldest *counts[byQueue] // in microseconds

	at    time.Time
	names map[queue.Number]string
	// known says that items and oldest are from the newest reading.
	known bool
}

func newQueueMetrics() *queueMetrics {
	return &queueMetrics{items: newCounts(restOfQueues), oldest: newCounts(restOfQueues)}
}

// look reads the queues anew, unless that was done just now. If it cannot, the depth is
// unknown and not shown; old names are good all the same.
func (m *queueMetrics) look(ctx context.Context, broker Broker, store statsReader) {
	now := time.Now()
	if !m.at.IsZero() && now.Sub(m.at) < statsAge {
		return
	}
	m.at, m.known = now, false
	names, dead, err := listQueues(ctx, broker)
	if err != nil {
		return
	}
	m.names = names
	stats, err := store.Stats(ctx, nil)
	if err != nil {
		return
	}
	m.known = true
	m.items.clear()
	m.oldest.clear()
	for n, isDead := range dead {
		// An empty queue is a line as well: it is not known to be empty otherwise.
		m.items.at(byQueue{n, waitingState(isDead)})
		m.oldest.at(byQueue{queue: n})
	}
	for i := range stats {
		m.count(&stats[i], dead[stats[i].Queue], now)
	}
}

func (m *queueMetrics) count(st *queue.Stats, isDead bool, now time.Time) {
	// Scheduled ends at a bound, so that what is ready may be too many then.
	m.items.add(byQueue{st.Queue, waitingState(isDead)}, int64(max(st.Total-st.Held-st.Scheduled-st.Behind, 0)))
	m.items.add(byQueue{st.Queue, "scheduled"}, int64(st.Scheduled))
	m.items.add(byQueue{st.Queue, "behind"}, int64(st.Behind))
	m.items.add(byQueue{st.Queue, "leased"}, int64(st.Held))
	if !st.OldestReady.IsZero() && !isDead {
		// The store's clock may differ from ours; near enough to be looked at.
		m.oldest.raise(byQueue{queue: st.Queue}, max(now.Sub(st.OldestReady), 0).Microseconds())
	}
}

// waitingState is what items are that could be leased.
func waitingState(isDead bool) string {
	if isDead {
		return "dead"
	}
	return "ready"
}

// listQueues returns the names of queues, and which of them are dead-letter queues.
func listQueues(ctx context.Context, broker Broker) (names map[queue.Number]string, dead map[queue.Number]bool, err error) {
	names, dead = make(map[queue.Number]string), make(map[queue.Number]bool)
	pivot := ""
	for len(names) < maxNames {
		page, err := broker.Queues(ctx, queue.DefaultNamespace, pivot, namesPage)
		if err != nil {
			return nil, nil, err
		}
		for i := range page {
			s := &page[i].Value
			names[s.Number] = labelOf(s.Namespace, s.Name)
			dead[s.Number] = s.DeadLetter
			pivot = s.Name // which begins the next page once more
		}
		if len(page) < namesPage {
			break
		}
	}
	return names, dead, nil
}

// name returns a queue's label. An empty one is not known now; gone is a queue that was
// deleted.
func (m *queueMetrics) name(ctx context.Context, broker Broker, n queue.Number) (label string, gone bool) {
	if n == 0 {
		return other, false
	}
	if label, ok := m.names[n]; ok {
		return label, false
	}
	name, err := broker.QueueName(ctx, n)
	switch {
	case errors.Is(err, queue.ErrNotFound):
		return "", true
	case err != nil:
		return "", false
	}
	label = labelOf(n.Namespace(), name)
	if m.names == nil {
		m.names = make(map[queue.Number]string)
	}
	m.names[n] = label
	return label, false
}
