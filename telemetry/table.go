package telemetry

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/posthaste-io/posthaste/queue"
)

const (
	// maxSeries bounds the series of a metric; a histogram has one for each bucket.
	maxSeries = 1000
	// restSeries of them are kept for "other": no label but the name has as many values.
	restSeries = 20
	// other is the name of what has no series of its own.
	other = "other"
)

// table holds one metric's values by their labels, a bounded number of them. To reach one
// costs a look-up and allocates nothing once it is there. Safe for concurrent use.
type table[K comparable, V any] struct {
	// rest returns the key of the series "other" that a key without one of its own is
	// added to. It keeps the labels that are of a small set.
	rest func(K) K
	max  int

	mu     sync.RWMutex
	values map[K]*V
}

// at returns the value of a key. Who was there first keeps its series, so that a counter
// never falls because another queue became busier.
func (t *table[K, V]) at(k K) *V {
	t.mu.RLock()
	v := t.values[k]
	if v == nil && t.full() {
		v = t.values[t.rest(k)]
	}
	t.mu.RUnlock()
	if v != nil {
		return v
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.values[k] == nil && t.full() {
		k = t.rest(k)
	}
	if v = t.values[k]; v == nil {
		v = new(V)
		t.values[k] = v
	}
	return v
}

func (t *table[K, V]) full() bool { return len(t.values) >= t.max }

// forget drops series, and makes room for others.
func (t *table[K, V]) forget(gone func(K) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.values, func(k K, _ *V) bool { return gone(k) })
}

// all returns the values as they are at this moment, so that who reads them may take time
// and nothing that is counted meanwhile waits.
func (t *table[K, V]) all() map[K]*V {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return maps.Clone(t.values)
}

// counts is a metric of whole numbers.
type counts[K comparable] struct {
	table[K, atomic.Int64]
}

func newCounts[K comparable](rest func(K) K) *counts[K] {
	return &counts[K]{table[K, atomic.Int64]{rest: rest, max: maxSeries - restSeries, values: make(map[K]*atomic.Int64)}}
}

// add adds to the value of a key.
func (c *counts[K]) add(k K, n int64) {
	if n != 0 {
		c.at(k).Add(n)
	}
}

// raise makes the value of a key at least n.
func (c *counts[K]) raise(k K, n int64) {
	v := c.at(k)
	for {
		old := v.Load()
		if old >= n || v.CompareAndSwap(old, n) {
			return
		}
	}
}

// clear sets all values to 0, and keeps their series.
func (c *counts[K]) clear() {
	for _, v := range c.all() {
		v.Store(0)
	}
}

// each calls f with all keys and values.
func (c *counts[K]) each(f func(K, int64)) {
	for k, v := range c.all() {
		f(k, v.Load())
	}
}

// byQueue is the key of a metric of queues. Number 0 is "other"; label is what the
// metric has beside the queue, or empty.
type byQueue struct {
	queue queue.Number
	label string
}

func restOfQueues(k byQueue) byQueue { return byQueue{label: k.label} }

// byName is the key of a metric of subscriptions.
type byName struct{ name, label string }

func restOfNames(k byName) byName { return byName{other, k.label} }

// names are the labels of a metric that has the name alone.
func (k byName) names() []string { return []string{k.name} }
