package schedules

import (
	"context"
	"time"

	"github.com/posthaste-io/posthaste/cron"
	"github.com/posthaste-io/posthaste/queue"
)

// PreviewParams asks for fires: of the schedule of that name, or, without one, of what
// Change says.
type PreviewParams struct {
	Namespace queue.Namespace
	Name      string
	Change
	// Count is 1 to [MaxPreview].
	Count int
	// From is after when, zero for now.
	From time.Time
}

// MaxPreview bounds a preview.
const MaxPreview = 1000

// Preview returns the next fires, without jitter, fewer if there are no more. Errors:
// [queue.InvalidError]; [queue.ErrNotFound].
func (s *Service) Preview(ctx context.Context, p PreviewParams) ([]cron.Fire, error) {
	if p.Count < 1 || p.Count > MaxPreview {
		return nil, queue.Invalid("count", "is %d; want 1 to %d", p.Count, MaxPreview)
	}
	now, err := s.now(ctx)
	if err != nil {
		return nil, err
	}
	from := p.From
	if from.IsZero() {
		from = now
	}
	sched := Schedule{Zone: DefaultZone, CreatedAt: from}
	if p.Name != "" {
		if sched, err = s.Get(ctx, p.Namespace, p.Name); err != nil {
			return nil, err
		}
	} else {
		if p.Cron == nil {
			return nil, queue.Invalid("cron", "is missing; want an expression such as 30 9 * * MON-FRI, or the name of a schedule")
		}
		set(&sched.Cron, p.Cron)
		set(&sched.Zone, p.Zone)
		set(&sched.Forward, p.Forward)
		set(&sched.Back, p.Back)
		set(&sched.StartAt, p.StartAt)
		set(&sched.EndAt, p.EndAt)
		if err := sched.checkSpan(); err != nil {
			return nil, err
		}
	}
	spec, clock, err := sched.times()
	if err != nil {
		return nil, err
	}
	var fires []cron.Fire
	for len(fires) < p.Count {
		fire, ok := sched.nextFire(spec, clock, from)
		if !ok {
			break
		}
		sched.noteSkipped(&fire, spec, clock, from)
		fires = append(fires, fire)
		from = fire.At
	}
	return fires, nil
}

// noteSkipped tells with a fire that there is none in between, where clocks go forward.
func (s *Schedule) noteSkipped(fire *cron.Fire, spec cron.Spec, clock cron.Clock, after time.Time) {
	if clock.Forward != cron.SkipForward {
		return
	}
	clock.Forward = cron.RunAfter
	skipped, ok := s.nextFire(spec, clock, after)
	if !ok || !skipped.At.Before(fire.At) {
		return
	}
	note := "none on " + skipped.At.Format(time.DateOnly) + ", when clocks go forward over it"
	if fire.Note != "" {
		note += "; " + fire.Note
	}
	fire.Note = note
}
