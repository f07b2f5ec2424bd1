package subscriptions

import (
	"maps"
	"slices"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// Change names the settings that a client gives. Only what is set counts: at a
// creation the rest takes its default, at an update it keeps its value. Maps and
// slices count when they are not nil, so an empty one clears.
type Change struct {
	URL         *string
	Method      *string
	Headers     map[string]string
	Timeout     *time.Duration
	MaxInFlight *int
	Rate        *Rate
	Retry       PolicyChange
	AllowTarget *bool
	HTTP2       *bool
	Format      *Format
	Defer       DeferChange
	// Batch, Filter and Auth are replaced whole.
	Batch  *Batch
	Log    *LogPolicy
	OnDone *string
	Filter *Filter
	Auth   *Auth
}

// DeferChange is the part of a [Change] about finishing later.
type DeferChange struct {
	Allowed *bool
	Timeout *time.Duration
	Max     *int
}

// PolicyChange is the part of a [Change] about retries. A schedule wins over the
// exponential back-off, so a back-off is refused beside one, given or there already.
type PolicyChange struct {
	MaxAttempts *int32
	Schedule    []time.Duration
	MinBackoff  *time.Duration
	MaxBackoff  *time.Duration
	Multiplier  *float64
	GiveUpAfter *time.Duration
	BuryOn      []int32

	DisableAfter *time.Duration
}

// apply writes what is set into s and judges the result. Paths of errors are the
// wire's names.
func (c Change) apply(s *Subscription, checks checks) error {
	set(&s.URL, c.URL)
	set(&s.Method, c.Method)
	if c.Headers != nil {
		s.Headers = maps.Clone(c.Headers)
	}
	set(&s.Timeout, c.Timeout)
	set(&s.MaxInFlight, c.MaxInFlight)
	set(&s.Rate, c.Rate)
	set(&s.AllowTarget, c.AllowTarget)
	set(&s.HTTP2, c.HTTP2)
	setWord(&s.Format, c.Format, wordPlain)
	set(&s.Defer.Allowed, c.Defer.Allowed)
	set(&s.Defer.Timeout, c.Defer.Timeout)
	set(&s.Defer.Max, c.Defer.Max)
	if c.Batch != nil {
		s.Batch = c.Batch.whole()
	}
	setWord(&s.Log, c.Log, wordAll)
	set(&s.OnDone, c.OnDone)
	if c.Filter != nil {
		// Only then: what an earlier release took and this one does not must not stand in
		// the way of a change of something else.
		s.Filter = c.Filter.clone()
		if err := checkFilter(s.Filter, s.Topic != ""); err != nil {
			return err
		}
	}
	if c.Auth != nil {
		s.Auth = c.Auth.clone()
	}
	if err := checks.settings(s); err != nil {
		return err
	}
	return c.Retry.apply(&s.Retry)
}

func (c PolicyChange) apply(p *Policy) error {
	if len(c.Schedule) > 0 && (c.MinBackoff != nil || c.MaxBackoff != nil || c.Multiplier != nil) {
		return queue.Invalid("retry.schedule", "goes without min_backoff, max_backoff and multiplier; give one or the other")
	}
	set(&p.MaxAttempts, c.MaxAttempts)
	if c.Schedule != nil {
		p.Schedule = slices.Clone(c.Schedule)
	}
	set(&p.MinBackoff, c.MinBackoff)
	set(&p.MaxBackoff, c.MaxBackoff)
	set(&p.Multiplier, c.Multiplier)
	set(&p.GiveUpAfter, c.GiveUpAfter)
	set(&p.DisableAfter, c.DisableAfter)
	if c.BuryOn != nil {
		p.BuryOn = slices.Clone(c.BuryOn)
	}
	if err := c.checkBackoff(p); err != nil {
		return err
	}
	return p.check()
}

// checkBackoff refuses a back-off that would not be used, since p has a schedule.
func (c PolicyChange) checkBackoff(p *Policy) error {
	field := ""
	switch {
	case len(p.Schedule) == 0:
	case c.MinBackoff != nil:
		field = "retry.min_backoff"
	case c.MaxBackoff != nil:
		field = "retry.max_backoff"
	case c.Multiplier != nil:
		field = "retry.multiplier"
	}
	if field == "" {
		return nil
	}
	return queue.Invalid(field, "is not used, since the subscription has a schedule; give retry.schedule: [] first")
}

// whole fills in what a batch that is on leaves out. One that is off is the zero value,
// unless it has settings that only a batch needs, which is for the check to refuse.
func (b Batch) whole() Batch {
	setWord(&b.Encoding, &b.Encoding, wordJSON)
	switch {
	case b.MaxItems == 1:
		return Batch{}
	case b.On() && b.MaxBytes == 0:
		b.MaxBytes = DefaultBatchBytes
	}
	return b
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// What callers may call the defaults that are stored as empty words.
const (
	wordPlain = "plain"
	wordAll   = "all"
	wordJSON  = "json"
)

// setWord sets a word of which the empty one is the default, which has a name as well.
func setWord[T ~string](to, from *T, name T) {
	set(to, from)
	if *to == name {
		*to = ""
	}
}
