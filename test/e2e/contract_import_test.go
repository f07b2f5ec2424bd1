package e2e_test

import (
	"encoding/json"
	"testing"
	"time"
)

// imported is an item as storage/items.import and storage/items.list show it.
type imported struct {
	ID             string
	SourceID       string `json:"source_id"`
	State          string
	Attempts       int32
	MaxAttempts    int32     `json:"max_attempts"`
	EnqueueAt      time.Time `json:"enqueue_at"`
	ExpireDeadline time.Time `json:"expire_deadline"`
	Payload        []byte
}

func (c *client) importItems(queue string, items any) []imported {
	c.t.Helper()
	var reply struct{ Items []imported }
	c.call("storage/items.import", object{"queue_name": queue, "items": items}, &reply)
	return reply.Items
}

func contractImportTwice(t *testing.T, e *env) {
	e.call("queues.create", object{"queue_name": e.queue}, nil)
	due := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	expire := due.Add(time.Hour)
	old := []object{{
		"id": "old-1", "kind": "k", "payload": "AP8=", "attempts": 3, "max_attempts": 9, "enqueue_at": due, "expire_deadline": expire,
	}}
	first := e.importItems(e.queue, old)
	again := e.importItems(e.queue, old)
	if len(first) != 1 || len(again) != 1 || first[0].ID != again[0].ID || first[0].ID == "old-1" {
		t.Fatalf("got %+v and %+v, want one item with an id of its own", first, again)
	}
	if n := e.known(); n != 1 {
		t.Errorf("the queue holds %d items, want 1", n)
	}
	it := first[0]
	if it.SourceID != "old-1" || it.State != "scheduled" || it.Attempts != 3 || it.MaxAttempts != 9 || string(it.Payload) != "\x00\xff" ||
		!it.EnqueueAt.Equal(due) || !it.ExpireDeadline.Equal(expire) {
		t.Errorf("got %+v, want all of it as it was", it)
	}
	e.why(it.ID, "scheduled", "scheduled")
}

func contractImportList(t *testing.T, e *env) {
	other := e.queue + "-other"
	e.call("queues.create", object{"queue_name": e.queue, "expire_timeout": "24h"}, nil)
	e.call("queues.create", object{"queue_name": other}, nil)
	ids := e.produce(e.queue, object{"utf8": "failed"}, object{"utf8": "held", "headers": object{"X-Shop": "north"}}, object{"utf8": "later", "delay": "1h"})
	e.call("queue.retry", object{"items": []object{{"id": e.lease(e.queue, 1)[0].Receipt, "delay": "2h"}}}, nil)
	held := e.lease(e.queue, 1)[0]

	var listed struct{ Items json.RawMessage }
	e.call("storage/items.list", object{"queue_name": e.queue}, &listed)
	got := map[string]imported{}
	for _, it := range e.importItems(other, listed.Items) {
		got[it.SourceID] = it
	}
	if len(got) != 3 {
		t.Fatalf("imported %+v, want 3", got)
	}
	for i, want := range []imported{{State: "scheduled", Attempts: 1}, {State: "scheduled"}, {State: "scheduled"}} {
		it := got[ids[i]]
		if it.State != want.State || it.Attempts != want.Attempts || it.ExpireDeadline.IsZero() {
			t.Errorf("item %d: got %+v, want %s, %d attempts and its expiry", i, it, want.State, want.Attempts)
		}
	}
	if at := got[held.ItemID].EnqueueAt; !at.Equal(held.LeaseDeadline) {
		t.Errorf("the leased item is due at %s, want its deadline, %s", at, held.LeaseDeadline)
	}
}
