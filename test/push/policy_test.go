package push_test

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// soon tries again after a tenth of a second.
var soon = object{"schedule": []string{"100ms"}}

func policyLog(t *testing.T, e *env) {
	for _, log := range []string{"all", "failures", "off"} {
		queue := e.queue + "-" + log
		r := newReceiver(t, answers(http.StatusInternalServerError, http.StatusOK))
		e.subscribe(queue, r.URL, object{"log": log, "retry": soon})
		id := e.produce(queue, object{"utf8": "x"})[0]
		r.next()
		r.next()
		eventually(t, "delivered", func() bool { return e.total(queue) == 0 })
		var verdicts []string
		for _, a := range e.attempts(object{"item_id": id, "type": "attempt"}) {
			verdicts = append(verdicts, fmt.Sprint(a.Attempt, " ", a.Verdict, " ", a.Status, " ", a.Next))
		}
		want := map[string][]string{
			"all":      {"1 retryable 500 retry", "2 delivered 200 complete"},
			"failures": {"1 retryable 500 retry"},
		}[log]
		if !slices.Equal(verdicts, want) {
			t.Errorf("log %s: got %q, want %q", log, verdicts, want)
		}
	}
}

func policyGone(t *testing.T, e *env) {
	r := newReceiver(t, answers(http.StatusGone, http.StatusOK))
	e.subscribe(e.queue, r.URL, object{"max_in_flight": 1})
	id := e.produce(e.queue, object{"utf8": "first"})[0]
	r.next()
	var info subscription
	eventually(t, "disabled", func() bool {
		e.call("subscriptions.info", object{"name": e.queue}, &info)
		return info.State == "disabled"
	})
	if !strings.Contains(info.Reason, "410") {
		t.Errorf("disabled because of %q, want 410 named", info.Reason)
	}
	var items struct{ Items []itemInfo }
	eventually(t, "parked", func() bool {
		e.call("items.info", object{"item_id": id}, &items)
		return len(items.Items) == 1 && items.Items[0].Why == "subscription_disabled"
	})
	if it := items.Items[0]; it.Attempts != 0 || it.Deliveries != 1 || it.LastStatus != http.StatusGone {
		t.Errorf("got %+v, want no attempt counted, and 410 remembered", it)
	}
	lines := e.attempts(object{"item_id": id})
	if len(lines) != 1 || lines[0].Verdict != "gone" || lines[0].Status != http.StatusGone || lines[0].Next != "release" {
		t.Errorf("log: got %+v, want one line: gone, 410, release", lines)
	}
	r.noneBefore(e.client, e.queue+"-marker")
	e.call("subscriptions.enable", object{"name": e.queue}, nil)
	if a := r.next(); a.id() != id {
		t.Errorf("item %s came, want %s", a.id(), id)
	}
	if it := e.ended(e.queue, id); it.State != "completed" {
		t.Errorf("got %+v, want it completed", it)
	}
}

func policyNever(t *testing.T, e *env) {
	r := newReceiver(t, func(w http.ResponseWriter, _ arrival) {
		w.Header().Set("posthaste-retry", "never")
		w.WriteHeader(http.StatusInternalServerError)
	})
	e.subscribe(e.queue, r.URL, object{"retry": soon})
	e.buriedAtOnce(t, r, http.StatusInternalServerError)
}

func policyBuryOn(t *testing.T, e *env) {
	r := newReceiver(t, answers(http.StatusUnprocessableEntity))
	e.subscribe(e.queue, r.URL, object{"retry": object{"schedule": []string{"100ms"}, "bury_on": []int{400, 422}}})
	e.buriedAtOnce(t, r, http.StatusUnprocessableEntity)
}

// buriedAtOnce wants an item buried after one request that was answered with a status.
func (e *env) buriedAtOnce(t *testing.T, r *receiver, status int32) {
	t.Helper()
	id := e.produce(e.queue, object{"utf8": "x"})[0]
	r.next()
	it := e.buried(e.dead, 1)[0]
	if it.ID != id || it.Dead.Reason != "rejected" || it.Dead.LastStatus != status || it.Dead.Attempts != 1 {
		t.Errorf("got %+v, want item %s rejected with %d at its first attempt", it, id, status)
	}
	if lines := e.attempts(object{"item_id": id, "type": "attempt"}); len(lines) != 1 || lines[0].Next != "bury" {
		t.Errorf("log: got %+v, want one line that buries", lines)
	}
	r.noneBefore(e.client, e.queue+"-marker")
}

func policyGiveUp(t *testing.T, e *env) {
	r := newReceiver(t, answers(http.StatusInternalServerError))
	e.subscribe(e.queue, r.URL, object{"retry": object{"max_attempts": -1, "schedule": []string{"300ms"}, "give_up_after": "1s"}})
	began := time.Now()
	id := e.produce(e.queue, object{"utf8": "x"})[0]
	it := e.buried(e.dead, 1)[0]
	if took := time.Since(began); took < time.Second {
		t.Errorf("buried after %s, want 1s at least", took)
	}
	if it.ID != id || it.Dead.Reason == "" || it.Dead.LastStatus != http.StatusInternalServerError {
		t.Errorf("got %+v, want item %s with its last status", it, id)
	}
}

func policyItemsOwn(t *testing.T, e *env) {
	r := newReceiver(t, func(w http.ResponseWriter, a arrival) {
		if a.header.Get("posthaste-kind") == "bad" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	e.subscribe(e.queue, r.URL, object{"retry": object{"max_attempts": 12, "schedule": []string{"50ms"}}, "headers": object{"X-Shop": "north", "X-Both": "subscription"}})
	id := e.produce(e.queue, object{"utf8": "x", "kind": "bad", "max_attempts": 2, "headers": object{"X-Both": "item"}})[0]
	for n := range 2 {
		r.next().expect(t, map[string]string{
			"webhook-id": id, "posthaste-attempt": fmt.Sprint(n + 1), "posthaste-max-attempts": "2", "X-Shop": "north", "X-Both": "item",
		})
	}
	if it := e.buried(e.dead, 1)[0]; it.Dead.Reason != "max_attempts" || it.Dead.Attempts != 2 {
		t.Errorf("got %+v, want it buried after two attempts", it)
	}
	r.noneBefore(e.client, e.queue+"-marker")
}

// What is left of an item that has ended is its log, which knows what it took.
func policyEndedItem(t *testing.T, e *env) {
	r := newReceiver(t, answers(http.StatusInternalServerError, http.StatusBadGateway, http.StatusOK))
	e.subscribe(e.queue, r.URL, object{"retry": soon})
	id := e.produce(e.queue, object{"utf8": "x"})[0]
	it := e.ended(e.queue, id)
	if it.State != "completed" || it.Deliveries != 3 || it.Attempts != 2 {
		t.Errorf("got %+v, want it completed at its third delivery, with two attempts that counted", it)
	}
}

// The head of the answer is kept byte by byte, whatever it is.
func policyAnswer(t *testing.T, e *env) {
	long := append([]byte("\x1b[31m\x00\xff"), bytes.Repeat([]byte("a"), 10_000)...)
	r := newReceiver(t, func(w http.ResponseWriter, _ arrival) { _, _ = w.Write(long) })
	e.subscribe(e.queue, r.URL, nil)
	id := e.produce(e.queue, object{"utf8": "x"})[0]
	if it := e.ended(e.queue, id); !bytes.Equal(it.Result, long[:4096]) {
		t.Errorf("result: got %d bytes %.40q, want the first 4,096 of the answer", len(it.Result), it.Result)
	}
	lines := e.attempts(object{"item_id": id, "type": "attempt"})
	if len(lines) != 1 || !bytes.Equal(lines[0].Response, long[:4096]) || lines[0].Node == "" || lines[0].Duration == "" {
		t.Errorf("log: got %d lines %.200v, want one with the first 4,096 bytes, node and duration", len(lines), lines)
	}
}
