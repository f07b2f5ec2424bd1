package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
	"github.com/posthaste-io/posthaste/test/harness"
)

// turnRun is producers that go on while a topic is made of their queue.
type turnRun struct {
	t    *testing.T
	ends *crowd
	over chan struct{}

	mu sync.Mutex
	// ids are the items that were acknowledged.
	ids  map[string]bool
	all  sync.WaitGroup
	keys int
}

func newTurnRun(t *testing.T) *turnRun {
	return &turnRun{t: t, ends: newCrowd(t), over: make(chan struct{}), ids: map[string]bool{}}
}

// produce has a producer at a node until stop. It must not notice anything.
func (r *turnRun) produce(c *client) {
	r.keys++
	producer := r.keys
	r.all.Go(func() {
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for n := 0; ; n++ {
			select {
			case <-r.over:
				return
			case <-ticker.C:
			}
			body, _ := json.Marshal(object{"queue_name": "orders", "items": []object{
				{"utf8": "x", "idempotency_key": fmt.Sprintf("%d/%d", producer, n)},
			}})
			a, err := c.post("/v1/queue.produce", "application/json", nil, body)
			var reply struct{ Items []produced }
			if err == nil && a.status == http.StatusOK {
				err = json.Unmarshal(a.raw, &reply)
			}
			if err != nil || a.status != http.StatusOK || len(reply.Items) != 1 || reply.Items[0].Duplicate {
				r.t.Errorf("producer %d: item %d: %v: %d %s", producer, n, err, a.status, a.raw)
				return
			}
			r.mu.Lock()
			r.ids[reply.Items[0].ItemID] = true
			r.mu.Unlock()
		}
	})
}

func (r *turnRun) acknowledged() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ids)
}

func (r *turnRun) stop() {
	close(r.over)
	r.all.Wait()
}

// wantOnce checks that all that was acknowledged came to a path, each once.
func (r *turnRun) wantOnce(path string) {
	r.t.Helper()
	eventually(r.t, "everything at "+path, func() bool { return r.ends.missing(path, r.ids) == "" })
	r.ends.mu.Lock()
	defer r.ends.mu.Unlock()
	for id, n := range r.ends.seen[path] {
		if n != 1 || !r.ids[id] {
			r.t.Errorf("item %s came %d times, known %v; want each that was acknowledged once", id, n, r.ids[id])
		}
	}
}

// A queue is pushed and produced to while a topic is made of it: on every store, on one
// node and on two that share a database.
func TestTopics_FromAQueueThatIsInUse(t *testing.T) {
	t.Parallel()
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, harness.Start(t, harness.Options{Store: store.url(t), Args: loopback}).URL)
			turnInUse(t, c, c)
		})
	}
	t.Run("two nodes", func(t *testing.T) {
		t.Parallel()
		url := pgtest.URL(t)
		_, a := node(t, url)
		_, b := node(t, url)
		turnInUse(t, a, b)
	})
}

// turnInUse turns a queue at one node, and uses it at both.
func turnInUse(t *testing.T, a, b *client) {
	r := newTurnRun(t)
	a.call("subscriptions.create", object{
		"name": "billing", "queue_name": "orders", "url": r.ends.URL + "/ok/billing", "max_in_flight": 8,
		"retry": object{"schedule": []string{"100ms"}},
	}, nil)
	keyed := object{"utf8": "first", "idempotency_key": "first"}
	first := b.produce("orders", keyed)[0]
	r.ids[first] = true
	later := a.produce("orders", object{"utf8": "later", "delay": "1h"}) // stays scheduled
	r.produce(a)
	r.produce(b)
	eventually(t, "pushes", func() bool { return r.ends.distinct("/ok/billing") > 20 })

	a.call("topics.create", object{"from_queue": "orders"}, nil)
	// From the answer on, on any node.
	b.call("subscriptions.create", object{"name": "search", "topic": "orders"}, nil)
	late := []string{b.produce("orders", object{"utf8": "late"})[0], a.produce("orders", object{"utf8": "late"})[0]}
	before := r.acknowledged()
	eventually(t, "items of the topic", func() bool { return r.acknowledged() > before+20 })
	r.stop()
	for _, id := range late {
		r.ids[id] = true
	}
	r.wantOnce("/ok/billing")

	found := map[string]bool{}
	for b.stats("orders~search").Total > 0 {
		var receipts []string
		for _, it := range b.leaseFor("orders~search", 100, time.Second) {
			found[it.ItemID] = true
			receipts = append(receipts, it.Receipt)
		}
		if len(receipts) > 0 {
			b.call("queue.complete", object{"receipts": receipts}, nil)
		}
	}
	for _, id := range late {
		if !found[id] {
			t.Errorf("item %s, produced after a subscription was answered, did not come to it", id)
		}
	}
	if found[first] {
		t.Error("an item from before came to who subscribed later")
	}
	for _, c := range []*client{a, b} {
		if again := c.produce("orders", keyed)[0]; again != first {
			t.Errorf("a repeat is the item %s, want the first, %s", again, first)
		}
		refused := c.refused(http.StatusBadRequest, "is_topic", "queue.lease", object{
			"queue_name": "orders", "batch_size": 1, "client_id": "c", "request_timeout": "10ms",
		})
		if !strings.Contains(refused.Message, "orders~billing") {
			t.Errorf("lease of the old name: %s, want the new one in it", refused.Message)
		}
	}
	if st := a.stats("orders~billing"); st.Total != 1 || st.Scheduled != 1 {
		t.Errorf("its queue: got %+v, want the one item that is not due", st)
	}
	a.call("items.cancel", object{"item_ids": later}, nil)
	if st := a.stats("orders~billing"); st.Total != 0 {
		t.Errorf("its queue: got %+v, want it empty", st)
	}
}

// A receipt that was given before is good at the node that knows nothing of the topic yet,
// and what was buried goes back, while the call that makes the topic still waits.
func TestTopics_FromAQueueOnANodeThatIsLate(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	_, a := node(t, url)
	_, b := node(t, url)
	a.call("subscriptions.create", object{"name": "billing", "queue_name": "orders", "url": "http://127.0.0.1:9/", "paused": true}, nil)
	b.produce("orders", object{"utf8": "1"}, object{"utf8": "2"}, object{"utf8": "3"})
	held := b.lease("orders", 3)
	if len(held) != 3 {
		t.Fatalf("leased %d, want 3", len(held))
	}
	turned := make(chan answer, 1)
	started := time.Now()
	go func() {
		body, _ := json.Marshal(object{"from_queue": "orders"})
		reply, err := a.post("/v1/topics.create", "application/json", nil, body)
		if err != nil {
			t.Error(err)
		}
		turned <- reply
	}()
	eventually(t, "turned", func() bool { return a.try("topics.info", object{"topic": "orders"}).status == http.StatusOK })
	b.call("queue.complete", object{"queue_name": "orders", "receipts": []string{held[0].Receipt}}, nil)
	b.call("queue.bury", object{"receipts": []string{held[1].Receipt}}, nil)
	b.redrive(redriven{Moved: 1}, object{"queue_name": "orders~dead", "limit": 10})
	a.call("queue.retry", object{"queue_name": "orders", "items": []object{{"id": held[2].Receipt}}}, nil)
	if st := a.stats("orders~billing"); st.Total != 2 {
		t.Errorf("its queue: got %+v, want 2 items", st)
	}
	if reply := <-turned; reply.status != http.StatusOK {
		t.Errorf("got %d %s", reply.status, reply.raw)
	}
	if took := time.Since(started); took < 10*time.Second {
		t.Errorf("it took %v, want no less than the age of settings", took)
	}
	if got := b.lease("orders~billing", 10); len(got) != 2 {
		t.Errorf("leased %d items, want 2", len(got))
	}
}
