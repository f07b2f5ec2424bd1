package api_test

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/subscriptions"
)

// guarded is a subscription with keys in all places.
func guarded() subscriptions.Subscription {
	return subscriptions.Subscription{
		Name: "a", Queue: "orders", Method: "POST", Retry: subscriptions.DefaultPolicy(), Revision: 9,
		URL:     "https://example.com/h?shop=canary-2&canary-3&&empty=",
		Headers: map[string]string{"authorization": "Bearer canary-4", "X-Key": "canary-5", "content-type": "text/plain"},
		Secrets: []subscriptions.SigningSecret{{Secret: "whsec_canary-6"}, {Secret: "whsk_canary-7", Until: time.Now().Add(time.Hour)}},
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

// credentials has one of each kind, with what is secret of each.
func credentials() map[string]subscriptions.Auth {
	return map[string]subscriptions.Auth{
		"basic":  {Basic: &subscriptions.BasicAuth{Username: "user", Password: "canary-10"}},
		"bearer": {Bearer: "canary-11"},
		"oauth2": {OAuth2: &subscriptions.OAuth2{
			TokenURL: "https://idp.example/token?key=canary-12", ClientID: "id", ClientSecret: "canary-13", Scopes: []string{"push"}, Audience: "shop",
		}},
		"mtls": {ClientCertificate: "certificate", ClientKey: "canary-14", RootCAs: "roots"},
	}
}

func TestH10_NoAnswerHoldsASecretOfAnyKindOfCredentials(t *testing.T) {
	t.Parallel()
	for kind, auth := range credentials() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			kept := guarded()
			kept.Auth = auth
			e.subs.kept["a"] = kept
			for method, body := range map[string]string{
				"subscriptions.info": `{"name":"a"}`, "subscriptions.list": `{}`, "subscriptions.update": `{"name":"a","timeout":"5s"}`,
				"subscriptions.pause": `{"name":"a"}`, "subscriptions.resume": `{"name":"a"}`, "subscriptions.enable": `{"name":"a"}`,
				"subscriptions.rotate_secret": `{"name":"a"}`,
			} {
				a := e.call(method, body)
				if a.status != 200 || strings.Contains(a.raw, "canary") || !strings.Contains(a.raw, `"auth":{`) {
					t.Errorf("%s: got %d %s", method, a.status, a.raw)
				}
			}
			if log := e.log.String(); strings.Contains(log, "canary") {
				t.Errorf("in the log: %s", log)
			}
			info := e.call("subscriptions.info", `{"name":"a"}`)
			if a := e.call("subscriptions.update", info.raw); a.status != 200 {
				t.Fatalf("what info answered was refused: %s", a.raw)
			}
			if got := *e.subs.updated.Auth; !reflect.DeepEqual(reveal(got), reveal(auth)) || e.subs.updated.Revision != 9 {
				t.Errorf("sent back, it is %v at revision %d", reveal(got), e.subs.updated.Revision)
			}
		})
	}
}

// reveal makes credentials comparable, and readable in a test's words.
func reveal(a subscriptions.Auth) map[string]string {
	m := map[string]string{"bearer": a.Bearer.Reveal(), "certificate": a.ClientCertificate, "key": a.ClientKey.Reveal(), "roots": a.RootCAs}
	if a.Basic != nil {
		m["username"], m["password"] = a.Basic.Username, a.Basic.Password.Reveal()
	}
	if o := a.OAuth2; o != nil {
		m["token_url"], m["client_id"], m["client_secret"] = o.TokenURL, o.ClientID, o.ClientSecret.Reveal()
		m["scopes"], m["audience"] = strings.Join(o.Scopes, " "), o.Audience
	}
	return m
}

func TestH10_PublicPartsOfCredentialsAreShown(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for _, auth := range credentials() {
		kept := guarded()
		kept.Auth = auth
		e.subs.kept["a"] = kept
		info := e.call("subscriptions.info", `{"name":"a"}`)
		switch {
		case auth.Basic != nil:
			info.is("user", "auth", "basic", "username")
			info.is("[redacted]", "auth", "basic", "password")
		case auth.OAuth2 != nil:
			info.is("https://idp.example/token?key=[redacted]", "auth", "oauth2", "token_url")
			info.is("id", "auth", "oauth2", "client_id")
		case auth.ClientKey != "":
			info.is("certificate", "auth", "client_certificate")
			info.is("roots", "auth", "root_cas")
			info.is("[redacted]", "auth", "client_key")
			info.is(nil, "auth", "bearer")
		}
	}
}

func TestH10_AMaskOfCredentialsThatStandsForNothingIsRefused(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.subs.kept["a"] = guarded()
	for auth, field := range map[string]string{
		`{"bearer":"[redacted]"}`:                                        "auth.bearer",
		`{"client_key":"[redacted]"}`:                                    "auth.client_key",
		`{"basic":{"username":"u","password":"[redacted]"}}`:             "auth.basic.password",
		`{"oauth2":{"client_id":"i","client_secret":"[redacted]"}}`:      "auth.oauth2.client_secret",
		`{"oauth2":{"token_url":"https://idp.example/?key=[redacted]"}}`: "auth.oauth2.token_url",
	} {
		e.call("subscriptions.update", `{"name":"a","auth":`+auth+`}`).invalid(field, "[redacted]")
		e.call("subscriptions.create", `{"name":"b","queue_name":"q","auth":`+auth+`}`).invalid(field, "[redacted]")
	}
	// Nor does a kept one go to another place than it was given for.
	kept := guarded()
	kept.Auth = credentials()["oauth2"]
	e.subs.kept["a"] = kept
	e.call("subscriptions.update", `{"name":"a","auth":{"oauth2":{"token_url":"https://evil.example/","client_id":"id","client_secret":"[redacted]"}}}`).
		invalid("auth.oauth2.client_secret", "for the token_url that is kept")
	if e.subs.updated.Name != "" || e.subs.created.Name != "" {
		t.Errorf("kept all the same: %+v, %+v", e.subs.updated, e.subs.created)
	}
}
