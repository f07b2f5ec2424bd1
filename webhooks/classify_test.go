package webhooks

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestClassify_EveryStatus(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for status := -1; status <= 1000; status++ {
		want := Retryable // 1xx, 5xx, and what is no status
		switch {
		case status >= 200 && status < 300:
			want = Delivered
		case status == 408, status == 425:
		case status == 410:
			want = Gone
		case status == 429:
			want = Throttled
		case status >= 300 && status < 500:
			want = Rejected
		}
		if got := Classify(status, nil, true, now); got != (Outcome{Verdict: want}) {
			t.Errorf("%d: got %+v, want %v", status, got, want)
		}

		asked := http.Header{"Retry-After": {"7"}, "Posthaste-Retry": {"never"}, "Posthaste-Lease": {"keep"}}
		wanted := Outcome{Verdict: want, RetryAfter: 7 * time.Second, Never: true}
		switch status {
		case 202:
			wanted.Verdict = Deferred
		case 503:
			wanted.Verdict = Throttled
		}
		if status >= 200 && status < 300 {
			wanted.RetryAfter, wanted.Never = 0, false
		}
		if got := Classify(status, asked, true, now); got != wanted {
			t.Errorf("%d with headers: got %+v, want %+v", status, got, wanted)
		}
	}
}

func TestClassify_DefersOnlyWhereAReceiptWasGiven(t *testing.T) {
	t.Parallel()
	tests := []struct {
		status   int
		lease    string
		mayDefer bool
		want     Verdict
	}{
		{202, "keep", true, Deferred},
		{202, " Keep ", true, Deferred},
		{202, "keep", false, Delivered},
		{202, "drop", true, Delivered},
		{202, "", true, Delivered},
		{200, "keep", true, Delivered},
	}
	for _, tt := range tests {
		h := http.Header{}
		h.Set(HeaderLease, tt.lease)
		if got := Classify(tt.status, h, tt.mayDefer, time.Now()).Verdict; got != tt.want {
			t.Errorf("%+v: got %v", tt, got)
		}
	}
}

func TestC02_NonsenseInRetryAfterIsAnOrdinaryRetry(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", "soon", "-5", "0", "Sun, 06 Nov 1994 08:49:37 GMT"} {
		h := http.Header{"Retry-After": {value}}
		if got := Classify(503, h, false, time.Now()); got != (Outcome{Verdict: Retryable}) {
			t.Errorf("503 with %q: got %+v", value, got)
		}
		if got := Classify(429, h, false, time.Now()); got != (Outcome{Verdict: Throttled}) {
			t.Errorf("429 with %q: got %+v", value, got)
		}
	}
}

func TestC02_ParseRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	date := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	tests := []struct {
		value string
		want  time.Duration
	}{
		{"1", time.Second},
		{"120", 2 * time.Minute},
		{" 120 ", 2 * time.Minute},
		{"007", 7 * time.Second},
		{"1.5", 1500 * time.Millisecond},
		{"0.001", time.Second},
		{"86400", 24 * time.Hour},
		{"86401", 24 * time.Hour},
		{"1000000000000", 24 * time.Hour},
		{"9223372036854775808", 24 * time.Hour},
		{strings.Repeat("9", 5000), 24 * time.Hour},
		{date(time.Minute), time.Minute},
		{date(48 * time.Hour), 24 * time.Hour},
		{"Fri, 31 Dec 9999 23:59:59 GMT", 24 * time.Hour},
		{now.Add(time.Minute).Format("Monday, 02-Jan-06 15:04:05 GMT"), time.Minute},
		{now.Add(time.Minute).Format(time.ANSIC), time.Minute},
		{"", 0},
		{"0", 0},
		{"0.0", 0},
		{"-1", 0},
		{"+1", 0},
		{"1e3", 0},
		{"0x10", 0},
		{"1_0", 0},
		{"Inf", 0},
		{"NaN", 0},
		{".5", 0},
		{"5.", 0},
		{"1.2.3", 0},
		{"1,5", 0},
		{"120s", 0},
		{"٣", 0},
		{"120, 60", 0},
		{date(0), 0},
		{date(-time.Second), 0},
		{"Thu, 01 Jan 0001 00:00:00 GMT", 0},
	}
	for _, tt := range tests {
		if got := ParseRetryAfter(tt.value, now); got != tt.want {
			t.Errorf("%.40q: got %v, want %v", tt.value, got, tt.want)
		}
	}
}

func FuzzParseRetryAfter(f *testing.F) {
	for _, seed := range []string{"1", "1.5", "-1", "Fri, 31 Dec 9999 23:59:59 GMT", strings.Repeat("9", 400)} {
		f.Add(seed, int64(0))
	}
	f.Fuzz(func(t *testing.T, value string, unix int64) {
		got := ParseRetryAfter(value, time.Unix(unix%math.MaxInt32, 0))
		if got != 0 && (got < time.Second || got > 24*time.Hour) {
			t.Errorf("%q: got %v", value, got)
		}
	})
}
