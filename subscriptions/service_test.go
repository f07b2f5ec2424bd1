package subscriptions

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

func TestService_CreateFillsInDefaults(t *testing.T) {
	t.Parallel()
	s, kit := setup(t)
	sub, err := s.Create(t.Context(), params("billing", "orders"))
	if err != nil {
		t.Fatal(err)
	}
	if sub.Method != "POST" || sub.Timeout != 30*time.Second || sub.MaxInFlight != 32 {
		t.Errorf("got %s, %s, %d", sub.Method, sub.Timeout, sub.MaxInFlight)
	}
	p := sub.Retry
	if p.MaxAttempts != 12 || p.MinBackoff != 5*time.Second || p.Multiplier != 3 ||
		p.MaxBackoff != 12*time.Hour || p.GiveUpAfter != 7*24*time.Hour {
		t.Errorf("got %+v", p)
	}
	if sub.State() != Active {
		t.Errorf("got state %v, want active", sub.State())
	}
	if len(sub.Secrets) != 1 || sub.Secrets[0].Secret != madeSecret {
		t.Errorf("got %d secrets, want the one that was made", len(sub.Secrets))
	}
	if !slices.Equal(kit.made, []string{"orders"}) {
		t.Errorf("queues made: %v", kit.made)
	}
	got, err := s.Get(t.Context(), queue.DefaultNamespace, "billing")
	if err != nil || got.Revision != sub.Revision || got.Secrets[0].Secret.Reveal() != sub.Secrets[0].Secret.Reveal() {
		t.Errorf("get after create: %v, %v", got, err)
	}
}

func TestService_CreateNamesTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		field  string
		change func(*CreateParams)
	}{
		{"name", func(p *CreateParams) { p.Name = "a~b" }},
		{"queue_name", func(p *CreateParams) { p.Queue = "" }},
		{"url", func(p *CreateParams) { p.URL = nil }},
		{"url", func(p *CreateParams) { p.URL = new("bad") }},
		{"method", func(p *CreateParams) { p.Method = new("TRACE") }},
		{"headers", func(p *CreateParams) { p.Headers = map[string]string{"bad": ""} }},
		{"secret", func(p *CreateParams) { p.Secret = "bad canary" }},
		{"timeout", func(p *CreateParams) { p.Timeout = new(999 * time.Millisecond) }},
		{"timeout", func(p *CreateParams) { p.Timeout = new(30*time.Minute + 1) }},
		{"max_in_flight", func(p *CreateParams) { p.MaxInFlight = new(0) }},
		{"max_in_flight", func(p *CreateParams) { p.MaxInFlight = new(1001) }},
		{"retry.max_attempts", func(p *CreateParams) { p.Retry.MaxAttempts = new(int32(0)) }},
		{"retry.max_attempts", func(p *CreateParams) { p.Retry.MaxAttempts = new(int32(-2)) }},
		{"retry.min_backoff", func(p *CreateParams) { p.Retry.MinBackoff = new(time.Duration(0)) }},
		{"retry.max_backoff", func(p *CreateParams) { p.Retry.MaxBackoff = new(time.Second) }},
		{"retry.multiplier", func(p *CreateParams) { p.Retry.Multiplier = new(0.5) }},
		{"retry.multiplier", func(p *CreateParams) { p.Retry.Multiplier = new(nan()) }},
		{"retry.schedule[1]", func(p *CreateParams) { p.Retry.Schedule = []time.Duration{0, -1} }},
		{"retry.schedule", func(p *CreateParams) { p.Retry.Schedule = make([]time.Duration, 101) }},
		{"retry.schedule", func(p *CreateParams) {
			p.Retry.Schedule, p.Retry.MinBackoff = []time.Duration{time.Second}, new(time.Second)
		}},
		{"retry.give_up_after", func(p *CreateParams) { p.Retry.GiveUpAfter = new(-time.Second) }},
		{"retry.bury_on[0]", func(p *CreateParams) { p.Retry.BuryOn = []int32{200} }},
		{"retry.disable_after", func(p *CreateParams) { p.Retry.DisableAfter = new(time.Minute) }},
		{"retry.disable_after", func(p *CreateParams) { p.Retry.DisableAfter = new(91 * 24 * time.Hour) }},
		{"rate.count", func(p *CreateParams) { p.Rate = &Rate{Period: time.Second} }},
		{"rate.count", func(p *CreateParams) { p.Rate = &Rate{Count: 1_000_001, Period: time.Second} }},
		{"rate.period", func(p *CreateParams) { p.Rate = &Rate{Count: 5} }},
		{"rate.period", func(p *CreateParams) { p.Rate = &Rate{Count: 5, Period: 25 * time.Hour} }},
		{"format", func(p *CreateParams) { p.Format = new(Format("xml")) }},
		{"log", func(p *CreateParams) { p.Log = new(LogPolicy("some")) }},
		{"defer_timeout", func(p *CreateParams) { p.Defer.Timeout = new(time.Millisecond) }},
		{"defer_timeout", func(p *CreateParams) { p.Defer.Timeout = new(169 * time.Hour) }},
		{"max_deferred", func(p *CreateParams) { p.Defer.Max = new(0) }},
		{"max_deferred", func(p *CreateParams) { p.Defer.Max = new(100_001) }},
		{"batch.max_items", func(p *CreateParams) { p.Batch = &Batch{MaxItems: 1001} }},
		{"batch.max_items", func(p *CreateParams) { p.Batch = &Batch{MaxItems: -1} }},
		{"batch.max_items", func(p *CreateParams) { p.Batch = &Batch{MaxWait: time.Second} }},
		{"batch.max_bytes", func(p *CreateParams) { p.Batch = &Batch{MaxItems: 2, MaxBytes: 1023} }},
		{"batch.max_bytes", func(p *CreateParams) { p.Batch = &Batch{MaxItems: 2, MaxBytes: 4<<20 + 1} }},
		{"batch.max_wait", func(p *CreateParams) { p.Batch = &Batch{MaxItems: 2, MaxWait: 61 * time.Second} }},
		{"batch.encoding", func(p *CreateParams) { p.Batch = &Batch{MaxItems: 2, Encoding: "tar"} }},
		{"batch", func(p *CreateParams) { p.Batch, p.Defer.Allowed = &Batch{MaxItems: 2}, new(true) }},
		{"batch", func(p *CreateParams) { p.Batch, p.AllowTarget = &Batch{MaxItems: 2}, new(true) }},
		{"headers", func(p *CreateParams) {
			p.Format, p.Headers = new(FormatCloudEvents), map[string]string{"content-type": "text/plain"}
		}},
		{"on_done", func(p *CreateParams) { p.OnDone = new("orders") }},
		{"on_done", func(p *CreateParams) { p.OnDone = new("a b") }},
		{"on_done", func(p *CreateParams) { p.OnDone = new("nowhere") }},
		{"auth.bearer", func(p *CreateParams) { p.Auth = &Auth{Bearer: "bad canary"} }},
	} {
		s, kit := setup(t)
		p := params("billing", "orders")
		tt.change(&p)
		_, err := s.Create(t.Context(), p)
		invalid, ok := errors.AsType[*queue.InvalidError](err)
		if !ok || invalid.Field != tt.field {
			t.Errorf("got %v, want a complaint about %s", err, tt.field)
			continue
		}
		if strings.Contains(err.Error(), "canary") {
			t.Errorf("the error shows the secret: %v", err)
		}
		if len(kit.made) != 0 || len(kit.docs.all) != 0 {
			t.Errorf("%s: something was written", tt.field)
		}
	}
}

func TestService_UpdateChangesOnlyWhatIsSet(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	p := params("billing", "orders")
	p.Headers = map[string]string{"X-A": "1"}
	p.Retry.BuryOn = []int32{422}
	before, err := s.Create(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Update(t.Context(), UpdateParams{
		Namespace: queue.DefaultNamespace, Name: "billing", Revision: before.Revision,
		Change: Change{Timeout: new(5 * time.Second), Retry: PolicyChange{GiveUpAfter: new(time.Duration(0))}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := before
	want.Timeout, want.Retry.GiveUpAfter = 5*time.Second, 0
	want.Revision, want.UpdatedAt = got.Revision, got.UpdatedAt
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}

	_, err = s.Update(t.Context(), UpdateParams{Namespace: queue.DefaultNamespace, Name: "billing", Revision: before.Revision})
	if !errors.Is(err, queue.ErrRevision) {
		t.Errorf("update with an old revision: got %v", err)
	}
	got, err = s.Update(t.Context(), UpdateParams{
		Namespace: queue.DefaultNamespace, Name: "billing",
		Change: Change{Headers: map[string]string{}, Retry: PolicyChange{BuryOn: []int32{}}},
	})
	if err != nil || len(got.Headers) != 0 || len(got.Retry.BuryOn) != 0 || got.Timeout != 5*time.Second {
		t.Errorf("clearing: got %+v, %v", got, err)
	}
}

func TestService_StatesFollowTheSwitches(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	ctx, ns := t.Context(), queue.DefaultNamespace
	sub, err := s.Create(ctx, params("billing", "orders"))
	if err != nil {
		t.Fatal(err)
	}
	step := func(what string, want State, f func() (Subscription, error)) Subscription {
		t.Helper()
		got, err := f()
		if err != nil || got.State() != want {
			t.Errorf("%s: got %v, %v, want %v", what, got.State(), err, want)
		}
		return got
	}
	step("pause", Paused, func() (Subscription, error) { return s.Pause(ctx, ns, "billing") })
	step("resume", Active, func() (Subscription, error) { return s.Resume(ctx, ns, "billing") })
	step("disable, other endpoint", Active, func() (Subscription, error) {
		return s.Disable(ctx, ns, "billing", "https://old.example", "gone")
	})
	off := step("disable", Disabled, func() (Subscription, error) { return s.Disable(ctx, ns, "billing", sub.URL, "gone") })
	again := step("disable again", Disabled, func() (Subscription, error) { return s.Disable(ctx, ns, "billing", sub.URL, "other") })
	if again.Reason != "gone" || again.Revision != off.Revision || off.DisabledAt.IsZero() {
		t.Errorf("a second disable changed something: %+v", again)
	}
	step("pause while disabled", Disabled, func() (Subscription, error) { return s.Pause(ctx, ns, "billing") })
	on := step("enable", Paused, func() (Subscription, error) { return s.Enable(ctx, ns, "billing") })
	if on.Reason != "" || !on.DisabledAt.IsZero() {
		t.Errorf("enable left %q, %v", on.Reason, on.DisabledAt)
	}
}

// What said that it was gone is the old endpoint.
func TestService_ChangedURLEnables(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	ctx, ns := t.Context(), queue.DefaultNamespace
	sub, err := s.Create(ctx, params("billing", "orders"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Disable(ctx, ns, "billing", sub.URL, "gone"); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		change Change
		want   State
	}{
		{Change{Timeout: new(time.Minute)}, Disabled},
		{Change{URL: &sub.URL}, Disabled},
		{Change{URL: new("https://example.com/new")}, Active},
	} {
		got, err := s.Update(ctx, UpdateParams{Namespace: ns, Name: "billing", Change: step.change})
		if err != nil || got.State() != step.want {
			t.Errorf("%+v: got %v, %v, want %v", step.change, got.State(), err, step.want)
		}
		if disabled := step.want == Disabled; (got.Reason != "") != disabled || got.DisabledAt.IsZero() == disabled {
			t.Errorf("%+v: got the reason %q at %v", step.change, got.Reason, got.DisabledAt)
		}
	}
}

// A schedule wins, so the change would act on nothing.
func TestService_UpdateRefusesABackoffBesideASchedule(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	p := params("billing", "orders")
	p.Retry.Schedule = []time.Duration{time.Second}
	if _, err := s.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	update := func(c PolicyChange) (Subscription, error) {
		return s.Update(t.Context(), UpdateParams{Namespace: queue.DefaultNamespace, Name: "billing", Change: Change{Retry: c}})
	}
	for field, change := range map[string]PolicyChange{
		"retry.min_backoff": {MinBackoff: new(time.Second)},
		"retry.max_backoff": {MaxBackoff: new(time.Hour)},
		"retry.multiplier":  {Multiplier: new(2.0)},
	} {
		_, err := update(change)
		invalid, ok := errors.AsType[*queue.InvalidError](err)
		if !ok || invalid.Field != field || !strings.Contains(invalid.Reason, "give retry.schedule: [] first") {
			t.Errorf("got %v, want a complaint about %s and what to do", err, field)
		}
	}
	got, err := update(PolicyChange{Schedule: []time.Duration{}, MinBackoff: new(time.Second)})
	if err != nil || len(got.Retry.Schedule) != 0 || got.Retry.MinBackoff != time.Second {
		t.Errorf("with an empty schedule: got %+v, %v", got.Retry, err)
	}
}

func TestService_ListSkipsWhatIsPending(t *testing.T) {
	t.Parallel()
	s, kit := setup(t)
	for _, name := range []string{"a", "c", "e"} {
		if _, err := s.Create(t.Context(), params(name, "q"+name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"b", "d", "f"} {
		kit.docs.put(t, name, Document{Namespace: queue.DefaultNamespace, Name: name, Pending: true})
	}
	page, err := s.List(t.Context(), queue.DefaultNamespace, "", 2)
	if err != nil || names(page) != "a c" {
		t.Errorf("first page: %q, %v", names(page), err)
	}
	page, err = s.List(t.Context(), queue.DefaultNamespace, "c", 2)
	if err != nil || names(page) != "e" {
		t.Errorf("second page: %q, %v", names(page), err)
	}
	all, err := s.All(t.Context())
	if err != nil || names(all) != "a c e" {
		t.Errorf("all: %q, %v", names(all), err)
	}
	if _, err := s.Get(t.Context(), queue.DefaultNamespace, "b"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("get of a pending one: %v", err)
	}
}

func TestService_DeleteFreesTheQueue(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	ctx, ns := t.Context(), queue.DefaultNamespace
	if _, err := s.Create(ctx, params("billing", "orders")); err != nil {
		t.Fatal(err)
	}
	if sub, err := s.ByQueue(ctx, ns, "orders"); err != nil || sub.Name != "billing" {
		t.Errorf("by queue: %v, %v", sub.Name, err)
	}
	if err := s.Delete(ctx, ns, "billing"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ByQueue(ctx, ns, "orders"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("by queue after delete: %v", err)
	}
	if err := s.Delete(ctx, ns, "billing"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("second delete: %v", err)
	}
	if _, err := s.Create(ctx, params("other", "orders")); err != nil {
		t.Errorf("create on the freed queue: %v", err)
	}
}

func TestService_AnswersForAQueue(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	ctx, ns := t.Context(), queue.DefaultNamespace
	p := params("billing", "orders")
	p.Retry.MaxAttempts = new(int32(7))
	if _, err := s.Create(ctx, p); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		queue      string
		subscribed bool
		limit      int32
	}{{"orders", true, 7}, {"other", false, 0}} {
		subscribed, err := s.Subscribed(ctx, ns, want.queue)
		if err != nil || subscribed != want.subscribed {
			t.Errorf("%s: subscribed %v, %v", want.queue, subscribed, err)
		}
		limit, err := s.Limit(ctx, ns, want.queue)
		if err != nil || limit != want.limit {
			t.Errorf("%s: limit %d, %v", want.queue, limit, err)
		}
		if err := s.Unsubscribe(ctx, ns, want.queue); err != nil {
			t.Errorf("%s: unsubscribe: %v", want.queue, err)
		}
	}
	if _, err := s.Get(ctx, ns, "billing"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("get after unsubscribe: %v", err)
	}
}

func TestWatcher_HoldsEachNameOnce(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	w := s.Watch(func(*Subscription) {})
	ctx, ns := t.Context(), queue.DefaultNamespace
	if _, err := s.Create(ctx, params("billing", "orders")); err != nil {
		t.Fatal(err)
	}
	_, _ = s.Pause(ctx, ns, "billing")
	_, _ = s.Pause(ctx, ns, "billing")
	<-w.Changed()
	if got := w.Take(); !slices.Equal(got, []Key{{ns, "billing"}}) {
		t.Errorf("got %v", got)
	}
	if got := w.Take(); len(got) != 0 {
		t.Errorf("second take: %v", got)
	}
	w.Stop()
	_, _ = s.Resume(ctx, ns, "billing")
	if got := w.Take(); len(got) != 0 {
		t.Errorf("after stop: %v", got)
	}
}

// What a change made is known before whoever made it hears of it.
func TestWatcher_IsToldBeforeTheChangeIsAnswered(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	var told []Subscription
	w := s.Watch(func(sub *Subscription) { told = append(told, *sub) })
	ctx, ns := t.Context(), queue.DefaultNamespace
	if _, err := s.Create(ctx, params("billing", "orders")); err != nil {
		t.Fatal(err)
	}
	paused, err := s.Pause(ctx, ns, "billing")
	if err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 || !reflect.DeepEqual(told[0], paused) {
		t.Errorf("told of %+v, want %+v", told, paused)
	}
	w.Stop()
	if _, _ = s.Resume(ctx, ns, "billing"); len(told) != 1 {
		t.Errorf("told of %d changes, want none after Stop", len(told))
	}
}

// Whoever may change a URL but not see a password does not get it sent.
func TestH10_CredentialsDoNotFollowToAnotherHost(t *testing.T) {
	t.Parallel()
	for to, refused := range map[string]bool{
		"https://shop.example/other": false, "https://SHOP.example/hook?x=1": false,
		"https://evil.example/hook": true, "http://shop.example/hook": true, "https://shop.example:444/hook": true,
	} {
		t.Run(to, func(t *testing.T) {
			t.Parallel()
			s, _ := setup(t)
			p := params("billing", "orders")
			p.URL, p.Auth = new("https://shop.example/hook"), &Auth{Bearer: "canary"}
			if _, err := s.Create(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			update := UpdateParams{Namespace: queue.DefaultNamespace, Name: "billing", Change: Change{URL: &to}}
			_, err := s.Update(t.Context(), update)
			invalid, ok := errors.AsType[*queue.InvalidError](err)
			if ok != refused || ok && invalid.Field != "auth" || !ok && err != nil {
				t.Errorf("got %v, want refused %v", err, refused)
			}
			update.Auth = &Auth{Bearer: "new"}
			if _, err := s.Update(t.Context(), update); err != nil {
				t.Errorf("with a value of its own: %v", err)
			}
		})
	}
}
