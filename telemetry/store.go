package telemetry

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// Store is a backend whose calls are counted: every item that moves does so in one of
// them. It answers what the backend below answers, and has nothing of what that has
// beside the contract: who asks whether a store can do more asks the one below.
type Store struct {
	storage.Backend
	m *storeMetrics
}

var _ storage.Backend = (*Store)(nil)

// storeMetrics is what a [Store] counts.
type storeMetrics struct {
	produced, duplicate, unmatched, leased, settled, buried, cancelled, redriven, corrupt, extended, lapsed, refused *counts[byQueue]

	duration        *histograms[byVerb]
	entries, groups *histograms[byVerb]
}

// byVerb is the key of a metric of the store's calls. Verbs are methods of the backend,
// so they are few.
type byVerb struct{ verb, result string }

func newStoreMetrics() *storeMetrics {
	rest := func(k byVerb) byVerb { return byVerb{other, k.result} }
	verb := func(k byVerb) []string { return []string{k.verb} }
	m := &storeMetrics{
		duration: newHistograms(storeDuration, rest, func(k byVerb) []string { return []string{k.verb, k.result} }),
		entries:  newHistograms(storeEntries, rest, verb),
		groups:   newHistograms(storeGroups, rest, verb),
	}
	for _, c := range []**counts[byQueue]{
		&m.produced, &m.duplicate, &m.unmatched, &m.leased, &m.settled, &m.buried, &m.cancelled, &m.redriven, &m.corrupt, &m.extended, &m.lapsed, &m.refused,
	} {
		*c = newCounts(restOfQueues)
	}
	return m
}

// The results of a call of the store, numResults of them.
const (
	resultOK      = "ok"
	resultUnknown = "unknown"
	resultError   = "error"
	numResults    = 3
)

// called takes note of a call that has ended.
func (m *storeMetrics) called(verb string, started time.Time, err error) {
	result := resultOK
	switch {
	case err == nil, errors.Is(err, queue.ErrNotFound), errors.Is(err, queue.ErrExists), errors.Is(err, queue.ErrRevision):
		// The store did what it was asked for.
	case errors.Is(err, queue.ErrUnknownOutcome):
		result = resultUnknown
	default:
		result = resultError
	}
	m.duration.record(byVerb{verb, result}, int64(time.Since(started)))
}

// batch takes note of how much a call carried.
func (m *storeMetrics) batch(verb string, groups, entries int) {
	m.groups.record(byVerb{verb: verb}, int64(groups))
	m.entries.record(byVerb{verb: verb}, int64(entries))
}

// Produce implements [queue.Store].
func (s *Store) Produce(ctx context.Context, groups []queue.ProduceGroup) (queue.ProduceAnswer, error) {
	started := time.Now()
	answer, err := s.Backend.Produce(ctx, groups)
	s.m.called("produce", started, err)
	entries := 0
	for i := range groups {
		for j := range groups[i].Items {
			entries += groups[i].Items[j].Places()
		}
		if err == nil && answer.Groups[i].Err == nil {
			s.m.countProduced(groups[i].Items, answer.Groups[i].Items)
		}
	}
	s.m.batch("produce", len(groups), entries)
	return answer, err
}

// countProduced adds up runs of the same queue: a call is most often about one. Copies
// count in each of their queues; what has none, and duplicates, count at the topic.
func (m *storeMetrics) countProduced(items []queue.NewItem, produced []queue.Produced) {
	for len(items) > 0 {
		if items[0].Topic != 0 {
			m.countCopies(&items[0], produced[0].Duplicate)
			items, produced = items[1:], produced[1:]
			continue
		}
		key := byQueue{queue: items[0].Queue}
		n, duplicates := 0, 0
		for n < len(items) && items[n].Topic == 0 && items[n].Queue == key.queue {
			if produced[n].Duplicate {
				duplicates++
			}
			n++
		}
		m.produced.add(key, int64(n-duplicates))
		m.duplicate.add(key, int64(duplicates))
		items, produced = items[n:], produced[n:]
	}
}

// countBrought is countProduced for items that come with something else, which are all new.
func (m *storeMetrics) countBrought(items []queue.NewItem) {
	for i := range items {
		if items[i].Topic != 0 {
			m.countCopies(&items[i], false)
		} else {
			m.produced.add(byQueue{queue: items[i].Queue}, 1)
		}
	}
}

func (m *storeMetrics) countCopies(it *queue.NewItem, duplicate bool) {
	topic := byQueue{queue: it.Topic}
	switch {
	case duplicate:
		m.duplicate.add(topic, 1)
	case len(it.Copies) == 0:
		m.unmatched.add(topic, 1)
	}
	for i := 0; i < len(it.Copies) && !duplicate; i++ {
		m.produced.add(byQueue{queue: it.Copies[i].Queue}, 1)
	}
}

// Lease implements [queue.Store].
func (s *Store) Lease(ctx context.Context, calls []queue.LeaseCall) (queue.LeaseAnswer, error) {
	started := time.Now()
	answer, err := s.Backend.Lease(ctx, calls)
	s.m.called("lease", started, err)
	if err != nil {
		return answer, err
	}
	entries := 0
	for i := range answer.Calls {
		key, result, leased := byQueue{queue: calls[i].Queue}, &answer.Calls[i], 0
		for _, items := range result.Takers {
			leased += len(items)
		}
		entries += leased
		s.m.leased.add(key, int64(leased))
		s.m.lapsed.add(key, int64(result.Lapsed))
		s.m.corrupt.add(key, int64(result.Corrupt))
	}
	s.m.batch("lease", len(calls), entries)
	return answer, nil
}

// Settle implements [queue.Store].
func (s *Store) Settle(ctx context.Context, groups []queue.SettleGroup) (queue.SettleAnswer, error) {
	started := time.Now()
	answer, err := s.Backend.Settle(ctx, groups)
	s.m.called("settle", started, err)
	entries := 0
	settled := run{counts: s.m.settled}
	for i := range groups {
		entries += len(groups[i].Entries)
		if err != nil {
			continue
		}
		for j := range groups[i].Entries {
			s.m.countSettled(&groups[i].Entries[j], &answer.Groups[i][j], &settled)
		}
	}
	settled.end()
	s.m.batch("settle", len(groups), entries)
	return answer, err
}

// run adds up what comes one after the other for the same key: most of a call's entries
// do.
type run struct {
	counts *counts[byQueue]
	key    byQueue
	n      int64
}

func (r *run) add(k byQueue) {
	if k != r.key {
		r.end()
		r.key, r.n = k, 0
	}
	r.n++
}

func (r *run) end() { r.counts.add(r.key, r.n) }

func (m *storeMetrics) countSettled(e *queue.Settlement, answer *queue.Settled, settled *run) {
	from := e.Key.Queue
	switch answer.Status {
	case queue.Applied:
		outcome := e.Outcome
		if answer.Buried {
			outcome = queue.Bury
		}
		if e.Guard == queue.Held { // others end no lease: the sweep, and what a redrive brings back
			settled.add(byQueue{from, outcome.String()})
		}
		if outcome == queue.Bury {
			m.buried.add(byQueue{from, buryReason(e)}, 1)
		}
		if e.Guard == queue.NotLive && outcome == queue.Complete { // by a redrive to a topic
			m.redriven.add(byQueue{queue: from}, 1)
			break
		}
		m.countBrought(e.Produce)
	case queue.Stale:
		m.countRefused(e.Guard, byQueue{from, "stale"})
	case queue.Gone:
		m.countRefused(e.Guard, byQueue{from, "gone"})
	}
}

// countRefused leaves out the sweep, whose settlements lose a race now and then and
// stand for no receipt.
func (m *storeMetrics) countRefused(guard queue.Guard, k byQueue) {
	if guard == queue.Held {
		m.refused.add(k, 1)
	}
}

// buryReasons are those that the system itself gives; all others are worded by consumers.
var buryReasons = []string{queue.ReasonMaxAttempts, queue.ReasonPoison, queue.ReasonExpired, "rejected", "gave_up"}

func buryReason(e *queue.Settlement) string {
	switch {
	case slices.Contains(buryReasons, e.Reason):
		return e.Reason
	case e.Outcome == queue.Retry:
		return queue.ReasonMaxAttempts
	default:
		return "consumer"
	}
}

// Extend implements [queue.Store].
func (s *Store) Extend(ctx context.Context, entries []queue.Extension) (queue.ExtendAnswer, error) {
	started := time.Now()
	answer, err := s.Backend.Extend(ctx, entries)
	s.m.called("extend", started, err)
	s.m.batch("extend", 1, len(entries))
	for i := range answer.Entries {
		from := entries[i].Key.Queue
		switch answer.Entries[i].Status {
		case queue.Applied:
			s.m.extended.add(byQueue{queue: from}, 1)
		case queue.Stale:
			s.m.refused.add(byQueue{from, "stale"}, 1)
		case queue.Gone:
			s.m.refused.add(byQueue{from, "gone"}, 1)
		}
	}
	return answer, err
}
