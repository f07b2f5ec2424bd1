package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/webhooks"
)

// receive sends one request to an endpoint with these flags, and returns what it
// answered and printed.
func receive(t *testing.T, c listenCommand, body string, headers map[string]string) (*http.Response, string) {
	t.Helper()
	var out bytes.Buffer
	term, _ := newTerminal(t.Context(), &out)
	e, err := c.endpoint(term)
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	r := httptest.NewRequest(http.MethodPost, "/hook?x=1", strings.NewReader(body))
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	return w.Result(), out.String()
}

func signed(t *testing.T, secret, body string) map[string]string {
	t.Helper()
	now := time.Now()
	signature, err := webhooks.Sign("msg-1", now, []byte(body), secret)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		webhooks.HeaderID: "msg-1", webhooks.HeaderTimestamp: strconv.FormatInt(now.Unix(), 10), webhooks.HeaderSignature: signature,
	}
}

func TestListen_JudgesSignatures(t *testing.T) {
	t.Parallel()
	secret, other := webhooks.NewSecret(), webhooks.NewSecret()
	tests := []struct {
		name    string
		secrets []string
		headers map[string]string
		status  int
		want    string
	}{
		{"good", []string{secret}, signed(t, secret, "x"), 200, "signature ok"},
		{"good under the older of two", []string{other, secret}, signed(t, secret, "x"), 200, "signature ok"},
		{"of another secret", []string{other}, signed(t, secret, "x"), 401, "INVALID"},
		{"of another body", []string{secret}, signed(t, secret, "y"), 401, "INVALID"},
		{"none", []string{secret}, nil, 401, "UNSIGNED"},
		{"not asked for", nil, signed(t, secret, "x"), 200, "not verified"},
		{"neither", nil, nil, 200, "unsigned"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			resp, out := receive(t, listenCommand{Secret: tt.secrets, Status: 503}, "x", tt.headers)
			if resp.StatusCode != tt.status || !strings.Contains(out, tt.want) {
				t.Errorf("got %d and %q; want %d and %q", resp.StatusCode, out, tt.status, tt.want)
			}
			answer, err := io.ReadAll(resp.Body)
			if err != nil || (resp.StatusCode == 401) != strings.Contains(string(answer), tt.want) {
				t.Errorf("answered %q, %v; want the reason of a refusal alone", answer, err)
			}
		})
	}
}

func TestListen_RefusesWhenAsked(t *testing.T) {
	t.Parallel()
	resp, _ := receive(t, listenCommand{Fail: 1, Status: 429, RetryAfter: 3 * time.Second}, "x", nil)
	if resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "3" {
		t.Errorf("got %d, Retry-After %q; want 429 and 3", resp.StatusCode, resp.Header.Get("Retry-After"))
	}
}

func TestListen_PrintsWhatCame(t *testing.T) {
	t.Parallel()
	_, out := receive(t, listenCommand{Status: 503}, "a\x00b\x1b[31m\n\xff", map[string]string{
		"webhook-id": "id-7", "posthaste-kind": "k", "posthaste-attempt": "2", "posthaste-max-attempts": "12",
		"posthaste-retry-reason": "status", "posthaste-previous-status": "503",
	})
	for _, want := range []string{"POST /hook?x=1", "id-7", "2 of 12", "status 503", `a\u0000b\u001b[31m\n\xff`, "10 bytes"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Error("a body's escape sequence reached the terminal")
	}
}

func TestExcerpt_CutsAndSaysSo(t *testing.T) {
	t.Parallel()
	if got, want := excerpt([]byte("grüße"), 100), "grüße"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := excerpt(bytes.Repeat([]byte("x"), 12), 10), "xxxxxxxxxx … and 2 bytes more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
