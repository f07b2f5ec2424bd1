package cli

import (
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
	s.ok("topics", "delete", "events", "--force")
	if list := s.objects("subscriptions", "list", "--json"); len(list) != 0 {
		t.Errorf("left: %v", list)
	}
}
