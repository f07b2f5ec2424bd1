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
	sub := Subscription{Name: "billing", Secrets: []SigningSecret{{Secret: secret}}}
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
