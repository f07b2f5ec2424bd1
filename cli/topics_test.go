package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/posthaste-io/posthaste/test/inproc"
)

func TestTopics_Life(t *testing.T) {
	s := newShell(t, inproc.Options{})
	if got := s.object("topics", "create", "events", "--reference", "who did what"); got["topic"] != "events" || got["subscriptions"] != 0.0 {
		t.Errorf("created: got %v", got)
	}
	if got := s.object("produce", "events", "nobody"); got["copies"] != 0.0 {
		t.Errorf("nobody listens: got %v, want no copies, said", got)
	}
	if got := s.object("subscriptions", "create", "pull", "events", "--topic"); got["topic"] != "events" || got["queue_name"] != "events~pull" {
		t.Errorf("subscribed: got %v", got)
	}
	s.ok("subscriptions", "create", "push", "events", "https://example.com/hook", "--topic", "--paused")
	if got := s.object("produce", "events", "one"); got["copies"] != 2.0 {
		t.Errorf("two listen: got %v", got)
	}
	if got := s.object("lease", "events~pull"); got["utf8"] != "one" {
		t.Errorf("leased: got %v", got)
	}
	shown := s.ok("topics", "info", "events")
	for _, want := range []string{"reference\twho did what\n", "subscriptions\t2\n"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in\n%s", want, shown)
		}
	}
	if shown := s.ok("subscriptions", "info", "push"); !strings.Contains(shown, "topic\tevents\n") {
		t.Errorf("no topic in\n%s", shown)
	}
	if got := s.object("topics", "update", "events", "--reference", "new"); got["reference"] != "new" {
		t.Errorf("updated: got %v", got)
	}
	if list := s.objects("topics", "list", "--json"); len(list) != 1 || list[0]["subscriptions"] != 2.0 {
		t.Errorf("listed: got %v", list)
	}
	if got := s.ok("__complete", "--", "topics", "info", ""); strings.TrimSpace(got) != "events" {
		t.Errorf("completed: got %q, want events", got)
	}
	s.ok("subscriptions", "create", "first", "orders", "https://example.com/hook", "--paused")
	s.ok("produce", "orders", "one")
	if got := s.object("topics", "create", "orders", "--from-queue"); got["topic"] != "orders" || got["subscriptions"] != 1.0 {
		t.Errorf("from a queue: got %v", got)
	}
	if got := s.object("lease", "orders~first"); got["utf8"] != "one" {
		t.Errorf("leased: got %v", got)
	}
	s.ok("topics", "delete", "orders", "--force", "--yes")
	if got := s.ok("topics", "delete", "events", "--force", "--yes"); got != "events deleted\n" {
		t.Errorf("deleted: printed %q", got)
	}
	if list := s.objects("subscriptions", "list", "--json"); len(list) != 0 {
		t.Errorf("left: %v", list)
	}
}

func TestTopics_ProduceSaysThatNobodyGetsAnItem(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("topics", "create", "events")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"produce", "events", "one"}, "events has no subscriptions"},
		{[]string{"subscriptions", "create", "orders", "events", "--topic", "--filter-kind", "order.*"}, ""},
		{[]string{"produce", "events", "two", "--kind", "user.made"}, "no filter"},
		{[]string{"produce", "events", "three", "--kind", "order.paid"}, ""},
	} {
		r := s.run("", tt.args...)
		if r.err != nil || !strings.Contains(r.errors, tt.want) || tt.want == "" && r.errors != "" {
			t.Errorf("%v: %+v; want %q said beside", tt.args, r, tt.want)
		}
	}
	r := s.run(`{"kind":"user.made"}`+"\n"+`{"kind":"order.paid"}`+"\n", "produce", "events", "--lines")
	if r.err != nil || r.out != "2 lines kept, 1 of them taken by no subscription\n" {
		t.Errorf("lines: %+v", r)
	}
}

func TestTopics_LinesAreSentInCallsThatTheTopicTakes(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("topics", "create", "events")
	for i := range 21 { // 500 lines are 10,500 copies
		s.ok("subscriptions", "create", fmt.Sprint("s", i), "events", "--topic")
	}
	r := s.run(strings.Repeat("{}\n", 500), "produce", "events", "--lines")
	if r.err != nil || r.out != "500 lines kept\n" {
		t.Errorf("got %+v", r)
	}
}

func TestTopics_ASubscriptionWithoutURLIsShownAsOne(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("topics", "create", "events")
	if got := s.ok("topics", "list"); got != "events\t0\t\n" {
		t.Errorf("nobody subscribes: listed %q", got)
	}
	if got := s.ok("topics", "info", "events"); !strings.Contains(got, "subscriptions\t0\n") {
		t.Errorf("nobody subscribes: shown\n%s", got)
	}
	if got := s.ok("subscriptions", "create", "pull", "events", "--topic"); strings.Contains(got, "POST") || !strings.Contains(got, "url\tnone, it is pulled from events~pull\n") {
		t.Errorf("shown\n%s", got)
	}
	if got := s.ok("subscriptions", "create", "each", "orders", "--allow-target"); strings.Contains(got, "url\t") {
		t.Errorf("items bring their own: shown\n%s", got)
	}
}

func TestTopics_DeleteAsksBeforeSubscriptionsGo(t *testing.T) {
	s := newShell(t, inproc.Options{})
	s.ok("topics", "create", "events")
	s.ok("subscriptions", "create", "billing", "events", "--topic")
	s.ok("subscriptions", "create", "search", "events", "--topic")
	s.ok("produce", "events", "one")
	s.wantAsked([]string{"topics", "delete", "events", "--force"}, "events", "2 subscriptions", "each with its queue and all items in it")
	s.wantAsked([]string{"subscriptions", "delete", "billing"}, "billing", "events~billing", "1 item", "secret")
	if got := s.object("topics", "info", "events"); got["subscriptions"] != 2.0 {
		t.Errorf("nobody said yes: got %v", got)
	}
	s.ok("subscriptions", "delete", "billing", "--yes")
	if got := s.object("topics", "delete", "events", "--force", "--yes"); got["topic"] != "events" {
		t.Errorf("deleted: got %v", got)
	}
	if r := s.run("", "topics", "delete", "events", "--force"); r.status != exitFailed {
		t.Errorf("deleted twice: status %d: %v; want it refused, and nothing asked", r.status, r.err)
	}
	s.ok("subscriptions", "create", "shop", "orders", "https://example.com/hook")
	asked := s.run("", "subscriptions", "delete", "shop")
	if asked.status != exitUsage || strings.Contains(asked.err.Error(), "item") {
		t.Errorf("the queue stays: status %d: %v", asked.status, asked.err)
	}
}

// wantAsked runs a command that must ask first, and finds nobody to ask. It checks what is
// in the question.
func (s *shell) wantAsked(args []string, parts ...string) {
	s.t.Helper()
	r := s.run("", args...)
	if r.status != exitUsage || r.err == nil {
		s.t.Fatalf("%v: status %d: %v; want it to ask", args, r.status, r.err)
	}
	for _, part := range parts {
		if !strings.Contains(r.err.Error(), part) {
			s.t.Errorf("%v: asks %q, want %q in it", args, r.err, part)
		}
	}
}
