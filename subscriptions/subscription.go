package subscriptions

import (
	"maps"
	"slices"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// Subscription is an endpoint that a queue is pushed to.
type Subscription struct {
	Namespace queue.Namespace
	Name      string
	// Queue is the name of the queue that it drains.
	Queue  string
	URL    string
	Method string
	// Headers are sent with every push; an item's own win over them.
	Headers map[string]string
	// Timeout is one hard deadline over a whole attempt.
	Timeout time.Duration
	// MaxInFlight bounds the requests that run at one time.
	MaxInFlight int
	Retry       Policy

	Paused   bool
	Disabled bool
	// Reason says in words why it is disabled.
	Reason string
	// DisabledAt is zero unless it is disabled.
	DisabledAt time.Time

	// Secrets sign; the first is the newest.
	Secrets []Secret

	CreatedAt time.Time
	UpdatedAt time.Time
	// Revision rises with every change.
	Revision uint64
}

// Policy says how often and how long an item is tried.
type Policy struct {
	// MaxAttempts is 1 or more, or -1 for no limit.
	MaxAttempts int32
	// Schedule, if not empty, is the wait before each retry; its last entry repeats.
	Schedule []time.Duration
	// MinBackoff, MaxBackoff and Multiplier give the exponential wait otherwise:
	// MinBackoff before the first retry, Multiplier times as long before each
	// further one, never more than MaxBackoff.
	MinBackoff time.Duration
	MaxBackoff time.Duration
	Multiplier float64
	// GiveUpAfter buries an item that fails when it is older than this; 0 is never.
	GiveUpAfter time.Duration
	// BuryOn lists statuses that bury at once.
	BuryOn []int32
}

// Defaults of what a creation leaves out.
const (
	DefaultMethod      = "POST"
	DefaultTimeout     = 30 * time.Second
	DefaultMaxInFlight = 32
)

// DefaultPolicy spreads twelve attempts over about a day, most of them early.
func DefaultPolicy() Policy {
	return Policy{
		MaxAttempts: 12,
		MinBackoff:  5 * time.Second,
		MaxBackoff:  12 * time.Hour,
		Multiplier:  3,
		GiveUpAfter: 7 * 24 * time.Hour,
	}
}

// State is derived from a subscription's switches, never stored.
type State int

// The states.
const (
	// Active: its queue is pushed.
	Active State = iota + 1
	// Paused: somebody asked it to wait.
	Paused
	// Disabled: its endpoint said that it is gone. It wins over Paused, since
	// resuming would not be enough.
	Disabled
)

// String returns the word that the wire uses.
func (s State) String() string {
	switch s {
	case Active:
		return "active"
	case Paused:
		return "paused"
	case Disabled:
		return "disabled"
	default:
		return "invalid"
	}
}

// State says whether the subscription is pushed to, and if not, why.
func (s *Subscription) State() State {
	switch {
	case s.Disabled:
		return Disabled
	case s.Paused:
		return Paused
	default:
		return Active
	}
}

// Key names a subscription.
type Key struct {
	Namespace queue.Namespace
	Name      string
}

// Key returns the subscription's name in its namespace.
func (s *Subscription) Key() Key { return Key{Namespace: s.Namespace, Name: s.Name} }

// Clone returns a copy that shares nothing with s.
func (s *Subscription) Clone() Subscription {
	c := *s
	c.Headers = maps.Clone(s.Headers)
	c.Secrets = slices.Clone(s.Secrets)
	c.Retry.Schedule = slices.Clone(s.Retry.Schedule)
	c.Retry.BuryOn = slices.Clone(s.Retry.BuryOn)
	return c
}
