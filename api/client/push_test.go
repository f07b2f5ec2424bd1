package client_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
	"github.com/posthaste-io/posthaste/test/inproc"
)

func TestClient_SubscriptionsHaveAllSettings(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	if err := c.CreateQueue(t.Context(), client.Queue{Name: "ends"}); err != nil {
		t.Fatal(err)
	}
	s, err := c.CreateSubscription(t.Context(), client.Subscription{
		Name: "hook", Queue: "orders", AllowTarget: true, HTTP2: true, Format: "cloudevents",
		Rate: client.Rate{Count: 30, Period: time.Minute}, Defer: true, DeferTimeout: time.Hour, MaxDeferred: 7,
		Log: "failures", OnDone: "ends", Retry: client.RetryPolicy{DisableAfter: new(time.Duration)},
		Auth: &client.Auth{Basic: &client.BasicAuth{Username: "me", Password: "canary"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.URL != "" || !s.AllowTarget || !s.HTTP2 || s.Format != "cloudevents" || s.Rate != (client.Rate{Count: 30, Period: time.Minute}) ||
		!s.Defer || s.DeferTimeout != time.Hour || s.MaxDeferred != 7 || s.Log != "failures" || s.OnDone != "ends" ||
		s.Retry.DisableAfter == nil || *s.Retry.DisableAfter != 0 {
		t.Errorf("created: got %+v", s)
	}
	if s.Auth == nil || s.Auth.Basic == nil || s.Auth.Basic.Username != "me" || s.Auth.Basic.Password != client.Redacted {
		t.Errorf("auth: got %+v, want the name and a mask", s.Auth)
	}

	s.Auth.ClientCertificate, s.Auth.ClientKey = "certificate", "key"
	s, err = c.UpdateSubscription(t.Context(), "hook", client.SubscriptionUpdate{
		URL: "https://example.com/", AllowTarget: new(false), Defer: new(false), Rate: new(client.Rate), Format: "plain", Log: "all", OnDone: new(""),
		Batch: &client.Batch{MaxItems: 10, MaxWait: time.Second}, Auth: s.Auth,
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.AllowTarget || s.Defer || s.Rate != (client.Rate{}) || s.Format != "plain" || s.Log != "all" || s.OnDone != "" || !s.HTTP2 ||
		s.Batch == nil || *s.Batch != (client.Batch{MaxItems: 10, MaxBytes: 1 << 20, MaxWait: time.Second, Encoding: "json"}) {
		t.Errorf("updated: got %+v, batch %+v", s, s.Batch)
	}
	if s.Auth == nil || s.Auth.Basic == nil || s.Auth.Basic.Password != client.Redacted || s.Auth.ClientKey != client.Redacted {
		t.Errorf("auth: got %+v, want what was redacted to be kept", s.Auth)
	}

	s, err = c.UpdateSubscription(t.Context(), "hook", client.SubscriptionUpdate{Batch: new(client.Batch), Auth: new(client.Auth)})
	if err != nil || s.Batch != nil || s.Auth != nil {
		t.Errorf("taken away: got %+v, %+v, %v", s.Batch, s.Auth, err)
	}
}

func TestClient_RotatesOnceHoweverOftenItRepeats(t *testing.T) {
	t.Parallel()
	c, s := setup(t)
	first, err := c.CreateSubscription(t.Context(), client.Subscription{Name: "hook", Queue: "orders", URL: "https://example.com/"})
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.RotateSecret(t.Context(), "hook", client.RotateParams{Overlap: new(time.Hour)})
	if err != nil || second.Secret == "" || second.Secret == first.Secret || len(second.OldSecretsUntil) != 1 ||
		time.Until(second.OldSecretsUntil[0]).Round(time.Minute) != time.Hour {
		t.Fatalf("got %+v, %v; want another secret, and an hour for the first", second, err)
	}
	s.front.on("/v1/subscriptions.rotate_secret", loseAnswer)
	_, err = c.RotateSecret(t.Context(), "hook", client.RotateParams{})
	if e, ok := errors.AsType[*client.Error](err); !ok || !e.Uncertain {
		t.Errorf("without an answer: got %v, want to be told that it may have been done", err)
	}
	got, err := c.GetSubscription(t.Context(), "hook")
	if err != nil || len(got.OldSecretsUntil) != 2 || !got.OldSecretsUntil[1].Equal(second.OldSecretsUntil[0]) || s.front.count("/v1/subscriptions.rotate_secret") < 3 {
		t.Errorf("got %v, %v; want the first secret to sign for its hour, after one more rotation of several tries", got.OldSecretsUntil, err)
	}
	_, err = c.RotateSecret(t.Context(), "hook", client.RotateParams{Revision: first.Revision})
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Err == nil && e.CodeText != client.CodeRevisionMismatch {
		t.Errorf("of an old revision: got %v", err)
	}
}

func TestReceiptFrom_ReadsWhatAPushBrings(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	if receipt, deadline, ok := client.ReceiptFrom(h); ok || receipt != "" || !deadline.IsZero() {
		t.Errorf("without one: got %q, %v, %t", receipt, deadline, ok)
	}
	h.Set("posthaste-receipt", "r-1")
	h.Set("posthaste-lease-deadline", "2030-01-31T08:00:00.5Z")
	receipt, deadline, ok := client.ReceiptFrom(h)
	if want := time.Date(2030, 1, 31, 8, 0, 0, 5e8, time.UTC); !ok || receipt != "r-1" || !deadline.Equal(want) {
		t.Errorf("got %q, %v, %t", receipt, deadline, ok)
	}
}

// endpoint answers pushes as told, and counts what came by id.
type endpoint struct {
	*httptest.Server
	came chan *http.Request
	body chan []byte
}

func newEndpoint(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) *endpoint {
	t.Helper()
	e := &endpoint{came: make(chan *http.Request, 100), body: make(chan []byte, 100)}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("body: %v", err)
		}
		answer(w, r)
		e.came <- r
		e.body <- body
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) next(t *testing.T) (*http.Request, []byte) {
	t.Helper()
	select {
	case r := <-e.came:
		return r, <-e.body
	case <-time.After(patience):
		t.Fatalf("nothing was pushed within %s", patience)
		return nil, nil
	}
}

// pushing returns a client of a server that pushes.
func pushing(t *testing.T, o inproc.Options) (*client.Client, string) {
	t.Helper()
	o.Pushes = true
	url := inproc.Start(t, o)
	c, err := client.New(client.Options{URL: url, MinWait: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for _, name := range []string{"orders", "ends"} {
		if err := c.CreateQueue(t.Context(), client.Queue{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	return c, url
}

func TestClient_AnEndpointFinishesLaterWithTheReceiptAlone(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("posthaste-lease", "keep")
		w.WriteHeader(http.StatusAccepted)
	})
	c, url := pushing(t, inproc.Options{})
	_, err := c.CreateSubscription(t.Context(), client.Subscription{Name: "hook", Queue: "orders", URL: e.URL, Defer: true, OnDone: "ends"})
	if err != nil {
		t.Fatal(err)
	}
	id := produce(t, c, client.Item{Kind: "slow", Payload: []byte("x")})[0].ItemID
	r, _ := e.next(t)
	receipt, deadline, ok := client.ReceiptFrom(r.Header)
	if left := time.Until(deadline); !ok || left < 14*time.Minute || left > 16*time.Minute {
		t.Fatalf("got receipt %q and %s; want one for about 15m", receipt, left)
	}
	// It has no key, and knows nothing but the URL and the receipt.
	anybody, err := client.New(client.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer anybody.Close()
	results, err := anybody.Extend(t.Context(), time.Hour, receipt)
	if err != nil || len(results) != 1 || !results[0].OK() || time.Until(results[0].LeaseDeadline) < 50*time.Minute {
		t.Errorf("extend: got %+v, %v", results, err)
	}
	if err := anybody.CompleteWith(t.Context(), client.Completion{Receipt: receipt, Result: []byte("fine")}); err != nil {
		t.Fatalf("complete: %v", err)
	}
	told, err := c.Lease(t.Context(), client.LeaseParams{Queue: "ends", Wait: patience})
	if err != nil || len(told) != 1 || told[0].Kind != client.DoneKind {
		t.Fatalf("on_done: got %+v, %v", told, err)
	}
	var done client.Done
	if err := told[0].JSON(&done); err != nil || done.ItemID != id || done.Queue != "orders" || done.Kind != "slow" ||
		done.Outcome != "completed" || string(done.Response) != "fine" {
		t.Errorf("done: got %+v, %v", done, err)
	}
}

func TestClient_ItemsBringTheirTargetAndTellTheirEnd(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "no coffee")
	})
	c, _ := pushing(t, inproc.Options{})
	_, err := c.CreateSubscription(t.Context(), client.Subscription{
		Name: "any", Queue: "orders", AllowTarget: true, Retry: client.RetryPolicy{BuryOn: []int{http.StatusTeapot}},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := produce(t, c, client.Item{
		Reference: "17", Payload: []byte("x"), OnDone: "ends", Target: &client.Target{URL: e.URL + "/own", Method: "PUT", Timeout: 5 * time.Second},
	})[0].ItemID
	if r, body := e.next(t); r.Method != "PUT" || r.URL.Path != "/own" || string(body) != "x" {
		t.Errorf("got %s %s %q", r.Method, r.URL.Path, body)
	}
	told, err := c.Lease(t.Context(), client.LeaseParams{Queue: "ends", Wait: patience})
	if err != nil || len(told) != 1 {
		t.Fatalf("on_done: got %+v, %v", told, err)
	}
	var done client.Done
	if err := json.Unmarshal(told[0].Payload, &done); err != nil || done.ItemID != id || done.Reference != "17" || done.Outcome != "buried" ||
		done.Status != http.StatusTeapot || done.Subscription != "any" || done.DeadQueue != "orders~dead" || string(done.Response) != "no coffee" {
		t.Errorf("done: got %+v, %v", done, err)
	}
	dead := slices.Collect(values(t, c.Items(t.Context(), "orders~dead")))
	if len(dead) != 1 || dead[0].Target == nil || *dead[0].Target != (client.Target{URL: e.URL + "/own", Method: "PUT", Timeout: 5 * time.Second}) || dead[0].OnDone != "ends" {
		t.Errorf("buried: got %+v", dead)
	}
}

func TestClient_ReadsTheAttemptLog(t *testing.T) {
	t.Parallel()
	status := http.StatusInternalServerError
	e := newEndpoint(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status) // one request at a time
		status = http.StatusOK
	})
	c, _ := pushing(t, inproc.Options{})
	_, err := c.CreateSubscription(t.Context(), client.Subscription{
		Name: "hook", Queue: "orders", URL: e.URL, MaxInFlight: 1, Retry: client.RetryPolicy{Schedule: []time.Duration{0}},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := produce(t, c, client.Item{})[0].ItemID
	var log []client.Attempt
	await(t, "two attempts in the log", func() bool {
		log = slices.Collect(values(t, c.Attempts(t.Context(), client.AttemptFilter{ItemID: id, OldestFirst: true, PageSize: 1})))
		return len(log) >= 2
	})
	first, last := log[0], log[1]
	if first.ItemID != id || first.Queue != "orders" || first.Subscription != "hook" || first.Attempt != 1 || first.Type != "attempt" ||
		first.Verdict != "retryable" || first.Status != 500 || first.Next != "retry" || first.At.IsZero() || first.Error == "" {
		t.Errorf("first: got %+v", first)
	}
	if last.Attempt != 2 || last.Verdict != "delivered" || last.Status != 200 || last.Next != "complete" || last.At.Before(first.At) {
		t.Errorf("last: got %+v", last)
	}
	for _, f := range []client.AttemptFilter{
		{Queue: "orders", Verdict: "delivered"},
		{Subscription: "hook", Type: "attempt", From: last.At},
		{ItemID: id, From: last.At, To: last.At.Add(time.Hour), OldestFirst: true},
	} {
		got := slices.Collect(values(t, c.Attempts(t.Context(), f)))
		if len(got) != 1 || got[0].Attempt != 2 {
			t.Errorf("%+v: got %+v, want the second attempt", f, got)
		}
	}
}

func TestClient_TestsASubscription(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	c, _ := pushing(t, inproc.Options{})
	_, err := c.CreateSubscription(t.Context(), client.Subscription{Name: "hook", Queue: "orders", URL: e.URL, Paused: true})
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.TestSubscription(t.Context(), "hook", nil)
	if err != nil || a.Verdict != "delivered" || a.Status != 200 || string(a.Response) != "hello" {
		t.Errorf("a sample: got %+v, %v", a, err)
	}
	e.next(t)
	if _, err := c.TestSubscription(t.Context(), "hook", &client.Item{Kind: "mine", Payload: []byte("x")}); err != nil {
		t.Errorf("an item: %v", err)
	}
	if r, body := e.next(t); string(body) != "x" || r.Header.Get("posthaste-kind") != "mine" {
		t.Errorf("got %q of kind %q, want the item", body, r.Header.Get("posthaste-kind"))
	}
	if _, err := c.TestSubscription(t.Context(), "nosuch", nil); !client.Is(err, client.CodeNotFound) {
		t.Errorf("of none: got %v", err)
	}
	if s, err := c.Stats(t.Context(), "orders"); err != nil || s.Total != 0 {
		t.Errorf("got %+v, %v; want nothing queued", s, err)
	}
}

func TestClient_SpreadsARedrive(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	produce(t, c, make([]client.Item, 3)...)
	for _, it := range lease(t, c, 3) {
		if err := c.Bury(t.Context(), "broken", it.Receipt); err != nil {
			t.Fatal(err)
		}
	}
	done, err := c.Redrive(t.Context(), "orders~dead", client.RedriveParams{Limit: 10, Rate: client.Rate{Count: 1, Period: time.Hour}})
	if err != nil || done.Moved != 3 || time.Until(done.Until).Round(time.Minute) != 2*time.Hour {
		t.Errorf("got %+v, %v; want three, the last of them due in 2h", done, err)
	}
	if s, err := c.Stats(t.Context(), "orders"); err != nil || s.Ready() != 1 || s.Scheduled != 2 {
		t.Errorf("got %+v, %v; want one now and two later", s, err)
	}
}

func TestDone_ReadsTextAndBytes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"item_id":"i","outcome":"completed","response":"/wA="}`:          "\xff\x00",
		`{"item_id":"i","outcome":"completed","response_text":"ok"}`:       "ok",
		`{"item_id":"i","outcome":"completed"}`:                            "",
		`{"item_id":"i","outcome":"completed","of a later release":[1,2]}`: "",
	} {
		var d client.Done
		if err := json.Unmarshal([]byte(text), &d); err != nil || d.ItemID != "i" || d.Outcome != "completed" || string(d.Response) != want {
			t.Errorf("%s: got %+v, %v", text, d, err)
		}
	}
	var d client.Done
	if err := json.Unmarshal([]byte(`{"attempts":"many"}`), &d); err == nil || !strings.Contains(err.Error(), "posthaste: done: ") {
		t.Errorf("nonsense: got %v", err)
	}
}
