package e2e_test

import (
	"net/http"
	"testing"
)

// redriven is the answer of queue.redrive.
type redriven struct {
	Moved, Skipped int
	More           bool
}

func (c *client) redrive(want redriven, request object) {
	c.t.Helper()
	var got redriven
	c.call("queue.redrive", request, &got)
	if got != want {
		c.t.Errorf("redrive %v: got %+v, want %+v", request, got, want)
	}
}

// bury produces an item and buries it.
func (c *client) bury(queue, kind, reason string) string {
	c.t.Helper()
	id := c.produce(queue, object{"utf8": kind, "kind": kind})[0]
	c.call("queue.bury", object{"receipts": []string{c.lease(queue, 1)[0].Receipt}, "reason": reason}, nil)
	return id
}

func contractRedrive(t *testing.T, e *env) {
	e.call("queues.create", object{"queue_name": e.queue, "max_attempts": 1}, nil)
	id := e.produce(e.queue, object{"utf8": "work", "kind": "k"})[0]
	e.call("queue.retry", object{"items": []object{{"id": e.lease(e.queue, 1)[0].Receipt, "reason": "busy"}}}, nil)
	if it := e.buried(e.dead); it.ID != id || it.Dead.Reason != "max_attempts" {
		t.Fatalf("buried %+v (%+v), want %s with its budget used up", it, it.Dead, id)
	}
	e.why(id, "buried", "buried")
	e.redrive(redriven{Moved: 1}, object{"queue_name": e.dead})
	it := e.lease(e.queue, 1)[0]
	if it.ItemID != id || it.Attempts != 2 || string(it.Bytes) != "work" {
		t.Errorf("leased %+v, want item %s, its second delivery", it, id)
	}
	// Its one attempt is there again: it dies of it once more, not before.
	e.call("queue.retry", object{"items": []object{{"id": it.Receipt}}}, nil)
	if again := e.buried(e.dead); again.ID != id {
		t.Errorf("buried %+v, want %s", again, id)
	}
	e.redrive(redriven{}, object{"queue_name": e.dead, "filter": object{"reason": "poison"}})
	a := e.refused(http.StatusBadRequest, "invalid", "queue.redrive", object{"queue_name": e.dead, "target": e.queue + "-none"})
	if a.Details["field"] != "target" {
		t.Errorf("got %s, want the target refused", a.raw)
	}
}

func contractRedriveFilter(t *testing.T, e *env) {
	target := e.queue + "-target"
	e.call("queues.create", object{"queue_name": e.queue}, nil)
	e.call("queues.create", object{"queue_name": target}, nil)
	a := e.bury(e.queue, "a", "broken")
	e.bury(e.queue, "b", "broken")
	e.bury(e.queue, "b", "odd")

	e.redrive(redriven{Moved: 3}, object{"queue_name": e.dead, "dry_run": true})
	if n := len(e.items(e.dead)); n != 3 {
		t.Errorf("a dry run left %d items, want 3", n)
	}
	e.redrive(redriven{Moved: 1}, object{"queue_name": e.dead, "filter": object{"kind": "b", "reason": "broken", "from": e.queue}, "target": target})
	if items := e.items(target); len(items) != 1 || items[0].Kind != "b" {
		t.Errorf("the target holds %+v, want the b", items)
	}
	e.redrive(redriven{}, object{"queue_name": e.dead, "filter": object{"before": "2020-01-01T00:00:00Z"}})
	held := e.lease(e.dead, 1)[0]
	e.redrive(redriven{Skipped: 1}, object{"queue_name": e.dead, "filter": object{"item_ids": []string{held.ItemID}}})
	e.call("queue.release", object{"receipts": []string{held.Receipt}}, nil)
	e.redrive(redriven{Moved: 1, More: true}, object{"queue_name": e.dead, "limit": 1})
	if items := e.items(e.queue); len(items) != 1 || items[0].ID != a {
		t.Errorf("back are %+v, want the first, %s", items, a)
	}
}
