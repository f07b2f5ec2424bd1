package schedules

import (
	"maps"
	"time"

	"github.com/posthaste-io/posthaste/cron"
	"github.com/posthaste-io/posthaste/queue"
)

// Schedule produces an item at each time of a cron expression.
type Schedule struct {
	Namespace queue.Namespace
	Name      string
	// ID is random and never used again: what it has produced is known by it.
	ID string

	Cron string
	// Zone is a name of the tz database.
	Zone  string
	Queue string
	Item  queue.ProduceItem

	Forward cron.Forward
	Back    cron.Back
	Missed  Missed
	Overlap Overlap
	// Jitter bounds by how much all fires are moved: each schedule by a time of its own.
	Jitter  time.Duration
	StartAt time.Time
	EndAt   time.Time
	Paused  bool
	Labels  map[string]string

	// NominalAt is the next time of the expression, zero while there is none; it fires
	// then, moved by the jitter.
	NominalAt time.Time
	// DecidedAt is the newest time of the expression for which it was decided what becomes
	// of it: nothing up to it comes again, whatever is changed.
	DecidedAt time.Time
	// LastAt is the time of the expression for which it fired last, LastFiredAt when that
	// was, by the store's clock, LastItem what it produced.
	LastAt      time.Time
	LastFiredAt time.Time
	LastItem    queue.ID
	// LastError is why the last fire could not produce, empty if it could.
	LastError string
	// MissedCount and SkippedCount count times without an item.
	MissedCount  int64
	SkippedCount int64

	CreatedAt time.Time
	UpdatedAt time.Time
	// Revision rises with each change of the settings, and not with fires, so that a
	// frequent schedule can be changed by who has read it.
	Revision uint64

	// stored is the document's revision, which rises with fires too.
	stored uint64
}

// Missed says what becomes of times at which nobody fired.
type Missed struct {
	Policy MissedPolicy
	// Max is how many are made up for with [MissAll].
	Max int
	// Grace is how late one may be, 0 for any.
	Grace time.Duration
}

// MissedChange names what is changed of a [Missed].
type MissedChange struct {
	Policy *MissedPolicy
	Max    *int
	Grace  *time.Duration
}

// MissedPolicy is what is made up for.
type MissedPolicy int

// The policies; the first is the default.
const (
	// MissLatest produces the newest one.
	MissLatest MissedPolicy = iota
	// MissSkip produces none that is over [OnTime] late.
	MissSkip
	// MissAll produces the newest ones, in order.
	MissAll
)

// OnTime is how late a fire may be and not count as missed. Nothing is missed while the next
// time is no later: all that came since are produced.
const OnTime = time.Minute

// Overlap is what happens while the item of the fire before is not done.
type Overlap int

// The policies; the first is the default.
const (
	// OverlapAllow produces all the same.
	OverlapAllow Overlap = iota
	// OverlapSkip produces nothing.
	OverlapSkip
	// OverlapQueueOne produces while the item before is being worked on, and nothing while
	// it waits.
	OverlapQueueOne
)

// Defaults and bounds.
const (
	DefaultZone      = "UTC"
	DefaultMissedMax = 10
	MaxMissed        = 100
)

// Clone returns a copy that shares nothing with s, but for the payload, which nobody changes.
func (s *Schedule) Clone() Schedule {
	c := *s
	c.Labels = maps.Clone(s.Labels)
	c.Item.Headers = maps.Clone(s.Item.Headers)
	if s.Item.Target != nil {
		target := *s.Item.Target
		c.Item.Target = &target
	}
	return c
}
