package push_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
)

// lines are what the log has of an item, as far as it is of interest here.
func (e *env) lines(id string) (lines []string) {
	e.t.Helper()
	for _, a := range e.attempts(object{"item_id": id, "queue_name": e.queue}) {
		lines = append(lines, fmt.Sprint(a.Attempt, " ", a.Type, " ", a.Verdict, " ", a.Next))
	}
	return lines
}

func outcomeInTheLog(t *testing.T, e *env) {
	r := newReceiver(t, keeping)
	e.subscribe(e.queue, r.URL, object{"defer": true})
	nobody := e.stranger()
	id := e.produce(e.queue, object{"utf8": "x"})[0]
	next := func() string {
		a := r.next()
		eventually(t, "deferred", func() bool {
			return slices.Contains(e.lines(id), a.header.Get("posthaste-attempt")+" attempt deferred hold")
		})
		return a.receipt(t)
	}
	nobody.call("queue.retry", object{"items": []object{{"id": next(), "reason": "no tape"}}}, nil)
	nobody.call("queue.release", object{"receipts": []string{next()}}, nil)
	nobody.call("queue.bury", object{"receipts": []string{next()}, "reason": "no such tape"}, nil)
	want := []string{
		"1 attempt deferred hold", "1 outcome deferred retry",
		"2 attempt deferred hold", "2 outcome deferred release",
		"3 attempt deferred hold", "3 outcome deferred bury",
	}
	if lines := e.lines(id); !slices.Equal(lines, want) {
		t.Errorf("log:\ngot  %q\nwant %q", lines, want)
	}
	outcomes := e.attempts(object{"item_id": id, "type": "outcome", "subscription": e.queue})
	if len(outcomes) != 3 || outcomes[0].Error != "no tape" || outcomes[2].Error != "no such tape" {
		t.Errorf("got %+v, want three outcomes of the subscription with their reasons", outcomes)
	}
}

// An endpoint may be quicker than its own answer: each of its requests is in the log all
// the same.
func outcomeBeforeTheAnswer(t *testing.T, e *env) {
	settledFirst := make(chan struct{})
	r := newReceiver(t, func(w http.ResponseWriter, a arrival) {
		select {
		case <-settledFirst:
		case <-t.Context().Done():
		}
		keeping(w, a)
	})
	e.subscribe(e.queue, r.URL, object{"defer": true})
	id := e.produce(e.queue, object{"utf8": "x"})[0]
	for _, how := range []string{"retry", "release", "complete"} {
		receipt := r.next().receipt(t)
		request := object{"receipts": []string{receipt}}
		if how == "retry" {
			request = object{"items": []object{{"id": receipt}}}
		}
		e.stranger().call("queue."+how, request, nil)
		settledFirst <- struct{}{}
	}
	if it := e.ended(e.queue, id); it.State != "completed" || it.Deliveries != 3 {
		t.Errorf("got %+v, want it completed at its third delivery", it)
	}
	want := []string{"1 outcome deferred retry", "2 outcome deferred release", "3 ending completed complete"}
	if lines := e.lines(id); !slices.Equal(lines, want) {
		t.Errorf("log:\ngot  %q\nwant %q", lines, want)
	}
}

func outcomeAtTheLimit(t *testing.T, e *env) {
	r := newReceiver(t, keeping)
	e.subscribe(e.queue, r.URL, object{"defer": true, "retry": object{"max_attempts": 2}})
	id := e.produce(e.queue, object{"utf8": "x"})[0]
	for range 2 {
		a := r.next()
		e.stranger().call("queue.retry", object{"items": []object{{"id": a.receipt(t), "reason": "no tape"}}}, nil)
	}
	if it := e.buried(e.dead, 1)[0]; it.ID != id || it.Dead.Reason != "max_attempts" || it.Dead.Attempts != 2 {
		t.Errorf("got %+v, want it buried after two attempts", it)
	}
	r.noneBefore(e.client, e.queue+"-marker")
}

// An endpoint does not know what is kept of its results.
func outcomeResultIsDropped(t *testing.T, e *env) {
	r := newReceiver(t, keeping)
	e.subscribe(e.queue, r.URL, object{"defer": true, "log": "off"})
	e.produce(e.queue, object{"utf8": "x"})
	a := r.next()
	e.stranger().call("queue.complete", object{"items": []object{{"receipt": a.receipt(t), "result": "ZG9uZQ=="}}}, nil)
	if n := e.total(e.queue); n != 0 {
		t.Errorf("%d items are left, want the one completed", n)
	}
}
