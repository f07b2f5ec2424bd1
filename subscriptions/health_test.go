package subscriptions

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

func TestService_DisablingIsAnnouncedOnce(t *testing.T) {
	t.Parallel()
	s, kit := setup(t)
	ctx, ns := t.Context(), queue.DefaultNamespace
	p := params("billing", "orders")
	p.URL = new("https://user:canary@example.com:8443/canary?key=canary")
	if _, err := s.Create(ctx, p); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Disable(ctx, ns, "billing", "https://old.example", "gone"); err != nil || len(kit.announced) != 0 {
		t.Errorf("of another endpoint: %v, %v", kit.announced, err)
	}
	for range 2 {
		kit.announceErr = errors.New("no room") // does not stand in its way
		if sub, err := s.Disable(ctx, ns, "billing", *p.URL, "answered 410"); err != nil || !sub.Disabled {
			t.Errorf("got %v, %v", sub.State(), err)
		}
	}
	if len(kit.announced) != 1 {
		t.Fatalf("announced: %q", kit.announced)
	}
	got := kit.announced[0]
	want := `subscription.disabled {"subscription":"billing","queue_name":"orders","host":"example.com:8443","reason":"answered 410","at":"20`
	if !strings.HasPrefix(got, want) || strings.Contains(got, "canary") {
		t.Errorf("got  %s\nwant %s…", got, want)
	}
}

func TestService_MarksOfFailuresAreKeptAndTakenAway(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	ctx, ns := t.Context(), queue.DefaultNamespace
	sub, err := s.Create(ctx, params("billing", "orders"))
	if err != nil {
		t.Fatal(err)
	}
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	step := func(what string, written bool, want time.Time, f func() (Subscription, error)) {
		t.Helper()
		before := sub.Revision
		var err error
		if sub, err = f(); err != nil || !sub.FailingSince.Equal(want) || (sub.Revision != before) != written {
			t.Errorf("%s: got %v, %v, written %v", what, sub.FailingSince, err, sub.Revision != before)
		}
	}
	mark := func(url string, at time.Time) func() (Subscription, error) {
		return func() (Subscription, error) { return s.MarkFailing(ctx, ns, "billing", url, at) }
	}
	well := func() (Subscription, error) { return s.MarkWell(ctx, ns, "billing") }
	step("well before", false, time.Time{}, well)
	step("another endpoint", false, time.Time{}, mark("https://old.example", since))
	step("failing", true, since, mark(sub.URL, since))
	step("seen by a second node", false, since, mark(sub.URL, since.Add(time.Minute)))
	step("well", true, time.Time{}, well)
	step("failing again", true, since, mark(sub.URL, since))
	step("another URL", true, time.Time{}, func() (Subscription, error) {
		return s.Update(ctx, UpdateParams{Namespace: ns, Name: "billing", Change: Change{URL: new("https://example.com/new")}})
	})
	step("failing there", true, since, mark("https://example.com/new", since))
	if _, err := s.Disable(ctx, ns, "billing", sub.URL, "failing for 5 days"); err != nil {
		t.Fatal(err)
	}
	// Or the next failure would disable it at once.
	step("enabled", true, time.Time{}, func() (Subscription, error) { return s.Enable(ctx, ns, "billing") })
}
