package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// fine checks that a message came that has no code of its own.
func (a answer) fine() answer {
	a.Helper()
	if a.status != 200 {
		a.Errorf("got %d %s, want 200", a.status, a.raw)
	}
	return a
}

func TestTopics_Life(t *testing.T) {
	t.Parallel()
	e := whole(t)
	made := e.call("topics.create", `{"topic":"events","reference":"who did what"}`).fine()
	made.is("events", "topic")
	made.is("who did what", "reference")
	e.call("topics.create", `{"topic":"events"}`).want(409, "already_exists")
	e.call("queues.create", `{"queue_name":"events"}`).want(409, "already_exists")
	e.call("queues.create", `{"queue_name":"orders"}`).want(200, "ok")
	e.call("topics.create", `{"topic":"orders"}`).want(409, "already_exists")
	e.call("topics.create", `{"topic":"a~b"}`).invalid("topic", "~")
	e.call("topics.create", `{}`).invalid("topic", "missing")
	e.call("topics.create", `{"topic":"x","revision":"1"}`).invalid("revision", "for updates")

	first := e.call("queue.produce", `{"queue_name":"events","items":[{"utf8":"nobody"}]}`).want(200, "ok")
	first.is(0.0, "items", 0, "copies")

	sub := e.call("subscriptions.create", `{"name":"billing","topic":"events","url":"https://example.com/hook"}`).fine()
	sub.is("events~billing", "queue_name")
	sub.is("events", "topic")
	e.call("subscriptions.create", `{"name":"search","topic":"events"}`).fine().is("active", "state")
	info := e.call("topics.info", `{"topic":"events"}`).fine()
	info.is(2.0, "subscriptions")
	if info.get("revision") == made.get("revision") {
		t.Error("the revision is that of before the subscriptions")
	}
	e.call("topics.update", fmt.Sprintf(`{"topic":"events","reference":"new","revision":"%v"}`, made.get("revision"))).want(409, "revision_mismatch")
	e.call("topics.update", fmt.Sprintf(`{"topic":"events","reference":"new","revision":"%v"}`, info.get("revision"))).fine().is("new", "reference")
	e.call("topics.update", `{"topic":"events"}`).fine().is("new", "reference")
	e.call("topics.info", `{"topic":"orders"}`).want(404, "not_found")

	second := e.call("queue.produce", `{"queue_name":"events","items":[{"utf8":"one","idempotency_key":"k"},{"utf8":"two"}]}`).want(200, "ok")
	second.is(2.0, "items", 0, "copies")
	again := e.call("queue.produce", `{"queue_name":"events","items":[{"utf8":"one","idempotency_key":"k"}]}`).want(200, "ok")
	again.is(true, "items", 0, "duplicate")
	if strings.Contains(again.raw, "copies") {
		t.Errorf("a duplicate says how many copies it has: %s", again.raw)
	}
	if a := e.call("queue.produce", `{"queue_name":"orders","items":[{}]}`).want(200, "ok"); strings.Contains(a.raw, "copies") {
		t.Errorf("an item of a queue says how many copies it has: %s", a.raw)
	}
	raw := e.do(request("/v1/produce/events", strings.NewReader("three"), "Content-Type", "text/plain")).want(http.StatusCreated, "ok")
	raw.is(2.0, "items", 0, "copies")

	// A consumer pulls from one of them, whoever has the others.
	pulled := e.call("items.info", `{"item_id":"`+second.get("items", 1, "item_id").(string)+`","queue_name":"events~search"}`).fine()
	pulled.is("no_receiver", "items", 0, "why")
	a, receipt := e.leaseOne("events~search")
	a.is("one", "items", 0, "utf8")
	e.call("queue.complete", `{"receipts":["`+receipt+`"]}`).want(200, "ok")
	id := a.get("items", 0, "item_id").(string)
	copies := e.call("items.info", `{"item_id":"`+id+`"}`).fine()
	copies.is("events~billing", "items", 0, "queue_name")
	_, receipt = e.leaseOne("events~search")
	e.call("queue.bury", `{"receipts":["`+receipt+`"]}`).want(200, "ok")
	e.call("storage/items.list", `{"queue_name":"events~search~dead"}`).fine().is("events~search", "items", 0, "dead", "queue")
	e.call("queue.redrive", `{"queue_name":"events~search~dead","limit":10}`).fine()

	queues := e.call("queues.list", `{}`).fine()
	if !strings.Contains(queues.raw, `"events~billing"`) || strings.Contains(queues.raw, `"events"`) {
		t.Errorf("queues: got %s, want the subscriptions' and not the topic", queues.raw)
	}
	e.call("topics.list", `{"cursor":"/x"}`).invalid("cursor", "letter or a digit")
	topics := e.call("topics.list", `{}`).fine()
	topics.is("events", "items", 0, "topic")
	topics.is(2.0, "items", 0, "subscriptions")

	e.call("topics.delete", `{"topic":"events"}`).want(409, "not_empty")
	e.call("queues.delete", `{"queue_name":"events~billing"}`).want(409, "not_empty")
	e.call("subscriptions.delete", `{"name":"billing"}`).want(200, "ok")
	e.call("queues.info", `{"queue_name":"events~billing"}`).want(404, "not_found")
	e.call("topics.delete", `{"topic":"events","force":true}`).want(200, "ok")
	e.call("subscriptions.info", `{"name":"search"}`).want(404, "not_found")
	e.call("queues.info", `{"queue_name":"events~search"}`).want(404, "not_found")
	e.call("queue.produce", `{"queue_name":"events","items":[{}]}`).want(404, "not_found")
	e.call("topics.delete", `{"topic":"events"}`).want(404, "not_found")
	e.call("queues.create", `{"queue_name":"events"}`).want(200, "ok")
}

func TestTopics_FromAQueue(t *testing.T) {
	t.Parallel()
	e := whole(t)
	e.call("queues.create", `{"queue_name":"orders","reference":"who ordered what","lease_timeout":"90s"}`).want(200, "ok")
	e.call("topics.create", `{"from_queue":"orders"}`).invalid("from_queue", "no subscription")
	e.call("subscriptions.create", `{"name":"billing","queue_name":"orders","url":"https://example.com/hook","paused":true}`).fine()
	e.call("queue.produce", `{"queue_name":"orders","items":[{"utf8":"one","idempotency_key":"k"},{"utf8":"two"}]}`).want(200, "ok")
	_, receipt := e.leaseOne("orders")
	e.call("topics.create", `{"topic":"other","from_queue":"orders"}`).invalid("topic", "leave it out")
	e.call("topics.create", `{"from_queue":"none"}`).invalid("from_queue", "does not exist")
	e.call("topics.create", `{"from_queue":"a b"}`).invalid("from_queue", "want only")
	e.call("topics.create", `{"from_queue":"orders","revision":"1"}`).invalid("revision", "for updates")

	made := e.call("topics.create", `{"topic":"orders","from_queue":"orders"}`).fine()
	made.is("orders", "topic")
	made.is("who ordered what", "reference")
	made.is(1.0, "subscriptions")
	if strings.Contains(made.raw, "from_queue") {
		t.Errorf("the answer has from_queue: %s", made.raw)
	}
	e.call("topics.create", `{"from_queue":"orders"}`).want(http.StatusConflict, "already_exists")
	e.call("topics.create", `{"from_queue":"orders~billing"}`).invalid("from_queue", "the system made")
	e.call("topics.update", `{"topic":"orders","from_queue":"orders"}`).invalid("from_queue", "topics.create")

	own := e.call("queues.info", `{"queue_name":"orders~billing"}`).fine()
	own.is("90s", "lease_timeout")
	own.is("orders~dead", "dead_queue")
	sub := e.call("subscriptions.info", `{"name":"billing"}`).fine()
	sub.is("orders~billing", "queue_name")
	sub.is("orders", "topic")
	lease := e.call("queue.lease", `{"queue_name":"orders","batch_size":1,"client_id":"c","request_timeout":"10ms"}`).want(400, "is_topic")
	if message := fmt.Sprint(lease.body["message"]); !strings.Contains(message, "orders~billing") {
		t.Errorf("lease of the old name: %s, want the new one in it", message)
	}
	// Who leased before goes on as before.
	e.call("queue.extend", `{"queue_name":"orders","receipts":["`+receipt+`"],"lease_timeout":"1m"}`).want(200, "ok")
	e.call("queue.bury", `{"queue_name":"orders","receipts":["`+receipt+`"]}`).want(200, "ok")
	e.call("storage/items.list", `{"queue_name":"orders~dead"}`).fine().is("orders~billing", "items", 0, "dead", "queue")
	again := e.call("queue.produce", `{"queue_name":"orders","items":[{"utf8":"one","idempotency_key":"k"}]}`).want(200, "ok")
	again.is(true, "items", 0, "duplicate")
	e.call("subscriptions.create", `{"name":"search","topic":"orders"}`).fine()
	e.call("queue.produce", `{"queue_name":"orders","items":[{}]}`).want(200, "ok").is(2.0, "items", 0, "copies")
	// The subscription is paused, and consumers lease what it would be sent.
	e.leaseOne("orders~billing")
}

func TestTopics_AreNoQueues(t *testing.T) {
	t.Parallel()
	e := whole(t)
	e.call("topics.create", `{"topic":"events"}`).fine()
	for method, body := range map[string]string{
		"queue.lease":          `{"queue_name":"events"}`,
		"queue.stats":          `{"queue_name":"events"}`,
		"queue.clear":          `{"queue_name":"events","queue":true}`,
		"queue.reload":         `{"queue_name":"events"}`,
		"queue.redrive":        `{"queue_name":"events","limit":1}`,
		"queues.info":          `{"queue_name":"events"}`,
		"queues.update":        `{"queue_name":"events"}`,
		"queues.delete":        `{"queue_name":"events","force":true}`,
		"queues.pause":         `{"queue_name":"events"}`,
		"queues.resume":        `{"queue_name":"events"}`,
		"storage/items.list":   `{"queue_name":"events"}`,
		"storage/items.import": `{"queue_name":"events","items":[{"id":"x"}]}`,
		"items.cancel":         `{"filter":{"queue_name":"events"}}`,
		"subscriptions.create": `{"name":"s","queue_name":"events","url":"https://example.com"}`,
	} {
		a := e.call(method, body)
		if a.status != 400 || a.body["code_text"] != "is_topic" || !strings.Contains(a.raw, "queue_name\"") {
			t.Errorf("%s: got %d %s, want 400 is_topic, with the field", method, a.status, a.raw)
		}
		advice := "events~<subscription>"
		if method == "subscriptions.create" {
			advice = "queue_name: events is a topic; give topic, not queue_name"
		}
		if !strings.Contains(fmt.Sprint(a.body["message"]), advice) {
			t.Errorf("%s: got %s, want %s in it", method, a.raw, advice)
		}
	}
	e.call("subscriptions.create", `{"name":"s","topic":"none","url":"https://example.com"}`).want(404, "not_found")
	e.call("subscriptions.create", `{"name":"s","topic":"events","queue_name":"orders","url":"https://example.com"}`).invalid("queue_name", "events~s")
	e.call("subscriptions.create", `{"name":"s","topic":"a/b","url":"https://example.com"}`).invalid("topic", "want only")
	e.call("subscriptions.create", `{"name":"s","topic":"events"}`).fine()
	e.call("subscriptions.update", `{"name":"s","topic":"other"}`).invalid("topic", "cannot be changed")
	e.call("subscriptions.update", `{"name":"s","topic":"events","queue_name":"events~s"}`).fine()
	e.call("queue.produce", `{"queue_name":"events","items":[{"target":{"url":"https://example.com"}}]}`).invalid("items[0].target", "topic")
}

func TestTopics_RefusalsSayWhatToDo(t *testing.T) {
	t.Parallel()
	e := whole(t)
	e.call("queues.create", `{"queue_name":"orders"}`).want(200, "ok")
	e.call("topics.create", `{"topic":"events"}`).fine()
	e.call("subscriptions.create", `{"name":"billing","topic":"events"}`).fine()
	for _, tt := range []struct {
		method, body string
		status       int
		word         string
		field        string
		message      string
	}{
		{"topics.info", `{"topic":"orders"}`, 404, "not_found", "topic", "topic: orders is a queue, not a topic; use queues.info"},
		{"topics.update", `{"topic":"orders","reference":"x"}`, 404, "not_found", "topic", "topic: orders is a queue, not a topic; use queues.update"},
		{"topics.delete", `{"topic":"orders"}`, 404, "not_found", "topic", "topic: orders is a queue, not a topic; use queues.delete"},
		{"topics.info", `{"topic":"none"}`, 404, "not_found", "topic", "topic none: there is none of that name; create it first, or check the spelling"},
		{"subscriptions.create", `{"name":"s","topic":"orders"}`, 404, "not_found", "topic", "topic: orders is a queue, not a topic; give queue_name, not topic, or make a topic of it with topics.create and from_queue"},
		{"subscriptions.create", `{"name":"s","topic":"none"}`, 404, "not_found", "topic", "topic none: there is none of that name; create it first, or check the spelling"},
		{
			"topics.delete", `{"topic":"events"}`, 409, "not_empty", "force",
			"topic events has 1 subscription, billing; delete it first, or give force, which deletes subscriptions with their queues and all items in these",
		},
	} {
		a := e.call(tt.method, tt.body).want(tt.status, tt.word)
		a.is(tt.field, "details", "field")
		a.is(tt.message, "message")
	}
	e.call("subscriptions.create", `{"name":"search","topic":"events"}`).fine()
	a := e.call("topics.delete", `{"topic":"events"}`).want(409, "not_empty")
	a.is("topic events has 2 subscriptions, such as billing; delete them first, or give force, which deletes subscriptions with their queues and all items in these", "message")
}

func TestTopics_FanOutIsBounded(t *testing.T) {
	t.Parallel()
	e := whole(t)
	e.call("topics.create", `{"topic":"events"}`).fine()
	for i := range 11 {
		e.call("subscriptions.create", fmt.Sprintf(`{"name":"s%d","topic":"events"}`, i)).fine()
	}
	items := strings.TrimSuffix(strings.Repeat("{},", 1000), ",")
	a := e.call("queue.produce", `{"queue_name":"events","items":[`+items+`]}`).want(413, "fan_out_too_large")
	a.is("11000", "details", "copies")
	a.is("10000", "details", "limit")
	if a := e.call("queue.stats", `{"queue_name":"events~s0"}`).fine(); strings.Contains(a.raw, `"total":1`) {
		t.Errorf("something was kept: %s", a.raw)
	}
}
