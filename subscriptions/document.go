package subscriptions

import (
	"encoding/json"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// Document is a subscription as it is stored. It differs from [Subscription] in that
// what is secret of it is sealed, and that its names are a format: a field is never
// renamed, and a new one must mean its default when it is missing.
type Document struct {
	Namespace    queue.Namespace `json:"namespace"`
	Name         string          `json:"name"`
	Queue        string          `json:"queue"`
	Topic        string          `json:"topic,omitempty"`
	QueueNumber  queue.Number    `json:"queue_number,omitempty"`
	URL          string          `json:"url"`
	Method       string          `json:"method"`
	Timeout      time.Duration   `json:"timeout"`
	MaxInFlight  int             `json:"max_in_flight"`
	Rate         RateDocument    `json:"rate,omitzero"`
	Retry        RetryDocument   `json:"retry"`
	AllowTarget  bool            `json:"allow_target,omitempty"`
	HTTP2        bool            `json:"http2,omitempty"`
	Format       Format          `json:"format,omitempty"`
	Defer        DeferDocument   `json:"defer,omitzero"`
	Batch        BatchDocument   `json:"batch,omitzero"`
	Log          LogPolicy       `json:"log,omitempty"`
	OnDone       string          `json:"on_done,omitempty"`
	Filter       FilterDocument  `json:"filter,omitzero"`
	Paused       bool            `json:"paused,omitempty"`
	Disabled     bool            `json:"disabled,omitempty"`
	Reason       string          `json:"reason,omitempty"`
	DisabledAt   time.Time       `json:"disabled_at,omitzero"`
	FailingSince time.Time       `json:"failing_since,omitzero"`
	Secrets      SecretsDocument `json:"secrets"`
	CreatedAt    time.Time       `json:"created_at"`
	UpdatedAt    time.Time       `json:"updated_at"`
	// Pending marks a creation that has not got its queue yet; see the package comment.
	Pending bool `json:"pending,omitempty"`
	// Headers are in documents of releases that did not seal, and in no other.
	Headers map[string]string `json:"headers,omitempty"`
}

// RateDocument is a [Rate] as it is stored.
type RateDocument struct {
	Count  int32         `json:"count"`
	Period time.Duration `json:"period"`
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
	// DisableAfter is nil in documents that are older than it, and its zero is never.
	DisableAfter *time.Duration `json:"disable_after,omitempty"`
}

// DeferDocument is a [Defer] as it is stored; the zeros of times and counts are their
// defaults.
type DeferDocument struct {
	Allowed bool          `json:"allowed,omitempty"`
	Timeout time.Duration `json:"timeout,omitempty"`
	Max     int           `json:"max,omitempty"`
}

// BatchDocument is a [Batch] as it is stored.
type BatchDocument struct {
	MaxItems int           `json:"max_items"`
	MaxBytes int           `json:"max_bytes"`
	MaxWait  time.Duration `json:"max_wait,omitempty"`
	Encoding BatchEncoding `json:"encoding,omitempty"`
}

// FilterDocument is a [Filter] as it is stored; what is missing takes every item.
type FilterDocument struct {
	Kinds   []string `json:"kinds,omitempty"`
	CEL     string   `json:"cel,omitempty"`
	OnError OnError  `json:"on_error,omitempty"`
}

// IsZero lets documents leave it out.
func (d FilterDocument) IsZero() bool { return Filter(d).IsZero() }

// Claim is kept under a queue's name and says whose it is.
type Claim struct {
	Subscription string `json:"subscription"`
}

// open returns what is not secret of a document.
func (d *Document) open(revision uint64) Subscription {
	return Subscription{
		Namespace: d.Namespace, Name: d.Name, Queue: d.Queue, Topic: d.Topic, QueueNumber: d.QueueNumber,
		URL: d.URL, Method: d.Method,
		Timeout: d.Timeout, MaxInFlight: d.MaxInFlight,
		Rate: Rate(d.Rate), Retry: d.Retry.policy(),
		AllowTarget: d.AllowTarget, HTTP2: d.HTTP2, Format: d.Format,
		Defer: d.Defer.settings(), Batch: Batch(d.Batch), Log: d.Log, OnDone: d.OnDone,
		Filter: Filter(d.Filter),
		Paused: d.Paused, Disabled: d.Disabled, Reason: d.Reason, DisabledAt: d.DisabledAt,
		FailingSince: d.FailingSince,
		CreatedAt:    d.CreatedAt, UpdatedAt: d.UpdatedAt,
		Revision: revision,
	}
}

// toDocument returns the document of s without what is secret of it.
func toDocument(s *Subscription) Document {
	return Document{
		Namespace: s.Namespace, Name: s.Name, Queue: s.Queue, Topic: s.Topic, QueueNumber: s.QueueNumber,
		Method:  s.Method,
		Timeout: s.Timeout, MaxInFlight: s.MaxInFlight,
		Rate: RateDocument(s.Rate), Retry: toRetryDocument(s.Retry),
		AllowTarget: s.AllowTarget, HTTP2: s.HTTP2, Format: s.Format,
		Defer: toDeferDocument(s.Defer), Batch: BatchDocument(s.Batch), Log: s.Log, OnDone: s.OnDone,
		Filter: FilterDocument(s.Filter),
		Paused: s.Paused, Disabled: s.Disabled, Reason: s.Reason, DisabledAt: s.DisabledAt,
		FailingSince: s.FailingSince,
		CreatedAt:    s.CreatedAt, UpdatedAt: s.UpdatedAt,
	}
}

func (d RetryDocument) policy() Policy {
	p := Policy{
		MaxAttempts: d.MaxAttempts, Schedule: d.Schedule,
		MinBackoff: d.MinBackoff, MaxBackoff: d.MaxBackoff, Multiplier: d.Multiplier,
		GiveUpAfter: d.GiveUpAfter, BuryOn: d.BuryOn, DisableAfter: DefaultPolicy().DisableAfter,
	}
	set(&p.DisableAfter, d.DisableAfter)
	return p
}

func toRetryDocument(p Policy) RetryDocument {
	return RetryDocument{
		MaxAttempts: p.MaxAttempts, Schedule: p.Schedule,
		MinBackoff: p.MinBackoff, MaxBackoff: p.MaxBackoff, Multiplier: p.Multiplier,
		GiveUpAfter: p.GiveUpAfter, BuryOn: p.BuryOn, DisableAfter: &p.DisableAfter,
	}
}

func (d DeferDocument) settings() Defer {
	out := Defer(d)
	if out.Timeout == 0 {
		out.Timeout = DefaultDeferTimeout
	}
	if out.Max == 0 {
		out.Max = DefaultMaxDeferred
	}
	return out
}

// toDeferDocument leaves defaults out, so that most documents are no longer for it.
func toDeferDocument(d Defer) DeferDocument {
	if d.Timeout == DefaultDeferTimeout {
		d.Timeout = 0
	}
	if d.Max == DefaultMaxDeferred {
		d.Max = 0
	}
	return DeferDocument(d)
}

// confidential is what is secret of a subscription, as it stands in the sealed part of
// its document. Its names are a format as well.
type confidential struct {
	// URL may have a key in its path or its query.
	URL     string            `json:"url,omitempty"`
	Secrets []secretDocument  `json:"secrets"`
	Headers map[string]string `json:"headers,omitempty"`
	Auth    *authDocument     `json:"auth,omitempty"`
}

type secretDocument struct {
	Secret string    `json:"secret"`
	Until  time.Time `json:"until,omitzero"`
}

type authDocument struct {
	Basic             *basicDocument  `json:"basic,omitempty"`
	Bearer            string          `json:"bearer,omitempty"`
	OAuth2            *oauth2Document `json:"oauth2,omitempty"`
	ClientCertificate string          `json:"client_certificate,omitempty"`
	ClientKey         string          `json:"client_key,omitempty"`
	RootCAs           string          `json:"root_cas,omitempty"`
}

type basicDocument struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

type oauth2Document struct {
	TokenURL     string   `json:"token_url"`
	ClientID     string   `json:"client_id"`
	ClientSecret string   `json:"client_secret"`
	Scopes       []string `json:"scopes,omitempty"`
	Audience     string   `json:"audience,omitempty"`
}

// secretsOf returns what is secret of s, as JSON.
func secretsOf(s *Subscription) ([]byte, error) {
	c := confidential{URL: s.URL, Headers: s.Headers}
	for _, each := range s.Secrets {
		c.Secrets = append(c.Secrets, secretDocument{each.Secret.Reveal(), each.Until})
	}
	if a := s.Auth; a != (Auth{}) {
		c.Auth = &authDocument{
			Bearer: a.Bearer.Reveal(), ClientCertificate: a.ClientCertificate, ClientKey: a.ClientKey.Reveal(), RootCAs: a.RootCAs,
		}
		if b := a.Basic; b != nil {
			c.Auth.Basic = &basicDocument{b.Username, b.Password.Reveal()}
		}
		if o := a.OAuth2; o != nil {
			c.Auth.OAuth2 = &oauth2Document{o.TokenURL, o.ClientID, o.ClientSecret.Reveal(), o.Scopes, o.Audience}
		}
	}
	return json.Marshal(c)
}

// takeSecrets gives s what secretsOf returned.
func (s *Subscription) takeSecrets(text []byte) error {
	var c confidential
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	s.Headers = c.Headers
	if c.URL != "" {
		s.URL = c.URL
	}
	for _, each := range c.Secrets {
		s.Secrets = append(s.Secrets, SigningSecret{Secret(each.Secret), each.Until})
	}
	if a := c.Auth; a != nil {
		s.Auth = Auth{Bearer: Secret(a.Bearer), ClientCertificate: a.ClientCertificate, ClientKey: Secret(a.ClientKey), RootCAs: a.RootCAs}
		if b := a.Basic; b != nil {
			s.Auth.Basic = &BasicAuth{b.Username, Secret(b.Password)}
		}
		if o := a.OAuth2; o != nil {
			s.Auth.OAuth2 = &OAuth2{o.TokenURL, o.ClientID, Secret(o.ClientSecret), o.Scopes, o.Audience}
		}
	}
	return nil
}
