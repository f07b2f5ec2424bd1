package client

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/posthaste-io/posthaste/api/v1"
)

// wire is a creation.
func (s *Subscription) wire() *v1.Subscription {
	w := &v1.Subscription{
		Name: s.Name, QueueName: s.Queue, Topic: s.Topic, Url: s.URL, Method: s.Method, Headers: s.Headers, Timeout: text(s.Timeout),
		MaxInFlight: count(s.MaxInFlight), Rate: s.Rate.wire(), Retry: s.Retry.wire(),
		AllowTarget: present(s.AllowTarget), Http2: present(s.HTTP2), Format: present(s.Format),
		Defer: present(s.Defer), DeferTimeout: text(s.DeferTimeout), MaxDeferred: count(s.MaxDeferred),
		Log: present(s.Log), OnDone: present(s.OnDone), Paused: s.Paused, Secret: s.Secret,
	}
	if s.Batch != nil {
		w.Batch = s.Batch.wire()
	}
	if s.Auth != nil {
		w.Auth = s.Auth.wire()
	}
	if !s.Filter.isZero() {
		w.Filter = s.Filter.wire()
	}
	return w
}

func (u *SubscriptionUpdate) wire(name string) *v1.Subscription {
	w := &v1.Subscription{
		Name: name, Revision: u.Revision, Url: u.URL, Method: u.Method, Headers: u.Headers, Timeout: text(u.Timeout),
		MaxInFlight: count(u.MaxInFlight), Filter: u.Filter.wire(), AllowTarget: u.AllowTarget, Http2: u.HTTP2, Format: present(u.Format),
		Defer: u.Defer, DeferTimeout: text(u.DeferTimeout), MaxDeferred: count(u.MaxDeferred),
		Log: present(u.Log), OnDone: u.OnDone,
	}
	if u.Rate != nil {
		w.Rate = &v1.Rate{Count: count(u.Rate.Count), Period: text(u.Rate.Period)}
	}
	if u.Retry != nil {
		w.Retry = u.Retry.wire()
	}
	if u.Batch != nil {
		w.Batch = u.Batch.wire()
	}
	if u.Auth != nil {
		w.Auth = u.Auth.wire()
	}
	return w
}

// present leaves the zero value out, which is what is taken for it.
func present[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// wire leaves no rate out.
func (r Rate) wire() *v1.Rate {
	if r == (Rate{}) {
		return nil
	}
	return &v1.Rate{Count: count(r.Count), Period: text(r.Period)}
}

func (r *RetryPolicy) wire() *v1.RetryPolicy {
	w := &v1.RetryPolicy{
		MaxAttempts: count(r.MaxAttempts), MinBackoff: text(r.MinBackoff), MaxBackoff: text(r.MaxBackoff),
		Multiplier: r.Multiplier, GiveUpAfter: presentText(r.GiveUpAfter), DisableAfter: presentText(r.DisableAfter),
	}
	for _, wait := range r.Schedule {
		w.Schedule = append(w.Schedule, wait.String())
	}
	for _, status := range r.BuryOn {
		w.BuryOn = append(w.BuryOn, count(status))
	}
	return w
}

func (b *Batch) wire() *v1.Batch {
	return &v1.Batch{MaxItems: count(b.MaxItems), MaxBytes: count(b.MaxBytes), MaxWait: text(b.MaxWait), Encoding: b.Encoding}
}

func (a *Auth) wire() *v1.Auth {
	w := &v1.Auth{Bearer: a.Bearer, ClientCertificate: a.ClientCertificate, ClientKey: a.ClientKey, RootCas: a.RootCAs}
	if b := a.Basic; b != nil {
		w.Basic = &v1.BasicAuth{Username: b.Username, Password: b.Password}
	}
	if o := a.OAuth2; o != nil {
		w.Oauth2 = &v1.OAuth2{TokenUrl: o.TokenURL, ClientId: o.ClientID, ClientSecret: o.ClientSecret, Scopes: o.Scopes, Audience: o.Audience}
	}
	return w
}

func subscriptionOf(s *v1.Subscription) Subscription {
	out := Subscription{
		Name: s.GetName(), Queue: s.GetQueueName(), Topic: s.GetTopic(), URL: s.GetUrl(), Method: s.GetMethod(), Headers: s.GetHeaders(),
		Timeout: span(s.GetTimeout()), MaxInFlight: int(s.GetMaxInFlight()), Retry: retryPolicyOf(s.GetRetry()),
		Rate:   Rate{Count: int(s.GetRate().GetCount()), Period: span(s.GetRate().GetPeriod())},
		Filter: filterOf(s.GetFilter()), AllowTarget: s.GetAllowTarget(), HTTP2: s.GetHttp2(), Format: s.GetFormat(),
		Defer: s.GetDefer(), DeferTimeout: span(s.GetDeferTimeout()), MaxDeferred: int(s.GetMaxDeferred()),
		Log: s.GetLog(), OnDone: s.GetOnDone(), Auth: authOf(s.GetAuth()),
		Paused: s.GetPaused(), Secret: s.GetSecret(), State: s.GetState(), Reason: s.GetReason(),
		CreatedAt: instant(s.GetCreatedAt()), UpdatedAt: instant(s.GetUpdatedAt()), DisabledAt: instant(s.GetDisabledAt()),
		FailingSince: instant(s.GetFailingSince()), OldSecretsUntil: instants(s.GetOldSecretsUntil()),
		Revision: s.GetRevision(), Lane: laneOf(s.GetLane()),
	}
	if b := s.GetBatch(); b.GetMaxItems() > 0 {
		out.Batch = &Batch{MaxItems: int(b.GetMaxItems()), MaxBytes: int(b.GetMaxBytes()), MaxWait: span(b.GetMaxWait()), Encoding: b.GetEncoding()}
	}
	return out
}

func instants(list []*timestamppb.Timestamp) []time.Time {
	var out []time.Time
	for _, at := range list {
		out = append(out, instant(at))
	}
	return out
}

func retryPolicyOf(r *v1.RetryPolicy) RetryPolicy {
	out := RetryPolicy{
		MaxAttempts: int(r.GetMaxAttempts()), MinBackoff: span(r.GetMinBackoff()), MaxBackoff: span(r.GetMaxBackoff()), Multiplier: r.GetMultiplier(),
		GiveUpAfter: presentSpan(r.GetGiveUpAfter()), DisableAfter: presentSpan(r.GetDisableAfter()),
	}
	for _, wait := range r.GetSchedule() {
		out.Schedule = append(out.Schedule, span(wait))
	}
	for _, status := range r.GetBuryOn() {
		out.BuryOn = append(out.BuryOn, int(status))
	}
	return out
}

// presentSpan tells a duration that is 0 from one that was left out.
func presentSpan(text string) *time.Duration {
	if text == "" {
		return nil
	}
	return new(span(text))
}

func authOf(a *v1.Auth) *Auth {
	if a == nil {
		return nil
	}
	out := &Auth{Bearer: a.GetBearer(), ClientCertificate: a.GetClientCertificate(), ClientKey: a.GetClientKey(), RootCAs: a.GetRootCas()}
	if b := a.GetBasic(); b != nil {
		out.Basic = &BasicAuth{Username: b.GetUsername(), Password: b.GetPassword()}
	}
	if o := a.GetOauth2(); o != nil {
		out.OAuth2 = &OAuth2{
			TokenURL: o.GetTokenUrl(), ClientID: o.GetClientId(), ClientSecret: o.GetClientSecret(), Scopes: o.GetScopes(), Audience: o.GetAudience(),
		}
	}
	return out
}

func laneOf(l *v1.Lane) *Lane {
	if l == nil {
		return nil
	}
	out := &Lane{
		Window: int(l.GetWindow()), InFlight: int(l.GetInFlight()), Breaker: l.GetBreaker(), BreakerUntil: instant(l.GetBreakerUntil()),
		PausedUntil: instant(l.GetPausedUntil()), RateUntil: instant(l.GetRateUntil()), Deferred: int(l.GetDeferred()),
		Lag: span(l.GetLag()), LastError: l.GetLastError(), LastErrorAt: instant(l.GetLastErrorAt()),
	}
	for _, h := range l.GetHosts() {
		out.Hosts = append(out.Hosts, HostLane{
			Host: h.GetHost(), Window: int(h.GetWindow()), InFlight: int(h.GetInFlight()), Breaker: h.GetBreaker(),
			BreakerUntil: instant(h.GetBreakerUntil()), PausedUntil: instant(h.GetPausedUntil()), RateUntil: instant(h.GetRateUntil()),
			LastError: h.GetLastError(), LastErrorAt: instant(h.GetLastErrorAt()),
		})
	}
	return out
}
