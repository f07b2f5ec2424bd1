package push_test

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

// keeping answers that the endpoint finishes later.
func keeping(w http.ResponseWriter, _ arrival) {
	w.Header().Set("posthaste-lease", "keep")
	w.WriteHeader(http.StatusAccepted)
}

// keepingFirst keeps the first item that comes, and takes all others.
func keepingFirst() func(w http.ResponseWriter, a arrival) {
	first := make(chan struct{}, 1)
	first <- struct{}{}
	return func(w http.ResponseWriter, a arrival) {
		select {
		case <-first:
			keeping(w, a)
		default:
		}
	}
}

// receipt is the credential that came with a push.
func (a arrival) receipt(t *testing.T) string {
	t.Helper()
	receipt := a.header.Get("posthaste-receipt")
	if receipt == "" {
		t.Fatalf("a push without posthaste-receipt: %v", a.header)
	}
	return receipt
}

// deferred waits until the server has taken note that the endpoint keeps an item.
func (e *env) deferred(id string) attempt {
	e.t.Helper()
	var found []attempt
	eventually(e.t, "deferred", func() bool {
		found = e.attempts(object{"item_id": id, "verdict": "deferred"})
		return len(found) > 0
	})
	return found[len(found)-1]
}

// settled is what is said of one receipt.
type settled struct {
	Results []struct {
		Status        string
		Buried        bool
		LeaseDeadline time.Time `json:"lease_deadline"`
	}
}

func laterCompletes(t *testing.T, e *env) {
	r := newReceiver(t, keeping)
	e.subscribe(e.queue, r.URL, object{"defer": true, "defer_timeout": "5m"})
	id := e.produce(e.queue, object{"utf8": "slow work"})[0]
	a := r.next()
	deadline, err := time.Parse(time.RFC3339, a.header.Get("posthaste-lease-deadline"))
	if err != nil || time.Until(deadline) < 0 {
		t.Errorf("posthaste-lease-deadline: got %q, %v", a.header.Get("posthaste-lease-deadline"), err)
	}
	line := e.deferred(id)
	if line.Status != http.StatusAccepted || line.Next != "hold" {
		t.Errorf("recorded as %+v, want status 202 and hold", line)
	}
	var info struct{ Lane struct{ Deferred int } }
	eventually(t, "shown as deferred", func() bool {
		e.call("subscriptions.info", object{"name": e.queue}, &info)
		return info.Lane.Deferred == 1
	})

	e.stranger().call("queue.complete", object{"items": []object{{"receipt": a.receipt(t), "result": "ZG9uZQ=="}}}, nil)
	if it := e.ended(e.queue, id); it.State != "completed" || string(it.Result) != "done" {
		t.Errorf("got %+v, want it completed with its result", it)
	}
	if lines := e.attempts(object{"item_id": id, "type": "ending"}); len(lines) != 1 || lines[0].Next != "complete" {
		t.Errorf("log: got %+v, want one line that says how it ended", lines)
	}
	e.stranger().refused(http.StatusConflict, "stale_lease", "queue.complete", object{"receipts": []string{a.receipt(t)}})
	r.noneBefore(e.client, e.queue+"-marker")
}

func laterExtends(t *testing.T, e *env) {
	r := newReceiver(t, func(w http.ResponseWriter, a arrival) {
		if a.header.Get("posthaste-attempt") == "1" {
			keeping(w, a)
		}
	})
	e.subscribe(e.queue, r.URL, object{"defer": true, "defer_timeout": "30s"})
	// The one that is extended is the older: without that it would lapse first.
	id := e.produce(e.queue, object{"utf8": "slower work"})[0]
	a := r.next()
	e.deferred(id)
	var extended settled
	e.stranger().call("queue.extend", object{"receipts": []string{a.receipt(t)}, "lease_timeout": "5m"}, &extended)
	if len(extended.Results) != 1 || extended.Results[0].Status != "ok" || time.Until(extended.Results[0].LeaseDeadline) < 4*time.Minute {
		t.Fatalf("extend: got %+v, want five minutes", extended)
	}
	other := e.produce(e.queue, object{"utf8": "forgotten work"})[0]
	kept := r.next()
	again := r.next()
	again.expect(t, map[string]string{"webhook-id": other, "posthaste-attempt": "2"})
	if gap := again.at.Sub(kept.at); gap < 29*time.Second || gap > 50*time.Second {
		t.Errorf("the one that was not extended came again after %s, want 30s", gap)
	}
	r.noneBefore(e.client, e.queue+"-marker")
	e.stranger().call("queue.complete", object{"receipts": []string{a.receipt(t)}}, nil)
	if it := e.ended(e.queue, id); it.State != "completed" || it.Deliveries != 1 {
		t.Errorf("got %+v, want it completed at its only delivery", it)
	}
}

// An endpoint may extend before it answers: the time that it was told it has is not taken
// from it by its own answer.
func laterExtendsBeforeTheAnswer(t *testing.T, e *env) {
	extended := make(chan struct{})
	r := newReceiver(t, func(w http.ResponseWriter, a arrival) {
		select {
		case <-extended:
		case <-t.Context().Done():
		}
		keeping(w, a)
	})
	e.subscribe(e.queue, r.URL, object{"defer": true, "defer_timeout": "30s"})
	id := e.produce(e.queue, object{"utf8": "x"})[0]
	receipt := r.next().receipt(t)
	var told settled
	e.stranger().call("queue.extend", object{"receipts": []string{receipt}, "lease_timeout": "5m"}, &told)
	close(extended)
	e.deferred(id)
	var info struct {
		Items []struct {
			NextAt time.Time `json:"next_at"`
		}
	}
	e.call("items.info", object{"item_id": id}, &info)
	if got, want := info.Items[0].NextAt, told.Results[0].LeaseDeadline; got.Before(want) {
		t.Errorf("the lease ends at %s, %s before what the endpoint was told", got, want.Sub(got))
	}
	e.stranger().call("queue.complete", object{"receipts": []string{receipt}}, nil)
}

func laterRetries(t *testing.T, e *env) {
	r := newReceiver(t, keepingFirst())
	e.subscribe(e.queue, r.URL, object{"defer": true})
	id := e.produce(e.queue, object{"utf8": "again"})[0]
	a := r.next()
	e.deferred(id)
	e.stranger().call("queue.retry", object{"items": []object{{"id": a.receipt(t), "delay": "200ms", "reason": "database is away"}}}, nil)
	again := r.next()
	again.expect(t, map[string]string{"webhook-id": id, "posthaste-attempt": "2"})
	if gap := again.at.Sub(a.at); gap < 200*time.Millisecond {
		t.Errorf("came again after %s, asked for 200ms", gap)
	}
	again.expect(t, map[string]string{"posthaste-retry-reason": "database is away"})
	if it := e.ended(e.queue, id); it.State != "completed" {
		t.Errorf("got %+v, want it completed", it)
	}
	// Until it is given back, an item may be buried as well.
	r2 := newReceiver(t, keeping)
	queue := e.queue + "-dead"
	e.subscribe(queue, r2.URL, object{"defer": true})
	id = e.produce(queue, object{"utf8": "hopeless"})[0]
	a = r2.next()
	e.deferred(id)
	e.stranger().call("queue.bury", object{"receipts": []string{a.receipt(t)}, "reason": "no such customer"}, nil)
	if it := e.buried(queue+"~dead", 1)[0]; it.ID != id || it.Dead.Reason != "no such customer" {
		t.Errorf("buried: got %+v", it)
	}
}

func laterLapses(t *testing.T, e *env) {
	r := newReceiver(t, keeping)
	e.subscribe(e.queue, r.URL, object{
		"defer": true, "defer_timeout": "30s", "retry": object{"max_attempts": 1},
	})
	id := e.produce(e.queue, object{"utf8": "forgotten"})[0]
	a := r.next()
	it := e.buried(e.dead, 1)[0]
	if it.ID != id || it.Dead.Attempts != 1 {
		t.Errorf("got %+v, want it buried after one attempt", it)
	}
	if kept := time.Since(a.at); kept < 29*time.Second {
		t.Errorf("buried after %s, the endpoint had 30s", kept)
	}
	e.stranger().refused(http.StatusConflict, "stale_lease", "queue.complete", object{"receipts": []string{a.receipt(t)}})
	lapses := e.attempts(object{"item_id": id, "queue_name": e.queue, "type": "lapse"})
	if len(lapses) != 1 {
		t.Errorf("%d lapses in the log, want 1: %+v", len(lapses), lapses)
	}
}

func laterAtMost(t *testing.T, e *env) {
	r := newReceiver(t, keeping)
	e.subscribe(e.queue, r.URL, object{"defer": true, "max_deferred": 2, "defer_timeout": "5m"})
	ids := e.produce(e.queue, object{"utf8": "1"}, object{"utf8": "2"}, object{"utf8": "3"}, object{"utf8": "4"}, object{"utf8": "5"})
	held := []arrival{r.next(), r.next()}
	for _, a := range held {
		e.deferred(a.id())
	}
	r.noneBefore(e.client, e.queue+"-marker")
	e.stranger().call("queue.complete", object{"receipts": []string{held[0].receipt(t)}}, nil)
	third := r.next()
	e.deferred(third.id())
	r.noneBefore(e.client, e.queue+"-marker-2")
	if !slices.Contains(ids, third.id()) || third.id() == held[0].id() || third.id() == held[1].id() {
		t.Errorf("item %s came after one was completed, want one that was not there yet", third.id())
	}
}

// Without defer an endpoint that says keep has taken the item.
func laterNotAllowed(t *testing.T, e *env) {
	r := newReceiver(t, keeping)
	e.subscribe(e.queue, r.URL, nil)
	id := e.produce(e.queue, object{"utf8": "x"})[0]
	r.next().expect(t, map[string]string{"posthaste-receipt": "", "posthaste-lease-deadline": ""})
	if it := e.ended(e.queue, id); it.State != "completed" {
		t.Errorf("got %+v, want it completed", it)
	}
	// And with defer, one that does not say keep has taken it too.
	r2 := newReceiver(t, answers(http.StatusAccepted))
	queue := e.queue + "-2"
	e.subscribe(queue, r2.URL, object{"defer": true})
	id = e.produce(queue, object{"utf8": "x"})[0]
	r2.next()
	if it := e.ended(queue, id); it.State != "completed" {
		t.Errorf("202 without posthaste-lease: got %+v, want it completed", it)
	}
}

func laterReceiptIsAllItOpens(t *testing.T, e *env) {
	r := newReceiver(t, keeping)
	e.subscribe(e.queue, r.URL, object{"defer": true})
	id := e.produce(e.queue, object{"utf8": "x"})[0]
	receipt := r.next().receipt(t)
	e.deferred(id)
	nobody := e.stranger()
	for method, request := range map[string]object{
		"queue.produce":      {"queue_name": e.queue, "items": []object{{"utf8": "y"}}},
		"queue.lease":        {"queue_name": e.queue, "client_id": "c"},
		"items.info":         {"item_id": id},
		"items.cancel":       {"item_ids": []string{id}},
		"attempts.list":      {"item_id": id},
		"subscriptions.info": {"name": e.queue},
		"queue.complete":     {"receipts": []string{}},
	} {
		nobody.refused(http.StatusUnauthorized, "unauthenticated", method, request)
	}
	nobody.refused(http.StatusUnauthorized, "unauthenticated", "queue.complete", object{"receipts": []string{"made-up"}})
	withReceipt := newClient(t, e.url, receipt)
	withReceipt.refused(http.StatusUnauthorized, "unauthenticated", "items.info", object{"item_id": id})
	if a := nobody.try("queue.complete", object{"receipts": []string{receipt[:len(receipt)-2] + "AA"}}); a.status == http.StatusOK {
		t.Error("a receipt with another end completed the item")
	}
	nobody.call("queue.complete", object{"receipts": []string{receipt}}, nil)
	if n := e.total(e.queue); n != 0 {
		t.Errorf("%d items are left, want the one completed", n)
	}
}
