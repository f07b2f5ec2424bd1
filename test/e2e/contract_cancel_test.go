package e2e_test

import (
	"net/http"
	"slices"
	"testing"
)

const unknownItem = "0199d3c2-8d3a-7c55-b0d5-6c3f5f8f4a11"

func contractClear(t *testing.T, e *env) {
	e.call("queues.create", object{"queue_name": e.queue}, nil)
	keyed := object{"utf8": "ready", "idempotency_key": "once"}
	e.produce(e.queue, object{"utf8": "to hold"})
	held := e.lease(e.queue, 1)[0]
	first := e.produce(e.queue, keyed, object{"utf8": "later", "delay": "1h"})[0]

	e.count(1, "queue.clear", object{"queue_name": e.queue, "scheduled": true})
	e.count(1, "queue.clear", object{"queue_name": e.queue, "queue": true})
	if items := e.items(e.queue); len(items) != 1 || !items[0].IsLeased {
		t.Errorf("left %+v, want the leased item", items)
	}
	e.count(1, "queue.clear", object{"queue_name": e.queue, "destructive": true})
	a := e.refused(http.StatusConflict, "stale_lease", "queue.complete", object{"receipts": []string{held.Receipt}})
	if a.Details["receipts[0]"] != "not_found" {
		t.Errorf("got %v, want the receipt of an item that is gone", a.Details)
	}
	e.count(0, "queue.clear", object{"queue_name": e.queue, "scheduled": true, "queue": true, "destructive": true})

	var reply struct{ Items []produced }
	e.call("queue.produce", object{"queue_name": e.queue, "items": []object{keyed}}, &reply)
	if got := reply.Items[0]; got.ItemID != first || !got.Duplicate {
		t.Errorf("the key of a cleared item: got %+v, want %s as a duplicate", got, first)
	}
	if n := e.known(); n != 0 {
		t.Errorf("the repeat added %d items", n)
	}
}

func contractCancel(t *testing.T, e *env) {
	e.call("queues.create", object{"queue_name": e.queue, "keep_ended": "1h"}, nil)
	ids := e.produce(e.queue, object{"utf8": "held"}, object{"utf8": "secret"}, object{"utf8": "kept"})
	held := e.lease(e.queue, 1)[0]
	got := e.count(2, "items.cancel", object{"item_ids": []string{ids[0], ids[1], unknownItem}})
	if !slices.Equal(got.NotFound, []string{unknownItem}) {
		t.Errorf("not found: got %v, want the one that never was", got.NotFound)
	}
	e.refused(http.StatusConflict, "stale_lease", "queue.complete", object{"receipts": []string{held.Receipt}})
	if items := e.items(e.queue); len(items) != 1 || items[0].ID != ids[2] {
		t.Errorf("left %+v, want %s", items, ids[2])
	}
	for _, id := range ids[:2] {
		if got := e.why(id, "cancelled", "cancelled"); got.EndedAt.IsZero() || len(got.Result) > 0 {
			t.Errorf("got %+v, want its end and nothing of its payload", got)
		}
	}
	got = e.count(0, "items.cancel", object{"item_ids": ids[:1]})
	if !slices.Equal(got.NotFound, ids[:1]) {
		t.Errorf("cancelled twice: got %+v, want it not found", got)
	}
}

func contractCancelFilter(t *testing.T, e *env) {
	e.call("queues.create", object{"queue_name": e.queue}, nil)
	e.produce(e.queue, object{"kind": "a"}, object{"kind": "b"}, object{"kind": "a", "delay": "1h"}, object{"kind": "b", "delay": "1h"})
	filter := func(more object) object {
		more["queue_name"] = e.queue
		return object{"filter": more}
	}
	e.count(0, "items.cancel", filter(object{"before": "2020-01-01T00:00:00Z"}))
	e.count(1, "items.cancel", filter(object{"kind": "a", "state": "scheduled"}))
	e.count(1, "items.cancel", filter(object{"kind": "a"}))
	e.count(1, "items.cancel", filter(object{"state": "ready"}))
	if items := e.items(e.queue); len(items) != 1 || items[0].Kind != "b" {
		t.Errorf("left %+v, want the scheduled b", items)
	}
	e.count(1, "items.cancel", filter(object{}))
}

func contractDelete(t *testing.T, e *env) {
	other := e.queue + "-other"
	e.call("queues.create", object{"queue_name": e.queue}, nil)
	e.call("queues.create", object{"queue_name": other}, nil)
	mine, theirs := e.produce(e.queue, object{"utf8": "x"})[0], e.produce(other, object{"utf8": "y"})[0]
	got := e.count(1, "storage/items.delete", object{"queue_name": e.queue, "ids": []string{mine, theirs}})
	if !slices.Equal(got.NotFound, []string{theirs}) {
		t.Errorf("not found: got %v, want the item of another queue", got.NotFound)
	}
	if items := e.items(other); len(items) != 1 {
		t.Errorf("the other queue has %+v, want its item", items)
	}
	e.refused(http.StatusNotFound, "not_found", "items.info", object{"item_id": mine})
}
