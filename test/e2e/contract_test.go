package e2e_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"
)

// TestContract calls what operates on queues and items, on one server a store.
func TestContract(t *testing.T) {
	t.Parallel()
	onEachStore(t, map[string]func(t *testing.T, e *env){
		"Produce_I06_KeyOfACallMakesItsRepeatSafe":    contractCallKey,
		"Pause_RefusesProducersAndGivesNothingOut":    contractPause,
		"Pause_EndsWaitsAndKeepsSettling":             contractPauseWaits,
		"Pause_StopsPushes":                           contractPausePush,
		"Reload_IsAnsweredForQueuesThatAre":           contractReload,
		"Clear_EndsWhatWasNamedAndKeysStayKnown":      contractClear,
		"Cancel_ErasesByID":                           contractCancel,
		"Cancel_ByFilterTakesWhatMatches":             contractCancelFilter,
		"Delete_IsOfOneQueue":                         contractDelete,
		"Redrive_BringsItemsBackWithAFreshBudget":     contractRedrive,
		"Redrive_ChoosesAndSaysWhatItWould":           contractRedriveFilter,
		"Import_TwiceGivesOneItem":                    contractImportTwice,
		"Import_TakesWhatAListAnswered":               contractImportList,
		"Items_InfoSaysWhyAnItemWaits":                contractWhy,
		"Items_ResultIsKnownWhileItIsKept":            contractResult,
		"Items_WaitAnswersWhenItEndsOrTimeIsUp":       contractWait,
		"Items_AnEndpointsAnswerIsTheResult":          contractPushResult,
		"Items_KeepEndedIsChangedByItselfAndByZero":   contractKeepEnded,
		"Items_WhatIsNotKnownIsNotFound":              contractUnknownItem,
		"Input_WrongCallsNameTheirFieldAndDoNothing":  contractFaults,
		"Input_UnknownQueueIsNotFoundByEveryCallOfIt": contractUnknownQueue,
	})
}

// counted is the answer of calls that end items.
type counted struct {
	Count    int
	More     bool
	NotFound []string `json:"not_found"`
}

// info is an entry of items.info.
type info struct {
	QueueName    string `json:"queue_name"`
	State        string
	Why          string
	Message      string
	NextAt       time.Time `json:"next_at"`
	Deliveries   int32
	Attempts     int32
	Subscription string
	Result       []byte
	EndedAt      time.Time `json:"ended_at"`
}

// info returns what is known of an item that is in one queue, or was.
func (c *client) info(id string) info {
	c.t.Helper()
	return c.oneInfo("items.info", object{"item_id": id})
}

func (c *client) oneInfo(method string, request object) info {
	c.t.Helper()
	var reply struct{ Items []info }
	c.call(method, request, &reply)
	if len(reply.Items) != 1 {
		c.t.Fatalf("%s: got %+v, want one queue", method, reply.Items)
	}
	if reply.Items[0].Message == "" {
		c.t.Errorf("%s: %s is not said in words", method, reply.Items[0].Why)
	}
	return reply.Items[0]
}

// why checks the reason of an item.
func (c *client) why(id, state, why string) info {
	c.t.Helper()
	got := c.info(id)
	if got.State != state || got.Why != why {
		c.t.Errorf("item %s: got %s, %s (%s); want %s, %s", id, got.State, got.Why, got.Message, state, why)
	}
	return got
}

// count makes a call that must end that many items.
func (c *client) count(want int, method string, request object) counted {
	c.t.Helper()
	var got counted
	c.call(method, request, &got)
	if got.Count != want || got.More {
		c.t.Errorf("%s %v: got %+v, want %d", method, request, got, want)
	}
	return got
}

// known says how many items are in any state.
func (e *env) known() int { return len(e.items(e.queue)) }

func contractCallKey(t *testing.T, e *env) {
	e.call("queues.create", object{"queue_name": e.queue}, nil)
	send := func(payloads ...string) (answer, []produced) {
		t.Helper()
		request := object{"queue_name": e.queue}
		var items []object
		for _, p := range payloads {
			items = append(items, object{"utf8": p})
		}
		request["items"] = items
		body, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		a, err := e.post("/v1/queue.produce", "application/json", map[string]string{"Idempotency-Key": "order-7"}, body)
		if err != nil {
			t.Fatal(err)
		}
		var reply struct{ Items []produced }
		if err := json.Unmarshal(a.raw, &reply); err != nil {
			t.Fatal(err)
		}
		return a, reply.Items
	}
	_, first := send("a", "b")
	_, again := send("a", "b")
	for i := range first {
		if first[i].Duplicate || !again[i].Duplicate || first[i].ItemID != again[i].ItemID {
			t.Errorf("item %d: first %+v, repeated %+v; want the same id, as a duplicate", i, first[i], again[i])
		}
	}
	for _, other := range [][]string{{"a", "c"}, {"a"}, {"a", "b", "c"}} {
		a, _ := send(other...)
		if a.status != http.StatusConflict || a.CodeText != "idempotency_mismatch" || a.Details["field"] != "Idempotency-Key" {
			t.Errorf("%v under the key: got %s, want 409 that names the header", other, a.raw)
		}
	}
	// The key of an item is another one.
	e.produce(e.queue, object{"utf8": "c", "idempotency_key": "order-7"})
	if n := e.known(); n != 3 {
		t.Errorf("the queue holds %d items, want 3", n)
	}
}

func contractReload(t *testing.T, e *env) {
	e.call("queues.create", object{"queue_name": e.queue}, nil)
	e.call("queue.reload", object{"queue_name": e.queue}, nil)
	e.refused(http.StatusNotFound, "not_found", "queue.reload", object{"queue_name": e.queue + "-other"})
}

func contractFaults(t *testing.T, e *env) {
	e.call("queues.create", object{"queue_name": e.queue}, nil)
	id := e.produce(e.queue, object{"utf8": "x"})[0]
	for _, c := range []struct {
		method  string
		request object
		field   string
	}{
		{"queue.clear", object{"queue_name": e.queue}, "queue"},
		{"queue.redrive", object{"queue_name": e.queue}, "queue_name"},
		{"queue.redrive", object{"queue_name": e.queue, "limit": 100_001}, "limit"},
		{"queue.redrive", object{"queue_name": e.queue, "rate": "1/s"}, "rate"},
		{"queue.redrive", object{"queue_name": e.queue, "rate": object{"count": -1}}, "rate.count"},
		{"queue.produce", object{"queue_name": e.queue, "items": []object{{"utf8": "x", "target": object{"url": "https://a.example"}}}}, "items[0].target"},
		{"queue.produce", object{"queue_name": e.queue, "items": []object{{"utf8": "x", "on_done": "nowhere"}}}, "items[0].on_done"},
		{"queues.pause", object{"queue_name": e.queue, "what": "push"}, "what"},
		{"queues.resume", object{"queue_name": e.queue, "what": "push"}, "what"},
		{"storage/items.import", object{"queue_name": e.queue, "items": []object{{"payload": "AA=="}}}, "items[0].id"},
		{"storage/items.import", object{"queue_name": e.queue, "items": []object{{"id": "a"}, {"id": "b", "attempts": -1}}}, "items[1].attempts"},
		{"storage/items.delete", object{"queue_name": e.queue, "ids": []string{id, "x"}}, "ids[1]"},
		{"items.info", object{"item_id": "x"}, "item_id"},
		{"items.wait", object{"item_id": id, "request_timeout": "1h"}, "request_timeout"},
		{"items.cancel", object{"item_ids": []string{id, "x"}}, "item_ids[1]"},
		{"items.cancel", object{"queue_name": e.queue}, "item_ids"},
		{"items.cancel", object{"filter": object{"kind": "k"}}, "filter.queue_name"},
		{"items.cancel", object{"filter": object{"queue_name": e.queue, "state": "buried"}}, "filter.state"},
		{"queues.update", object{"queue_name": e.queue, "keep_ended": "1000h"}, "keep_ended"},
	} {
		a := e.refused(http.StatusBadRequest, "invalid", c.method, c.request)
		if a.Details["field"] != c.field {
			t.Errorf("%s %v: got field %q (%s), want %q", c.method, c.request, a.Details["field"], a.Message, c.field)
		}
	}
	if n := e.known(); n != 1 {
		t.Errorf("after refused calls the queue holds %d items, want its one", n)
	}
}

func contractUnknownQueue(t *testing.T, e *env) {
	for method, request := range map[string]object{
		"queue.clear":          {"queue_name": e.queue, "queue": true},
		"queue.redrive":        {"queue_name": e.queue},
		"queues.pause":         {"queue_name": e.queue},
		"queues.resume":        {"queue_name": e.queue},
		"storage/items.import": {"queue_name": e.queue, "items": []object{{"id": "x"}}},
		"storage/items.delete": {"queue_name": e.queue, "ids": []string{unknownItem}},
		"items.info":           {"item_id": unknownItem, "queue_name": e.queue},
		"items.wait":           {"item_id": unknownItem, "queue_name": e.queue},
		"items.cancel":         {"filter": object{"queue_name": e.queue}},
	} {
		e.refused(http.StatusNotFound, "not_found", method, request)
	}
}
