package resident

import (
	"context"
	"slices"

	"github.com/posthaste-io/posthaste/queue"
)

// NextDue implements [queue.Store].
func (s *Store) NextDue(ctx context.Context) (queue.DueAnswer, error) {
	now, err := s.begin(ctx, reads)
	if err != nil {
		return queue.DueAnswer{}, err
	}
	defer s.mu.Unlock()
	answer := queue.DueAnswer{Now: instant(now)}
	for _, p := range s.sorted {
		_, pos := s.head(p)
		if at := min(pos.at, p.horizon.at); at < forever {
			answer.Queues = append(answer.Queues, queue.QueueDue{Queue: p.queue, Partition: p.number, At: instant(at)})
		}
	}
	return answer, nil
}

// Stats implements [queue.Store].
func (s *Store) Stats(ctx context.Context, queues []queue.Number) ([]queue.Stats, error) {
	now, err := s.begin(ctx, reads)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var all []queue.Stats
	for _, p := range s.sorted {
		if p.counts.total == 0 || len(queues) > 0 && !slices.Contains(queues, p.queue) {
			continue
		}
		st, err := s.stats(p, now)
		if err != nil {
			return nil, err
		}
		all = append(all, st)
	}
	return all, nil
}

func (s *Store) stats(p *partition, now int64) (queue.Stats, error) {
	c := p.counts
	st := queue.Stats{Queue: p.queue, Partition: p.number, Total: c.total, Held: c.held, Failing: c.failing}
	st.MeanAge = c.created.meanAge(now, c.total)
	st.MeanHeldAge = c.leased.meanAge(now, c.held)
	st.Behind = c.behind
	p.later.Ascend(s.pivot(position{now + 1, 0}), func(r ref) bool {
		if r.at == forever {
			return false
		}
		st.Scheduled++
		return st.Scheduled < queue.StatsCap
	})
	oldest := now + 1
	for _, sl := range [...]slot{p.fresh.first(), first(p.later)} {
		if sl != 0 {
			oldest = min(oldest, s.entries.get(sl).at)
		}
	}
	if p.away > 0 {
		if err := s.statsCold(p, now, &st.Scheduled, &oldest); err != nil {
			return st, err
		}
	}
	st.Capped = st.Scheduled >= queue.StatsCap
	if oldest <= now {
		st.OldestReady = instant(oldest)
	}
	return st, nil
}

// statsCold adds what is on the disk only.
func (s *Store) statsCold(p *partition, now int64, scheduled *int, oldest *int64) error {
	scan := func(from position, visit func(place coldPlace) bool) error {
		key := appendPosition([]byte{spaceCold}, p.queue, p.number, from)
		return s.scanCold(Range{From: key, To: after(key[:1+8+4]), Reread: true, KeysOnly: true}, func(place coldPlace, _ []byte) bool {
			return s.find(place.key) != 0 || visit(place)
		})
	}
	err := scan(p.horizon, func(place coldPlace) bool {
		*oldest = min(*oldest, place.at)
		return false
	})
	if err != nil || *scheduled >= queue.StatsCap {
		return err
	}
	from := position{now + 1, 0}
	if from.before(p.horizon) {
		from = p.horizon
	}
	return scan(from, func(coldPlace) bool {
		*scheduled++
		return *scheduled < queue.StatsCap
	})
}
