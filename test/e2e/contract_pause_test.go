package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

func (e *env) paused() string {
	e.t.Helper()
	var info struct{ Pause string }
	e.call("queues.info", object{"queue_name": e.queue}, &info)
	return info.Pause
}

func contractPause(t *testing.T, e *env) {
	e.call("queues.create", object{"queue_name": e.queue}, nil)
	id := e.produce(e.queue, object{"utf8": "before"})[0]
	e.call("queues.pause", object{"queue_name": e.queue}, nil)
	if got := e.paused(); got != "both" {
		t.Errorf("paused: got %q, want both", got)
	}
	items := object{"queue_name": e.queue, "items": []object{{"utf8": "x"}}}
	e.refused(http.StatusConflict, "queue_paused", "queue.produce", items)
	if a, err := e.post("/v1/produce/"+e.queue, "", nil, []byte("x")); err != nil || a.CodeText != "queue_paused" {
		t.Errorf("raw produce: got %s, %v; want queue_paused", a.raw, err)
	}
	e.refused(http.StatusConflict, "queue_paused", "storage/items.import", object{"queue_name": e.queue, "items": []object{{"id": "x"}}})
	if got := e.leaseFor(e.queue, 1, 50*time.Millisecond); len(got) != 0 {
		t.Errorf("leased %+v from a paused queue", got)
	}
	e.why(id, "ready", "queue_paused")

	// What is sent back does not change what is paused.
	e.call("queues.update", object{"queue_name": e.queue, "pause": "", "reference": "r"}, nil)
	e.call("queues.resume", object{"queue_name": e.queue, "what": "produce"}, nil)
	if got := e.paused(); got != "lease" {
		t.Errorf("paused: got %q, want lease", got)
	}
	e.call("queue.produce", items, nil)
	if got := e.leaseFor(e.queue, 1, 50*time.Millisecond); len(got) != 0 {
		t.Errorf("leased %+v from a paused queue", got)
	}
	e.call("queues.resume", object{"queue_name": e.queue, "what": "lease"}, nil)
	if got := e.paused(); got != "" {
		t.Errorf("paused: got %q, want nothing", got)
	}
	if got := e.lease(e.queue, 1)[0].ItemID; got != id {
		t.Errorf("leased %s, want %s", got, id)
	}
}

func contractPauseWaits(t *testing.T, e *env) {
	e.call("queues.create", object{"queue_name": e.queue}, nil)
	e.produce(e.queue, object{"utf8": "a"})
	held := e.lease(e.queue, 1)[0]
	got := make(chan answer, 1)
	go func() {
		a, err := e.post("/v1/queue.lease", "application/json", nil,
			fmt.Appendf(nil, `{"queue_name":%q,"request_timeout":"5m"}`, e.queue))
		if err != nil {
			a.raw = []byte(err.Error())
		}
		got <- a
	}()
	eventually(t, "one waiting lease", func() bool { return e.stats(e.queue).LeaseWaiting == 1 })
	e.call("queues.pause", object{"queue_name": e.queue, "what": "lease"}, nil)
	select {
	case a := <-got:
		if a.status != http.StatusOK {
			t.Errorf("the waiting lease got %s, want 200 without items", a.raw)
		}
	case <-time.After(patience):
		t.Fatal("a lease still waits on a paused queue")
	}
	e.call("queue.extend", object{"receipts": []string{held.Receipt}}, nil)
	e.call("queue.complete", object{"receipts": []string{held.Receipt}}, nil)
	if s := e.stats(e.queue); s.Total != 0 {
		t.Errorf("got %+v, want the item settled though the queue is paused", s)
	}
}

// The pause comes before the subscription: a lease that is under way when a queue is
// paused may still find what is produced right after.
func contractPausePush(t *testing.T, e *env) {
	r := newReceiver(t)
	e.call("queues.create", object{"queue_name": e.queue}, nil)
	e.call("queues.pause", object{"queue_name": e.queue, "what": "lease"}, nil)
	e.subscribe(e.queue, r.URL, nil)
	id := e.produce(e.queue, object{"utf8": "x"})[0]
	if got := e.why(id, "ready", "queue_paused"); got.Subscription != e.queue {
		t.Errorf("got %+v, want the subscription named", got)
	}
	r.noneBefore(e.client, e.queue+"-marker")
	e.call("queues.resume", object{"queue_name": e.queue}, nil)
	r.next().expect(t, map[string]string{"webhook-id": id})
}
