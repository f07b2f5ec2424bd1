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
	Queue string
	// Topic is whose items are copied into that queue, which is the subscription's own
	// then; empty for a subscription on a queue. QueueNumber is set with it alone.
	Topic       string
	QueueNumber queue.Number
	// URL may be empty where AllowTarget is set; and on a topic, where consumers then pull
	// from the subscription's queue.
	URL    string
	Method string
	// Headers are sent with every push; an item's own win over them.
	Headers map[string]string
	// Timeout is one hard deadline over a whole attempt.
	Timeout time.Duration
	// MaxInFlight bounds the requests that run at one time: for all of the endpoint, or,
	// where items bring their own targets, for each host.
	MaxInFlight int
	// Rate bounds the requests that start, of the endpoint or of each host.
	Rate  Rate
	Retry Policy
	// AllowTarget lets items name their own endpoint. Such a request has none of Headers
	// and nothing of Auth, which are for URL alone.
	AllowTarget bool
	// HTTP2 has endpoints that speak TLS asked in HTTP/2.
	HTTP2 bool
	// Format is how an item becomes a request.
	Format Format
	Defer  Defer
	Batch  Batch
	// Log says which attempts are kept in the journal.
	Log LogPolicy
	// OnDone is the queue that is told how items end, unless they name one themselves.
	OnDone string
	// Filter says which items of its topic it takes; the zero value takes all.
	Filter Filter
	Auth   Auth

	Paused   bool
	Disabled bool
	// Reason says in words why it is disabled.
	Reason string
	// DisabledAt is zero unless it is disabled.
	DisabledAt time.Time

	// FailingSince is when the first of the failures was since which nothing succeeded, or
	// zero. It is written a while after that, and tells what all nodes saw.
	FailingSince time.Time

	// Secrets sign; the first is the newest, and the others are good until their time.
	Secrets []SigningSecret

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
	// DisableAfter takes the subscription out of service when nothing but failures came
	// for so long; 0 is never.
	DisableAfter time.Duration
}

// Rate is how many requests may start in a period, evenly spread, with a burst of as
// many as start in a tenth of the period, one at least. The zero value is no limit.
type Rate struct {
	Count  int32
	Period time.Duration
}

// Format is how an item becomes a request.
type Format string

// The formats.
const (
	// FormatPlain sends the item's bytes with our own headers. It is the default.
	FormatPlain Format = ""
	// FormatCloudEvents adds the headers of a CloudEvent in binary mode.
	FormatCloudEvents Format = "cloudevents"
)

// Defer lets an endpoint keep an item and settle it later, with the receipt that the
// request brings.
type Defer struct {
	Allowed bool
	// Timeout is how long an endpoint may keep an item, unless it extends.
	Timeout time.Duration
	// Max is how many items may be kept at one time.
	Max int
}

// Batch sends several items in one request. It is off while MaxItems is below 2.
type Batch struct {
	MaxItems int
	// MaxBytes bounds the payloads of a request; one item is sent whatever its size.
	MaxBytes int
	// MaxWait is how long the first item waits for others.
	MaxWait time.Duration
	// Encoding is how the items stand in the body.
	Encoding BatchEncoding
}

// On says whether requests have several items.
func (b Batch) On() bool { return b.MaxItems > 1 }

// BatchEncoding is how the items of a batch stand in the body.
type BatchEncoding string

// The encodings.
const (
	// BatchJSON is an array of objects, with payloads as text or base64. It is the default.
	BatchJSON BatchEncoding = ""
	// BatchMultipart is multipart/mixed: a part for each item, its bytes as they are.
	BatchMultipart BatchEncoding = "multipart"
)

// LogPolicy says which attempts are kept.
type LogPolicy string

// The policies.
const (
	// LogAll keeps every attempt. It is the default.
	LogAll LogPolicy = ""
	// LogFailures keeps those that did not deliver.
	LogFailures LogPolicy = "failures"
	// LogOff keeps none.
	LogOff LogPolicy = "off"
)

// Auth is how requests authenticate to the endpoint, beside their signatures: at most
// one of Basic, Bearer and OAuth2, and what TLS needs.
type Auth struct {
	Basic  *BasicAuth
	Bearer Secret
	OAuth2 *OAuth2
	// ClientCertificate and ClientKey are PEM, for mutual TLS.
	ClientCertificate string
	ClientKey         Secret
	// RootCAs, in PEM, are trusted instead of the system's.
	RootCAs string
}

// shows says that requests have a secret in them, for whoever answers to see.
func (a Auth) shows() bool { return a.Basic != nil || a.Bearer != "" }

// BasicAuth is a user's name and password.
type BasicAuth struct {
	Username string
	Password Secret
}

// OAuth2 gets a token by client credentials.
type OAuth2 struct {
	TokenURL     string
	ClientID     string
	ClientSecret Secret
	Scopes       []string
	// Audience is sent to the token endpoint if it is not empty.
	Audience string
}

// SigningSecret is a secret and how long it signs.
type SigningSecret struct {
	Secret Secret
	// Until is zero for the newest.
	Until time.Time
}

// SigningSecrets are those that sign at a time, newest first.
func (s *Subscription) SigningSecrets(now time.Time) []Secret {
	live := make([]Secret, 0, len(s.Secrets))
	for _, each := range s.Secrets {
		if each.Until.IsZero() || now.Before(each.Until) {
			live = append(live, each.Secret)
		}
	}
	return live
}

// Defaults of what a creation leaves out.
const (
	DefaultMethod      = "POST"
	DefaultTimeout     = 30 * time.Second
	DefaultMaxInFlight = 32

	DefaultDeferTimeout = 15 * time.Minute
	DefaultMaxDeferred  = 1000
	DefaultBatchBytes   = 1 << 20
)

// DefaultPolicy spreads twelve attempts over about a day, most of them early.
func DefaultPolicy() Policy {
	return Policy{
		MaxAttempts: 12,
		MinBackoff:  5 * time.Second,
		MaxBackoff:  12 * time.Hour,
		Multiplier:  3,
		GiveUpAfter: 7 * 24 * time.Hour,

		DisableAfter: 5 * 24 * time.Hour,
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

// Pulls says that it is on a topic and has no endpoint: consumers lease from its queue.
func (s *Subscription) Pulls() bool { return s.Topic != "" && s.URL == "" && !s.AllowTarget }

// Pushes says whether requests are made at all.
func (s *Subscription) Pushes() bool { return s.State() == Active && !s.Pulls() }

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
	c.Filter = s.Filter.clone()
	c.Auth = s.Auth.clone()
	return c
}

func (a Auth) clone() Auth {
	if a.Basic != nil {
		a.Basic = new(*a.Basic)
	}
	if a.OAuth2 != nil {
		a.OAuth2 = new(*a.OAuth2)
		a.OAuth2.Scopes = slices.Clone(a.OAuth2.Scopes)
	}
	return a
}
