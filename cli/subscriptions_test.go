package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
	"github.com/posthaste-io/posthaste/test/inproc"
)

// file returns the path of a new file that holds text.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSubscriptions_TakeAllSettings(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("queues", "create", "ends")
	got := s.object("subscriptions", "create", "any", "orders", "--allow-target", "--http2", "--format", "cloudevents", "--rate", "30/m",
		"--defer", "--defer-timeout", "1h", "--max-deferred", "7", "--log", "failures", "--on-done", "ends", "--disable-after", "0s")
	rate := got["rate"].(map[string]any)
	if got["url"] != nil || got["allow_target"] != true || got["http2"] != true || got["format"] != "cloudevents" ||
		rate["count"] != 30.0 || rate["period"] != "60s" || got["defer"] != true || got["defer_timeout"] != "3600s" ||
		got["max_deferred"] != 7.0 || got["log"] != "failures" || got["on_done"] != "ends" || got["retry"].(map[string]any)["disable_after"] != "0s" {
		t.Errorf("created: got %v", got)
	}
	shown := s.ok("subscriptions", "info", "any")
	for _, want := range []string{
		"targets\titems may bring their own\n", "rate\t30/m\n", "http\tHTTP/2\n", "format\tcloudevents\n",
		"defer\tup to 1h, 7 items at a time\n", "log\tfailures\n", "on done\tends\n",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in\n%s", want, shown)
		}
	}
	got = s.object("subscriptions", "update", "any", "--no-allow-target", "--no-defer", "--endpoint", "https://example.com/", "--rate", "0",
		"--log", "all", "--on-done", "", "--format", "plain", "--batch", "10", "--batch-wait", "2s")
	batch := got["batch"].(map[string]any)
	if got["allow_target"] != nil || got["defer"] != nil || got["rate"] != nil || got["log"] != "all" || got["on_done"] != nil || got["http2"] != true ||
		batch["max_items"] != 10.0 || batch["max_wait"] != "2s" {
		t.Errorf("updated: got %v", got)
	}
	got = s.object("subscriptions", "update", "any", "--batch-encoding", "multipart", "--no-http2")
	if batch := got["batch"].(map[string]any); batch["max_items"] != 10.0 || batch["max_wait"] != "2s" || batch["encoding"] != "multipart" || got["http2"] != nil {
		t.Errorf("one setting of a batch: got %v, want the others as they were", got)
	}
	if got := s.ok("subscriptions", "info", "any"); !strings.Contains(got, "batch\tup to 10 items or 1048576 bytes as multipart, waiting 2s\n") {
		t.Errorf("got\n%s", got)
	}
	if got := s.object("subscriptions", "update", "any", "--batch", "0"); got["batch"] != nil {
		t.Errorf("no batch: got %v", got)
	}
}

func TestSubscriptions_ReadCredentialsFromFilesAndKeepWhatIsNotGiven(t *testing.T) {
	s := newShell(t, inproc.Options{})
	r := s.run("canary-password\n", "subscriptions", "create", "shop", "orders", "https://shop.example/",
		"--auth-basic-user", "me", "--auth-password-file", "-", "--root-cas", file(t, "canary-roots"))
	if r.err != nil {
		t.Fatal(r.err)
	}
	if !strings.Contains(r.out, "auth\tbasic as me; own root certificates\n") || strings.Contains(r.out, "canary-password") {
		t.Errorf("created: got\n%s", r.out)
	}
	auth := s.object("subscriptions", "update", "shop", "--client-cert", file(t, "certificate"), "--client-key", file(t, "canary-key"))["auth"].(map[string]any)
	if basic := auth["basic"].(map[string]any); basic["username"] != "me" || basic["password"] != client.Redacted || auth["client_key"] != client.Redacted {
		t.Errorf("a certificate added: got %v, want the password kept", auth)
	}
	auth = s.object("subscriptions", "update", "shop", "--auth-bearer-file", file(t, "canary-token"))["auth"].(map[string]any)
	if auth["basic"] != nil || auth["bearer"] != client.Redacted || auth["client_key"] != client.Redacted {
		t.Errorf("a token in place of a password: got %v", auth)
	}
	auth = s.object("subscriptions", "update", "shop", "--oauth2-token-url", "https://login.example/", "--oauth2-client-id", "c",
		"--oauth2-secret-file", file(t, "canary-secret"), "--oauth2-scope", "a", "--oauth2-scope", "b")["auth"].(map[string]any)
	if oauth := auth["oauth2"].(map[string]any); auth["bearer"] != nil || oauth["client_secret"] != client.Redacted || len(oauth["scopes"].([]any)) != 2 {
		t.Errorf("OAuth2: got %v", auth)
	}
	auth = s.object("subscriptions", "update", "shop", "--oauth2-audience", "them")["auth"].(map[string]any)
	if oauth := auth["oauth2"].(map[string]any); oauth["audience"] != "them" || oauth["client_id"] != "c" {
		t.Errorf("one setting of OAuth2: got %v, want the others as they were", auth)
	}
	if got := s.object("subscriptions", "update", "shop", "--no-auth"); got["auth"] != nil {
		t.Errorf("--no-auth: got %v", got)
	}
}

func TestSubscriptions_RotateShowsTheSecretOnce(t *testing.T) {
	s := newShell(t, inproc.Options{})
	first := s.object("subscriptions", "create", "shop", "orders", "https://shop.example/")["secret"].(string)
	got := s.ok("subscriptions", "rotate", "shop", "--overlap", "2h")
	_, secret, _ := strings.Cut(strings.Split(got, "\n")[1], "\t")
	if !strings.HasPrefix(secret, "whsec_") || secret == first || !strings.Contains(got, "old secret until\t") || !strings.Contains(got, "(in 2h)") {
		t.Errorf("got\n%s", got)
	}
	if got := s.ok("subscriptions", "info", "shop"); strings.Contains(got, secret) || strings.Count(got, "old secret until\t") != 1 {
		t.Errorf("info: got\n%s", got)
	}
	own := "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	if r := s.run(own+"\n", "subscriptions", "rotate", "shop", "--secret-file", "-", "--overlap", "0s"); r.err != nil || !strings.Contains(r.out, "secret\t"+own+"\n") ||
		strings.Contains(r.out, "old secret") {
		t.Errorf("to one of ours, at once: got %+v", r)
	}
	if r := s.run("", "subscriptions", "rotate", "shop", "--revision", "1"); r.status != exitFailed || !strings.Contains(r.err.Error(), "revision_mismatch") {
		t.Errorf("of an old revision: got %v", r.err)
	}
}

func TestSubscriptions_ErrorsNameTheFlag(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("subscriptions", "create", "shop", "orders", "https://shop.example/")
	empty := file(t, "\n")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"create", "s", "q"}, "--allow-target"},
		{[]string{"create", "s", "q", "https://x/", "--auth-basic-user", "me"}, "--auth-password-file"},
		{[]string{"create", "s", "q", "https://x/", "--auth-basic-user", "me", "--auth-bearer-file", empty}, "want one of them"},
		{[]string{"create", "s", "q", "https://x/", "--auth-bearer-file", empty}, "--auth-bearer-file"},
		{[]string{"create", "s", "q", "https://x/", "--auth-bearer-file", "no/such/file"}, "--auth-bearer-file"},
		{[]string{"create", "s", "q", "https://x/", "--oauth2-client-id", "c"}, "--oauth2-secret-file"},
		{[]string{"create", "s", "q", "https://x/", "--client-cert", file(t, "x")}, "--client-key"},
		{[]string{"create", "s", "q", "https://x/", "--batch-wait", "1s"}, "go with --batch"},
		{[]string{"create", "s", "q", "https://x/", "--secret-file", "-", "--auth-bearer-file", "-"}, "standard input holds nothing"},
		{[]string{"update", "shop", "--batch", "0", "--batch-wait", "1s"}, "--batch 0"},
		{[]string{"update", "shop", "--no-auth", "--root-cas", empty}, "--no-auth"},
		{[]string{"update", "shop", "--no-filter", "--filter-kind", "order.*"}, "--no-filter"},
		{[]string{"update", "shop", "--no-filter", "--filter-on-error", "skip"}, "--no-filter"},
		{[]string{"update", "shop", "--filter-on-error", "skip"}, "--filter-cel"},
		{[]string{"create", "new", "events", "--topic", "--filter-on-error", "skip"}, "--filter-cel"},
		{[]string{"update", "shop", "--revision", "7"}, "nothing to change"},
		{[]string{"rotate", "shop", "--overlap=-1s"}, "--overlap"},
		{[]string{"test", "shop", "--target-method", "GET"}, "--target-url"},
	} {
		if r := s.run("", append([]string{"subscriptions"}, tt.args...)...); r.status != exitUsage || !strings.Contains(r.err.Error(), tt.want) {
			t.Errorf("%v: got status %d, %v; want it to name %s", tt.args, r.status, r.err, tt.want)
		}
	}
	if got := s.ok("subscriptions", "list"); strings.Count(got, "\n") != 1 {
		t.Errorf("got\n%s\nwant nothing made of what was refused", got)
	}
}

func TestPerPeriod_ReadsWhatItWrites(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]perPeriod{
		"100/s": {100, time.Second},
		"30/m":  {30, time.Minute},
		"1/h":   {1, time.Hour},
		"5/10s": {5, 10 * time.Second},
		"7/ms":  {7, time.Millisecond},
		"0":     {},
	} {
		var r perPeriod
		if err := r.UnmarshalText([]byte(text)); err != nil || r != want {
			t.Errorf("%q: got %+v, %v; want %+v", text, r, err, want)
		}
		if got := r.String(); got != strings.TrimPrefix(text, "0") {
			t.Errorf("%+v: wrote %q, want %q", r, got, text)
		}
	}
	var r perPeriod
	if err := r.UnmarshalText([]byte("100")); err != nil || r != (perPeriod{100, time.Second}) {
		t.Errorf("without a period: got %+v, %v", r, err)
	}
	for _, text := range []string{"", "x", "-1/s", "1/", "1/x", "1/0s", "1/-1s", "1.5/s"} {
		if err := new(perPeriod).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestMoment_IsAnInstantOrSoLongAgo(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{"15m": now.Add(-15 * time.Minute), "2029-12-31T23:00:00-01:00": time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)} {
		var m moment
		if err := m.UnmarshalText([]byte(text)); err != nil || !m.time(now).Equal(want) {
			t.Errorf("%q: got %v, %v; want %v", text, m.time(now), err, want)
		}
	}
	for _, text := range []string{"", "yesterday", "-1m", "2030-01-31"} {
		if err := new(moment).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	if at := (moment{}).time(now); !at.IsZero() {
		t.Errorf("none: got %v", at)
	}
}

func TestRedrive_TakesAsManyAsMayBeSpread(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rate client.Rate
		want int
	}{
		{client.Rate{Count: 100, Period: time.Second}, mostRedriven},
		{client.Rate{Count: 1, Period: time.Minute}, 43_200},
		{client.Rate{Count: 1, Period: 24 * time.Hour}, 30},
		{client.Rate{Count: 1, Period: 1000 * time.Hour}, 1},
	} {
		if got := mostWithin(tt.rate); got != tt.want {
			t.Errorf("%+v: got %d, want %d", tt.rate, got, tt.want)
		}
	}
}

func TestRedrive_SpreadsWhatItMoves(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("queues", "create", "orders")
	for range 3 {
		s.ok("produce", "orders", "x")
	}
	for _, it := range s.objects("lease", "orders", "-n", "9", "--json") {
		s.ok("bury", it["receipt"].(string))
	}
	if got := s.ok("redrive", "orders~dead", "--rate", "1/h", "--dry-run"); got != "3 items would be moved to where they came from\n" {
		t.Errorf("dry run: got %q", got)
	}
	if got := s.ok("redrive", "orders~dead", "--rate", "1/h"); !strings.HasPrefix(got, "3 items moved to where they came from; the last of them is due ") {
		t.Errorf("got %q", got)
	}
	if got := s.object("queues", "stats", "orders"); got["ready"] != 1.0 || got["scheduled"] != 2.0 {
		t.Errorf("stats: got %v, want one now and two later", got)
	}
}

func TestProduce_GivesTargetsAndWhoIsTold(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("subscriptions", "create", "any", "orders", "--allow-target", "--paused")
	s.ok("queues", "create", "ends")
	s.ok("produce", "orders", "x", "--target-url", "https://a.example/", "--target-method", "PUT", "--target-timeout", "5s", "--on-done", "ends")
	lines := `{"utf8":"y","target":{"url":"https://b.example/","method":"GET","timeout":"1m"},"on_done":"ends"}`
	if r := s.run(lines, "produce", "orders", "--lines"); r.err != nil {
		t.Fatal(r.err)
	}
	list := s.objects("items", "list", "orders", "--json")
	for i, want := range []map[string]any{
		{"url": "https://a.example/", "method": "PUT", "timeout": "5s"},
		{"url": "https://b.example/", "method": "GET", "timeout": "60s"},
	} {
		target := list[i]["target"].(map[string]any)
		if target["url"] != want["url"] || target["method"] != want["method"] || target["timeout"] != want["timeout"] || list[i]["on_done"] != "ends" {
			t.Errorf("item %d: got %v, want %v", i, list[i], want)
		}
	}
	if r := s.run("", "produce", "orders", "x", "--target-timeout", "5s"); r.status != exitUsage || !strings.Contains(r.err.Error(), "--target-url") {
		t.Errorf("half a target: got %v", r.err)
	}
}
