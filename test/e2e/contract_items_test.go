package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"
)

func contractWhy(t *testing.T, e *env) {
	e.call("queues.create", object{"queue_name": e.queue}, nil)
	ids := e.produce(e.queue, object{"utf8": "a"}, object{"utf8": "b", "delay": "1h"})
	e.why(ids[0], "ready", "no_receiver")
	if got := e.why(ids[1], "scheduled", "scheduled"); time.Until(got.NextAt) < 50*time.Minute {
		t.Errorf("next at %s, want in an hour", got.NextAt)
	}
	held := e.lease(e.queue, 1)[0]
	if got := e.why(ids[0], "leased", "leased"); !got.NextAt.Equal(held.LeaseDeadline) || got.Deliveries != 1 {
		t.Errorf("got %+v, want its first delivery and the deadline %s", got, held.LeaseDeadline)
	}
	e.call("queue.retry", object{"items": []object{{"id": held.Receipt, "delay": "1h", "reason": "busy"}}}, nil)
	if got := e.why(ids[0], "retrying", "retrying"); got.Attempts != 1 {
		t.Errorf("got %+v, want one attempt", got)
	}

	r := newReceiver(t)
	e.subscribe(e.queue, r.URL, object{"paused": true})
	pushed := e.produce(e.queue, object{"utf8": "c"})[0]
	e.why(pushed, "ready", "subscription_paused")
}

func contractResult(t *testing.T, e *env) {
	e.call("queues.create", object{"queue_name": e.queue, "keep_ended": "1h"}, nil)
	id := e.produce(e.queue, object{"utf8": "2+2"})[0]
	e.call("queue.complete", object{"items": []object{{"receipt": e.lease(e.queue, 1)[0].Receipt, "result": "NA=="}}}, nil)
	for method, request := range map[string]object{
		"items.info": {"item_id": id},
		"items.wait": {"item_id": id, "queue_name": e.queue},
	} {
		got := e.oneInfo(method, request)
		if got.State != "completed" || got.Why != "completed" || string(got.Result) != "4" || got.EndedAt.IsZero() || got.QueueName != e.queue {
			t.Errorf("%s: got %+v, want it completed with its result", method, got)
		}
	}
}

func contractWait(t *testing.T, e *env) {
	e.call("queues.create", object{"queue_name": e.queue, "keep_ended": "1h"}, nil)
	id := e.produce(e.queue, object{"utf8": "x"})[0]
	if got := e.oneInfo("items.wait", object{"item_id": id, "request_timeout": "50ms"}); got.State != "ready" {
		t.Errorf("time is up: got %+v, want where it is", got)
	}
	held := e.lease(e.queue, 1)[0]
	got := make(chan answer, 1)
	go func() {
		a, err := e.post("/v1/items.wait", "application/json", nil, fmt.Appendf(nil, `{"item_id":%q,"request_timeout":"5m"}`, id))
		if err != nil {
			a.raw = []byte(err.Error())
		}
		got <- a
	}()
	// Not seen from outside whether it waits already; the answer is the same if not.
	e.call("queue.complete", object{"items": []object{{"receipt": held.Receipt, "result": "b2s="}}}, nil)
	select {
	case a := <-got:
		var reply struct{ Items []info }
		if err := json.Unmarshal(a.raw, &reply); err != nil || len(reply.Items) != 1 || string(reply.Items[0].Result) != "ok" {
			t.Errorf("got %s, %v; want the result", a.raw, err)
		}
	case <-time.After(patience):
		t.Error("still waiting for an item that has ended")
	}
}

func contractPushResult(t *testing.T, e *env) {
	r := scriptedReceiver(t, func(w http.ResponseWriter, _ push) { fmt.Fprint(w, "thanks") })
	e.subscribe(e.queue, r.URL, nil)
	id := e.produce(e.queue, object{"utf8": "x"})[0]
	got := e.oneInfo("items.wait", object{"item_id": id})
	if got.State != "completed" || string(got.Result) != "thanks" || got.Subscription != e.queue || got.Deliveries != 1 {
		t.Errorf("got %+v, want the endpoint's answer", got)
	}
}

func contractKeepEnded(t *testing.T, e *env) {
	kept := func() string {
		var info struct {
			KeepEnded string `json:"keep_ended"`
		}
		e.call("queues.info", object{"queue_name": e.queue}, &info)
		return info.KeepEnded
	}
	e.call("queues.create", object{"queue_name": e.queue, "keep_ended": "90m"}, nil)
	e.call("queues.update", object{"queue_name": e.queue, "max_attempts": 3}, nil)
	if got := kept(); got != "5400s" {
		t.Errorf("another field was changed: got %q, want 5400s", got)
	}
	e.call("queues.update", object{"queue_name": e.queue, "keep_ended": "0s"}, nil)
	if got := kept(); got != "" {
		t.Errorf("got %q, want it off", got)
	}
	id := e.produce(e.queue, object{"utf8": "x"})[0]
	held := e.lease(e.queue, 1)[0]
	a := e.refused(http.StatusBadRequest, "invalid", "queue.complete", object{"items": []object{{"receipt": held.Receipt, "result": "b2s="}}})
	if a.Details["field"] != "items[0].result" {
		t.Errorf("a result that nobody would keep: got %s, want it refused", a.raw)
	}
	e.call("queue.complete", object{"items": []object{{"receipt": held.Receipt}}}, nil)
	e.refused(http.StatusNotFound, "not_found", "items.info", object{"item_id": id})
}

func contractUnknownItem(t *testing.T, e *env) {
	for _, method := range []string{"items.info", "items.wait"} {
		e.refused(http.StatusNotFound, "not_found", method, object{"item_id": unknownItem})
	}
	if got := e.count(0, "items.cancel", object{"item_ids": []string{unknownItem}}); len(got.NotFound) != 1 {
		t.Errorf("got %+v, want it not found", got)
	}
}
