package api

import (
	"time"
	"unicode/utf8"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/cron"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/schedules"
)

// shownSchedule is the answer to a call that returns a schedule.
func shownSchedule(s schedules.Schedule, err error) (*v1.Schedule, error) {
	if err != nil {
		return nil, err
	}
	return schedule(&s), nil
}

// schedule shows everything, and masks what may be a key.
func schedule(s *schedules.Schedule) *v1.Schedule {
	m := &v1.Schedule{
		Name: s.Name, Cron: s.Cron, Zone: s.Zone, QueueName: s.Queue, Item: shownItem(&s.Item),
		ClocksForward: new(forwardWords[s.Forward]), ClocksBack: new(backWords[s.Back]),
		Missed: &v1.Missed{
			Policy: missedWords[s.Missed.Policy], Max: count(s.Missed.Max), Grace: formatDuration(s.Missed.Grace),
		},
		Overlap: new(overlapWords[s.Overlap]), Jitter: formatDuration(s.Jitter),
		StartAt: stamp(s.StartAt), EndAt: stamp(s.EndAt), Paused: s.Paused, Labels: s.Labels,

		NextAt: stamp(s.FiresAt()), LastAt: stamp(s.LastAt), LastFiredAt: stamp(s.LastFiredAt),
		LastError: s.LastError, MissedCount: count(int(s.MissedCount)), SkippedCount: count(int(s.SkippedCount)),
		CreatedAt: stamp(s.CreatedAt), UpdatedAt: stamp(s.UpdatedAt), Revision: formatRevision(s.Revision),
	}
	if !s.LastItem.IsZero() {
		m.LastItemId = s.LastItem.String()
	}
	return m
}

// shownItem writes what scheduleItem reads. A payload that is text comes as text, whichever
// way it was given.
func shownItem(it *queue.ProduceItem) *v1.Produce {
	m := &v1.Produce{
		Encoding: it.Encoding, Kind: it.Kind, Reference: it.Reference, Headers: maskedHeaders(it.Headers),
		MaxAttempts: it.MaxAttempts, Target: shownTarget(it.Target), OnDone: it.OnDone, OrderingKey: it.OrderingKey,
	}
	if it.ExpireTTL > 0 {
		m.ExpireTimeout = formatDuration(it.ExpireTTL)
	}
	if m.Target != nil {
		m.Target.Url = maskedURL(m.Target.Url)
	}
	if utf8.Valid(it.Payload) {
		m.Utf8 = string(it.Payload)
	} else {
		m.Bytes = it.Payload
	}
	return m
}

func shownFires(fires []cron.Fire) []*v1.Fire {
	shown := make([]*v1.Fire, len(fires))
	for i, f := range fires {
		shown[i] = &v1.Fire{At: stamp(f.At), Local: f.At.Format(time.RFC3339), Note: f.Note}
	}
	return shown
}
