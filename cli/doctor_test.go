package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/api/client"
	"github.com/posthaste-io/posthaste/apikeys"
	"github.com/posthaste-io/posthaste/test/inproc"
)

// found maps the checks of doctor --json to level and message.
func found(t *testing.T, r result) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, v := range decode(t, r.out) {
		out[v["check"].(string)] += v["level"].(string) + ": " + v["message"].(string) + "\n"
	}
	return out
}

func TestDoctor_FindsNothingOnANewServer(t *testing.T) {
	s := newShell(t, inproc.Options{})
	r := s.run("", "doctor", "--json")
	got := found(t, r)
	for _, check := range []string{"reachable", "ready", "version", "clock", "key", "queues", "subscriptions"} {
		if !strings.HasPrefix(got[check], "ok: ") {
			t.Errorf("%s: got %q", check, got[check])
		}
	}
	if !strings.HasPrefix(got["durable"], "warn: ") || got["version"] != "ok: 1.2.3\n" || r.status != 0 {
		t.Errorf("got %v, status %d", got, r.status)
	}
}

func TestDoctor_TellsWhatWaitsIsBuriedOrPaused(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("queues", "create", "idle")
	s.ok("produce", "idle", "x")
	s.ok("queues", "create", "bad", "--max-attempts", "1")
	s.ok("produce", "bad", "x")
	s.ok("retry", s.object("lease", "bad")["receipt"].(string))
	s.ok("queues", "create", "held")
	s.ok("queues", "pause", "held", "--side", "lease")
	s.ok("subscriptions", "create", "shop", "orders", "https://shop.example/", "--paused")
	s.ok("produce", "orders", "x")
	r := s.run("", "doctor", "--json", "--old-after", "0s")
	got := found(t, r)
	for _, tt := range []struct{ check, want string }{
		{"queue", "warn: idle has 1 item ready"},
		{"queue", "warn: held is paused: lease"},
		{"queue", "warn: orders has 1 item ready"},
		{"dead letters", "warn: bad~dead grows: 1 item, 1 of them within the last hour"},
		{"subscription", "warn: shop is paused; 1 item in orders"},
	} {
		if !strings.Contains(got[tt.check], tt.want) {
			t.Errorf("%s: got %q, want %q", tt.check, got[tt.check], tt.want)
		}
	}
	if r.status != 0 {
		t.Errorf("warnings end with status %d", r.status)
	}
	if r := s.run("", "doctor", "--json"); strings.Contains(found(t, r)["queue"], "idle") {
		t.Error("an item that came just now is told of as old")
	}
}

func TestDoctor_TellsOfSchedulesThatDoNotProduce(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("queues", "create", "reports")
	s.ok("schedules", "create", "tick", "reports", "@every 1s")
	s.ok("schedules", "create", "nightly", "reports", "@daily")
	if got := found(t, s.run("", "doctor", "--json")); got["schedules"] != "ok: 2 schedules: all fire\n" {
		t.Errorf("got %v", got)
	}
	s.ok("queues", "delete", "reports", "--force", "--yes")
	for deadline := time.Now().Add(10 * time.Second); s.object("schedules", "info", "tick")["last_error"] == nil; {
		if time.Now().After(deadline) {
			t.Fatal("a schedule without its queue has no last_error")
		}
	}
	got := found(t, s.run("", "doctor", "--json"))
	if !strings.HasPrefix(got["schedule"], "warn: tick could not produce: ") || !strings.Contains(got["schedule"], "reports") || strings.Contains(got["schedule"], "nightly") {
		t.Errorf("got %v", got)
	}
}

func TestDoctor_JudgesSchedules(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, tt := range []struct {
		schedule client.Schedule
		level    level
		want     string
	}{
		{client.Schedule{Name: "a", Cron: "@daily", NextAt: now.Add(time.Hour)}, 0, ""},
		{client.Schedule{Name: "b", Cron: "@daily", NextAt: now.Add(-lateFire)}, 0, ""},
		{client.Schedule{Name: "c", Cron: "@daily", Paused: true}, 0, ""},
		{client.Schedule{Name: "d", Cron: "@daily", NextAt: now.Add(-5 * time.Minute)}, isBad, "d has been due for 5m"},
		{client.Schedule{Name: "e", Cron: "@daily", NextAt: now.Add(time.Hour), LastError: "queue gone"}, isWarning, "e could not produce: queue gone"},
		{client.Schedule{Name: "f", Cron: "@daily", LastError: "queue gone", Paused: true}, 0, ""},
		{client.Schedule{Name: "g", LastError: "written by a newer release"}, isBad, "g cannot be read: written by a newer release"},
	} {
		if got := judgeSchedule(&tt.schedule, now); got.level != tt.level || !strings.HasPrefix(got.text, tt.want) || tt.want == "" && got.text != "" {
			t.Errorf("%s: got %v %q, want %v %q", tt.schedule.Name, got.level, got.text, tt.level, tt.want)
		}
	}
}

func TestDoctor_EndsWithOneWhenSomethingIsBad(t *testing.T) {
	key, err := apikeys.New("test")
	if err != nil {
		t.Fatal(err)
	}
	s := newShell(t, inproc.Options{Access: api.NewKeyAccess(key.Record())})
	r := s.run("", "doctor", "--json")
	if got := found(t, r); !strings.HasPrefix(got["key"], "bad: ") || !strings.HasPrefix(got["ready"], "ok") || r.status != exitFailed {
		t.Errorf("without a key: got %v, status %d", got, r.status)
	}
	r = s.run("", "doctor", "--json", "--url", "http://127.0.0.1:1")
	if got := found(t, r); !strings.Contains(got["reachable"], "bad: http://127.0.0.1:1: dial tcp") || len(got) != 1 || r.status != exitFailed {
		t.Errorf("nobody there: got %v, status %d", got, r.status)
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	r = s.run("", "doctor", "--url", other.URL)
	if !strings.Contains(r.out, "bad\treachable\t") || !strings.Contains(r.out, "status 404, is not from a posthaste server") {
		t.Errorf("another server: got %+v", r)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestHealth_SkewIsWhatCannotBeExplained(t *testing.T) {
	t.Parallel()
	server := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		asked, took, want time.Duration
	}{
		{0, 0, 0},
		{900 * time.Millisecond, 0, 0}, // the header has whole seconds
		{-3 * time.Second, 5 * time.Second, 0},
		{-3 * time.Second, time.Second, -2 * time.Second},
		{11 * time.Second, time.Second, 10 * time.Second},
	} {
		h := &health{date: server, asked: server.Add(tt.asked), took: tt.took}
		if got := h.skew(); got != tt.want {
			t.Errorf("asked at %s, took %s: got %s, want %s", tt.asked, tt.took, got, tt.want)
		}
	}
	if got := (&health{asked: server}).skew(); got != 0 {
		t.Errorf("without a date: got %s", got)
	}
}

func TestJudgeHealth_Levels(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name  string
		h     health
		check string
		want  level
	}{
		{"degraded", health{status: 200, Status: "degraded", asked: at, date: at}, "ready", isWarning},
		{"stopping", health{status: 503, Status: "stopping", asked: at, date: at}, "ready", isBad},
		{"a little ahead", health{status: 200, Status: "ok", asked: at.Add(10 * time.Second), date: at}, "clock", isWarning},
		{"far behind", health{status: 200, Status: "ok", asked: at.Add(-10 * time.Minute), date: at}, "clock", isBad},
		{"durable", health{status: 200, Status: "ok", asked: at, date: at, Durable: new(true)}, "durable", isOK},
	} {
		seen := false
		for _, it := range judgeHealth("http://x", &tt.h, nil) {
			if it.check == tt.check {
				seen = true
				if it.level != tt.want {
					t.Errorf("%s: got %s (%s), want %s", tt.name, it.level, it.text, tt.want)
				}
			}
		}
		if !seen {
			t.Errorf("%s: nothing is told of %s", tt.name, tt.check)
		}
	}
}

func TestJudgeSubscriptions_Levels(t *testing.T) {
	t.Parallel()
	now := time.Now()
	queues := []counted{{name: "orders", Stats: client.Stats{Total: 7}}}
	for _, tt := range []struct {
		sub  client.Subscription
		want level
		text string
	}{
		{client.Subscription{Name: "a", Queue: "orders", State: "disabled", Reason: "410 Gone"}, isBad, "a is disabled: 410 Gone; 7 items in orders"},
		{client.Subscription{Name: "b", State: "paused"}, isWarning, "b is paused"},
		{client.Subscription{Name: "c", State: "active", URL: "https://c.example/canary?t=canary", Lane: &client.Lane{Breaker: "open", LastError: "refused"}}, isWarning, "breaker is open"},
		{client.Subscription{Name: "d", State: "active", Lane: &client.Lane{Breaker: "closed", PausedUntil: now.Add(time.Hour)}}, isWarning, "asked to wait"},
		{client.Subscription{Name: "f", State: "active", FailingSince: now.Add(-time.Hour)}, isWarning, "nothing but failures for 1h"},
		{client.Subscription{Name: "e", State: "active", Lane: &client.Lane{Breaker: "closed"}}, isOK, "none is paused"},
	} {
		got := judgeSubscriptions([]client.Subscription{tt.sub}, queues, now)
		if len(got) != 1 || got[0].level != tt.want || !strings.Contains(got[0].text, tt.text) {
			t.Errorf("%s: got %+v, want %s: %s", tt.sub.Name, got, tt.want, tt.text)
		}
		for _, it := range got {
			if strings.Contains(it.text+it.advice, "canary") {
				t.Errorf("%s: the path of an endpoint, which may be a secret, is shown: %+v", tt.sub.Name, it)
			}
		}
	}
}

func TestHealth_TheKeyGoesNowhereElse(t *testing.T) {
	t.Setenv("POSTHASTE_KEY", "canary")
	asked := false
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusFound))
	defer server.Close()
	f := connection{URL: server.URL}
	if h, err := f.health(t.Context()); err == nil || asked {
		t.Errorf("a redirect: got %+v, %v, and followed: %t; want an error, and nobody asked", h, err, asked)
	}
}
