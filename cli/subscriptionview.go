package cli

import (
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

type subscriptionView struct {
	Name            string            `json:"name"`
	QueueName       string            `json:"queue_name"`
	Topic           string            `json:"topic,omitempty"`
	URL             string            `json:"url,omitempty"`
	Method          string            `json:"method,omitempty"`
	Headers         map[string]string `json:"headers,omitempty"`
	Timeout         span              `json:"timeout"`
	MaxInFlight     int               `json:"max_in_flight"`
	Rate            *rateView         `json:"rate,omitempty"`
	Retry           retryPolicyView   `json:"retry"`
	Filter          *filterView       `json:"filter,omitempty"`
	AllowTarget     bool              `json:"allow_target,omitempty"`
	HTTP2           bool              `json:"http2,omitempty"`
	Format          string            `json:"format,omitempty"`
	Defer           bool              `json:"defer,omitempty"`
	DeferTimeout    span              `json:"defer_timeout,omitempty"`
	MaxDeferred     int               `json:"max_deferred,omitempty"`
	Batch           *batchView        `json:"batch,omitempty"`
	Log             string            `json:"log,omitempty"`
	OnDone          string            `json:"on_done,omitempty"`
	Auth            *authView         `json:"auth,omitempty"`
	Paused          bool              `json:"paused"`
	State           string            `json:"state"`
	Reason          string            `json:"reason,omitempty"`
	Secret          string            `json:"secret,omitempty"`
	OldSecretsUntil []time.Time       `json:"old_secrets_until,omitempty"`
	FailingSince    time.Time         `json:"failing_since,omitzero"`
	DisabledAt      time.Time         `json:"disabled_at,omitzero"`
	CreatedAt       time.Time         `json:"created_at,omitzero"`
	UpdatedAt       time.Time         `json:"updated_at,omitzero"`
	Revision        string            `json:"revision,omitempty"`
	Lane            *laneView         `json:"lane,omitempty"`
}

type rateView struct {
	Count  int  `json:"count"`
	Period span `json:"period"`
}

type retryPolicyView struct {
	MaxAttempts  int     `json:"max_attempts"`
	Schedule     []span  `json:"schedule,omitempty"`
	MinBackoff   span    `json:"min_backoff,omitempty"`
	MaxBackoff   span    `json:"max_backoff,omitempty"`
	Multiplier   float64 `json:"multiplier,omitempty"`
	GiveUpAfter  *span   `json:"give_up_after,omitempty"`
	BuryOn       []int   `json:"bury_on,omitempty"`
	DisableAfter *span   `json:"disable_after,omitempty"`
}

type batchView struct {
	MaxItems int    `json:"max_items"`
	MaxBytes int    `json:"max_bytes,omitempty"`
	MaxWait  span   `json:"max_wait,omitempty"`
	Encoding string `json:"encoding,omitempty"`
}

// authView holds what answers do: masks in place of secrets.
type authView struct {
	Basic             *basicView  `json:"basic,omitempty"`
	Bearer            string      `json:"bearer,omitempty"`
	OAuth2            *oauth2View `json:"oauth2,omitempty"`
	ClientCertificate string      `json:"client_certificate,omitempty"`
	ClientKey         string      `json:"client_key,omitempty"`
	RootCAs           string      `json:"root_cas,omitempty"`
}

type basicView struct {
	Username string `json:"username"`
	Password string `json:"password,omitempty"`
}

type oauth2View struct {
	TokenURL     string   `json:"token_url"`
	ClientID     string   `json:"client_id"`
	ClientSecret string   `json:"client_secret,omitempty"`
	Scopes       []string `json:"scopes,omitempty"`
	Audience     string   `json:"audience,omitempty"`
}

type laneView struct {
	Window       int            `json:"window"`
	InFlight     int            `json:"in_flight"`
	Breaker      string         `json:"breaker"`
	BreakerUntil time.Time      `json:"breaker_until,omitzero"`
	PausedUntil  time.Time      `json:"paused_until,omitzero"`
	RateUntil    time.Time      `json:"rate_until,omitzero"`
	Deferred     int            `json:"deferred,omitempty"`
	Lag          span           `json:"lag"`
	LastError    string         `json:"last_error,omitempty"`
	LastErrorAt  time.Time      `json:"last_error_at,omitzero"`
	Hosts        []hostLaneView `json:"hosts,omitempty"`
}

type hostLaneView struct {
	Host         string    `json:"host"`
	Window       int       `json:"window"`
	InFlight     int       `json:"in_flight"`
	Breaker      string    `json:"breaker"`
	BreakerUntil time.Time `json:"breaker_until,omitzero"`
	PausedUntil  time.Time `json:"paused_until,omitzero"`
	RateUntil    time.Time `json:"rate_until,omitzero"`
	LastError    string    `json:"last_error,omitempty"`
	LastErrorAt  time.Time `json:"last_error_at,omitzero"`
}

func subscriptionViewOf(s client.Subscription) subscriptionView {
	v := subscriptionView{
		Name: s.Name, QueueName: s.Queue, Topic: s.Topic, URL: s.URL, Method: s.Method, Headers: s.Headers, Timeout: span(s.Timeout),
		MaxInFlight: s.MaxInFlight, Retry: retryPolicyViewOf(s.Retry),
		Filter: filterViewOf(s.Filter), AllowTarget: s.AllowTarget, HTTP2: s.HTTP2, Format: s.Format,
		Defer: s.Defer, DeferTimeout: span(s.DeferTimeout), MaxDeferred: s.MaxDeferred, Log: s.Log, OnDone: s.OnDone,
		Auth: authViewOf(s.Auth), Paused: s.Paused, State: s.State, Reason: s.Reason,
		Secret: s.Secret, OldSecretsUntil: s.OldSecretsUntil, FailingSince: s.FailingSince,
		DisabledAt: s.DisabledAt, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, Revision: s.Revision, Lane: laneViewOf(s.Lane),
	}
	if s.Rate != (client.Rate{}) {
		v.Rate = new(rateView{s.Rate.Count, span(s.Rate.Period)})
	}
	if b := s.Batch; b != nil {
		v.Batch = new(batchView{b.MaxItems, b.MaxBytes, span(b.MaxWait), b.Encoding})
	}
	return v
}

func retryPolicyViewOf(p client.RetryPolicy) retryPolicyView {
	v := retryPolicyView{
		MaxAttempts: p.MaxAttempts, MinBackoff: span(p.MinBackoff), MaxBackoff: span(p.MaxBackoff), Multiplier: p.Multiplier,
		GiveUpAfter: (*span)(p.GiveUpAfter), BuryOn: p.BuryOn, DisableAfter: (*span)(p.DisableAfter),
	}
	for _, wait := range p.Schedule {
		v.Schedule = append(v.Schedule, span(wait))
	}
	return v
}

func authViewOf(a *client.Auth) *authView {
	if a == nil {
		return nil
	}
	v := &authView{Bearer: a.Bearer, ClientCertificate: a.ClientCertificate, ClientKey: a.ClientKey, RootCAs: a.RootCAs}
	if b := a.Basic; b != nil {
		v.Basic = new(basicView(*b))
	}
	if o := a.OAuth2; o != nil {
		v.OAuth2 = new(oauth2View(*o))
	}
	return v
}

func laneViewOf(l *client.Lane) *laneView {
	if l == nil {
		return nil
	}
	v := &laneView{
		Window: l.Window, InFlight: l.InFlight, Breaker: l.Breaker, BreakerUntil: l.BreakerUntil, PausedUntil: l.PausedUntil,
		RateUntil: l.RateUntil, Deferred: l.Deferred, Lag: span(l.Lag), LastError: l.LastError, LastErrorAt: l.LastErrorAt,
	}
	for _, h := range l.Hosts {
		v.Hosts = append(v.Hosts, hostLaneView(h))
	}
	return v
}
