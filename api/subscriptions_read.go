package api

import (
	"time"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
)

// subscriptionChange takes the settings that were given. What they may be is judged by
// the subscriptions; here is judged what only the wire has, such as texts of times.
func subscriptionChange(q *v1.Subscription) (subscriptions.Change, error) {
	change := subscriptions.Change{
		URL: given(q.GetUrl()), Method: given(q.GetMethod()), Headers: q.GetHeaders(),
		AllowTarget: q.AllowTarget, HTTP2: q.Http2, OnDone: q.OnDone, Filter: readFilter(q.GetFilter()),
		Format: word[subscriptions.Format](q.GetFormat()), Log: word[subscriptions.LogPolicy](q.GetLog()),
		Defer: subscriptions.DeferChange{Allowed: q.Defer},
		Auth:  authChange(q.GetAuth()),
	}
	if n := q.GetMaxInFlight(); n != 0 {
		change.MaxInFlight = given(int(n))
	}
	if n := q.GetMaxDeferred(); n != 0 {
		change.Defer.Max = given(int(n))
	}
	var err error
	if change.Timeout, err = optionalDuration("timeout", q.GetTimeout(), 0, forever); err != nil {
		return change, err
	}
	if change.Defer.Timeout, err = optionalDuration("defer_timeout", q.GetDeferTimeout(), 0, forever); err != nil {
		return change, err
	}
	if change.Rate, err = rateChange(q.GetRate()); err != nil {
		return change, err
	}
	if change.Batch, err = batchChange(q.GetBatch()); err != nil {
		return change, err
	}
	if q.GetRetry() != nil {
		change.Retry, err = policyChange(q.GetRetry())
	}
	return change, err
}

// word is nil for an empty text, which stands for a field that was left out.
func word[T ~string](text string) *T { return given(T(text)) }

func rateChange(q *v1.Rate) (*subscriptions.Rate, error) {
	switch {
	case q == nil:
		return nil, nil
	case q.GetCount() == 0 && q.GetPeriod() == "":
		return new(subscriptions.Rate), nil
	case q.GetCount() == 0:
		return nil, queue.Invalid("rate.count", "is missing beside rate.period; give rate: {} to take the limit away")
	}
	period, err := readPeriod("rate.period", q.GetPeriod(), 0, forever)
	return &subscriptions.Rate{Count: q.GetCount(), Period: period}, err
}

func batchChange(q *v1.Batch) (*subscriptions.Batch, error) {
	if q == nil {
		return nil, nil
	}
	batch := &subscriptions.Batch{
		MaxItems: int(q.GetMaxItems()), MaxBytes: int(q.GetMaxBytes()), Encoding: subscriptions.BatchEncoding(q.GetEncoding()),
	}
	if text := q.GetMaxWait(); text != "" {
		var err error
		if batch.MaxWait, err = parseDuration("batch.max_wait", text, 0, forever); err != nil {
			return nil, err
		}
	}
	return batch, nil
}

func authChange(q *v1.Auth) *subscriptions.Auth {
	if q == nil {
		return nil
	}
	auth := &subscriptions.Auth{
		Bearer:            subscriptions.Secret(q.GetBearer()),
		ClientCertificate: q.GetClientCertificate(), ClientKey: subscriptions.Secret(q.GetClientKey()),
		RootCAs: q.GetRootCas(),
	}
	if basic := q.GetBasic(); basic != nil {
		auth.Basic = &subscriptions.BasicAuth{Username: basic.GetUsername(), Password: subscriptions.Secret(basic.GetPassword())}
	}
	if o := q.GetOauth2(); o != nil {
		auth.OAuth2 = &subscriptions.OAuth2{
			TokenURL: o.GetTokenUrl(), ClientID: o.GetClientId(), ClientSecret: subscriptions.Secret(o.GetClientSecret()),
			Scopes: o.GetScopes(), Audience: o.GetAudience(),
		}
	}
	return auth
}

func policyChange(q *v1.RetryPolicy) (change subscriptions.PolicyChange, err error) {
	change = subscriptions.PolicyChange{
		MaxAttempts: given(q.GetMaxAttempts()), Multiplier: given(q.GetMultiplier()), BuryOn: q.GetBuryOn(),
	}
	if q.Schedule != nil {
		change.Schedule = make([]time.Duration, len(q.Schedule))
	}
	for i, text := range q.GetSchedule() {
		if change.Schedule[i], err = parseDuration(entry("retry.schedule", i, ""), text, 0, forever); err != nil {
			return change, err
		}
	}
	for _, each := range []struct {
		to          **time.Duration
		field, text string
	}{
		{&change.MinBackoff, "retry.min_backoff", q.GetMinBackoff()},
		{&change.MaxBackoff, "retry.max_backoff", q.GetMaxBackoff()},
		{&change.GiveUpAfter, "retry.give_up_after", q.GetGiveUpAfter()},
		{&change.DisableAfter, "retry.disable_after", q.GetDisableAfter()},
	} {
		if *each.to, err = optionalDuration(each.field, each.text, 0, forever); err != nil {
			return change, err
		}
	}
	return change, nil
}

// readFilter is nil for one that was left out.
func readFilter(f *v1.Filter) *subscriptions.Filter {
	if f == nil {
		return nil
	}
	return &subscriptions.Filter{Kinds: f.GetKinds(), CEL: f.GetCel(), OnError: subscriptions.OnError(f.GetOnError())}
}
