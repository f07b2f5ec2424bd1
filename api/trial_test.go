package api_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
)

// trying is a server whose endpoint answers with a record.
func trying(t *testing.T, answer queue.Record, err error) (*env, *queue.Content) {
	t.Helper()
	sent := new(queue.Content)
	e := setup(t, func(o *api.Options) {
		o.Test = func(ctx context.Context, ns queue.Namespace, name string, item *queue.Content) (queue.Record, error) {
			if _, timed := ctx.Deadline(); !timed || ns != queue.DefaultNamespace || name != "s" {
				t.Errorf("sent to %s in %d, with a deadline: %v", name, ns, timed)
			}
			*sent = queue.Content{Kind: "a sample"}
			if item != nil {
				*sent = *item
			}
			return answer, err
		}
	})
	e.subs.kept["s"] = subscriptions.Subscription{Name: "s", Queue: "orders", URL: "https://example.com", Disabled: true}
	return e, sent
}

func TestTest_TellsWhatTheEndpointDid(t *testing.T) {
	t.Parallel()
	r := record()
	r.Key.ID, r.Next, r.NextAt, r.At = queue.ID{}, 0, time.Time{}, time.Time{}
	e, sent := trying(t, r, nil)
	a := e.call("subscriptions.test", `{"name":"s","item":{"kind":"k","utf8":"hello","headers":{"X-A":"1"},"target":{"url":"https://a.example","timeout":"2s"}}}`)
	for field, want := range map[string]any{"queue_name": "orders", "verdict": "retryable", "status": 500.0, "duration": "0.12s", "item_id": nil, "next": nil, "at": nil} {
		a.is(want, "attempt", field)
	}
	want := queue.Content{
		Kind: "k", Payload: []byte("hello"), Headers: map[string]string{"X-A": "1"},
		Target: &queue.Target{URL: "https://a.example", Timeout: 2 * time.Second},
	}
	if !reflect.DeepEqual(*sent, want) {
		t.Errorf("sent %+v, want %+v", *sent, want)
	}
	e.call("subscriptions.test", `{"name":"s"}`).is("retryable", "attempt", "verdict")
	if sent.Kind != "a sample" {
		t.Errorf("no item was given, and %+v was sent", *sent)
	}
}

func TestTest_NamesTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	e, sent := trying(t, queue.Record{}, nil)
	for item, want := range map[string][2]string{
		`{"headers":{"Host":"a"}}`:                {"item.headers", "reserved"},
		`{"target":{"url":"u","timeout":"long"}}`: {"item.target.timeout", "not a duration"},
		`{"kind":"` + tooLong + `"}`:              {"item.kind", "longer than 255"},
		`{"x":1}`:                                 {"item.x", "not a field"},
	} {
		e.call("subscriptions.test", `{"name":"s","item":`+item+`}`).invalid(want[0], want[1])
	}
	e.call("subscriptions.test", `{"name":"s","item":{"utf8":"`+strings.Repeat("x", 1_000_001)+`"}}`).want(413, "too_large").is("item", "details", "field")
	e.call("subscriptions.test", `{"name":"none"}`).want(404, "not_found")
	if !reflect.DeepEqual(*sent, queue.Content{}) {
		t.Errorf("sent all the same: %+v", *sent)
	}
	setup(t).call("subscriptions.test", `{"name":"s"}`).want(400, "not_supported")
	e, _ = trying(t, queue.Record{}, errors.New("no room"))
	e.call("subscriptions.test", `{"name":"s"}`).want(500, "internal")
}

func TestRotate_ShowsTheNewSecretOnce(t *testing.T) {
	t.Parallel()
	e := setup(t)
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	e.subs.kept["a"] = subscriptions.Subscription{Name: "a", Queue: "orders", Retry: subscriptions.DefaultPolicy(), Secrets: []subscriptions.SigningSecret{
		{Secret: "whsec_newest"}, {Secret: "whsec_old", Until: until}, {Secret: "whsec_over", Until: time.Now().Add(-time.Hour)},
	}}
	a := e.call("subscriptions.rotate_secret", `{"name":"a"}`)
	a.is("whsec_rotated", "secret")
	a.is(until.Format(time.RFC3339), "old_secrets_until", 0)
	if list, _ := a.get("old_secrets_until").([]any); len(list) != 1 || strings.Contains(a.raw, "whsec_old") || strings.Contains(a.raw, "whsec_newest") {
		t.Errorf("got %s, want one old secret that signs, and none shown", a.raw)
	}
	if want := (subscriptions.RotateParams{}); !reflect.DeepEqual(e.subs.rotated, want) {
		t.Errorf("got %+v", e.subs.rotated)
	}
	e.call("subscriptions.rotate_secret", `{"name":"a","secret":"whsk_given","overlap":"0s","revision":"7"}`).is("whsk_given", "secret")
	if want := (subscriptions.RotateParams{Secret: "whsk_given", Overlap: new(time.Duration(0)), Revision: 7}); !reflect.DeepEqual(e.subs.rotated, want) {
		t.Errorf("got %+v, want %+v", e.subs.rotated, want)
	}
	if a := e.call("subscriptions.info", `{"name":"a"}`); strings.Contains(a.raw, "whsk_") || strings.Contains(a.raw, "whsec_") {
		t.Errorf("shown once more: %s", a.raw)
	}
	e.call("subscriptions.rotate_secret", `{"name":"a","overlap":"a while"}`).invalid("overlap", "not a duration")
	e.call("subscriptions.rotate_secret", `{"name":"a","revision":"x"}`).invalid("revision", "gave out")
	e.call("subscriptions.rotate_secret", `{"name":"none"}`).want(404, "not_found")
	e.subs.err = subscriptions.ErrNoKey
	e.call("subscriptions.rotate_secret", `{"name":"a"}`).want(400, "encryption_key_missing")
}
