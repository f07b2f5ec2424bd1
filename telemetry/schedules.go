package telemetry

import (
	"context"
	"time"

	"github.com/posthaste-io/posthaste/schedules"
)

// Schedules says what is due and has not fired.
type Schedules interface {
	Overdue(ctx context.Context) (time.Duration, error)
}

var _ Schedules = (*schedules.Service)(nil)

// scheduleMetrics is what is counted of schedules.
type scheduleMetrics struct {
	fired, missed, skipped, lag *counts[byName]
}

func newScheduleMetrics() *scheduleMetrics {
	return &scheduleMetrics{
		fired: newCounts(restOfNames), missed: newCounts(restOfNames), skipped: newCounts(restOfNames), lag: newCounts(restOfNames),
	}
}

// took takes note of a fire.
func (m *scheduleMetrics) took(f schedules.Fired) {
	k := byName{name: labelOf(f.Namespace, f.Schedule)}
	m.fired.add(k, int64(f.Produced))
	m.missed.add(k, int64(f.Missed))
	m.skipped.add(k, int64(f.Skipped))
	m.lag.at(k).Store(f.Lag.Microseconds())
}

// Fired is for [schedules.Options].
func (t *Telemetry) Fired(f schedules.Fired) { t.schedules.took(f) }

func (t *Telemetry) observeSchedules(ctx context.Context, r reading) {
	if s := t.watched.Schedules; s != nil {
		// If the store does not tell, it is unknown and not shown.
		if overdue, err := s.Overdue(ctx); err == nil {
			r.value(scheduleOverdue, overdue.Microseconds())
		}
	}
	m := t.schedules
	for d, values := range map[*definition]*counts[byName]{
		scheduleItems: m.fired, scheduleMissed: m.missed, scheduleSkipped: m.skipped, scheduleLag: m.lag,
	} {
		values.each(func(k byName, n int64) { r.value(d, n, k.name) })
	}
}
