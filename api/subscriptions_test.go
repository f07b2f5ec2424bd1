package api_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
)

func TestSubscriptions_CreateHandsOnWhatWasGiven(t *testing.T) {
	t.Parallel()
	e := setup(t)
	secret := "whsec_" + strings.Repeat("A", 43) + "="
	a := e.call("subscriptions.create", `{"name":"s","queue_name":"orders","url":"https://example.com/h","method":"PUT","headers":{"A":"1"},
		"timeout":"10s","max_in_flight":4,"paused":true,"secret":"`+secret+`",
		"retry":{"max_attempts":-1,"min_backoff":"1s","max_backoff":"1m","multiplier":2.5,"give_up_after":"0s","bury_on":[400]}}`)
	a.is(secret, "secret")
	want := subscriptions.CreateParams{
		Namespace: queue.DefaultNamespace, Name: "s", Queue: "orders", Secret: subscriptions.Secret(secret), Paused: true,
		Change: subscriptions.Change{
			URL: new("https://example.com/h"), Method: new("PUT"), Headers: map[string]string{"A": "1"},
			Timeout: new(10 * time.Second), MaxInFlight: new(4),
			Retry: subscriptions.PolicyChange{
				MaxAttempts: new(int32(-1)), MinBackoff: new(time.Second), MaxBackoff: new(time.Minute), Multiplier: new(2.5),
				GiveUpAfter: new(time.Duration(0)), BuryOn: []int32{400},
			},
		},
	}
	if !reflect.DeepEqual(e.subs.created, want) {
		t.Errorf("got  %+v\nwant %+v", e.subs.created, want)
	}
	e.call("subscriptions.create", `{"name":"t","queue_name":"orders"}`)
	if got := e.subs.created.Change; !reflect.DeepEqual(got, subscriptions.Change{}) {
		t.Errorf("nothing given: got %+v", got)
	}
}

func TestA11_SecretsAreShownAtCreationOnly(t *testing.T) {
	t.Parallel()
	e := setup(t)
	secret, _ := e.call("subscriptions.create", `{"name":"a","queue_name":"orders","url":"https://example.com"}`).get("secret").(string)
	if !strings.HasPrefix(secret, "whsec_") {
		t.Fatalf("got %q, want a secret that was made", secret)
	}
	for method, body := range map[string]string{
		"subscriptions.info": `{"name":"a"}`, "subscriptions.list": `{}`, "subscriptions.update": `{"name":"a","timeout":"5s"}`,
		"subscriptions.pause": `{"name":"a"}`, "subscriptions.resume": `{"name":"a"}`, "subscriptions.enable": `{"name":"a"}`,
	} {
		if a := e.call(method, body); a.status != 200 || strings.Contains(a.raw, secret) || a.get("secret") != nil {
			t.Errorf("%s: got %d %s", method, a.status, a.raw)
		}
	}
}

func TestSubscriptions_UpdateChangesWhatIsSetAndNoOther(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]subscriptions.UpdateParams{
		`"paused":false`:                       {},
		`"timeout":"5s"`:                       {Change: subscriptions.Change{Timeout: new(5 * time.Second)}},
		`"headers":{}`:                         {Change: subscriptions.Change{Headers: map[string]string{}}},
		`"retry":{"schedule":[],"bury_on":[]}`: {Change: subscriptions.Change{Retry: subscriptions.PolicyChange{Schedule: []time.Duration{}, BuryOn: []int32{}}}},
		`"retry":{"schedule":["0s","5s"]}`:     {Change: subscriptions.Change{Retry: subscriptions.PolicyChange{Schedule: []time.Duration{0, 5 * time.Second}}}},
		`"revision":"7","queue_name":"orders"`: {Revision: 7},
		`"rate":{}`:                            {Change: subscriptions.Change{Rate: new(subscriptions.Rate)}},
		`"rate":{"count":5}`:                   {Change: subscriptions.Change{Rate: &subscriptions.Rate{Count: 5, Period: time.Second}}},
		`"batch":{}`:                           {Change: subscriptions.Change{Batch: new(subscriptions.Batch)}},
		`"auth":{}`:                            {Change: subscriptions.Change{Auth: new(subscriptions.Auth)}},
		`"on_done":""`:                         {Change: subscriptions.Change{OnDone: new("")}},
		`"on_done":"told"`:                     {Change: subscriptions.Change{OnDone: new("told")}},
		`"defer":false,"http2":false`:          {Change: subscriptions.Change{Defer: subscriptions.DeferChange{Allowed: new(false)}, HTTP2: new(false)}},
		`"allow_target":true,"format":""`:      {Change: subscriptions.Change{AllowTarget: new(true)}},
		`"log":"off","format":"cloudevents"`: {Change: subscriptions.Change{
			Log: new(subscriptions.LogOff), Format: new(subscriptions.FormatCloudEvents),
		}},
		`"defer":true,"defer_timeout":"1h","max_deferred":3`: {Change: subscriptions.Change{
			Defer: subscriptions.DeferChange{Allowed: new(true), Timeout: new(time.Hour), Max: new(3)},
		}},
		`"retry":{"disable_after":"0s"}`: {Change: subscriptions.Change{Retry: subscriptions.PolicyChange{DisableAfter: new(time.Duration(0))}}},
		`"batch":{"max_items":9,"max_bytes":2048,"max_wait":"1s","encoding":"multipart"}`: {Change: subscriptions.Change{
			Batch: &subscriptions.Batch{MaxItems: 9, MaxBytes: 2048, MaxWait: time.Second, Encoding: subscriptions.BatchMultipart},
		}},
		`"auth":{"bearer":"b","client_certificate":"c","client_key":"k","root_cas":"r"}`: {Change: subscriptions.Change{
			Auth: &subscriptions.Auth{Bearer: "b", ClientCertificate: "c", ClientKey: "k", RootCAs: "r"},
		}},
		`"auth":{"basic":{"username":"u","password":"p"},"oauth2":{"token_url":"t","client_id":"i","client_secret":"s","scopes":["x"],"audience":"a"}}`: {
			Change: subscriptions.Change{Auth: &subscriptions.Auth{
				Basic:  &subscriptions.BasicAuth{Username: "u", Password: "p"},
				OAuth2: &subscriptions.OAuth2{TokenURL: "t", ClientID: "i", ClientSecret: "s", Scopes: []string{"x"}, Audience: "a"},
			}},
		},
	} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			e.subs.kept["s"] = subscriptions.Subscription{Name: "s", Queue: "orders"}
			want.Namespace, want.Name = queue.DefaultNamespace, "s"
			if a := e.call("subscriptions.update", `{"name":"s",`+body+`}`); a.status != 200 {
				t.Errorf("got %s", a.raw)
			}
			if !reflect.DeepEqual(e.subs.updated, want) {
				t.Errorf("got  %+v\nwant %+v", e.subs.updated, want)
			}
		})
	}
}

func TestSubscriptions_WhatInfoAnswersCanBeSentBack(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for _, schedule := range [][]time.Duration{nil, {time.Second, 90 * time.Second}} {
		policy := subscriptions.DefaultPolicy()
		policy.Schedule = schedule
		e.subs.kept["s"] = subscriptions.Subscription{
			Name: "s", Queue: "orders", URL: "https://example.com", Method: "POST", Timeout: 30 * time.Second, MaxInFlight: 32,
			Retry: policy, Paused: true, Disabled: true, Reason: "gone", Revision: 9,
		}
		info := e.call("subscriptions.info", `{"name":"s"}`)
		info.is("disabled", "state")
		info.is("gone", "reason")
		if a := e.call("subscriptions.update", info.raw); a.status != 200 {
			t.Errorf("got %s", a.raw)
		}
		if got := e.subs.updated; got.Revision != 9 || len(got.Retry.Schedule) != len(schedule) || (got.Retry.MinBackoff == nil) != (schedule != nil) {
			t.Errorf("got %+v", got)
		}
	}
}

func TestSubscriptions_NameTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.subs.kept["s"] = subscriptions.Subscription{Name: "s", Queue: "orders"}
	for body, want := range map[string][2]string{
		`"timeout":"x"`:                      {"timeout", "not a duration"},
		`"retry":{"schedule":["1s","soon"]}`: {"retry.schedule[1]", "not a duration"},
		`"retry":{"max_backoff":"-1s"}`:      {"retry.max_backoff", "too short"},
		`"retry":{"give_up_after":"1 day"}`:  {"retry.give_up_after", "not a duration"},
		`"retry":{"disable_after":"5d"}`:     {"retry.disable_after", "not a duration"},
		`"defer_timeout":"soon"`:             {"defer_timeout", "not a duration"},
		`"rate":{"count":1,"period":"day"}`:  {"rate.period", "not a duration"},
		`"rate":{"period":"1s"}`:             {"rate.count", "missing"},
		`"batch":{"max_wait":"never"}`:       {"batch.max_wait", "not a duration"},
		`"auth":{"basic":{"pass":"x"}}`:      {"auth.basic.pass", "not a field"},
		`"auth":{"bearer":1}`:                {"auth.bearer", "wants a string"},
		`"on_done":"a/b"`:                    {"on_done", "want only"},
		`"queue_name":"other"`:               {"queue_name", "cannot be changed"},
		`"paused":true`:                      {"paused", "subscriptions.pause"},
		`"revision":"x"`:                     {"revision", "gave out"},
	} {
		e.call("subscriptions.update", `{"name":"s",`+body+`}`).invalid(want[0], want[1])
	}
	e.call("subscriptions.create", `{"name":"t","filter":{"kind":["a"]}}`).invalid("filter.kind", "not a field")
	e.call("subscriptions.update", `{"name":"s","secret":"whsec_x"}`).invalid("secret", "subscriptions.rotate_secret")
	e.call("subscriptions.create", `{"name":"t","revision":"1"}`).invalid("revision", "for updates")
	e.call("subscriptions.info", `{"name":"none"}`).want(404, "not_found")
	e.call("subscriptions.info", `{}`).invalid("name", "missing")
}

func TestSubscriptions_SwitchesAndDeletion(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.subs.kept["s"] = subscriptions.Subscription{Name: "s", Disabled: true}
	e.call("subscriptions.pause", `{"name":"s"}`).is("disabled", "state")
	e.call("subscriptions.enable", `{"name":"s"}`).is("paused", "state")
	e.call("subscriptions.resume", `{"name":"s"}`).is("active", "state")
	e.call("subscriptions.delete", `{"name":"s"}`).want(200, "ok")
	if len(e.subs.kept) != 0 {
		t.Error("it is still there")
	}
}

func TestI08_SubscriptionsListGoesOnWhereItEnded(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for _, name := range []string{"a", "b", "c"} {
		e.subs.kept[name] = subscriptions.Subscription{Name: name}
	}
	a := e.call("subscriptions.list", `{"limit":2}`)
	a.is("b", "items", 1, "name")
	a.is("b", "cursor")
	a = e.call("subscriptions.list", `{"limit":2,"cursor":"b"}`)
	a.is("c", "items", 0, "name")
	a.is(nil, "cursor")
	a = e.call("subscriptions.list", `{"limit":3}`)
	a.is("c", "items", 2, "name")
	a.is(nil, "cursor") // none is left, though the page is full
	e.call("subscriptions.list", `{"cursor":"/x"}`).invalid("cursor", "letter or a digit")
}

func TestSubscriptions_InfoShowsTheLane(t *testing.T) {
	t.Parallel()
	e := setup(t, func(o *api.Options) {
		o.Lane = func(_ queue.Namespace, name string) (api.LaneState, bool) {
			return api.LaneState{Deferred: 2, RateUntil: time.Unix(1_900_000_000, 0), Hosts: []api.HostState{
				{Host: "a.example", Window: 4, InFlight: 1, Breaker: "half-open", PausedUntil: time.Unix(1_900_000_000, 0), LastError: "reset"},
			}, Window: 8, InFlight: 3, Breaker: "open", BreakerUntil: time.Unix(1_900_000_000, 0), LastError: "refused", LastErrorAt: time.Unix(1_900_000_000, 123_456_789)}, name == "s"
		}
	})
	e.subs.kept["s"] = subscriptions.Subscription{Name: "s", Queue: "orders"}
	e.subs.kept["t"] = subscriptions.Subscription{Name: "t", Queue: "orders"}
	e.broker.stats = func(string) (queue.QueueStats, error) {
		return queue.QueueStats{Stats: []queue.Stats{{OldestReady: time.Now().Add(time.Hour)}}}, nil
	}
	a := e.call("subscriptions.info", `{"name":"s"}`)
	for field, want := range map[string]any{"window": 8.0, "in_flight": 3.0, "breaker": "open", "last_error": "refused", "breaker_until": "2030-03-17T17:46:40Z", "last_error_at": "2030-03-17T17:46:40.123456Z", "lag": "0s", "deferred": 2.0, "rate_until": "2030-03-17T17:46:40Z"} {
		a.is(want, "lane", field)
	}
	for field, want := range map[string]any{"host": "a.example", "window": 4.0, "in_flight": 1.0, "breaker": "half-open", "paused_until": "2030-03-17T17:46:40Z", "last_error": "reset", "rate_until": nil} {
		a.is(want, "lane", "hosts", 0, field)
	}
	e.call("subscriptions.info", `{"name":"t"}`).is(nil, "lane")
}
