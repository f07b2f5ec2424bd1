package subscriptions

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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
	Retry       PolicyChange
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
}

// Bounds of the settings.
const (
	minTimeout     = time.Second
	maxTimeout     = 30 * time.Minute
	maxMaxInFlight = 1000
	maxWait        = 30 * 24 * time.Hour
	maxGiveUp      = 366 * 24 * time.Hour
	maxMultiplier  = 100
	maxSteps       = 100
	maxBuryOn      = 100
)

// methods carry a body and have no meaning for caches.
var methods = []string{"POST", "PUT", "PATCH"}

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

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// checks are the rules that other parts of the program own.
type checks struct {
	url     func(string) error
	headers func(map[string]string) error
	secret  func(string) error
}

func (c checks) settings(s *Subscription) error {
	if s.URL == "" {
		return queue.Invalid("url", "is missing; want the endpoint, such as https://example.com/hook")
	}
	if err := c.url(s.URL); err != nil {
		return asInvalid("url", err)
	}
	if !slices.Contains(methods, s.Method) {
		return queue.Invalid("method", "%.20q is not one of %s", s.Method, strings.Join(methods, ", "))
	}
	if err := c.headers(s.Headers); err != nil {
		return asInvalid("headers", err)
	}
	if err := between("timeout", s.Timeout, minTimeout, maxTimeout); err != nil {
		return err
	}
	return between("max_in_flight", s.MaxInFlight, 1, maxMaxInFlight)
}

// asInvalid keeps an error that already names a field, and names one otherwise.
func asInvalid(field string, err error) error {
	if _, ok := errors.AsType[*queue.InvalidError](err); ok {
		return err
	}
	return queue.Invalid(field, "%v", err)
}

func (p *Policy) check() error {
	if p.MaxAttempts < 1 && p.MaxAttempts != -1 {
		return queue.Invalid("retry.max_attempts", "is %d; want 1 or more, or -1 for no limit", p.MaxAttempts)
	}
	if len(p.Schedule) > maxSteps {
		return queue.Invalid("retry.schedule", "has %d entries; want at most %d, the last repeats", len(p.Schedule), maxSteps)
	}
	for i, wait := range p.Schedule {
		if err := between(fmt.Sprintf("retry.schedule[%d]", i), wait, 0, maxWait); err != nil {
			return err
		}
	}
	if err := between("retry.min_backoff", p.MinBackoff, time.Millisecond, maxWait); err != nil {
		return err
	}
	if err := between("retry.max_backoff", p.MaxBackoff, p.MinBackoff, maxWait); err != nil {
		return err
	}
	if err := between("retry.multiplier", p.Multiplier, 1, maxMultiplier); err != nil {
		return err
	}
	if p.GiveUpAfter != 0 {
		if err := between("retry.give_up_after", p.GiveUpAfter, time.Second, maxGiveUp); err != nil {
			return err
		}
	}
	if len(p.BuryOn) > maxBuryOn {
		return queue.Invalid("retry.bury_on", "has %d entries; want at most %d", len(p.BuryOn), maxBuryOn)
	}
	for i, status := range p.BuryOn {
		if err := between(fmt.Sprintf("retry.bury_on[%d]", i), status, 300, 599); err != nil {
			return err
		}
	}
	return nil
}

// between is written so that NaN is refused as well.
func between[T int | int32 | float64 | time.Duration](field string, v, low, high T) error {
	if v >= low && v <= high {
		return nil
	}
	return queue.Invalid(field, "is %v; want %v to %v", v, low, high)
}
