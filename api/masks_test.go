package api_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/posthaste-io/posthaste/subscriptions"
)

// guarded is a subscription with keys in all places.
func guarded() subscriptions.Subscription {
	return subscriptions.Subscription{
		Name: "a", Queue: "orders", Method: "POST", Retry: subscriptions.DefaultPolicy(), Revision: 9,
		URL:     "https://example.com/h?shop=canary-2&canary-3&&empty=",
		Headers: map[string]string{"authorization": "Bearer canary-4", "X-Key": "canary-5", "content-type": "text/plain"},
	}
}

func TestA11_AnswersMaskWhatMayBeAKey(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.subs.kept["a"] = guarded()
	for method, body := range map[string]string{
		"subscriptions.info": `{"name":"a"}`, "subscriptions.list": `{}`, "subscriptions.update": `{"name":"a","timeout":"5s"}`,
		"subscriptions.pause": `{"name":"a"}`, "subscriptions.resume": `{"name":"a"}`, "subscriptions.enable": `{"name":"a"}`,
		"subscriptions.create": `{"name":"b","queue_name":"orders","url":"https://example.com/?k=canary"}`,
	} {
		if a := e.call(method, body); a.status != 200 || strings.Contains(a.raw, "canary") || !strings.Contains(a.raw, "[redacted]") {
			t.Errorf("%s: got %d %s", method, a.status, a.raw)
		}
	}
	info := e.call("subscriptions.info", `{"name":"a"}`)
	info.is("https://example.com/h?shop=[redacted]&[redacted]&&empty=[redacted]", "url")
	info.is("[redacted]", "headers", "authorization")
	info.is("text/plain", "headers", "content-type")
}

func TestA11_AMaskThatIsSentBackKeepsWhatItStandsFor(t *testing.T) {
	t.Parallel()
	e := setup(t)
	kept := guarded()
	e.subs.kept["a"] = kept
	info := e.call("subscriptions.info", `{"name":"a"}`)
	if a := e.call("subscriptions.update", info.raw); a.status != 200 {
		t.Fatalf("got %s", a.raw)
	}
	if got := e.subs.updated; got.URL != nil || !maps.Equal(got.Headers, kept.Headers) || got.Revision != 9 {
		t.Errorf("got %+v, want the URL and the headers that are kept", got)
	}

	// One by one, in another spelling, and beside a new value.
	if a := e.call("subscriptions.update", `{"name":"a","headers":{"Authorization":"[redacted]","X-New":"1"}}`); a.status != 200 {
		t.Fatalf("got %s", a.raw)
	}
	if got := e.subs.updated; !maps.Equal(got.Headers, map[string]string{"Authorization": "Bearer canary-4", "X-New": "1"}) {
		t.Errorf("got %v", got.Headers)
	}
	if got := e.subs.updated.Revision; got != 9 {
		t.Errorf("got revision %d, want 9: what was read may have changed since", got)
	}
}

func TestA11_AMaskThatStandsForNothingIsRefused(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.subs.kept["a"] = guarded()
	e.call("subscriptions.update", `{"name":"a","headers":{"X-Other":"[redacted]"}}`).invalid("headers", "X-Other")
	// The kept values must not be sent to another host.
	e.call("subscriptions.update", `{"name":"a","url":"https://evil.example/h?shop=[redacted]&[redacted]&&empty=[redacted]"}`).
		invalid("url", "not the URL that is kept")
	e.call("subscriptions.create", `{"name":"b","queue_name":"q","url":"https://example.com/?k=[redacted]"}`).invalid("url", "[redacted]")
	e.call("subscriptions.create", `{"name":"b","queue_name":"q","url":"https://example.com/","headers":{"X-Key":"[redacted]"}}`).
		invalid("headers", "X-Key")
}
