package webhooks

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestH09_ReservedHeadersAreRefused(t *testing.T) {
	t.Parallel()
	names := []string{
		"Host", "Content-Length", "Content-Encoding", "Transfer-Encoding", "TE", "Trailer", "Connection",
		"Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "Upgrade", "Expect", "Idempotency-Key",
		"X-Idempotency-Key", "webhook-id", "webhook-signature", "webhook-hop", "webhook-anything", "ce-id",
		"svix-id", "posthaste-receipt", "Accept-Encoding", "Date", "Forwarded", "X-Forwarded-For",
		"X-Forwarded-Proto", "traceparent",
	}
	for _, name := range names {
		folded := strings.ReplaceAll(name, "-", "_")
		for _, spelled := range []string{name, strings.ToLower(name), strings.ToUpper(name), folded} {
			if err := CheckHeaders(map[string]string{spelled: "x"}); err == nil {
				t.Errorf("%s: no error", spelled)
			}
		}
	}
}

func TestH09_HeaderBounds(t *testing.T) {
	t.Parallel()
	many := func(n, size int) map[string]string {
		h := map[string]string{}
		for i := range n {
			h[fmt.Sprintf("x-%02d", i)] = strings.Repeat("v", size)
		}
		return h
	}
	tests := []struct {
		name    string
		headers map[string]string
		ok      bool
	}{
		{"none", nil, true},
		{"usual", map[string]string{"Authorization": "Bearer x", "X-Team": "a b\tc", "Content-Type": "text/plain"}, true},
		{"every token character", map[string]string{"!#$%&'*+-.^_`|~09azAZ": ""}, true},
		{"no name", map[string]string{"": "x"}, false},
		{"name of 64", map[string]string{strings.Repeat("n", 64): "x"}, true},
		{"name of 65", map[string]string{strings.Repeat("n", 65): "x"}, false},
		{"space in name", map[string]string{"X Team": "x"}, false},
		{"colon in name", map[string]string{"X:": "x"}, false},
		{"line break in name", map[string]string{"X\r\nHost": "x"}, false},
		{"umlaut in name", map[string]string{"Grüße": "x"}, false},
		{"CR", map[string]string{"X": "a\rb"}, false},
		{"LF", map[string]string{"X": "a\nHost: b"}, false},
		{"NUL", map[string]string{"X": "a\x00"}, false},
		{"DEL", map[string]string{"X": "\x7f"}, false},
		{"umlaut", map[string]string{"X": "ä"}, false},
		{"bad UTF-8", map[string]string{"X": "\xff"}, false},
		{"value of 4 KiB", map[string]string{"X": strings.Repeat("v", 4096)}, true},
		{"value over 4 KiB", map[string]string{"X": strings.Repeat("v", 4097)}, false},
		{"30", many(30, 1), true},
		{"31", many(31, 1), false},
		{"16 KiB", many(4, 4092), true},
		{"over 16 KiB", many(5, 4000), false},
		{"one name in two spellings", map[string]string{"X-Team": "a", "x-team": "b"}, false},
	}
	for _, tt := range tests {
		if err := CheckHeaders(tt.headers); (err == nil) != tt.ok {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
}

func TestH10_HeaderErrorsDoNotShowValues(t *testing.T) {
	t.Parallel()
	const canary = "CANARY"
	for _, h := range []map[string]string{
		{"Authorization": canary + "\n"},
		{"Host": canary},
		{"X": canary + strings.Repeat("x", 5000)},
	} {
		if err := CheckHeaders(h); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("got %v", err)
		}
	}
}

func TestEncodeValue_IsSafeAndCanBeDecoded(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"order.created":   "order.created",
		"two words":       "two words",
		" ends ":          "%20ends%20",
		" ":               "%20",
		"50%":             "50%25",
		"a\r\nHost: evil": "a%0D%0AHost: evil",
		"Euro € 😀":        "Euro %E2%82%AC %F0%9F%98%80",
		"\x00\x7f\xff\t":  "%00%7F%FF%09",
	}
	for in, want := range tests {
		got := encodeValue(in)
		if got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
		if err := checkHeaderValue(got); err != nil {
			t.Errorf("%q: %v", in, err)
		}
		if back, err := url.PathUnescape(got); err != nil || back != in {
			t.Errorf("%q: decoded as %q, %v", in, back, err)
		}
	}
	if got, _ := url.PathUnescape(encodeValue(strings.Repeat("€", 100))); len(got) != 255 || !utf8.ValidString(got) {
		t.Errorf("a long text is cut to %d bytes, valid: %v", len(got), utf8.ValidString(got))
	}
}

func TestChildTraceparent(t *testing.T) {
	t.Parallel()
	const trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	good := map[string]string{
		"00-" + trace + "-" + span + "-01":       "00-" + trace + "-",
		"00-" + trace + "-" + span + "-00":       "00-" + trace + "-",
		"01-" + trace + "-" + span + "-01-extra": "00-" + trace + "-",
	}
	for parent, prefix := range good {
		got := childTraceparent(parent)
		if !strings.HasPrefix(got, prefix) || len(got) != 55 || got[52:] != parent[52:55] || strings.Contains(got, span) {
			t.Errorf("%q: got %q", parent, got)
		}
		if childTraceparent(got) == "" {
			t.Errorf("%q: the answer %q is none itself", parent, got)
		}
	}
	bad := []string{
		"", "x", "00-" + trace + "-" + span, "ff-" + trace + "-" + span + "-01", "00-" + trace + "-" + span + "-01-extra",
		"00-" + strings.ToUpper(trace) + "-" + span + "-01", "00-" + strings.Repeat("0", 32) + "-" + span + "-01",
		"00-" + trace + "-" + strings.Repeat("0", 16) + "-01", "00-" + trace + "-" + span + "-0g",
		"00-" + trace[:31] + "-" + span + "x-01", "00-" + trace + "-" + span + "-01\r\nHost: x", "01-" + trace + "-" + span + "-01x",
	}
	for _, parent := range bad {
		if got := childTraceparent(parent); got != "" {
			t.Errorf("%q: got %q", parent, got)
		}
	}
}

// Nobody decodes a Content-Type.
func TestMediaType_StaysAsItIs(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"application/json": "application/json", `application/json; profile="http://x/a%20b"`: `application/json; profile="http://x/a%20b"`,
		"a/b\r\nX: y": "a/b%0D%0AX:%20y", " a/b": "%20a/b", "text/plain; a=é": "text/plain;%20a=%C3%A9",
	} {
		if got := mediaType(in); got != want && mediaType(got) != got {
			t.Errorf("%q became %q", in, got)
		} else if strings.ContainsAny(got, "\r\n") || in == want && got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}
