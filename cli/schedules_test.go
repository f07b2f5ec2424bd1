package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
	"github.com/posthaste-io/posthaste/test/inproc"
)

func TestSchedules_TakeAllSettings(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("queues", "create", "reports")
	s.ok("queues", "create", "ends")
	got := s.object("schedules", "create", "nightly", "reports", "30 2 * * *", `{"at":"{{nominal_at}}"}`, "--zone", "Europe/Berlin",
		"--kind", "report", "--reference", "r", "--header", "X-Run={{fired_at}}", "--max-attempts", "3", "--expire", "1h", "--on-done", "ends",
		"--missed", "all", "--missed-max", "7", "--missed-grace", "6h", "--overlap", "queue_one", "--clocks-forward", "skip", "--clocks-back", "both",
		"--jitter", "1m", "--start-at", "2030-01-31T08:00:00Z", "--end-at", "2031-01-31T08:00:00Z", "--label", "team=a", "--label", "of=b", "--paused")
	missed, item, labels := got["missed"].(map[string]any), got["item"].(map[string]any), got["labels"].(map[string]any)
	if got["cron"] != "30 2 * * *" || got["zone"] != "Europe/Berlin" || got["queue_name"] != "reports" || got["overlap"] != "queue_one" ||
		got["clocks_forward"] != "skip" || got["clocks_back"] != "both" || got["jitter"] != "60s" || got["start_at"] != "2030-01-31T08:00:00Z" ||
		got["end_at"] != "2031-01-31T08:00:00Z" || got["paused"] != true || got["next_at"] != nil || len(labels) != 2 || labels["team"] != "a" {
		t.Errorf("created: got %v", got)
	}
	if missed["policy"] != "all" || missed["max"] != 7.0 || missed["grace"] != "21600s" {
		t.Errorf("missed: got %v", missed)
	}
	if item["kind"] != "report" || item["encoding"] != "application/json" || item["reference"] != "r" || item["utf8"] != `{"at":"{{nominal_at}}"}` ||
		item["max_attempts"] != 3.0 || item["expire_timeout"] != "3600s" || item["on_done"] != "ends" || item["headers"].(map[string]any)["X-Run"] != client.Redacted {
		t.Errorf("item: got %v", item)
	}
	shown := s.ok("schedules", "info", "nightly")
	for _, want := range []string{
		"state\tpaused\n", "missed times\tall, up to 7, not over 6h late\n", "clocks forward\tskip\n", "jitter\t1m\n", "label\tof=b\n",
		"max attempts\t3\n", "payload\t{\"at\":\"{{nominal_at}}\"}\n",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in\n%s", want, shown)
		}
	}
}

func TestSchedules_AnUpdateKeepsWhatIsNotGiven(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("queues", "create", "reports")
	s.ok("schedules", "create", "nightly", "reports", "30 2 * * *", "one", "--kind", "report", "--header", "X-A=canary", "--missed", "all", "--missed-max", "7",
		"--jitter", "1m", "--paused")
	got := s.object("schedules", "update", "nightly", "--missed-grace", "6h", "--payload", `{"n":2}`)
	missed, item := got["missed"].(map[string]any), got["item"].(map[string]any)
	if missed["policy"] != "all" || missed["max"] != 7.0 || missed["grace"] != "21600s" || got["jitter"] != "60s" || got["paused"] != true {
		t.Errorf("a grace: got %v", got)
	}
	if item["kind"] != "report" || item["utf8"] != `{"n":2}` || item["encoding"] != "application/json" || item["headers"].(map[string]any)["X-A"] != client.Redacted {
		t.Errorf("a payload: got %v, want its type with it, and the rest as it was", item)
	}
	got = s.object("schedules", "update", "nightly", "--jitter", "0s", "--kind", "other", "--cron", "@daily", "--zone", "UTC")
	item = got["item"].(map[string]any)
	if got["jitter"] != nil || item["kind"] != "other" || item["utf8"] != `{"n":2}` || got["cron"] != "@daily" || got["zone"] != "UTC" || got["missed"].(map[string]any)["max"] != 7.0 {
		t.Errorf("others: got %v", got)
	}
	id := strings.TrimSpace(s.ok("schedules", "trigger", "nightly"))
	list := s.objects("items", "list", "reports", "--json")
	if len(list) != 1 || list[0]["id"] != id || list[0]["kind"] != "other" {
		t.Errorf("triggered %s: got %v", id, list)
	}
	leased := s.object("lease", "reports")
	if leased["headers"].(map[string]any)["X-A"] != "canary" {
		t.Errorf("got %v, want the header that was redacted", leased)
	}
	if r := s.run("", "schedules", "update", "nightly", "--kind", "x", "--revision", "1"); r.status != exitFailed || !strings.Contains(r.err.Error(), "revision_mismatch") {
		t.Errorf("of an old revision: got %v", r.err)
	}
}

// An update of the item writes what it has read; a change in between is not undone.
func TestSchedules_AnUpdateUndoesNoOther(t *testing.T) {
	changes := 0 // that come between what an update reads and what it writes
	s := newShell(t, inproc.Options{Front: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/schedules.update" && changes > 0 {
				changes--
				between := httptest.NewRequestWithContext(r.Context(), http.MethodPost, r.URL.Path, strings.NewReader(`{"name":"nightly","jitter":"3s"}`))
				between.Header.Set("Content-Type", "application/json")
				between.RemoteAddr = r.RemoteAddr
				next.ServeHTTP(httptest.NewRecorder(), between)
			}
			next.ServeHTTP(w, r)
		})
	}})
	s.ok("queues", "create", "reports")
	s.ok("schedules", "create", "nightly", "reports", "30 2 * * *", "one", "--paused")
	changes = 1
	if r := s.run("", "schedules", "update", "nightly", "--kind", "y"); r.status != exitFailed || !strings.Contains(r.err.Error(), "revision_mismatch") {
		t.Errorf("changed meanwhile: got %v", r.err)
	}
	if got := s.object("schedules", "update", "nightly", "--kind", "x"); got["item"].(map[string]any)["kind"] != "x" || got["jitter"] != "3s" {
		t.Errorf("got %v", got)
	}
}

func TestSchedules_PauseResumeListAndDelete(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("queues", "create", "reports")
	if r := s.run("from a file\n", "schedules", "create", "nightly", "reports", "30 2 * * *", "-f", "-"); r.err != nil || !strings.Contains(r.out, `payload	from a file\n`) {
		t.Errorf("of standard input: got %+v", r)
	}
	s.ok("schedules", "create", "done", "reports", "@hourly")
	s.ok("schedules", "update", "done", "--start-at", "2019-01-01T00:00:00Z", "--end-at", "2020-01-01T00:00:00Z")
	s.ok("schedules", "update", "done", "--end-at", "none")
	if got := s.object("schedules", "info", "done"); got["end_at"] != nil || got["start_at"] != "2019-01-01T00:00:00Z" || got["next_at"] == nil {
		t.Errorf("without its end: got %v", got)
	}
	if _, err := parse(t, "schedules", "update", "done", "--end-at", "soon"); err == nil || !strings.Contains(err.Error(), "--end-at: want an instant") {
		t.Errorf("an end that is no instant: got %v", err)
	}
	s.ok("schedules", "update", "done", "--end-at", "2020-01-01T00:00:00Z")
	if got := s.ok("schedules", "pause", "nightly"); got != "nightly: paused\n" {
		t.Errorf("pause: got %q", got)
	}
	if got, want := s.ok("schedules", "list"), "done\treports\t@hourly\tUTC\tover\t\t\nnightly\treports\t30 2 * * *\tUTC\tpaused\t\t\n"; got != want {
		t.Errorf("list: got\n%s\nwant\n%s", got, want)
	}
	if got := s.ok("schedules", "resume", "nightly"); !strings.HasPrefix(got, "nightly: active, next 20") || !strings.Contains(got, "T02:30:00Z (in ") {
		t.Errorf("resume: got %q", got)
	}
	if got := s.objects("schedules", "list", "--json"); len(got) != 2 || got[1]["name"] != "nightly" || got[1]["next_at"] == nil {
		t.Errorf("list: got %v", got)
	}
	if r := s.run("", "schedules", "delete", "nightly"); r.status != exitUsage || !strings.Contains(r.err.Error(), "--yes") {
		t.Errorf("delete without a word: got %v", r.err)
	}
	s.ok("schedules", "delete", "nightly", "--yes")
	if r := s.run("", "schedules", "info", "nightly"); r.status != exitFailed || !strings.Contains(r.err.Error(), "not_found") {
		t.Errorf("deleted: got %v", r.err)
	}
}

func TestSchedules_PreviewSaysWhatIsOddInTheZone(t *testing.T) {
	s := newShell(t, inproc.Options{})
	from := []string{"--from", "2026-03-07T12:00:00Z", "-n", "2"}
	const forward = "2026-03-08T03:00:00-04:00\tclocks go forward: runs at 03:00:00 instead of 02:30:00\n2026-03-09T02:30:00-04:00\t\n"
	described := append([]string{"schedules", "preview", "--cron", "30 2 * * *", "--zone", "America/New_York"}, from...)
	if got := s.ok(described...); got != forward {
		t.Errorf("got\n%s", got)
	}
	s.ok("queues", "create", "reports")
	s.ok("schedules", "create", "nightly", "reports", "30 2 * * *", "--zone", "America/New_York")
	if got := s.ok(append([]string{"schedules", "preview", "nightly"}, from...)...); got != forward {
		t.Errorf("of one that is there: got\n%s", got)
	}
	if got := s.objects(append(described, "--clocks-forward", "skip", "--json")...); len(got) != 2 || got[0]["local"] != "2026-03-09T02:30:00-04:00" || got[0]["at"] != "2026-03-09T06:30:00Z" {
		t.Errorf("skipped: got %v", got)
	}
}

func TestSchedules_ErrorsNameTheFlag(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("queues", "create", "q")
	s.ok("schedules", "create", "nightly", "q", "@daily")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"create", "s", "q", "@daily", "text", "-f", "x"}, "--file"},
		{[]string{"create", "s", "q", "@daily", "-f", "no/such/file"}, "--file"},
		{[]string{"create", "s", "q", "@daily", "--expire=-1s"}, "--expire"},
		{[]string{"create", "s", "q", "@daily", "--target-method", "GET"}, "--target-url"},
		{[]string{"update", "nightly"}, "nothing to change"},
		{[]string{"update", "nightly", "--revision", "7"}, "nothing to change"},
		{[]string{"update", "nightly", "--payload", "x", "-f", "x"}, "--file"},
		{[]string{"preview"}, "--cron"},
		{[]string{"preview", "nightly", "--zone", "UTC"}, "want one of them"},
		{[]string{"preview", "nightly", "--clocks-back", "both"}, "want one of them"},
	} {
		if r := s.run("", append([]string{"schedules"}, tt.args...)...); r.status != exitUsage || !strings.Contains(r.err.Error(), tt.want) {
			t.Errorf("%v: got status %d, %v; want it to name %s", tt.args, r.status, r.err, tt.want)
		}
	}
	if r := s.run("", "schedules", "create", "s", "q", "0 0 30 2 *"); r.status != exitFailed || !strings.Contains(r.err.Error(), "never fires") {
		t.Errorf("one that never fires: got %v", r.err)
	}
}

func TestScheduleRecord_TellsHowLateItWas(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	s := client.Schedule{
		Name: "a", NextAt: now.Add(time.Hour), LastAt: now.Add(-time.Hour), LastFiredAt: now.Add(-time.Hour + 5*time.Second),
		MissedCount: 3, SkippedCount: 2, Item: client.Item{Target: &client.Target{URL: "https://a.example/"}},
	}
	const want = "schedule  a\nstate     active\nnext      2030-01-31T09:00:00Z (in 1h)\n" +
		"last      2030-01-31T07:00:00Z (1h ago), fired 5s later\nmissed    3\nskipped   2\ntarget    https://a.example/\n"
	if got := onScreen(t, false, scheduleRecord(s, now).print); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
