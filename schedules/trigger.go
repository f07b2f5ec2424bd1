package schedules

import (
	"context"

	"github.com/posthaste-io/posthaste/queue"
)

// TriggerParams names a schedule.
type TriggerParams struct {
	Namespace queue.Namespace
	Name      string
	// Key, if set, makes a repeat safe: it answers the item of the first call for as long as
	// keys of produce are kept.
	Key string
	// Allow, if not nil, is asked whether the caller may produce to a queue.
	Allow func(queue string) error
}

// Trigger produces the item of a schedule now, beside its times, whatever its state is.
//
// Errors: [queue.ErrNotFound]; those of [queue.Broker.Produce] and of Allow.
func (s *Service) Trigger(ctx context.Context, p TriggerParams) (queue.Produced, error) {
	sched, err := s.Get(ctx, p.Namespace, p.Name)
	if err != nil {
		return queue.Produced{}, err
	}
	if p.Allow != nil {
		if err := p.Allow(sched.Queue); err != nil {
			return queue.Produced{}, err
		}
	}
	now, err := s.now(ctx)
	if err != nil {
		return queue.Produced{}, err
	}
	item := sched.item(now, now)
	if p.Key != "" {
		item.Fingerprint = "trigger " + sched.ID // the content tells the time, so that it differs
	}
	produced, err := s.broker.Produce(ctx, queue.ProduceCall{
		Namespace: p.Namespace, Queue: sched.Queue, Key: p.Key, Items: []queue.ProduceItem{item},
	})
	if err != nil {
		return queue.Produced{}, atItem(err)
	}
	return produced[0], nil
}
