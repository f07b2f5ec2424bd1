package api

import (
	"cmp"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/subscriptions"
)

// subscription shows everything but the signing secrets, and masks what may be one.
func subscription(s *subscriptions.Subscription) *v1.Subscription {
	return &v1.Subscription{
		Name: s.Name, QueueName: s.Queue, Topic: s.Topic, Url: maskedURL(s.URL), Method: s.Method, Headers: maskedHeaders(s.Headers),
		Timeout: formatDuration(s.Timeout), MaxInFlight: count(s.MaxInFlight), Rate: shownRate(s.Rate),
		Retry: shownPolicy(&s.Retry),

		Filter: shownFilter(&s.Filter), AllowTarget: &s.AllowTarget, Http2: &s.HTTP2, Format: given(cmp.Or(string(s.Format), "plain")),
		Defer: &s.Defer.Allowed, DeferTimeout: formatDuration(s.Defer.Timeout), MaxDeferred: count(s.Defer.Max),
		Batch: shownBatch(s.Batch), Log: given(cmp.Or(string(s.Log), "all")), OnDone: given(s.OnDone), Auth: maskedAuth(&s.Auth),

		Paused: s.Paused, State: s.State().String(), Reason: s.Reason, DisabledAt: stamp(s.DisabledAt),
		FailingSince: stamp(s.FailingSince), OldSecretsUntil: oldSecrets(s.Secrets, time.Now()),
		CreatedAt: stamp(s.CreatedAt), UpdatedAt: stamp(s.UpdatedAt), Revision: formatRevision(s.Revision),
	}
}

func shownRate(r subscriptions.Rate) *v1.Rate {
	if r.Count == 0 {
		return nil
	}
	return &v1.Rate{Count: r.Count, Period: formatDuration(r.Period)}
}

func shownBatch(b subscriptions.Batch) *v1.Batch {
	if !b.On() {
		return nil
	}
	return &v1.Batch{
		MaxItems: count(b.MaxItems), MaxBytes: count(b.MaxBytes),
		MaxWait: formatDuration(b.MaxWait), Encoding: cmp.Or(string(b.Encoding), "json"),
	}
}

func shownPolicy(p *subscriptions.Policy) *v1.RetryPolicy {
	m := &v1.RetryPolicy{
		MaxAttempts: p.MaxAttempts, BuryOn: p.BuryOn,
		GiveUpAfter: formatDuration(p.GiveUpAfter), DisableAfter: formatDuration(p.DisableAfter),
	}
	if len(p.Schedule) > 0 {
		for _, wait := range p.Schedule {
			m.Schedule = append(m.Schedule, formatDuration(wait))
		}
		return m
	}
	m.MinBackoff = formatDuration(p.MinBackoff)
	m.MaxBackoff = formatDuration(p.MaxBackoff)
	m.Multiplier = p.Multiplier
	return m
}

// oldSecrets says until when the secrets behind the first sign, for those that do.
func oldSecrets(secrets []subscriptions.SigningSecret, now time.Time) (until []*timestamppb.Timestamp) {
	for _, s := range secrets {
		if s.Until.After(now) {
			until = append(until, stamp(s.Until))
		}
	}
	return until
}

func shownLane(state *LaneState) *v1.Lane {
	lane := &v1.Lane{
		Window: count(state.Window), InFlight: count(state.InFlight),
		Breaker: state.Breaker, BreakerUntil: stamp(state.BreakerUntil),
		PausedUntil: stamp(state.PausedUntil), RateUntil: stamp(state.RateUntil), Deferred: count(state.Deferred),
		LastError: state.LastError, LastErrorAt: stamp(state.LastErrorAt),
	}
	for i := range state.Hosts {
		h := &state.Hosts[i]
		lane.Hosts = append(lane.Hosts, &v1.HostLane{
			Host: h.Host, Window: count(h.Window), InFlight: count(h.InFlight),
			Breaker: h.Breaker, BreakerUntil: stamp(h.BreakerUntil),
			PausedUntil: stamp(h.PausedUntil), RateUntil: stamp(h.RateUntil),
			LastError: h.LastError, LastErrorAt: stamp(h.LastErrorAt),
		})
	}
	return lane
}

func shownFilter(f *subscriptions.Filter) *v1.Filter {
	if f.IsZero() {
		return nil
	}
	return &v1.Filter{Kinds: f.Kinds, Cel: f.CEL, OnError: cmp.Or(string(f.OnError), "deliver")}
}
