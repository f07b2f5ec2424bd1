package cli

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/apikeys"
	"github.com/posthaste-io/posthaste/test/inproc"
)

func TestQueues_ShowPartitionsThatDrain(t *testing.T) {
	s := newShell(t, inproc.Options{})
	if q := s.object("queues", "create", "clicks", "--partitions", "2"); q["requested_partitions"] != 2.0 || q["draining"] != nil {
		t.Errorf("created: got %v", q)
	}
	s.ok("produce", "clicks", "a")
	s.ok("produce", "clicks", "b")
	if q := s.object("queues", "update", "clicks", "--partitions", "1"); q["requested_partitions"] != 1.0 || q["draining"] == nil {
		t.Errorf("updated: got %v, want one partition and one that drains", q)
	}
	if got := s.ok("queues", "info", "clicks"); !strings.Contains(got, "1, and 1 that drain, with 1 item") {
		t.Errorf("info: got %s", got)
	}
}

func TestQueues_AreMadeChangedPausedAndDeleted(t *testing.T) {
	s := newShell(t, inproc.Options{})
	q := s.object("queues", "create", "orders", "--lease-timeout", "90s", "--max-attempts=-1", "--expire-timeout", "2h", "--reference", "mine")
	if q["queue_name"] != "orders" || q["lease_timeout"] != "90s" || q["max_attempts"] != -1.0 || q["expire_timeout"] != "7200s" || q["reference"] != "mine" {
		t.Errorf("created: got %v", q)
	}
	q = s.object("queues", "update", "orders", "--expire-timeout", "0s", "--reference", "", "--keep-ended", "1h")
	if q["expire_timeout"] != nil || q["reference"] != nil || q["keep_ended"] != "3600s" || q["lease_timeout"] != "90s" {
		t.Errorf("updated: got %v, want expiry and note gone, and the rest as it was", q)
	}
	if r := s.run("", "queues", "update", "orders"); r.status != exitUsage {
		t.Errorf("an update of nothing: got %v", r.err)
	}
	if r := s.run("", "queues", "update", "orders", "--max-attempts", "3", "--revision", "1"); r.status != exitFailed || !strings.Contains(r.err.Error(), "revision_mismatch") {
		t.Errorf("an update of an old revision: got %v", r.err)
	}
	if got := s.ok("queues", "pause", "orders", "--side", "produce"); got != "orders: paused: produce\n" {
		t.Errorf("pause: got %q", got)
	}
	if r := s.run("", "produce", "orders", "x"); r.status != exitFailed || !strings.Contains(r.err.Error(), "queue_paused") {
		t.Errorf("produce to a paused queue: got %v", r.err)
	}
	if got := s.ok("queues", "resume", "orders"); got != "orders: nothing is paused\n" {
		t.Errorf("resume: got %q", got)
	}
	if got := s.ok("queues", "reload", "orders"); got != "orders: read again\n" {
		t.Errorf("reload: got %q", got)
	}
	s.ok("queues", "create", "bills")
	if got := s.ok("queues", "list"); !strings.HasPrefix(got, "bills\t1m\t25\t") || strings.Count(got, "\n") != 2 {
		t.Errorf("list: got %q, want a line a queue, by name", got)
	}
	if list := s.objects("queues", "list", "--json"); len(list) != 2 || list[1]["queue_name"] != "orders" {
		t.Errorf("list: got %v", list)
	}
	s.ok("queues", "delete", "bills")
	if r := s.run("", "queues", "info", "bills"); r.status != exitFailed || !strings.Contains(r.err.Error(), "request id: ") {
		t.Errorf("info of a queue that is gone: got status %d, %v", r.status, r.err)
	}
}

func TestProduce_TakesAPayloadFromEverywhere(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("queues", "create", "orders")
	file := filepath.Join(t.TempDir(), "payload")
	if err := os.WriteFile(file, []byte("\xff\x00 from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.ok("produce", "orders", `{"order": 17}`, "-k", "order.paid", "-H", "X-A=b=c; d", "--reference", "r")
	s.ok("produce", "orders", "-f", file)
	if r := s.run("from a pipe", "produce", "orders"); r.err != nil {
		t.Fatal(r.err)
	}
	s.ok("produce", "orders", "")
	list := s.objects("lease", "orders", "-n", "10", "--json")
	if len(list) != 4 {
		t.Fatalf("leased %d items, want 4", len(list))
	}
	first := list[0]
	if first["utf8"] != `{"order": 17}` || first["encoding"] != "application/json" || first["kind"] != "order.paid" || first["reference"] != "r" ||
		first["headers"].(map[string]any)["X-A"] != "b=c; d" || first["attempts"] != 1.0 {
		t.Errorf("got %v", first)
	}
	if list[1]["bytes"] != "/wAgZnJvbSBhIGZpbGU=" || list[1]["utf8"] != nil || list[1]["encoding"] != nil {
		t.Errorf("bytes: got %v", list[1])
	}
	if list[2]["utf8"] != "from a pipe" || list[2]["encoding"] != "text/plain; charset=utf-8" {
		t.Errorf("text: got %v", list[2])
	}
	if list[3]["utf8"] != "" {
		t.Errorf("nothing: got %v", list[3])
	}
}

func TestProduce_SaysWhatWasKnownAlready(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("queues", "create", "orders")
	first := s.ok("produce", "orders", "x", "--key", "k-1")
	r := s.run("", "produce", "orders", "x", "--key", "k-1")
	if r.err != nil || r.out != first || !strings.Contains(r.errors, "the key is known") {
		t.Errorf("got %+v, want the id %q and a note", r, first)
	}
	r = s.run("", "produce", "orders", "y", "--key", "k-1")
	if r.status != exitFailed || !strings.Contains(r.err.Error(), "field: items[0].idempotency_key") {
		t.Errorf("got %+v", r)
	}
}

func TestCommands_RefuseWhatMakesNoSense(t *testing.T) {
	s := newShell(t, inproc.Options{})
	for _, args := range [][]string{
		{"produce", "q", "x", "--delay", "1s", "--at", "2030-01-31T08:00:00Z"},
		{"produce", "q", "x", "--delay=-1s"},
		{"produce", "q", "x", "--lines"},
		{"produce", "q", "--lines", "--kind", "k"},
		{"produce", "q", "--lines", "--concurrency", "0"},
		{"lease", "q", "-n", "0"},
		{"complete", "-"},
		{"retry", "r", "--delay", "1s", "--at", "2030-01-31T08:00:00Z"},
		{"queues", "clear", "q"},
		{"items", "cancel"},
		{"items", "cancel", "id", "--kind", "k"},
		{"items", "list", "q", "--limit=-1"},
		{"redrive", "q", "--limit=-1"},
		{"top", "--every", "1ms"},
		{"tail", "--every", "1ms"},
		{"attempts", "list", "--limit=-1"},
		{"subscriptions", "update", "s"},
		{"queues", "list", "--url", "localhost:2319"},
		{"queues", "list", "--key-file", "no/such/file"},
	} {
		if r := s.run("", args...); r.status != exitUsage {
			t.Errorf("%v: got status %d, %v; want %d", args, r.status, r.err, exitUsage)
		}
	}
}

func TestSettle_ByReceiptAndByPipe(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("queues", "create", "orders", "--keep-ended", "1h")
	lease := func(n int) []string {
		t.Helper()
		var receipts []string
		for range n {
			s.ok("produce", "orders", "x")
		}
		for _, it := range s.objects("lease", "orders", "-n", "9", "--json") {
			receipts = append(receipts, it["receipt"].(string))
		}
		if len(receipts) != n {
			t.Fatalf("leased %d items, want %d", len(receipts), n)
		}
		return receipts
	}
	two := lease(2)
	if r := s.run(strings.Join(two, "\n"), "complete", "-", "--result", "fine"); r.err != nil || strings.Count(r.out, "\tcompleted\n") != 2 {
		t.Errorf("complete: got %+v", r)
	}
	r := s.run("", "complete", two[0])
	if r.status != exitFailed || r.out != two[0]+"\tnot_found\n" || !strings.Contains(r.err.Error(), "stale_lease") {
		t.Errorf("complete again: got %+v", r)
	}
	one := lease(1)
	if got := s.object("extend", one[0], "--lease-timeout", "5m"); got["status"] != "ok" || got["lease_deadline"] == nil || got["receipt"] != one[0] {
		t.Errorf("extend: got %v", got)
	}
	if got := s.object("release", one[0]); got["status"] != "ok" {
		t.Errorf("release: got %v", got)
	}
	if r := s.run("", "extend", one[0]); r.status != exitFailed || !strings.Contains(r.out, "stale_lease") {
		t.Errorf("extend of a lease that is over: got %+v", r)
	}
	again := s.object("lease", "orders")["receipt"].(string)
	if got := s.object("bury", again, "--reason", "broken"); got["status"] != "ok" {
		t.Errorf("bury: got %v", got)
	}
}

func TestSettle_AReceiptThatCameByAPushNeedsNoKey(t *testing.T) {
	key, err := apikeys.New("test")
	if err != nil {
		t.Fatal(err)
	}
	s := newShell(t, inproc.Options{Access: api.NewKeyAccess(key.Record()), Pushes: true})
	receipts := make(chan string, 9)
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("posthaste-lease", "keep")
		w.WriteHeader(http.StatusAccepted)
		receipts <- r.Header.Get("posthaste-receipt")
	}))
	defer endpoint.Close()
	t.Setenv("POSTHASTE_KEY", key.Reveal())
	s.ok("queues", "create", "orders", "--keep-ended", "1h")
	s.ok("subscriptions", "create", "slow", "orders", endpoint.URL, "--defer")
	id := strings.TrimSpace(s.ok("produce", "orders", "x"))
	receipt := <-receipts

	t.Setenv("POSTHASTE_KEY", "")
	if r := s.run("", "queues", "list"); r.status != exitFailed || !strings.Contains(r.err.Error(), "unauthenticated") {
		t.Fatalf("without a key: got %+v, want a server that wants one", r)
	}
	s.ok("extend", receipt, "--lease-timeout", "1h")
	s.ok("complete", receipt, "--result", "fine")
	if r := s.run("", "complete", receipt); r.status != exitFailed {
		t.Errorf("the same again: got %+v", r)
	}
	t.Setenv("POSTHASTE_KEY", key.Reveal())
	if got := s.ok("items", "wait", id); !strings.Contains(got, "state\tcompleted\n") || !strings.Contains(got, "result\tfine\n") {
		t.Errorf("got\n%s", got)
	}
}

func TestDeadLetters_AreSeenAndMovedBack(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("queues", "create", "orders", "--max-attempts", "1")
	s.ok("produce", "orders", "x", "-k", "a")
	receipt := s.object("lease", "orders")["receipt"].(string)
	if got := s.object("retry", receipt, "--reason", "no luck"); got["buried"] != true {
		t.Errorf("retry of the last attempt: got %v, want it buried", got)
	}
	if got := s.ok("items", "list", "orders~dead"); !strings.Contains(got, "\tburied: max_attempts\ta\t") {
		t.Errorf("list: got %q", got)
	}
	if got := s.ok("redrive", "orders~dead", "--dry-run"); got != "1 item would be moved to where they came from\n" {
		t.Errorf("dry run: got %q", got)
	}
	if got := s.object("redrive", "orders~dead", "--kind", "b"); got["moved"] != 0.0 {
		t.Errorf("redrive of another kind: got %v", got)
	}
	if got := s.object("redrive", "orders~dead"); got["moved"] != 1.0 || got["more"] != false {
		t.Errorf("redrive: got %v", got)
	}
	if got := s.object("queues", "stats", "orders"); got["ready"] != 1.0 || got["total"] != 1.0 {
		t.Errorf("stats: got %v", got)
	}
}

func TestItems_InfoWaitCancelList(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("queues", "create", "orders", "--keep-ended", "1h")
	id := strings.TrimSpace(s.ok("produce", "orders", "x", "--delay", "1h"))
	if got := s.object("items", "info", id); got["state"] != "scheduled" || got["why"] != "scheduled" || got["next_at"] == nil {
		t.Errorf("info: got %v", got)
	}
	if r := s.run("", "items", "wait", id, "--wait", "10ms"); r.status != exitNothing {
		t.Errorf("wait for what has not ended: got %+v", r)
	}
	if got := s.objects("items", "list", "orders", "--scheduled", "--json"); len(got) != 1 || got[0]["id"] != id || got[0]["payload"] != "eA==" {
		t.Errorf("list: got %v", got)
	}
	done := strings.TrimSpace(s.ok("produce", "orders", "y"))
	s.ok("complete", s.object("lease", "orders")["receipt"].(string), "--result", "fine")
	if r := s.run("", "items", "wait", done); r.err != nil || !strings.Contains(r.out, "result\tfine\n") {
		t.Errorf("wait for what is completed: got %+v", r)
	}
	if got := s.ok("items", "cancel", id); got != "1 item cancelled\n" {
		t.Errorf("cancel: got %q", got)
	}
	if r := s.run("", "items", "wait", id); r.status != exitFailed || !strings.Contains(r.err.Error(), "cancelled") {
		t.Errorf("wait for what was cancelled: got %+v", r)
	}
	if r := s.run("", "items", "cancel", id); r.status != exitFailed || !strings.Contains(r.err.Error(), "not found: "+id) {
		t.Errorf("cancel again: got %+v", r)
	}
	for range 3 {
		s.ok("produce", "orders", "z")
	}
	if r := s.run("", "items", "list", "orders", "--limit", "2"); strings.Count(r.out, "\n") != 2 || !strings.Contains(r.errors, "there are more") {
		t.Errorf("a list with a limit: got %+v", r)
	}
}

func TestDestroying_WantsYesWhereNobodyCanBeAsked(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("queues", "create", "orders")
	s.ok("produce", "orders", "x")
	s.ok("produce", "orders", "x", "--delay", "1h", "-k", "later")
	for _, args := range [][]string{
		{"queues", "clear", "orders", "--ready"},
		{"queues", "delete", "orders", "--force"},
		{"items", "cancel", "--queue", "orders", "--kind", "later"},
	} {
		if r := s.run("y\n", args...); r.status != exitUsage || !strings.Contains(r.err.Error(), "--yes") {
			t.Errorf("%v: got %+v", args, r)
		}
	}
	if got := s.object("queues", "stats", "orders")["total"]; got != 2.0 {
		t.Fatalf("%v items are left of 2 that nobody agreed to cancel", got)
	}
	if got := s.ok("items", "cancel", "--queue", "orders", "--kind", "later", "--yes"); got != "1 item cancelled\n" {
		t.Errorf("cancel by filter: got %q", got)
	}
	if got := s.object("queues", "clear", "orders", "--ready", "--yes")["count"]; got != 1.0 {
		t.Errorf("clear: got %v", got)
	}
	s.ok("produce", "orders", "x")
	if r := s.run("", "queues", "delete", "orders"); r.status != exitFailed || !strings.Contains(r.err.Error(), "not_empty") {
		t.Errorf("delete of what is not empty: got %+v", r)
	}
	s.ok("queues", "delete", "orders", "--force", "-y")
}

func TestQueues_CountWhatStandsBehindAKey(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("queues", "create", "orders")
	for range 3 {
		s.ok("produce", "orders", "x", "--ordering-key", "17")
	}
	if got := s.ok("queues", "stats", "orders"); !strings.HasPrefix(got, "orders\t1\t0\t2\t0\t0\t3\t") {
		t.Errorf("got %q, want 1 ready, none scheduled, 2 behind, none leased or failing, of 3", got)
	}
	s.wantAsked([]string{"queues", "clear", "orders", "--ready"}, "3 items")
	if got := s.object("queues", "clear", "orders", "--ready", "--yes")["count"]; got != 3.0 {
		t.Errorf("cleared %v of 3 that were told of", got)
	}
}

func TestConfirm_TakesYesAndNothingElse(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]bool{"y\n": true, "Yes\n": true, "\n": false, "n\n": false, "yeah\n": false, "": false, "y": true} {
		var asked strings.Builder
		c := &console{in: strings.NewReader(answer), err: &asked, asks: true}
		err := c.confirm(t.Context(), false, "Really?")
		if (err == nil) != want || asked.String() != "Really? [y/N] " {
			t.Errorf("%q: got %v after %q", answer, err, asked.String())
		}
	}
}

func TestConfirm_EndsWhenItIsInterrupted(t *testing.T) {
	t.Parallel()
	in, feed := io.Pipe()
	defer feed.Close() // nobody answers before
	ctx, cancel := context.WithCancelCause(t.Context())
	asked := writer(func(p []byte) (int, error) {
		cancel(errors.New("signal: interrupt"))
		return len(p), nil
	})
	c := &console{in: in, err: asked, asks: true}
	if err := explain(ctx, c.confirm(ctx, false, "Really?")); err == nil || err.(*statusError).ExitStatus() != exitInterrupted {
		t.Errorf("got %v", err)
	}
}

func TestSubscriptions_AreMadeChangedAndPaused(t *testing.T) {
	s := newShell(t, inproc.Options{})
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	headers := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(headers, []byte("X-Token: a:b\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := s.object("subscriptions", "create", "shop", "orders", "https://shop.example/hook", "--secret-file", secret,
		"--schedule", "1s,1m", "--bury-on", "400,422", "-H", "Accept=text/plain", "--header-file", headers, "--max-in-flight", "3")
	retry := got["retry"].(map[string]any)
	if got["secret"] != "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" || got["max_in_flight"] != 3.0 || got["queue_name"] != "orders" ||
		len(retry["schedule"].([]any)) != 2 || retry["schedule"].([]any)[1] != "60s" || len(retry["bury_on"].([]any)) != 2 {
		t.Errorf("created: got %v", got)
	}
	if got := s.object("subscriptions", "update", "shop", "--timeout", "5s"); got["timeout"] != "5s" || got["max_in_flight"] != 3.0 || got["secret"] != nil {
		t.Errorf("updated: got %v", got)
	}
	if got := s.ok("subscriptions", "info", "shop"); !strings.Contains(got, "retry\t12 attempts; after 1s, 1m; given up after 7d; buried at once on 400 422; disabled after 5d of failures\n") ||
		!strings.Contains(got, "header\tAccept: text/plain\nheader\tX-Token: [redacted]\n") {
		t.Errorf("info: got\n%s", got)
	}
	for _, step := range [][2]string{{"pause", "shop: paused\n"}, {"resume", "shop: active\n"}, {"enable", "shop: active\n"}} {
		if got := s.ok("subscriptions", step[0], "shop"); got != step[1] {
			t.Errorf("%s: got %q, want %q", step[0], got, step[1])
		}
	}
	if got := s.ok("subscriptions", "list"); got != "shop\torders\tactive\thttps://shop.example/hook\n" {
		t.Errorf("list: got %q", got)
	}
	s.ok("subscriptions", "delete", "shop", "--yes")
	if got := s.ok("subscriptions", "list"); got != "" {
		t.Errorf("list after the deletion: got %q", got)
	}
}

func TestLease_GivesBackWhatNobodyReads(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("queues", "create", "orders")
	s.ok("produce", "orders", "x")
	if r := s.runTo(t.Context(), &broken{}, strings.NewReader(""), "lease", "orders"); r.status != exitFailed || !strings.Contains(r.err.Error(), "broken pipe") {
		t.Errorf("got %+v", r)
	}
	if got := s.object("queues", "stats", "orders"); got["ready"] != 1.0 || got["total_leased"] != 0.0 {
		t.Errorf("got %v, want the item ready again", got)
	}
}

func TestLease_EndsWhenItIsInterrupted(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("queues", "create", "orders")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for s.object("queues", "stats", "orders")["lease_waiting"] != 1.0 {
			if t.Context().Err() != nil {
				return
			}
		}
		cancel(errors.New("signal: interrupt"))
	}()
	r := s.runTo(ctx, new(strings.Builder), strings.NewReader(""), "lease", "orders", "--wait", "1m")
	if r.status != exitInterrupted || !strings.Contains(r.err.Error(), "signal: interrupt") {
		t.Errorf("got %+v", r)
	}
	if r := s.run("", "lease", "orders", "--wait", "10ms"); r.status != exitNothing {
		t.Errorf("a wait that is over: got %+v", r)
	}
}

func TestKey_IsTakenFromAFileOrAVariable(t *testing.T) {
	key, err := apikeys.New("test")
	if err != nil {
		t.Fatal(err)
	}
	s := newShell(t, inproc.Options{Access: api.NewKeyAccess(key.Record())})
	r := s.run("", "queues", "list")
	if r.status != exitFailed || !strings.Contains(r.err.Error(), "unauthenticated") || !strings.Contains(r.err.Error(), "--key-file") {
		t.Errorf("without a key: got %+v", r)
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(key.Reveal()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.ok("queues", "list", "--key-file", file)
	t.Setenv("POSTHASTE_KEY", key.Reveal())
	s.ok("queues", "list")
}
