package schedules

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/posthaste-io/posthaste/cron"
	"github.com/posthaste-io/posthaste/queue"
)

// Collection keeps documents by namespace and name. The errors are [queue.ErrNotFound],
// [queue.ErrExists] (a put of revision 0 that found one), [queue.ErrRevision], and those of
// the store; they name the document.
type Collection interface {
	Get(ctx context.Context, ns queue.Namespace, name string) (value Document, revision uint64, err error)
	// Put writes value if revision is the stored one, has Due return it from wakeAt on, and
	// inserts the items in the same transaction, but for those whose key is known.
	Put(ctx context.Context, ns queue.Namespace, name string, value Document, revision uint64,
		wakeAt time.Time, items ...queue.NewItem) (uint64, error)
	Delete(ctx context.Context, ns queue.Namespace, name string, revision uint64) error
	List(ctx context.Context, ns queue.Namespace, after string, limit int) ([]queue.Versioned[Document], error)
	// Due returns those whose time has come by the store's clock.
	Due(ctx context.Context, limit int) (queue.Due[Document], error)
	// Postpone has Due return a value from another time on, and leaves it as it is.
	Postpone(ctx context.Context, ns queue.Namespace, name string, revision uint64, wakeAt time.Time) error
}

// Broker is where items go.
type Broker interface {
	CheckProduce(ctx context.Context, call queue.ProduceCall) error
	Prepare(ctx context.Context, ns queue.Namespace, queue string, items []queue.ScheduledItem) (*queue.Prepared, error)
	Produce(ctx context.Context, call queue.ProduceCall) ([]queue.Produced, error)
	Look(ctx context.Context, ns queue.Namespace, id queue.ID, queue string) ([]queue.ItemState, error)
}

var _ Broker = (*queue.Broker)(nil)

// Options are what a service is made of. Docs, Broker and Now must be set.
type Options struct {
	Docs   Collection
	Broker Broker
	// Now is the store's time, as near as is known, for what comes next after a change. What
	// is due, the store says.
	Now func() time.Time
	// Changed, if not nil, is told that something may fire earlier than was known.
	Changed func()
	// Observe, if not nil, is told of each fire.
	Observe func(Fired)
	Logger  *slog.Logger
}

// Fired is what a fire did, for who counts.
type Fired struct {
	Namespace queue.Namespace
	Schedule  string
	// Produced is how many items it made, Missed and Skipped how many times had none.
	Produced, Missed, Skipped int
	// Lag is how long after the newest time, jitter included, that was.
	Lag time.Duration
}

// Service keeps the schedules. Safe for concurrent use.
type Service struct {
	docs   Collection
	broker Broker
	now    func() time.Time
	o      Options
	log    *slog.Logger
}

// New returns a service.
func New(o Options) *Service {
	s := &Service{docs: o.Docs, broker: o.Broker, now: o.Now, o: o, log: o.Logger}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s
}

// rounds is how often a change is tried anew when somebody else was quicker.
const rounds = 10

// CreateParams is a new schedule.
type CreateParams struct {
	Namespace queue.Namespace
	Name      string
	Paused    bool
	Change
}

// Create keeps a new schedule. Its queue must be there.
//
// Errors: [queue.InvalidError]; [queue.TooLargeError]; [queue.ErrNotFound], for its queue;
// [queue.ErrExists]; those of the store.
func (s *Service) Create(ctx context.Context, p CreateParams) (Schedule, error) {
	if err := queue.CheckName("name", p.Name); err != nil {
		return Schedule{}, err
	}
	switch {
	case p.Cron == nil:
		return Schedule{}, queue.Invalid("cron", "is missing; want an expression such as 30 9 * * MON-FRI")
	case p.Queue == nil:
		return Schedule{}, queue.Invalid("queue_name", "is missing; want the queue to which the items go")
	}
	now := s.stamp()
	var id [16]byte
	rand.Read(id[:]) // never returns an error
	sched := Schedule{
		Namespace: p.Namespace, Name: p.Name, ID: hex.EncodeToString(id[:]),
		Zone: DefaultZone, Paused: p.Paused, CreatedAt: now, UpdatedAt: now,
	}
	if err := s.apply(ctx, &sched, &p.Change); err != nil {
		return Schedule{}, err
	}
	if err := sched.plan(now); err != nil {
		return Schedule{}, err
	}
	if sched.NominalAt.IsZero() {
		return Schedule{}, queue.Invalid("end_at", "comes before the first time of the expression, so that it would never fire")
	}
	if err := s.put(ctx, &sched); err != nil {
		return Schedule{}, err
	}
	s.log.Info("schedule created", "schedule", sched.Name, "queue", sched.Queue, "cron", sched.Cron, "zone", sched.Zone)
	return sched, nil
}

// plan sets the next time that is still to come at an instant: one that is past and fires
// later, by the jitter, is still to come, and one that was decided is not, whatever our clock
// says.
func (s *Schedule) plan(now time.Time) error {
	spec, clock, err := s.times()
	if err != nil {
		return err
	}
	after := now.Add(-s.shift())
	for _, floor := range []time.Time{s.CreatedAt, s.DecidedAt} {
		if floor.After(after) {
			after = floor
		}
	}
	s.NominalAt = s.next(spec, clock, after)
	return nil
}

// FiresAt is when it fires next: not while it is paused, nor when it is over.
func (s *Schedule) FiresAt() time.Time {
	if s.Paused || s.NominalAt.IsZero() {
		return time.Time{}
	}
	return s.NominalAt.Add(s.shift())
}

// put writes a change of the settings, and gives them their revision.
func (s *Service) put(ctx context.Context, sched *Schedule) error {
	// Above those that a schedule of this name had before, should it have been deleted.
	sched.Revision = max(sched.Revision+1, uint64(max(s.now().UnixMicro(), 0)))
	revision, err := s.docs.Put(ctx, sched.Namespace, sched.Name, toDocument(sched), sched.stored, sched.FiresAt())
	if err != nil {
		return err
	}
	sched.stored = revision
	if s.o.Changed != nil {
		s.o.Changed()
	}
	return nil
}

// Get returns a schedule, or [queue.ErrNotFound].
func (s *Service) Get(ctx context.Context, ns queue.Namespace, name string) (Schedule, error) {
	doc, revision, err := s.docs.Get(ctx, ns, name)
	if err != nil {
		return Schedule{}, err
	}
	return fromDocument(&doc, revision)
}

// List returns schedules in the order of their names, after the one named. A page that is
// shorter than limit is the last.
func (s *Service) List(ctx context.Context, ns queue.Namespace, after string, limit int) ([]Schedule, error) {
	page, err := s.docs.List(ctx, ns, after, limit)
	if err != nil {
		return nil, err
	}
	all := make([]Schedule, len(page))
	for i := range page {
		if all[i], err = fromDocument(&page[i].Value, page[i].Revision); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// UpdateParams changes the settings that are set and no other.
type UpdateParams struct {
	Namespace queue.Namespace
	Name      string
	// Allow, if not nil, is asked whether the caller may produce to the queue that the
	// schedule has.
	Allow func(queue string) error
	// Revision, if not 0, must be the schedule's.
	Revision uint64
	Change
}

// Update changes settings. Where they say when it fires, the next time is reckoned anew
// from now; else it stays.
//
// Errors are those of [Service.Create], and [queue.ErrRevision].
func (s *Service) Update(ctx context.Context, p UpdateParams) (Schedule, error) {
	return s.mutate(ctx, p.Namespace, p.Name, p.Revision, func(sched *Schedule) (bool, error) {
		if p.Allow != nil {
			if err := p.Allow(sched.Queue); err != nil {
				return false, err
			}
		}
		before := sched.Clone()
		if err := s.apply(ctx, sched, &p.Change); err != nil {
			return false, err
		}
		if sched.Cron != before.Cron || sched.Zone != before.Zone || sched.Forward != before.Forward || sched.Back != before.Back ||
			!sched.StartAt.Equal(before.StartAt) || !sched.EndAt.Equal(before.EndAt) && sched.NominalAt.IsZero() {
			return true, sched.plan(s.now())
		}
		if !sched.EndAt.IsZero() && !sched.NominalAt.Before(sched.EndAt) {
			sched.NominalAt = time.Time{}
		}
		return true, nil
	})
}

// Pause keeps a schedule from firing until Resume.
func (s *Service) Pause(ctx context.Context, ns queue.Namespace, name string) (Schedule, error) {
	return s.mutate(ctx, ns, name, 0, func(sched *Schedule) (bool, error) {
		changed := !sched.Paused
		sched.Paused = true
		return changed, nil
	})
}

// Resume ends a pause. What it would have fired meanwhile is not made up for, and not
// counted as missed: somebody wanted it so.
func (s *Service) Resume(ctx context.Context, ns queue.Namespace, name string) (Schedule, error) {
	return s.mutate(ctx, ns, name, 0, func(sched *Schedule) (bool, error) {
		if !sched.Paused {
			return false, nil
		}
		sched.Paused = false
		return true, sched.plan(s.now())
	})
}

// Delete removes a schedule. What it produced stays.
func (s *Service) Delete(ctx context.Context, ns queue.Namespace, name string) error {
	for range rounds {
		_, revision, err := s.docs.Get(ctx, ns, name)
		if err != nil {
			return err
		}
		err = s.docs.Delete(ctx, ns, name, revision)
		if !errors.Is(err, queue.ErrRevision) {
			return err
		}
	}
	return fmt.Errorf("schedule %s: %w", name, queue.ErrRevision)
}

// mutate reads, changes and writes a schedule, again where somebody else was quicker,
// unless the caller insists on a revision. A fire is a change, too.
func (s *Service) mutate(ctx context.Context, ns queue.Namespace, name string, insist uint64,
	change func(*Schedule) (changed bool, err error),
) (Schedule, error) {
	for range rounds {
		sched, err := s.Get(ctx, ns, name)
		if err != nil {
			return Schedule{}, err
		}
		if insist != 0 && sched.Revision != insist {
			return Schedule{}, fmt.Errorf("schedule %s: %w", name, queue.ErrRevision)
		}
		changed, err := change(&sched)
		if err != nil || !changed {
			return sched, err
		}
		sched.UpdatedAt = s.stamp()
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

// stamp is now as documents keep it.
func (s *Service) stamp() time.Time { return s.now().UTC().Truncate(time.Microsecond) }

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
	now := s.stamp()
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

// noteSkipped tells with a fire that there is none in between, where clocks go forward.
func noteSkipped(fire *cron.Fire, spec cron.Spec, clock cron.Clock, after time.Time) {
	if clock.Forward != cron.SkipForward {
		return
	}
	clock.Forward = cron.RunAfter
	skipped, ok := spec.Next(after, clock)
	if !ok || !skipped.At.Before(fire.At) {
		return
	}
	note := "none on " + skipped.At.Format(time.DateOnly) + ", when clocks go forward over it"
	if fire.Note != "" {
		note += "; " + fire.Note
	}
	fire.Note = note
}

// MaxPreview bounds a preview.
const MaxPreview = 1000

// Preview returns the next fires, without jitter, fewer if there are no more. Errors:
// [queue.InvalidError]; [queue.ErrNotFound].
func (s *Service) Preview(ctx context.Context, p PreviewParams) ([]cron.Fire, error) {
	if p.Count < 1 || p.Count > MaxPreview {
		return nil, queue.Invalid("count", "is %d; want 1 to %d", p.Count, MaxPreview)
	}
	sched := Schedule{Zone: DefaultZone, CreatedAt: s.stamp()}
	if p.Name != "" {
		var err error
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
	}
	spec, clock, err := sched.times()
	if err != nil {
		return nil, err
	}
	from := p.From
	if from.IsZero() {
		from = s.now()
	}
	var fires []cron.Fire
	for len(fires) < p.Count {
		if at := sched.next(spec, clock, from); at.IsZero() {
			break
		}
		if before := sched.StartAt.Add(-time.Nanosecond); !sched.StartAt.IsZero() && before.After(from) {
			from = before
		}
		fire, _ := spec.Next(from, clock)
		noteSkipped(&fire, spec, clock, from)
		fires = append(fires, fire)
		from = fire.At
	}
	return fires, nil
}
