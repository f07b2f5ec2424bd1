package e2e_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// pullOne makes a queue with one item and leases that.
func pullOne(t *testing.T, e *env) leased {
	t.Helper()
	e.call("queues.create", object{"queue_name": e.queue}, nil)
	id := e.produce(e.queue, object{"utf8": "work", "kind": "k"})[0]
	it := e.lease(e.queue, 10)[0]
	if it.ItemID != id || it.Attempts != 1 || it.Kind != "k" || string(it.Bytes) != "work" {
		t.Fatalf("leased %+v, want item %s, first delivery", it, id)
	}
	return it
}

func pullComplete(t *testing.T, e *env) {
	it := pullOne(t, e)
	if s := e.stats(e.queue); s.Total != 1 || s.Leased != 1 {
		t.Errorf("while leased: %+v, want one item, leased", s)
	}
	e.call("queue.complete", object{"queue_name": e.queue, "receipts": []string{it.Receipt}}, nil)
	if s := e.stats(e.queue); s.Total != 0 {
		t.Errorf("after complete: %+v, want nothing", s)
	}
}

func pullRetry(t *testing.T, e *env) {
	it := pullOne(t, e)
	at := time.Now()
	e.call("queue.retry", object{"items": []object{{"id": it.Receipt, "delay": "1s", "reason": "not now"}}}, nil)
	if s := e.stats(e.queue); s.Total != 1 || s.Leased != 0 || s.Failures != 1 {
		t.Errorf("after retry: %+v, want one item that failed", s)
	}
	again := e.lease(e.queue, 1)[0]
	if again.ItemID != it.ItemID || again.Attempts != 2 {
		t.Errorf("leased %+v, want item %s, second delivery", again, it.ItemID)
	}
	if waited := time.Since(at); waited < time.Second {
		t.Errorf("came back after %s, want 1s", waited)
	}
}

func pullRelease(t *testing.T, e *env) {
	it := pullOne(t, e)
	e.produce(e.queue, object{"utf8": "behind"})
	e.call("queue.release", object{"receipts": []string{it.Receipt}}, nil)
	again := e.lease(e.queue, 1)[0]
	if again.ItemID != it.ItemID {
		t.Errorf("leased %s, want %s back at its place, the head", again.ItemID, it.ItemID)
	}
	for _, listed := range e.items(e.queue) {
		if listed.Attempts != 0 {
			t.Errorf("item %s: %d attempts, want none counted", listed.ID, listed.Attempts)
		}
	}
}

func pullBury(t *testing.T, e *env) {
	it := pullOne(t, e)
	e.call("queue.bury", object{"receipts": []string{it.Receipt}, "reason": "no such customer"}, nil)
	dead := e.buried(e.dead)
	if dead.ID != it.ItemID || dead.Dead.Reason != "no such customer" {
		t.Errorf("buried %+v (%+v), want item %s with its reason", dead, dead.Dead, it.ItemID)
	}
	// A dead-letter queue is pulled like any other, and buries nothing.
	again := e.lease(e.dead, 1)[0]
	e.refused(http.StatusConflict, "already_dead", "queue.bury", object{"receipts": []string{again.Receipt}})
	e.call("queue.complete", object{"receipts": []string{again.Receipt}}, nil)
}

func pullExtend(t *testing.T, e *env) {
	it := pullOne(t, e)
	var reply struct {
		Results []struct {
			Status        string
			LeaseDeadline time.Time `json:"lease_deadline"`
		}
	}
	e.call("queue.extend", object{"receipts": []string{it.Receipt}, "lease_timeout": "10m"}, &reply)
	if len(reply.Results) != 1 || reply.Results[0].Status != "ok" {
		t.Fatalf("extend: %+v", reply)
	}
	if gained := reply.Results[0].LeaseDeadline.Sub(it.LeaseDeadline); gained < 8*time.Minute {
		t.Errorf("deadline moved by %s, want 60s to become 10m", gained)
	}
	e.call("queue.complete", object{"receipts": []string{it.Receipt}}, nil)
}

func pullLongPoll(t *testing.T, e *env) {
	e.call("queues.create", object{"queue_name": e.queue}, nil)
	got := make(chan answer, 1)
	go func() {
		a, err := e.post("/v1/queue.lease", "application/json", nil,
			fmt.Appendf(nil, `{"queue_name": %q, "request_timeout": "5m"}`, e.queue))
		if err != nil {
			a.raw = []byte(err.Error())
		}
		got <- a
	}()
	eventually(t, "one waiting lease", func() bool { return e.stats(e.queue).LeaseWaiting == 1 })
	id := e.produce(e.queue, object{"utf8": "x"})[0]
	select {
	case a := <-got:
		if a.status != http.StatusOK || !bytes.Contains(a.raw, []byte(id)) {
			t.Errorf("status %d: %s, want item %s", a.status, a.raw, id)
		}
	case <-time.After(patience):
		t.Error("the waiting lease did not get the item")
	}
}

func pullEmpty(t *testing.T, e *env) {
	e.call("queues.create", object{"queue_name": e.queue}, nil)
	if items := e.leaseFor(e.queue, 1, 50*time.Millisecond); len(items) != 0 {
		t.Errorf("leased %+v from an empty queue", items)
	}
}

func pullStale(t *testing.T, e *env) {
	it := pullOne(t, e)
	e.call("queue.release", object{"receipts": []string{it.Receipt}}, nil)
	other := e.lease(e.queue, 1)[0]
	// A good receipt beside a stale one: the call does nothing, and says which.
	a := e.refused(http.StatusConflict, "stale_lease", "queue.complete", object{"receipts": []string{other.Receipt, it.Receipt}})
	if a.Details["receipts[1]"] != "stale_lease" || len(a.Details) != 1 {
		t.Errorf("details %v, want receipts[1] alone", a.Details)
	}
	if s := e.stats(e.queue); s.Total != 1 || s.Leased != 1 {
		t.Errorf("after the refusal: %+v, want the item still leased", s)
	}
	e.call("queue.complete", object{"receipts": []string{other.Receipt}}, nil)
	a = e.refused(http.StatusConflict, "stale_lease", "queue.complete", object{"receipts": []string{other.Receipt}})
	if a.Details["receipts[0]"] != "not_found" {
		t.Errorf("completed twice: details %v, want not_found", a.Details)
	}
}

func pullBytes(t *testing.T, e *env) {
	e.call("queues.create", object{"queue_name": e.queue}, nil)
	for i, payload := range odd {
		a, err := e.post("/v1/produce/"+e.queue, "", nil, payload)
		if err != nil || a.status != http.StatusCreated {
			t.Fatalf("raw produce: status %d: %s, %v", a.status, a.raw, err)
		}
		it := e.lease(e.queue, 1)[0]
		if !bytes.Equal(it.Bytes, payload) {
			t.Errorf("payload %d of %d bytes: got %d other bytes", i, len(payload), len(it.Bytes))
		}
		e.call("queue.complete", object{"receipts": []string{it.Receipt}}, nil)
	}
}
