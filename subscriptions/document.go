package subscriptions

import (
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// Document is a subscription as it is stored. It differs from [Subscription] in
// that its secrets are plain text and that its names are a format: a field is
// never renamed, and a new one must mean its default when it is missing.
type Document struct {
	Namespace   queue.Namespace   `json:"namespace"`
	Name        string            `json:"name"`
	Queue       string            `json:"queue"`
	URL         string            `json:"url"`
	Method      string            `json:"method"`
	Headers     map[string]string `json:"headers,omitempty"`
	Timeout     time.Duration     `json:"timeout"`
	MaxInFlight int               `json:"max_in_flight"`
	Retry       RetryDocument     `json:"retry"`
	Paused      bool              `json:"paused,omitempty"`
	Disabled    bool              `json:"disabled,omitempty"`
	Reason      string            `json:"reason,omitempty"`
	DisabledAt  time.Time         `json:"disabled_at,omitzero"`
	Secrets     []string          `json:"secrets"`
	CreatedAt   time.Time         `json:"created_at"`
	UpdatedAt   time.Time         `json:"updated_at"`
	// Pending marks a creation that has not got its queue yet; see the package comment.
	Pending bool `json:"pending,omitempty"`
}

// RetryDocument is a [Policy] as it is stored; durations are nanoseconds.
type RetryDocument struct {
	MaxAttempts int32           `json:"max_attempts"`
	Schedule    []time.Duration `json:"schedule,omitempty"`
	MinBackoff  time.Duration   `json:"min_backoff"`
	MaxBackoff  time.Duration   `json:"max_backoff"`
	Multiplier  float64         `json:"multiplier"`
	GiveUpAfter time.Duration   `json:"give_up_after"`
	BuryOn      []int32         `json:"bury_on,omitempty"`
}

// Claim is kept under a queue's name and says whose it is.
type Claim struct {
	Subscription string `json:"subscription"`
}

func toDocument(s Subscription) Document {
	d := Document{
		Namespace: s.Namespace, Name: s.Name, Queue: s.Queue,
		URL: s.URL, Method: s.Method, Headers: s.Headers,
		Timeout: s.Timeout, MaxInFlight: s.MaxInFlight,
		Retry:  RetryDocument(s.Retry),
		Paused: s.Paused, Disabled: s.Disabled, Reason: s.Reason, DisabledAt: s.DisabledAt,
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
	}
	for _, secret := range s.Secrets {
		d.Secrets = append(d.Secrets, secret.Reveal())
	}
	return d
}

func fromDocument(d Document, revision uint64) Subscription {
	s := Subscription{
		Namespace: d.Namespace, Name: d.Name, Queue: d.Queue,
		URL: d.URL, Method: d.Method, Headers: d.Headers,
		Timeout: d.Timeout, MaxInFlight: d.MaxInFlight,
		Retry:  Policy(d.Retry),
		Paused: d.Paused, Disabled: d.Disabled, Reason: d.Reason, DisabledAt: d.DisabledAt,
		CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt,
		Revision: revision,
	}
	for _, secret := range d.Secrets {
		s.Secrets = append(s.Secrets, Secret(secret))
	}
	return s
}
