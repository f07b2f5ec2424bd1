package schedules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// UpdateParams changes the settings that are set and no other.
type UpdateParams struct {
	Namespace queue.Namespace
	Name      string
	// Revision, if not 0, must be the schedule's.
	Revision uint64
	// Complete, if not nil, is given the schedule as it is and the change, and may refuse it
	// or fill in what it leaves to what is there. It is called again where somebody else was
	// quicker, each time with the change as it was given.
	Complete func(kept *Schedule, change *Change) error
	Change
}

// Update changes settings. Where they say when it fires, the next time is reckoned anew
// from now; else it stays. What was due fires before, as the settings were.
//
// Errors are those of [Service.Create], and [queue.ErrRevision].
func (s *Service) Update(ctx context.Context, p UpdateParams) (Schedule, error) {
	return s.mutate(ctx, p.Namespace, p.Name, p.Revision, func(sched *Schedule, now time.Time, unfired error) (bool, error) {
		if unfired != nil {
			return false, fmt.Errorf("schedule %s is due, and could not fire before the change: %w", p.Name, unfired)
		}
		before, change := sched.Clone(), p.Change
		if p.Complete != nil {
			if err := p.Complete(sched, &change); err != nil {
				return false, err
			}
		}
		if err := s.apply(ctx, sched, &change); err != nil {
			return false, err
		}
		if sched.Cron != before.Cron || sched.Zone != before.Zone || sched.Forward != before.Forward || sched.Back != before.Back ||
			!sched.StartAt.Equal(before.StartAt) || !sched.EndAt.Equal(before.EndAt) && sched.NominalAt.IsZero() {
			return true, sched.plan(now)
		}
		if !sched.EndAt.IsZero() && !sched.NominalAt.Before(sched.EndAt) {
			sched.NominalAt = time.Time{}
		}
		return true, nil
	})
}

// Pause keeps a schedule from firing until Resume. What was due fires before; where that
// cannot be, it counts as missed: a pause must work when nothing else does.
func (s *Service) Pause(ctx context.Context, ns queue.Namespace, name string) (Schedule, error) {
	return s.mutate(ctx, ns, name, 0, func(sched *Schedule, now time.Time, unfired error) (bool, error) {
		if sched.Paused {
			return false, nil
		}
		if unfired != nil {
			d, err := sched.decide(now)
			if err != nil {
				return false, err
			}
			d.letGo(clip("it was paused while it was due and could not fire: " + unfired.Error()))
			sched.follow(&d)
		}
		sched.Paused = true
		return true, nil
	})
}

// Resume ends a pause. What it would have fired meanwhile is not made up for, and not
// counted as missed: somebody wanted it so.
func (s *Service) Resume(ctx context.Context, ns queue.Namespace, name string) (Schedule, error) {
	return s.mutate(ctx, ns, name, 0, func(sched *Schedule, now time.Time, _ error) (bool, error) {
		if !sched.Paused {
			return false, nil
		}
		sched.Paused = false
		return true, sched.plan(now)
	})
}

// mutate reads, changes and writes a schedule, again where somebody else was quicker,
// unless the caller insists on a revision. What is due fires first, so that no change drops
// it; change is told where that could not be, and the store's time.
func (s *Service) mutate(ctx context.Context, ns queue.Namespace, name string, insist uint64,
	change func(sched *Schedule, now time.Time, unfired error) (changed bool, err error),
) (Schedule, error) {
	for range rounds {
		sched, err := s.Get(ctx, ns, name)
		if err != nil {
			return Schedule{}, err
		}
		if insist != 0 && sched.Revision != insist {
			return Schedule{}, fmt.Errorf("schedule %s: %w", name, queue.ErrRevision)
		}
		now, err := s.now(ctx)
		if err != nil {
			return Schedule{}, err
		}
		var unfired error
		if at := sched.FiresAt(); !at.IsZero() && !at.After(now) {
			before := sched.Clone()
			if unfired = s.fire(ctx, &before, now); unfired == nil {
				continue
			}
		}
		changed, err := change(&sched, now, unfired)
		if err != nil || !changed {
			return sched, err
		}
		sched.UpdatedAt = now
		err = s.put(ctx, &sched)
		if errors.Is(err, queue.ErrRevision) {
			continue
		}
		if err != nil {
			return Schedule{}, err
		}
		return sched, nil
	}
	return Schedule{}, fmt.Errorf("schedule %s: %w", name, queue.ErrRevision)
}
