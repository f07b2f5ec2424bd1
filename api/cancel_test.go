package api_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/queue"
)

func TestClear_HandsOnWhatIsToBeCleared(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var got queue.ClearCall
	e.broker.clear = func(call queue.ClearCall) (queue.Cancelled, error) {
		got = call
		return queue.Cancelled{Count: 7, More: true}, nil
	}
	for body, want := range map[string]queue.ClearCall{
		`"scheduled":true`:                  {Scheduled: true},
		`"queue":true`:                      {Ready: true},
		`"destructive":true`:                {Leased: true},
		`"queue":true,"scheduled":true`:     {Ready: true, Scheduled: true},
		`"queue":true,"destructive":true`:   {Ready: true, Leased: true},
		`"queue":true,"destructive":false`:  {Ready: true},
		`"queue":true,"request_timeout":""`: {Ready: true},
	} {
		want.Namespace, want.Queue = queue.DefaultNamespace, "q"
		a := e.call("queue.clear", `{"queue_name":"q",`+body+`}`).want(200, "ok")
		a.is(7.0, "count")
		a.is(true, "more")
		if got != want {
			t.Errorf("%s: got %+v, want %+v", body, got, want)
		}
	}
}

func TestCancel_NamesItemsByIDOrByFilter(t *testing.T) {
	t.Parallel()
	e := setup(t)
	one, two := queue.NewID(), queue.NewID()
	at := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	var got queue.CancelCall
	e.broker.cancel = func(call queue.CancelCall) (queue.Cancelled, error) {
		got = call
		return queue.Cancelled{Count: 1, NotFound: []queue.ID{two}}, nil
	}
	ids := fmt.Sprintf(`["%s","%s"]`, one, two)
	for _, c := range []struct {
		method, body string
		want         queue.CancelCall
	}{
		{"items.cancel", `"item_ids":` + ids, queue.CancelCall{IDs: []queue.ID{one, two}}},
		{"items.cancel", `"item_ids":` + ids + `,"queue_name":"q"`, queue.CancelCall{IDs: []queue.ID{one, two}, Queue: "q"}},
		{"items.cancel", `"filter":{"queue_name":"q"}`, queue.CancelCall{Queue: "q"}},
		{
			"items.cancel", `"filter":{"queue_name":"q","kind":"k","state":"lapsed","before":"2030-01-31T08:00:00Z"}`,
			queue.CancelCall{Queue: "q", Kind: "k", State: queue.Lapsed, Before: at},
		},
		{"storage/items.delete", `"queue_name":"q","ids":` + ids, queue.CancelCall{IDs: []queue.ID{one, two}, Queue: "q"}},
	} {
		a := e.call(c.method, `{`+c.body+`}`).want(200, "ok")
		a.is(1.0, "count")
		a.is(two.String(), "not_found", 0)
		c.want.Namespace = queue.DefaultNamespace
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.body, got, c.want)
		}
	}
	for _, state := range []queue.State{queue.Ready, queue.Scheduled, queue.Retrying, queue.Leased, queue.Lapsed, queue.Behind} {
		e.call("items.cancel", `{"filter":{"queue_name":"q","state":"`+state.String()+`"}}`).want(200, "ok")
		if got.State != state {
			t.Errorf("got state %v, want %v", got.State, state)
		}
	}
}

func TestCancel_NamesTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	e := setup(t, func(o *api.Options) { o.Limits.Items = 3 })
	called := false
	e.broker.cancel = func(queue.CancelCall) (queue.Cancelled, error) {
		called = true
		return queue.Cancelled{}, nil
	}
	id := `"` + queue.NewID().String() + `"`
	for body, want := range map[string][2]string{
		``:              {"item_ids", "one of item_ids and filter"},
		`"item_ids":[]`: {"item_ids", "one of item_ids and filter"},
		`"item_ids":[` + id + `],"filter":{"queue_name":"q"}`: {"item_ids", "one of item_ids and filter"},
		`"item_ids":[` + id + `,"x"]`:                         {"item_ids[1]", "not an item id"},
		`"item_ids":[` + id + `],"queue_name":"a/b"`:          {"queue_name", "want only"},
		`"filter":{}`:                                  {"filter.queue_name", "missing"},
		`"filter":{"queue_name":"a/b"}`:                {"filter.queue_name", "want only"},
		`"filter":{"queue_name":"q"},"queue_name":"q"`: {"queue_name", "filter.queue_name"},
		`"filter":{"queue_name":"q","state":"buried"}`: {"filter.state", "dead-letter queue"},
		`"filter":{"queue_name":"q","state":"dead"}`:   {"filter.state", "want one of ready, scheduled, retrying, leased, lapsed, behind"},
	} {
		e.call("items.cancel", `{`+body+`}`).invalid(want[0], want[1])
	}
	many := "[" + strings.Repeat(id+",", 3) + id + "]"
	e.call("items.cancel", `{"item_ids":`+many+`}`).want(413, "too_large").is("item_ids", "details", "field")
	e.call("storage/items.delete", `{"queue_name":"q","ids":`+many+`}`).want(413, "too_large").is("ids", "details", "field")
	e.call("storage/items.delete", `{"queue_name":"q"}`).invalid("ids", "want 1 to 3")
	e.call("storage/items.delete", `{"queue_name":"q","ids":["x"]}`).invalid("ids[0]", "not an item id")
	e.call("storage/items.delete", `{"ids":[`+id+`]}`).want(400, "invalid").is("queue_name", "details", "field")
	if called {
		t.Error("a call that was refused reached the broker")
	}
}

func TestRedrive_HandsOnWhatWasGiven(t *testing.T) {
	t.Parallel()
	e := setup(t, func(o *api.Options) { o.Limits.Items = 2 })
	one := queue.NewID()
	var got queue.RedriveCall
	e.broker.redrive = func(call queue.RedriveCall) (queue.Redriven, error) {
		got = call
		return queue.Redriven{Moved: 3, Skipped: 2, More: true}, nil
	}
	a := e.call("queue.redrive", `{"queue_name":"orders~dead","limit":5,"dry_run":true,"target":"orders","filter":{"item_ids":["`+one.String()+`"],
		"kind":"k","reason":"max_attempts","before":"2030-01-31T08:00:00Z","from":"orders"}}`).want(200, "ok")
	a.is(3.0, "moved")
	a.is(2.0, "skipped")
	a.is(true, "more")
	want := queue.RedriveCall{
		Namespace: queue.DefaultNamespace, Queue: "orders~dead", IDs: []queue.ID{one}, Kind: "k", Reason: "max_attempts",
		Before: time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC), From: "orders", Limit: 5, DryRun: true, Target: "orders",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for _, body := range []string{``, `,"limit":0`} {
		e.call("queue.redrive", `{"queue_name":"orders~dead"`+body+`}`).want(200, "ok")
		if want := (queue.RedriveCall{Namespace: queue.DefaultNamespace, Queue: "orders~dead", Limit: 10_000}); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", body, got, want)
		}
	}

	for body, want := range map[string][2]string{
		`"filter":{}`:                       {"filter", "no condition"},
		`"filter":{"item_ids":[]}`:          {"filter", "no condition"},
		`"filter":{"item_ids":["x"]}`:       {"filter.item_ids[0]", "not an item id"},
		`"filter":{"before":"monday"}`:      {"filter.before", "RFC 3339"},
		`"target":"a/b"`:                    {"target", "want only"},
		`"request_timeout":"1ms"`:           {"request_timeout", "out of range"},
		`"filter":{"item_ids":[],"x":1}`:    {"filter.x", "not a field"},
		`"rate":{}`:                         {"rate.count", "is 0; want 1 to 1000000"},
		`"rate":{"count":1000001}`:          {"rate.count", "want 1 to 1000000"},
		`"rate":{"count":1,"period":"1ms"}`: {"rate.period", "want 100ms to 24h"},
	} {
		e.call("queue.redrive", `{"queue_name":"orders~dead",`+body+`}`).invalid(want[0], want[1])
	}
	ids := strings.Repeat(`"`+one.String()+`",`, 2) + `"` + one.String() + `"`
	e.call("queue.redrive", `{"queue_name":"orders~dead","filter":{"item_ids":[`+ids+`]}}`).want(413, "too_large").is("filter.item_ids", "details", "field")
}
