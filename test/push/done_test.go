package push_test

import (
	"encoding/json"
	"net/http"
	"testing"
)

// doneNotice is what is told of an end.
type doneNotice struct {
	ItemID       string `json:"item_id"`
	QueueName    string `json:"queue_name"`
	Kind         string
	Reference    string
	Outcome      string
	Reason       string
	Subscription string
	Status       int
	ResponseText string `json:"response_text"`
	Attempts     int
	Deliveries   int
	DeadQueue    string `json:"dead_queue"`
}

func (a arrival) done(t *testing.T) (d doneNotice) {
	t.Helper()
	a.expect(t, map[string]string{"posthaste-kind": "item.done", "Content-Type": "application/json"})
	if err := json.Unmarshal(a.body, &d); err != nil {
		t.Fatalf("%v in %q", err, a.body)
	}
	return d
}

// refusingBad refuses items of the kind bad with a status, and says something to each.
func refusingBad(status int) func(w http.ResponseWriter, a arrival) {
	return func(w http.ResponseWriter, a arrival) {
		if a.header.Get("posthaste-kind") == "bad" {
			w.WriteHeader(status)
		}
		_, _ = w.Write([]byte("about " + string(a.body)))
	}
}

func doneToldOnce(t *testing.T, e *env) {
	hook, told := newReceiver(t, refusingBad(http.StatusInternalServerError)), newReceiver(t, nil)
	callbacks := e.queue + "-done"
	secret := e.subscribe(callbacks, told.URL, nil).Secret
	e.subscribe(e.queue, hook.URL, object{"on_done": callbacks, "retry": object{"max_attempts": 2, "schedule": []string{"100ms"}}})
	ids := e.produce(e.queue,
		object{"utf8": "good one", "kind": "good", "reference": "order-1"},
		object{"utf8": "bad one", "kind": "bad", "reference": "order-2"},
	)
	want := map[string]doneNotice{
		ids[0]: {
			ItemID: ids[0], QueueName: e.queue, Kind: "good", Reference: "order-1", Outcome: "completed", Subscription: e.queue,
			Status: 200, ResponseText: "about good one", Deliveries: 1,
		},
		ids[1]: {
			ItemID: ids[1], QueueName: e.queue, Kind: "bad", Reference: "order-2", Outcome: "buried", Reason: "max_attempts", Subscription: e.queue,
			Status: 500, ResponseText: "about bad one", Attempts: 2, Deliveries: 2, DeadQueue: e.dead,
		},
	}
	for range 2 {
		a := told.next()
		if !a.verifies(t, secret) {
			t.Error("the callback is not signed")
		}
		got := a.done(t)
		expected, ok := want[got.ItemID]
		if !ok {
			t.Errorf("told again, or of something else: %+v", got)
		}
		delete(want, got.ItemID)
		got.Attempts = max(got.Attempts, expected.Attempts) // how a success counts is not the callback's
		if got != expected {
			t.Errorf("told %+v\nwant %+v", got, expected)
		}
		a.expect(t, map[string]string{"posthaste-reference": got.Reference})
	}
	told.noneBefore(e.client, e.queue+"-marker")
}

func doneOfAnItem(t *testing.T, e *env) {
	hook, ofQueue, ofItem := newReceiver(t, nil), newReceiver(t, nil), newReceiver(t, nil)
	e.subscribe(e.queue+"-done", ofQueue.URL, nil)
	e.subscribe(e.queue+"-own", ofItem.URL, nil)
	e.subscribe(e.queue, hook.URL, object{"on_done": e.queue + "-done"})
	id := e.produce(e.queue, object{"utf8": "x", "on_done": e.queue + "-own"})[0]
	if d := ofItem.next().done(t); d.ItemID != id || d.Outcome != "completed" {
		t.Errorf("told %+v, want item %s completed", d, id)
	}
	ofQueue.noneBefore(e.client, e.queue+"-marker")
	e.refused(http.StatusBadRequest, "invalid", "queue.produce",
		object{"queue_name": e.queue, "items": []object{{"utf8": "x", "on_done": e.queue + "-nowhere"}}})
}

// What consumers end by pulling is told where the item itself says so: the subscription
// speaks for its pushes.
func donePulled(t *testing.T, e *env) {
	told := newReceiver(t, nil)
	callbacks := e.queue + "-done"
	e.subscribe(callbacks, told.URL, nil)
	e.subscribe(e.queue, refusing(t), object{"paused": true, "on_done": callbacks})
	ids := e.produce(e.queue, object{"utf8": "untold"}, object{"utf8": "told", "on_done": callbacks})
	var leased struct {
		Items []struct{ Receipt string }
	}
	e.call("queue.lease", object{"queue_name": e.queue, "client_id": "c", "batch_size": 2}, &leased)
	for i, it := range leased.Items {
		e.call("queue.complete", object{"items": []object{{"receipt": it.Receipt, "result": []byte("fine")[:4*i]}}}, nil)
	}
	if d := told.next().done(t); d.ItemID != ids[1] || d.Outcome != "completed" || d.ResponseText != "fine" || d.Subscription != "" {
		t.Errorf("told %+v, want item %s completed with its result", d, ids[1])
	}
	told.noneBefore(e.client, e.queue+"-marker")
}

// An endpoint that finishes later ends what the subscription pushed, and so does the server
// when it buries what nobody finished.
func doneLater(t *testing.T, e *env) {
	hook, told := newReceiver(t, keeping), newReceiver(t, nil)
	callbacks := e.queue + "-done"
	e.subscribe(callbacks, told.URL, nil)
	e.subscribe(e.queue, hook.URL, object{
		"on_done": callbacks, "defer": true, "defer_timeout": "30s", "retry": object{"max_attempts": 1},
	})
	id := e.produce(e.queue, object{"utf8": "finished"})[0]
	e.stranger().call("queue.complete", object{"items": []object{{"receipt": hook.next().receipt(t), "result": "ZmluZQ=="}}}, nil)
	if d := told.next().done(t); d.ItemID != id || d.Outcome != "completed" || d.ResponseText != "fine" {
		t.Errorf("told %+v, want item %s completed with its result", d, id)
	}
	id = e.produce(e.queue, object{"utf8": "forgotten"})[0]
	hook.next()
	if d := told.next().done(t); d.ItemID != id || d.Outcome != "buried" || d.DeadQueue != e.dead {
		t.Errorf("told %+v, want item %s buried", d, id)
	}
	told.noneBefore(e.client, e.queue+"-marker")
}

// A subscription of a dead-letter queue is the callback for failures.
func doneDeadLetters(t *testing.T, e *env) {
	hook, failures := newReceiver(t, refusingBad(http.StatusUnprocessableEntity)), newReceiver(t, nil)
	dead := e.queue + "-failed"
	e.call("queues.create", object{"queue_name": dead}, nil)
	e.call("queues.create", object{"queue_name": e.queue, "dead_queue": dead}, nil)
	e.subscribe(dead, failures.URL, nil)
	e.subscribe(e.queue, hook.URL, object{"retry": object{"bury_on": []int{422}}})
	ids := e.produce(e.queue, object{"utf8": "good", "kind": "good"}, object{"utf8": "bad", "kind": "bad"})
	a := failures.next()
	a.expect(t, map[string]string{"webhook-id": ids[1], "posthaste-kind": "bad", "posthaste-queue": dead, "posthaste-attempt": "2"})
	if string(a.body) != "bad" {
		t.Errorf("got %q, want the item as it was", a.body)
	}
	eventually(t, "completed there", func() bool { return e.total(dead) == 0 })
	failures.noneBefore(e.client, e.queue+"-marker")

	// The queue that is made by itself takes one as well.
	hook2, failures2 := newReceiver(t, answers(http.StatusUnprocessableEntity)), newReceiver(t, nil)
	queue := e.queue + "-2"
	e.subscribe(queue, hook2.URL, object{"retry": object{"bury_on": []int{422}}})
	id := e.produce(queue, object{"utf8": "bad"})[0]
	e.buried(queue+"~dead", 1)
	e.call("subscriptions.create", object{"name": queue + "-dead", "queue_name": queue + "~dead", "url": failures2.URL}, nil)
	failures2.next().expect(t, map[string]string{"webhook-id": id, "posthaste-queue": queue + "~dead"})
}
