package scheduler

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// Defaults of [Options].
const (
	DefaultPollEvery = time.Second
	// DefaultSweepEvery is half of a lane's lease, the shortest that is common: an
	// item that lapsed for the last time is buried soon after.
	DefaultSweepEvery = 15 * time.Second
	DefaultTidyEvery  = time.Minute
)

// learnAfter a wake the store is asked what is due next: late enough for who was
// woken to have taken what was due, and for one call to serve many wakes.
const learnAfter = 100 * time.Millisecond

// Broker is what the scheduler drives.
type Broker interface {
	// OnDue registers who is told of due times, by the store's clock. Called once.
	OnDue(f func(q queue.Number, at time.Time))
	NextDue(ctx context.Context) (queue.DueAnswer, error)
	Wake(queues ...queue.Number)
	Sweep(ctx context.Context) (buried int, err error)
	Tidy(ctx context.Context) error
}

var _ Broker = (*queue.Broker)(nil)

// Schedules fires what is due.
type Schedules interface {
	// Fire fires every schedule that is due. It returns when the next one is, zero if none
	// is, and the store's time as it was then.
	Fire(ctx context.Context) (next, now time.Time, err error)
}

// Options are what a scheduler is made of. Broker must be set; a zero period is its default.
type Options struct {
	Broker     Broker
	Logger     *slog.Logger
	PollEvery  time.Duration
	SweepEvery time.Duration
	TidyEvery  time.Duration
}

// Scheduler waits for time. Make it with [New] before the broker runs, and call Run once.
type Scheduler struct {
	o   Options
	log *slog.Logger
	// kick holds one: the earliest due time changed.
	kick chan struct{}
	// woke holds one: something was due, so what is due next may be unknown.
	woke chan struct{}
	// changed holds one: a schedule may fire earlier than was known.
	changed   chan struct{}
	schedules Schedules

	mu  sync.Mutex
	due *dueTimes
	// stored is what the store's clock said at heard, a reading of ours: from there on the
	// monotonic clock counts, which nobody sets.
	stored, heard time.Time
	// ready are the queues that had something available at the last poll.
	ready map[queue.Number]bool
}

// New returns a scheduler, and registers it with the broker for due times.
func New(o Options) *Scheduler {
	if o.PollEvery <= 0 {
		o.PollEvery = DefaultPollEvery
	}
	if o.SweepEvery <= 0 {
		o.SweepEvery = DefaultSweepEvery
	}
	if o.TidyEvery <= 0 {
		o.TidyEvery = DefaultTidyEvery
	}
	s := &Scheduler{
		o: o, log: o.Logger,
		kick: make(chan struct{}, 1), woke: make(chan struct{}, 1), changed: make(chan struct{}, 1),
		due: newDueTimes(), ready: map[queue.Number]bool{},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.heard = time.Now()
	s.stored = s.heard
	o.Broker.OnDue(s.learn)
	return s
}

// Run works until ctx ends. Sweeping and tidying run beside the wakes and never
// hold them up.
func (s *Scheduler) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { s.wake(ctx) })
	wg.Go(func() { s.poll(ctx) })
	if s.schedules != nil {
		wg.Go(func() { s.fire(ctx) })
	}
	wg.Go(func() { s.every(ctx, s.o.SweepEvery, "sweep", s.sweep) })
	wg.Go(func() { s.every(ctx, s.o.TidyEvery, "tidy", s.o.Broker.Tidy) })
	wg.Wait()
	return nil
}

// Fires has schedules fired. It is called before Run, if at all: schedules ask for the time
// that the scheduler knows, so that they are made later.
func (s *Scheduler) Fires(schedules Schedules) { s.schedules = schedules }

// Changed says that a schedule may fire earlier than was known. It is quick.
func (s *Scheduler) Changed() { nudge(s.changed) }

// now is the store's time, as near as is known. It is called with the lock held.
func (s *Scheduler) now() time.Time { return s.stored.Add(time.Since(s.heard)) }

// learn is called by the broker, often, and must be quick.
func (s *Scheduler) learn(q queue.Number, at time.Time) {
	s.mu.Lock()
	before, some := s.due.next()
	s.due.add(q, at)
	after, _ := s.due.next()
	s.mu.Unlock()
	if !some || after.Before(before) {
		nudge(s.kick)
	}
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // one is enough
	}
}
