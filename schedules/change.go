package schedules

import (
	"context"
	"maps"
	"strings"
	"time"
	_ "time/tzdata" // for machines that have none

	"github.com/posthaste-io/posthaste/cron"
	"github.com/posthaste-io/posthaste/queue"
)

// Change names the settings that a client gives. Only what is set counts: at a creation
// the rest takes its default, at an update it keeps its value.
type Change struct {
	Cron, Zone, Queue *string
	// Item and Labels are replaced whole. A label with an empty value is none.
	Item    *queue.ProduceItem
	Forward *cron.Forward
	Back    *cron.Back
	Missed  MissedChange
	Overlap *Overlap
	Jitter  *time.Duration
	// StartAt and EndAt are none if they are zero.
	StartAt, EndAt *time.Time
	Labels         map[string]string
}

// Bounds of the settings.
const (
	maxJitter   = 24 * time.Hour
	maxGrace    = 366 * 24 * time.Hour
	maxLabels   = 64
	maxLabel    = 255
	maxZoneName = 64
	// maxYear is the last that can be written.
	maxYear = 9999
	// maxDocument leaves room below what a document may be.
	maxDocument = 900_000
)

// apply writes what is set into s and judges the result, by itself and with its queue.
func (s *Service) apply(ctx context.Context, sched *Schedule, c *Change) error {
	set(&sched.Cron, c.Cron)
	set(&sched.Zone, c.Zone)
	set(&sched.Queue, c.Queue)
	set(&sched.Item, c.Item)
	set(&sched.Forward, c.Forward)
	set(&sched.Back, c.Back)
	set(&sched.Missed.Policy, c.Missed.Policy)
	set(&sched.Missed.Max, c.Missed.Max)
	set(&sched.Missed.Grace, c.Missed.Grace)
	set(&sched.Overlap, c.Overlap)
	set(&sched.Jitter, c.Jitter)
	set(&sched.StartAt, c.StartAt)
	set(&sched.EndAt, c.EndAt)
	if c.Labels != nil {
		sched.Labels = maps.Clone(c.Labels)
		maps.DeleteFunc(sched.Labels, func(_, value string) bool { return value == "" })
	}
	if sched.Missed.Max == 0 {
		sched.Missed.Max = DefaultMissedMax
	}
	if _, _, err := sched.times(); err != nil {
		return err
	}
	if err := sched.check(); err != nil {
		return err
	}
	doc := toDocument(sched)
	if size := doc.size(); size > maxDocument {
		return &queue.TooLargeError{Field: "item", Limit: maxDocument, Unit: "bytes"}
	}
	item := sched.item(sched.CreatedAt, sched.CreatedAt)
	err := s.broker.CheckProduce(ctx, queue.ProduceCall{Namespace: sched.Namespace, Queue: sched.Queue, Items: []queue.ProduceItem{item}})
	if err != nil {
		return atItem(err)
	}
	sched.LastError = "" // it is taken now
	return nil
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

func (s *Schedule) check() error {
	if err := queue.CheckReference("queue_name", s.Queue); err != nil {
		return err
	}
	switch {
	case s.Jitter < 0 || s.Jitter > maxJitter || s.Jitter%time.Second != 0:
		return queue.Invalid("jitter", "is %s; want 0s to %s, in whole seconds", s.Jitter, maxJitter)
	case s.Missed.Max < 1 || s.Missed.Max > MaxMissed:
		return queue.Invalid("missed.max", "is %d; want 1 to %d", s.Missed.Max, MaxMissed)
	case s.Missed.Grace < 0 || s.Missed.Grace > maxGrace:
		return queue.Invalid("missed.grace", "is %s; want 0s to %s", s.Missed.Grace, maxGrace)
	case len(s.Labels) > maxLabels:
		return queue.Invalid("labels", "are %d; want at most %d", len(s.Labels), maxLabels)
	case !s.Item.DueAt.IsZero() || s.Item.Delay != 0 || s.Item.IdempotencyKey != "":
		return queue.Invalid("item", "has a due time or an idempotency key, which are the schedule's to say")
	}
	for name, value := range s.Labels {
		if name == "" || len(name) > maxLabel || len(value) > maxLabel {
			return queue.Invalid("labels", "has one that is not 1 to %d bytes, with a value of as many", maxLabel)
		}
	}
	return s.checkSpan()
}

func (s *Schedule) checkSpan() error {
	if !s.StartAt.IsZero() && !s.EndAt.IsZero() && !s.StartAt.Before(s.EndAt) {
		return queue.Invalid("end_at", "is not after start_at")
	}
	return nil
}

// times returns the expression and the clock by which it fires.
func (s *Schedule) times() (cron.Spec, cron.Clock, error) {
	spec, err := cron.Parse(s.Cron)
	if err != nil {
		return spec, cron.Clock{}, queue.Invalid("cron", "%v", err)
	}
	zone, err := zoneOf(s.Zone)
	if err != nil {
		return spec, cron.Clock{}, err
	}
	clock := cron.Clock{Zone: zone, Forward: s.Forward, Back: s.Back, Anchor: s.StartAt}
	if clock.Anchor.IsZero() {
		clock.Anchor = s.CreatedAt
	} else if clock.Anchor.Nanosecond() > 0 {
		clock.Anchor = clock.Anchor.Add(time.Second) // the first whole second that is not before
	}
	return spec, clock, nil
}

// zoneOf finds a zone by its name in the tz database, never the machine's own.
func zoneOf(name string) (*time.Location, error) {
	if !isZoneName(name) {
		return nil, queue.Invalid("zone", "%.64q is not a name of the tz database; want one such as UTC or Europe/Berlin", name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, queue.Invalid("zone", "%.64q is not in the tz database; want a name such as UTC or Europe/Berlin", name)
	}
	return zone, nil
}

// isZoneName says whether a name may be one on every node: not the machine's own, and none
// of what lies beside zones in a machine's files, such as those that count leap seconds.
func isZoneName(name string) bool {
	for _, part := range strings.Split(name, "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	for _, beside := range []string{"local", "localtime", "posixrules", "posix/", "right/"} {
		if strings.EqualFold(name, beside) || beside[len(beside)-1] == '/' && len(name) > len(beside) && strings.EqualFold(name[:len(beside)], beside) {
			return false
		}
	}
	return len(name) <= maxZoneName && !strings.ContainsAny(name, "\\\x00")
}

// next is the first time after an instant that the schedule has, zero if there is none.
func (s *Schedule) next(spec cron.Spec, clock cron.Clock, after time.Time) time.Time {
	fire, ok := s.nextFire(spec, clock, after)
	if !ok {
		return time.Time{}
	}
	return fire.At.UTC()
}

func (s *Schedule) nextFire(spec cron.Spec, clock cron.Clock, after time.Time) (cron.Fire, bool) {
	var floor time.Time
	switch {
	case !s.StartAt.IsZero():
		floor = s.StartAt.Add(-time.Nanosecond)
	case spec.Every() > 0:
		floor = s.CreatedAt // where its distances begin, and no time itself as a start is
	}
	if floor.After(after) {
		after = floor
	}
	fire, ok := spec.Next(after, clock)
	if !ok || fire.At.Add(s.shift()).UTC().Year() > maxYear || !s.EndAt.IsZero() && !fire.At.Before(s.EndAt) {
		return cron.Fire{}, false
	}
	return fire, true
}
