package client_test

import (
	"bytes"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

func nightly() client.Schedule {
	return client.Schedule{
		Name: "nightly", Queue: "orders", Cron: "30 2 * * *", Zone: "America/New_York",
		Item: client.Item{
			Kind: "report", Encoding: "application/json", Reference: "{{schedule}}", Payload: []byte(`{"at":"{{nominal_at}}"}`),
			Headers: map[string]string{"X-Run": "{{nominal_at}}"}, MaxAttempts: 3, ExpireTimeout: time.Hour,
		},
		ClocksForward: "skip", ClocksBack: "second", Overlap: "queue_one",
		Missed: client.Missed{Policy: "all", Max: 7, Grace: 6 * time.Hour}, Jitter: time.Minute,
		StartAt: time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC), EndAt: time.Date(2031, 1, 31, 8, 0, 0, 0, time.UTC),
		Labels: map[string]string{"team": "a"},
	}
}

func TestClient_SchedulesHaveAllSettings(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	want := nightly()
	s, err := c.CreateSchedule(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != want.Name || s.Queue != want.Queue || s.Cron != want.Cron || s.Zone != want.Zone || s.ClocksForward != "skip" || s.ClocksBack != "second" ||
		s.Overlap != "queue_one" || s.Missed != want.Missed || s.Jitter != time.Minute || !s.StartAt.Equal(want.StartAt) || !s.EndAt.Equal(want.EndAt) ||
		!maps.Equal(s.Labels, want.Labels) || s.Paused || s.CreatedAt.IsZero() || s.Revision == "" {
		t.Errorf("created: got %+v", s)
	}
	if s.NextAt.Before(want.StartAt) || s.NextAt.After(want.StartAt.Add(25*time.Hour)) || !s.LastAt.IsZero() || s.LastItemID != "" {
		t.Errorf("created: next at %s, last at %s; want the first time after the start", s.NextAt, s.LastAt)
	}
	it := s.Item
	if it.Kind != "report" || it.Encoding != "application/json" || it.Reference != "{{schedule}}" || !bytes.Equal(it.Payload, want.Item.Payload) ||
		it.MaxAttempts != 3 || it.ExpireTimeout != time.Hour || it.Headers["X-Run"] != client.Redacted {
		t.Errorf("item: got %+v", it)
	}

	s, err = c.UpdateSchedule(t.Context(), "nightly", client.ScheduleUpdate{Revision: s.Revision, Overlap: "allow", Jitter: new(time.Duration), Missed: client.MissedUpdate{Policy: "latest", Max: 10, Grace: new(time.Duration)}, StartAt: new(time.Time)})
	if err != nil {
		t.Fatal(err)
	}
	if !s.StartAt.IsZero() || s.Overlap != "allow" || s.Jitter != 0 || s.Missed != (client.Missed{Policy: "latest", Max: 10}) ||
		s.Cron != want.Cron || s.Zone != want.Zone || s.ClocksForward != "skip" || !s.EndAt.Equal(want.EndAt) || s.Labels["team"] != "a" ||
		!bytes.Equal(s.Item.Payload, want.Item.Payload) {
		t.Errorf("updated: got %+v, want what was named changed, and nothing else", s)
	}
	_, err = c.UpdateSchedule(t.Context(), "nightly", client.ScheduleUpdate{Revision: "1", Cron: "@daily"})
	if !client.Is(err, client.CodeRevisionMismatch) {
		t.Errorf("of an old revision: got %v", err)
	}
	raw := []byte{0xff, '{', '{'}
	s, err = c.UpdateSchedule(t.Context(), "nightly", client.ScheduleUpdate{Item: &client.Item{Payload: raw}})
	if err != nil || !bytes.Equal(s.Item.Payload, raw) || s.Item.Kind != "" {
		t.Errorf("a payload that is no text: got %+v, %v; want the item replaced whole", s.Item, err)
	}
}

func TestClient_SchedulesFirePauseAndTrigger(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	s, err := c.CreateSchedule(t.Context(), client.Schedule{
		Name: "tick", Queue: "orders", Cron: "@every 1s", Item: client.Item{Kind: "tick", Payload: []byte("{{schedule}} {{nominal_at}}")},
	})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "a fire", func() bool {
		if s, err = c.GetSchedule(t.Context(), "tick"); err != nil {
			t.Fatal(err)
		}
		return s.LastItemID != ""
	})
	items := lease(t, c, 1)
	if len(items) != 1 {
		t.Fatalf("leased %d items, want one", len(items))
	}
	name, at, _ := strings.Cut(string(items[0].Payload), " ")
	if nominal, err := time.Parse(time.RFC3339, at); err != nil || name != "tick" || nominal.After(s.LastAt) || items[0].Kind != "tick" {
		t.Errorf("got %q of kind %s, want the name and a time up to %s", items[0].Payload, items[0].Kind, s.LastAt)
	}

	if s, err = c.PauseSchedule(t.Context(), "tick"); err != nil || !s.Paused || !s.NextAt.IsZero() {
		t.Errorf("paused: got %+v, %v", s, err)
	}
	var id string
	for i := range 2 {
		made, err := c.TriggerSchedule(t.Context(), "tick", client.Trigger{IdempotencyKey: "one"})
		if err != nil || made.Duplicate != (i == 1) || i == 1 && made.ItemID != id {
			t.Fatalf("trigger %d: got %+v, %v", i, made, err)
		}
		id = made.ItemID
	}
	if states, err := c.ItemInfo(t.Context(), id, "orders"); err != nil || len(states) != 1 {
		t.Errorf("what was triggered: got %v, %v", states, err)
	}
	if s, err = c.ResumeSchedule(t.Context(), "tick"); err != nil || s.Paused || s.NextAt.IsZero() {
		t.Errorf("resumed: got %+v, %v", s, err)
	}
	names := ""
	for s := range values(t, c.Schedules(t.Context())) {
		names += s.Name
	}
	if names != "tick" {
		t.Errorf("list: got %q", names)
	}
	if err := c.DeleteSchedule(t.Context(), "tick"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.GetSchedule(t.Context(), "tick"); !client.Is(err, client.CodeNotFound) {
		t.Errorf("deleted: got %v", err)
	}
}

func TestClient_RepeatsOfATriggerMakeOneItem(t *testing.T) {
	t.Parallel()
	c, s := setup(t)
	if _, err := c.CreateSchedule(t.Context(), client.Schedule{Name: "tick", Queue: "orders", Cron: "@yearly", Item: client.Item{Payload: []byte("{{fired_at}}")}}); err != nil {
		t.Fatal(err)
	}
	const path = "/v1/schedules.trigger"
	for _, bad := range []fault{loseAnswer, cutAnswer, answerStatus(http.StatusBadGateway), answerStatus(http.StatusTooManyRequests)} {
		before := s.front.count(path)
		s.front.fail(bad)
		if _, err := c.TriggerSchedule(t.Context(), "tick", client.Trigger{}); err != nil || s.front.count(path) != before+2 {
			t.Errorf("got %v after %d tries, want another try", err, s.front.count(path)-before)
		}
	}
	awaitStats(t, c, "one item for each trigger", func(st client.Stats) bool { return st.Total == 4 })
}

func TestClient_PreviewsSchedules(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	params := client.PreviewParams{
		Cron: "30 2 * * *", Zone: "America/New_York", Count: 2, From: time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC),
	}
	fires, err := c.PreviewSchedule(t.Context(), params)
	if err != nil || len(fires) != 2 {
		t.Fatalf("got %v, %v", fires, err)
	}
	first := fires[0]
	if want := time.Date(2026, 3, 8, 7, 0, 0, 0, time.UTC); !first.At.Equal(want) || first.Local != "2026-03-08T03:00:00-04:00" || !strings.Contains(first.Note, "02:30:00") {
		t.Errorf("got %+v", first)
	}
	if second := fires[1]; second.Local != "2026-03-09T02:30:00-04:00" || second.Note != "" {
		t.Errorf("got %+v", second)
	}
	params.ClocksForward, params.StartAt = "skip", params.From
	params.EndAt = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)
	if fires, err = c.PreviewSchedule(t.Context(), params); err != nil || len(fires) != 1 || fires[0].Local != "2026-03-09T02:30:00-04:00" {
		t.Errorf("skipped, and with an end: got %v, %v", fires, err)
	}
	if _, err := c.CreateSchedule(t.Context(), nightly()); err != nil {
		t.Fatal(err)
	}
	if fires, err = c.PreviewSchedule(t.Context(), client.PreviewParams{Name: "nightly"}); err != nil || len(fires) != 10 {
		t.Errorf("one that is kept: got %d times, %v; want 10", len(fires), err)
	}
	if _, err := c.PreviewSchedule(t.Context(), client.PreviewParams{Cron: "0 0 30 2 *"}); !client.Is(err, client.CodeInvalid) {
		t.Errorf("one that never fires: got %v", err)
	}
}
