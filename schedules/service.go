package schedules

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

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
	// ListAll and Due, which returns those whose time has come by the store's clock, say of
	// some that they cannot be read.
	ListAll(ctx context.Context, ns queue.Namespace, after string, limit int) ([]queue.Versioned[Document], error)
	Due(ctx context.Context, limit int) (queue.Due[Document], error)
	// Revision returns that of a value, also of one that cannot be read.
	Revision(ctx context.Context, ns queue.Namespace, name string) (uint64, error)
}

// Broker is where items go.
type Broker interface {
	CheckProduce(ctx context.Context, call queue.ProduceCall) error
	Prepare(ctx context.Context, ns queue.Namespace, queue string, items []queue.ScheduledItem) (*queue.Prepared, error)
	Produce(ctx context.Context, call queue.ProduceCall) ([]queue.Produced, error)
	Look(ctx context.Context, ns queue.Namespace, id queue.ID, queue string) ([]queue.ItemState, error)
}

var _ Broker = (*queue.Broker)(nil)

// Options are what a service is made of. Docs and Broker must be set.
type Options struct {
	Docs   Collection
	Broker Broker
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
	o      Options
	log    *slog.Logger
	off    putOff
}

// New returns a service.
func New(o Options) *Service {
	s := &Service{docs: o.Docs, broker: o.Broker, o: o, log: o.Logger}
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
	now, err := s.now(ctx)
	if err != nil {
		return Schedule{}, err
	}
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
	switch {
	case sched.NominalAt.IsZero() && sched.EndAt.IsZero():
		return Schedule{}, queue.Invalid("start_at", "has no time of the expression after it, so that it would never fire")
	case sched.NominalAt.IsZero():
		return Schedule{}, queue.Invalid("end_at", "comes before the first time of the expression, so that it would never fire")
	}
	if err := s.put(ctx, &sched); err != nil {
		return Schedule{}, err
	}
	s.log.Info("schedule created", "schedule", sched.Name, "queue", sched.Queue, "cron", sched.Cron, "zone", sched.Zone)
	return sched, nil
}

// plan sets the next time that is still to come at an instant: one that is past and fires
// later, by the jitter, is still to come, and one that was decided is not.
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

// now is what time it is by the store, as documents keep it.
func (s *Service) now(ctx context.Context) (time.Time, error) {
	due, err := s.docs.Due(ctx, 0)
	return due.Now.UTC().Truncate(time.Microsecond), err
}

// put writes a change of the settings, and gives them their revision.
func (s *Service) put(ctx context.Context, sched *Schedule) error {
	// Above those that a schedule of this name had before, should it have been deleted.
	sched.Revision = max(sched.Revision+1, uint64(max(sched.UpdatedAt.UnixMicro(), 0)))
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
// shorter than limit is the last. Of one that cannot be read there is the name, and the
// reason as LastError.
func (s *Service) List(ctx context.Context, ns queue.Namespace, after string, limit int) ([]Schedule, error) {
	page, err := s.docs.ListAll(ctx, ns, after, limit)
	if err != nil {
		return nil, err
	}
	all := make([]Schedule, len(page))
	for i := range page {
		if all[i], err = read(&page[i]); err != nil {
			all[i] = Schedule{Namespace: ns, Name: page[i].Name, LastError: clip(err.Error())}
		}
	}
	return all, nil
}

// Delete removes a schedule. What it produced stays.
func (s *Service) Delete(ctx context.Context, ns queue.Namespace, name string) error {
	for range rounds {
		revision, err := s.docs.Revision(ctx, ns, name)
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
