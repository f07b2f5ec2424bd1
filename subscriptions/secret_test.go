package subscriptions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

const canary = "whsec_Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5"

func TestSecret_NeverShowsItself(t *testing.T) {
	t.Parallel()
	secret := Secret(canary)
	sub := Subscription{Name: "billing", Secrets: []Secret{secret}}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%f", "%T"} {
		fmt.Fprintf(&out, verb+" "+verb+" "+verb+"\n", secret, sub, &sub)
	}
	fmt.Fprintln(&out, secret.String(), fmt.Errorf("with %v", secret), errors.New("with "+fmt.Sprint(secret)))
	for _, value := range []any{secret, sub, map[string]Secret{"key": secret}} {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(text)
		slog.New(slog.NewTextHandler(&out, nil)).Info("text", "value", value)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("json", "value", value)
	}
	shown := strings.ToLower(out.String())
	for _, form := range []string{canary, strings.TrimPrefix(canary, "whsec_"), fmt.Sprintf("%x", canary)} {
		if strings.Contains(shown, strings.ToLower(form)) {
			at := strings.Index(shown, strings.ToLower(form))
			t.Errorf("the secret shows itself: …%s…", shown[max(0, at-80):min(len(shown), at+80)])
		}
	}
}

func TestDocument_KeepsSecretsAndEverythingElse(t *testing.T) {
	t.Parallel()
	s, kit := setup(t)
	p := params("billing", "orders")
	p.Secret = canary
	p.Headers = map[string]string{"X-A": "1"}
	p.Retry.BuryOn = []int32{422}
	created, err := s.Create(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(kit.docs.all["billing"].value)
	if err != nil || !strings.Contains(string(text), canary) {
		t.Fatalf("the stored form has no secret: %s, %v", text, err)
	}
	var doc Document
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprintf("%+v", fromDocument(doc, created.Revision)), fmt.Sprintf("%+v", created); got != want {
		t.Errorf("after a round trip:\ngot  %s\nwant %s", got, want)
	}
}
