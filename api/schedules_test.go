package api_test

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/cron"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/schedules"
)

func TestSchedules_CreateHandsOnWhatWasGiven(t *testing.T) {
	t.Parallel()
	e := setup(t)
	a := e.call("schedules.create", `{"name":"nightly","cron":"30 2 * * *","zone":"Europe/Berlin","queue_name":"reports",
		"item":{"kind":"report","encoding":"text/plain","reference":"r","utf8":"{{nominal_at}}","headers":{"X-Key":"k"},"max_attempts":3,
			"expire_timeout":"1h","on_done":"told","target":{"url":"https://example.com/","method":"PUT","timeout":"5s"}},
		"clocks_forward":"skip","clocks_back":"both","missed":{"policy":"all","max":5,"grace":"1h"},"overlap":"queue_one","jitter":"30s",
		"start_at":"2030-01-01T00:00:00Z","end_at":"2031-01-01T00:00:00+01:00","paused":true,"labels":{"team":"ops"}}`)
	want := schedules.CreateParams{
		Namespace: queue.DefaultNamespace, Name: "nightly", Paused: true,
		Change: schedules.Change{
			Cron: new("30 2 * * *"), Zone: new("Europe/Berlin"), Queue: new("reports"),
			Item: &queue.ProduceItem{
				Content: queue.Content{
					Kind: "report", Encoding: "text/plain", Reference: "r", Payload: []byte("{{nominal_at}}"), Headers: map[string]string{"X-Key": "k"},
					OnDone: "told", Target: &queue.Target{URL: "https://example.com/", Method: "PUT", Timeout: 5 * time.Second},
				},
				MaxAttempts: 3, ExpireTTL: time.Hour,
			},
			Forward: new(cron.SkipForward), Back: new(cron.Both),
			Missed:  schedules.MissedChange{Policy: new(schedules.MissAll), Max: new(5), Grace: new(time.Hour)},
			Overlap: new(schedules.OverlapQueueOne), Jitter: new(30 * time.Second),
			StartAt: new(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)), EndAt: new(time.Date(2030, 12, 31, 23, 0, 0, 0, time.UTC)),
			Labels: map[string]string{"team": "ops"},
		},
	}
	if a.status != http.StatusOK || !reflect.DeepEqual(e.scheds.created, want) {
		t.Errorf("got  %+v\nwant %+v\n%s", e.scheds.created, want, a.raw)
	}
}

func TestSchedules_UpdateTakesOnlyWhatIsSet(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]schedules.Change{
		`"cron":"@daily"`:                   {Cron: new("@daily")},
		`"zone":"Asia/Tokyo"`:               {Zone: new("Asia/Tokyo")},
		`"queue_name":"other"`:              {Queue: new("other")},
		`"clocks_forward":"run_after"`:      {Forward: new(cron.RunAfter)},
		`"clocks_back":"first"`:             {Back: new(cron.First)},
		`"clocks_back":"second"`:            {Back: new(cron.Second)},
		`"overlap":"allow"`:                 {Overlap: new(schedules.OverlapAllow)},
		`"overlap":"skip"`:                  {Overlap: new(schedules.OverlapSkip)},
		`"jitter":"0s"`:                     {Jitter: new(time.Duration(0))},
		`"labels":{}`:                       {Labels: map[string]string{}},
		`"missed":{}`:                       {},
		`"missed":{"policy":"latest"}`:      {Missed: schedules.MissedChange{Policy: new(schedules.MissLatest)}},
		`"missed":{"policy":"skip"}`:        {Missed: schedules.MissedChange{Policy: new(schedules.MissSkip)}},
		`"missed":{"max":3}`:                {Missed: schedules.MissedChange{Max: new(3)}},
		`"missed":{"grace":"0s"}`:           {Missed: schedules.MissedChange{Grace: new(time.Duration)}},
		`"start_at":"0001-01-01T00:00:00Z"`: {StartAt: new(time.Time)},
		`"item":{}`:                         {Item: &queue.ProduceItem{Content: queue.Content{Payload: []byte{}}}},
		`"item":{"bytes":"/w=="}`:           {Item: &queue.ProduceItem{Content: queue.Content{Payload: []byte{0xff}}}},
		`"end_at":"2030-01-01T00:00:00Z"`:   {EndAt: new(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))},
		`"clocks_forward":"","clocks_back":"","overlap":"","jitter":"","cron":"","zone":"","next_at":"2030-01-01T00:00:00Z","missed_count":3`: {},
	} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			e.scheds.kept["s"] = schedules.Schedule{Name: "s"}
			if a := e.call("schedules.update", `{"name":"s","revision":"7",`+body+`}`); a.status != http.StatusOK {
				t.Errorf("got %s", a.raw)
			}
			want := schedules.UpdateParams{Namespace: queue.DefaultNamespace, Name: "s", Revision: 7, Change: want}
			if !reflect.DeepEqual(e.scheds.updated, want) {
				t.Errorf("got  %+v\nwant %+v", e.scheds.updated, want)
			}
		})
	}
}

// nightly is a schedule that has all that one can have.
func nightly() schedules.Schedule {
	at := time.Date(2030, 3, 31, 0, 30, 0, 0, time.UTC)
	return schedules.Schedule{
		Name: "nightly", ID: "1", Cron: "30 2 * * *", Zone: "Europe/Berlin", Queue: "reports",
		Item: queue.ProduceItem{
			Content: queue.Content{
				Kind: "report", Encoding: "text/plain", Reference: "r", Payload: []byte("{{nominal_at}}"),
				Headers: map[string]string{"x-key": "canary-1", "Content-Type": "text/plain"},
				OnDone:  "told", Target: &queue.Target{URL: "https://example.com/h?key=canary-2", Method: "PUT", Timeout: 5 * time.Second},
			},
			MaxAttempts: 3, ExpireTTL: time.Hour,
		},
		Forward: cron.SkipForward, Back: cron.Second,
		Missed:  schedules.Missed{Policy: schedules.MissAll, Max: 5, Grace: 90 * time.Minute},
		Overlap: schedules.OverlapQueueOne, Labels: map[string]string{"team": "ops"},
		StartAt: at.AddDate(-1, 0, 0), EndAt: at.AddDate(1, 0, 0),
		NominalAt: at, LastAt: at.AddDate(0, 0, -1), LastFiredAt: at.AddDate(0, 0, -1).Add(time.Second), LastItem: triggeredID,
		MissedCount: 2, SkippedCount: 1 << 40, CreatedAt: at.AddDate(-2, 0, 0), UpdatedAt: at.AddDate(-1, 0, 0), Revision: 9,
	}
}

func TestSchedules_InfoShowsWhatIsKept(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.scheds.kept["nightly"] = nightly()
	e.call("schedules.info", `{"name":"nightly"}`).equals(`{"name":"nightly","cron":"30 2 * * *","zone":"Europe/Berlin","queue_name":"reports",
		"item":{"encoding":"text/plain","kind":"report","reference":"r","utf8":"{{nominal_at}}","max_attempts":3,"expire_timeout":"3600s","on_done":"told",
			"headers":{"x-key":"[redacted]","Content-Type":"text/plain"},"target":{"url":"https://example.com/h?key=[redacted]","method":"PUT","timeout":"5s"}},
		"clocks_forward":"skip","clocks_back":"second","missed":{"policy":"all","max":5,"grace":"5400s"},"overlap":"queue_one","jitter":"0s",
		"start_at":"2029-03-31T00:30:00Z","end_at":"2031-03-31T00:30:00Z","paused":false,"labels":{"team":"ops"},
		"next_at":"2030-03-31T00:30:00Z","last_at":"2030-03-30T00:30:00Z","last_fired_at":"2030-03-30T00:30:01Z","last_item_id":"` + triggeredID.String() + `",
		"missed_count":2,"skipped_count":2147483647,"created_at":"2028-03-31T00:30:00Z","updated_at":"2029-03-31T00:30:00Z","revision":"9"}`)

	// A payload that is no text comes as bytes, and what there is not is left out.
	e.scheds.kept["bare"] = schedules.Schedule{Name: "bare", Cron: "@daily", Zone: "UTC", Queue: "q", Missed: schedules.Missed{Max: 10}, Item: queue.ProduceItem{Content: queue.Content{Payload: []byte{0xff}}}}
	e.call("schedules.info", `{"name":"bare"}`).equals(`{"name":"bare","cron":"@daily","zone":"UTC","queue_name":"q","item":{"bytes":"/w==","max_attempts":0},
		"clocks_forward":"run_after","clocks_back":"first","missed":{"policy":"latest","max":10,"grace":"0s"},"overlap":"allow","jitter":"0s",
		"paused":false,"missed_count":0,"skipped_count":0}`)
}

func TestSchedules_NextAtIsWhenItFires(t *testing.T) {
	t.Parallel()
	e := setup(t)
	kept := nightly()
	kept.Jitter = time.Hour
	e.scheds.kept["nightly"] = kept
	info := e.call("schedules.info", `{"name":"nightly"}`)
	info.is(kept.FiresAt().Truncate(time.Microsecond).Format(time.RFC3339Nano), "next_at")
	if kept.FiresAt().Equal(kept.NominalAt) {
		t.Error("the jitter moves nothing, so that the test sees nothing")
	}
	e.call("schedules.pause", `{"name":"nightly"}`).is(nil, "next_at")
}

func TestSchedules_WhatInfoAnswersCanBeSentBack(t *testing.T) {
	t.Parallel()
	for _, paused := range []bool{false, true} {
		e := setup(t)
		kept := nightly()
		kept.Paused = paused
		e.scheds.kept["nightly"] = kept
		info := e.call("schedules.info", `{"name":"nightly"}`)
		if a := e.call("schedules.update", info.raw); a.status != http.StatusOK {
			t.Fatalf("got %s", a.raw)
		}
		want := schedules.UpdateParams{Namespace: queue.DefaultNamespace, Name: "nightly", Revision: 9, Change: schedules.Change{
			Cron: &kept.Cron, Zone: &kept.Zone, Queue: &kept.Queue, Item: &kept.Item, Forward: &kept.Forward, Back: &kept.Back,
			Missed: schedules.MissedChange{Policy: &kept.Missed.Policy, Max: &kept.Missed.Max, Grace: &kept.Missed.Grace}, Overlap: &kept.Overlap, Jitter: &kept.Jitter, StartAt: &kept.StartAt, EndAt: &kept.EndAt, Labels: kept.Labels,
		}}
		if !reflect.DeepEqual(e.scheds.updated, want) {
			t.Errorf("got  %+v\nwant %+v", e.scheds.updated, want)
		}
	}
}

func TestSchedules_NameTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.scheds.kept["s"] = schedules.Schedule{Name: "s"}
	for body, want := range map[string][2]string{
		`"clocks_forward":"later"`:                     {"clocks_forward", `is "later"; want one of run_after, skip`},
		`"clocks_back":"third"`:                        {"clocks_back", "want one of first, second, both"},
		`"overlap":"queue"`:                            {"overlap", "want one of allow, skip, queue_one"},
		`"missed":{"policy":"none"}`:                   {"missed.policy", "want one of latest, skip, all"},
		`"missed":{"grace":"1d"}`:                      {"missed.grace", "not a duration"},
		`"missed":{"grace":"-1s"}`:                     {"missed.grace", "too short"},
		`"missed":{"max":"5"}`:                         {"missed.max", "wants a whole number"},
		`"missed":{"maximum":5}`:                       {"missed.maximum", "not a field"},
		`"jitter":"soon"`:                              {"jitter", "not a duration"},
		`"end_at":"tomorrow"`:                          {"end_at", "RFC 3339"},
		`"item":{"enqueue_at":"2030-01-01T00:00:00Z"}`: {"item.enqueue_at", "when the schedule fires"},
		`"item":{"delay":"1s"}`:                        {"item.delay", "when the schedule fires"},
		`"item":{"idempotency_key":"k"}`:               {"item.idempotency_key", "a key of its own"},
		`"item":{"headers":{"Host":"x"}}`:              {"item.headers", "Host"},
		`"item":{"expire_timeout":"x"}`:                {"item.expire_timeout", "not a duration"},
		`"item":{"target":{"timeout":"x"}}`:            {"item.target.timeout", "not a duration"},
		`"item":{"on_done":"a/b"}`:                     {"item.on_done", "want only"},
		`"queue_name":"a/b"`:                           {"queue_name", "want only"},
	} {
		e.call("schedules.create", `{"name":"t",`+body+`}`).invalid(want[0], want[1])
		e.call("schedules.update", `{"name":"s",`+body+`}`).invalid(want[0], want[1])
	}
	e.call("schedules.create", `{"name":"t","revision":"1"}`).invalid("revision", "for updates")
	e.call("schedules.update", `{"name":"s","revision":"x"}`).invalid("revision", "gave out")
	e.call("schedules.update", `{"name":"s","paused":true}`).invalid("paused", "schedules.pause")
	e.call("schedules.update", `{"name":"none","paused":true}`).want(404, "not_found")
	e.call("schedules.info", `{"name":"none"}`).want(404, "not_found")
	for _, method := range []string{"create", "update", "info", "delete", "pause", "resume", "trigger"} {
		e.call("schedules."+method, `{}`).invalid("name", "missing")
	}
	if e.scheds.created.Name != "" || e.scheds.updated.Name != "" {
		t.Errorf("kept all the same: %+v, %+v", e.scheds.created, e.scheds.updated)
	}
}

func TestSchedules_SwitchesTriggerAndDeletion(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.scheds.kept["s"] = schedules.Schedule{Name: "s"}
	e.call("schedules.pause", `{"name":"s"}`).is(true, "paused")
	e.call("schedules.resume", `{"name":"s"}`).is(false, "paused")
	e.call("schedules.trigger", `{"name":"s","request_timeout":"5s"}`).is(triggeredID.String(), "item_id")
	if got := e.scheds.triggered; got.Name != "s" || got.Namespace != queue.DefaultNamespace || got.Key != "" {
		t.Errorf("triggered %+v", got)
	}
	for i, duplicate := range []bool{false, true} {
		a := e.do(request("/v1/schedules.trigger", strings.NewReader(`{"name":"s"}`), "Idempotency-Key", "first"))
		a.is(triggeredID.String(), "item_id")
		if got := a.get("duplicate"); got != duplicate || e.scheds.triggered.Key != "first" {
			t.Errorf("call %d with key %q: duplicate is %v", i, e.scheds.triggered.Key, got)
		}
	}
	e.call("schedules.trigger", `{"name":"none"}`).want(404, "not_found")
	e.call("schedules.trigger", `{"name":"s","request_timeout":"1"}`).invalid("request_timeout", "not a duration")
	e.call("schedules.delete", `{"name":"s"}`).want(200, "ok")
	if len(e.scheds.kept) != 0 {
		t.Error("it is still there")
	}
}

func TestI08_SchedulesListGoesOnWhereItEnded(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for i := range 120 {
		name := fmt.Sprintf("s%03d", i)
		e.scheds.kept[name] = schedules.Schedule{Name: name}
	}
	var got []any
	cursor := ""
	for range 3 {
		a := e.call("schedules.list", `{"limit":59,"cursor":"`+cursor+`"}`)
		for _, s := range a.get("items").([]any) {
			got = append(got, s.(map[string]any)["name"])
		}
		cursor, _ = a.get("cursor").(string)
	}
	if len(got) != 120 || got[0] != "s000" || got[119] != "s119" || cursor != "" {
		t.Errorf("got %d, cursor %q: %v", len(got), cursor, got)
	}
	a := e.call("schedules.list", `{}`)
	a.is("s119", "items", 119, "name")
	a.is(nil, "cursor")
	e.call("schedules.list", `{"limit":120}`).is(nil, "cursor") // none is left, though the page is full
	e.call("schedules.list", `{"cursor":"/x"}`).invalid("cursor", "letter or a digit")
	e.call("schedules.list", `{"limit":1001}`).invalid("limit", "1 to 1000")
}

// Payloads are as large as those of items, so that a page of them must not be as long as
// whoever asks wants it.
func TestI08_SchedulesListEndsBeforeItFillsTheMemory(t *testing.T) {
	t.Parallel()
	e := setup(t)
	payload := []byte(strings.Repeat("x", 100_000))
	for i := range 200 {
		name := fmt.Sprintf("s%03d", i)
		e.scheds.kept[name] = schedules.Schedule{Name: name, Item: queue.ProduceItem{Content: queue.Content{Payload: payload}}}
	}
	a := e.call("schedules.list", `{}`)
	if got := len(a.get("items").([]any)); got != 50 || e.scheds.lists != 1 {
		t.Errorf("got %d schedules in %d reads, want the first read's 50", got, e.scheds.lists)
	}
	a.is("s049", "cursor")

	e = setup(t, func(o *api.Options) { o.Limits.Answers = 1 << 20 })
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		e.scheds.kept[name] = schedules.Schedule{Name: name, Item: queue.ProduceItem{Content: queue.Content{Payload: payload}}}
	}
	e.call("schedules.list", `{}`).want(429, "overloaded")
	e.call("schedules.list", `{"limit":2}`).is("b", "cursor")
}

func TestSchedules_PreviewByNameOrInline(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	e := setup(t)
	e.scheds.fires = []cron.Fire{{At: time.Date(2030, 3, 31, 3, 0, 0, 0, berlin), Note: "clocks change"}, {At: time.Date(2030, 4, 1, 0, 30, 0, 0, time.UTC)}}
	for body, want := range map[string]schedules.PreviewParams{
		`{"name":"s"}`: {Name: "s", Count: 10},
		`{"name":"s","count":1000,"from":"2030-01-01T00:00:00Z"}`: {Name: "s", Count: 1000, From: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)},
		`{"cron":"@daily"}`:            {Count: 10, Change: schedules.Change{Cron: new("@daily")}},
		`{"cron":"@daily","count":-1}`: {Count: -1, Change: schedules.Change{Cron: new("@daily")}}, // the schedules refuse it
		`{"cron":"30 2 * * *","zone":"Europe/Berlin","clocks_forward":"skip","clocks_back":"both","start_at":"2030-01-01T00:00:00Z","end_at":"2031-01-01T00:00:00Z","count":1}`: {
			Count: 1, Change: schedules.Change{
				Cron: new("30 2 * * *"), Zone: new("Europe/Berlin"), Forward: new(cron.SkipForward), Back: new(cron.Both),
				StartAt: new(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)), EndAt: new(time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)),
			},
		},
	} {
		want.Namespace = queue.DefaultNamespace
		e.call("schedules.preview", body).equals(`{"fires":[{"at":"2030-03-31T01:00:00Z","local":"2030-03-31T03:00:00+02:00","note":"clocks change"},
			{"at":"2030-04-01T00:30:00Z","local":"2030-04-01T00:30:00Z"}]}`)
		if !reflect.DeepEqual(e.scheds.previewed, want) {
			t.Errorf("%s: got  %+v\nwant %+v", body, e.scheds.previewed, want)
		}
	}
	for body, want := range map[string][2]string{
		`"cron":"@daily"`:                   {"cron", "without name"},
		`"zone":"UTC"`:                      {"zone", "without name"},
		`"clocks_forward":"skip"`:           {"clocks_forward", "without name"},
		`"clocks_back":"both"`:              {"clocks_back", "without name"},
		`"start_at":"2030-01-01T00:00:00Z"`: {"start_at", "without name"},
		`"end_at":"2030-01-01T00:00:00Z"`:   {"end_at", "without name"},
	} {
		e.call("schedules.preview", `{"name":"s",`+body+`}`).invalid(want[0], want[1])
	}
	e.call("schedules.preview", `{"cron":"@daily","clocks_back":"never"}`).invalid("clocks_back", "want one of")
	e.call("schedules.preview", `{"name":"a/b"}`).invalid("name", "want only")
}

func TestSchedules_AreRefusedWhereNobodyFiresThem(t *testing.T) {
	t.Parallel()
	e := setup(t, func(o *api.Options) { o.Schedules = nil })
	tried := 0
	for _, method := range methods {
		if strings.HasPrefix(method, "schedules.") {
			e.call(method, `{"name":"s"}`).want(400, "not_supported")
			tried++
		}
	}
	if tried != 9 {
		t.Errorf("tried %d methods, want 9", tried)
	}
}

func TestA11_SchedulesMaskWhatMayBeAKey(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.scheds.kept["nightly"] = nightly()
	for method, body := range map[string]string{
		"schedules.info": `{"name":"nightly"}`, "schedules.list": `{}`, "schedules.update": `{"name":"nightly","jitter":"5s"}`,
		"schedules.pause": `{"name":"nightly"}`, "schedules.resume": `{"name":"nightly"}`,
		"schedules.create": `{"name":"b","item":{"headers":{"X-Key":"canary"},"target":{"url":"https://example.com/?canary"}}}`,
	} {
		if a := e.call(method, body); a.status != 200 || strings.Contains(a.raw, "canary") || !strings.Contains(a.raw, "[redacted]") {
			t.Errorf("%s: got %d %s", method, a.status, a.raw)
		}
	}
}

func TestA11_AScheduleKeepsWhatItsMasksStandFor(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.scheds.kept["nightly"] = nightly()
	// One by one, in another spelling, and beside a new value.
	if a := e.call("schedules.update", `{"name":"nightly","item":{"headers":{"X-Key":"[redacted]","X-New":"1"},"target":{"url":"https://example.com/other"}}}`); a.status != 200 {
		t.Fatalf("got %s", a.raw)
	}
	got := e.scheds.updated
	if want := map[string]string{"X-Key": "canary-1", "X-New": "1"}; !reflect.DeepEqual(got.Item.Headers, want) || got.Revision != 0 {
		t.Errorf("got %v at revision %d, want %v, and to be asked again where that has changed", got.Item.Headers, got.Revision, want)
	}
	e.scheds.updated = schedules.UpdateParams{}
	for item, want := range map[string][2]string{
		`{"headers":{"X-Other":"[redacted]"},"target":{"url":"https://example.com/"}}`: {"item.headers", "[redacted]"},
		`{"headers":{"X-Key":"[redacted]"},"target":{"url":"https://evil.example/"}}`:  {"item.headers", "another host"},
		`{"headers":{"X-Key":"[redacted]"},"target":{"url":"http://example.com/"}}`:    {"item.headers", "another host"},
		`{"headers":{"X-Key":"[redacted]"}}`:                                           {"item.headers", "another host"},
		`{"target":{"url":"https://evil.example/h?key=[redacted]"}}`:                   {"item.target.url", "not the URL that is kept"},
	} {
		e.call("schedules.update", `{"name":"nightly","item":`+item+`}`).invalid(want[0], want[1])
		e.call("schedules.create", `{"name":"b","item":`+item+`}`).invalid(want[0], "[redacted]")
	}
	if e.scheds.updated.Name != "" || e.scheds.created.Name != "" {
		t.Errorf("kept all the same: %+v, %+v", e.scheds.updated, e.scheds.created)
	}
}
