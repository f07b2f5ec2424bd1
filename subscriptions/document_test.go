package subscriptions

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// everything sets every field that a client may.
func everything() Change {
	return Change{
		URL: new("https://example.com/hook"), Method: new("PUT"), Headers: map[string]string{"X-A": "canary-header"},
		Timeout: new(5 * time.Second), MaxInFlight: new(7), Rate: &Rate{Count: 10, Period: time.Second},
		Retry: PolicyChange{
			MaxAttempts: new(int32(3)), Schedule: []time.Duration{time.Second}, GiveUpAfter: new(time.Hour),
			BuryOn: []int32{422}, DisableAfter: new(time.Duration(0)),
		},
		HTTP2: new(true), Format: new(FormatCloudEvents), Log: new(LogFailures), OnDone: new("outcomes"),
		Defer: DeferChange{Allowed: new(true), Timeout: new(time.Hour), Max: new(5)},
		Auth: &Auth{
			Basic: &BasicAuth{Username: "u", Password: "canary-password"}, Bearer: "canary-bearer",
			OAuth2:            &OAuth2{TokenURL: "https://id.example", ClientID: "c", ClientSecret: "canary-client", Scopes: []string{"a"}, Audience: "x"},
			ClientCertificate: "PEM", ClientKey: "canary-key", RootCAs: "PEM too",
		},
	}
}

func TestDocument_KeepsEverything(t *testing.T) {
	t.Parallel()
	s, kit := setup(t)
	kit.others = []string{"outcomes"}
	p := params("billing", "orders")
	p.Secret, p.Change = canary, everything()
	created, err := s.Create(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.RotateSecret(t.Context(), queue.DefaultNamespace, "billing", RotateParams{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.MarkFailing(t.Context(), queue.DefaultNamespace, "billing", created.URL, time.Now()); err != nil {
		t.Fatal(err)
	}
	want, err := s.Disable(t.Context(), queue.DefaultNamespace, "billing", created.URL, "gone")
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Get(t.Context(), queue.DefaultNamespace, "billing")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("after a round trip:\ngot  %+v, %v\nwant %+v", got, err, want)
	}
	value := reflect.ValueOf(got)
	for i := range value.NumField() {
		switch name := value.Type().Field(i).Name; {
		case name == "Topic" || name == "QueueNumber": // TestTopic_SubscriptionHasAQueueOfItsOwn
		case name == "AllowTarget" || name == "Batch" || name == "Paused" || name == "Filter": // do not go with the others
		case value.Field(i).IsZero():
			t.Errorf("%s is not set, so nothing is proved of it", name)
		}
	}

	p = params("batches", "other")
	p.Paused, p.Batch = true, &Batch{MaxItems: 10, MaxWait: time.Second, Encoding: BatchMultipart}
	if _, err := s.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	got, err = s.Get(t.Context(), queue.DefaultNamespace, "batches")
	if want := (Batch{MaxItems: 10, MaxBytes: 1 << 20, MaxWait: time.Second, Encoding: BatchMultipart}); err != nil || got.Batch != want || !got.Paused {
		t.Errorf("got %+v, %v", got, err)
	}
	p = params("targets", "third")
	p.URL, p.AllowTarget = nil, new(true)
	if _, err := s.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got, err = s.Get(t.Context(), queue.DefaultNamespace, "targets"); err != nil || !got.AllowTarget || got.URL != "" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// The document of a release that knew less means the defaults.
func TestDocument_MissingFieldsAreDefaults(t *testing.T) {
	t.Parallel()
	s, kit := setup(t)
	var doc Document
	if err := json.Unmarshal([]byte(older), &doc); err != nil {
		t.Fatal(err)
	}
	kit.docs.put(t, "billing", doc)
	got, err := s.Get(t.Context(), queue.DefaultNamespace, "billing")
	if err != nil {
		t.Fatal(err)
	}
	if got.Retry.DisableAfter != 5*24*time.Hour || got.Defer != (Defer{Timeout: 15 * time.Minute, Max: 1000}) ||
		got.Rate != (Rate{}) || got.Batch.On() || got.Format != FormatPlain || got.Log != LogAll || got.AllowTarget {
		t.Errorf("got %+v", got)
	}
	if len(got.Secrets) != 1 || got.Secrets[0] != (SigningSecret{Secret: canary}) || got.Headers["X-A"] != "canary-header" {
		t.Errorf("got %d secrets, headers %v", len(got.Secrets), got.Headers)
	}
}

// older is a document as the release before this one wrote it.
const older = `{"namespace":1,"name":"billing","queue":"orders","url":"https://example.com/hook","method":"POST",` +
	`"headers":{"X-A":"canary-header"},"timeout":30000000000,"max_in_flight":32,"retry":{"max_attempts":12,"min_backoff":5000000000,` +
	`"max_backoff":43200000000000,"multiplier":3,"give_up_after":604800000000000},"secrets":["` + canary + `"],` +
	`"created_at":"2026-01-02T03:04:05.000006Z","updated_at":"2026-01-02T03:04:05.000006Z"}`

func TestChange_WordsOfDefaultsAreTaken(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	p := params("billing", "orders")
	p.Format, p.Log, p.Batch = new(Format("plain")), new(LogPolicy("all")), &Batch{MaxItems: 2, Encoding: "json"}
	sub, err := s.Create(t.Context(), p)
	if err != nil || sub.Format != FormatPlain || sub.Log != LogAll || sub.Batch.Encoding != BatchJSON {
		t.Errorf("got %+v, %v", sub, err)
	}
	for _, off := range []Batch{{}, {MaxItems: 1}, {MaxItems: 1, MaxBytes: 5}} {
		sub, err = s.Update(t.Context(), UpdateParams{Namespace: queue.DefaultNamespace, Name: "billing", Change: Change{Batch: &off}})
		if err != nil || sub.Batch != (Batch{}) {
			t.Errorf("%+v: got %+v, %v", off, sub.Batch, err)
		}
	}
}

// A change of something else is taken where the queue of outcomes is gone by now.
func TestService_OnDoneMustBeThereWhenItIsSet(t *testing.T) {
	t.Parallel()
	s, kit := setup(t)
	kit.others = []string{"outcomes"}
	p := params("billing", "orders")
	p.OnDone = new("outcomes")
	if _, err := s.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	kit.others = nil
	update := func(c Change) (Subscription, error) {
		return s.Update(t.Context(), UpdateParams{Namespace: queue.DefaultNamespace, Name: "billing", Change: c})
	}
	if _, err := update(Change{Timeout: new(time.Minute)}); err != nil {
		t.Errorf("another field: %v", err)
	}
	if _, err := update(Change{OnDone: new("outcomes")}); err == nil || !strings.Contains(err.Error(), "on_done: names outcomes, which is not there") {
		t.Errorf("set anew: %v", err)
	}
	if sub, err := update(Change{OnDone: new("")}); err != nil || sub.OnDone != "" {
		t.Errorf("taken away: %v, %v", sub.OnDone, err)
	}
}

func TestSubscription_CloneSharesNothing(t *testing.T) {
	t.Parallel()
	s, kit := setup(t)
	kit.others = []string{"outcomes"}
	p := params("billing", "orders")
	p.Change = everything()
	sub, err := s.Create(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	c := sub.Clone()
	if !reflect.DeepEqual(c, sub) {
		t.Errorf("got %+v, want %+v", c, sub)
	}
	c.Headers["X-A"], c.Retry.Schedule[0], c.Retry.BuryOn[0], c.Secrets[0].Secret = "", 0, 0, ""
	c.Auth.Basic.Password, c.Auth.OAuth2.ClientSecret, c.Auth.OAuth2.Scopes[0] = "", "", ""
	if reflect.DeepEqual(sub.Auth, c.Auth) || sub.Headers["X-A"] == "" || sub.Retry.Schedule[0] == 0 || sub.Retry.BuryOn[0] == 0 ||
		sub.Secrets[0].Secret == "" || sub.Auth.Basic.Password == "" || sub.Auth.OAuth2.ClientSecret == "" || sub.Auth.OAuth2.Scopes[0] == "" {
		t.Error("a change of the copy changed the original")
	}
	if shown := fmt.Sprintf("%+v %#v", sub, sub.Auth); strings.Contains(strings.ReplaceAll(shown, "canary-header", ""), "canary") {
		t.Errorf("a credential shows itself: %s", shown)
	}
}
