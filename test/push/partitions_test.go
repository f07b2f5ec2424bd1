package push_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
	"github.com/posthaste-io/posthaste/test/harness"
)

// deliveries are how often each item came, to whomever.
type deliveries struct {
	mu    sync.Mutex
	came  map[string]int
	by    map[string]int
	order []string
}

func (d *deliveries) add(who, id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.came[id]++
	d.order = append(d.order, id)
	d.by[who]++
}

func (d *deliveries) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.came)
}

// partitionInfo is a partition as queues.info shows it.
type partitionInfo struct {
	Partition int
	ReadOnly  bool `json:"read_only"`
	Total     int
}

func (c *client) partitions(queue string) []partitionInfo {
	c.t.Helper()
	var reply struct{ Partitions []partitionInfo }
	c.call("queues.info", object{"queue_name": queue}, &reply)
	return reply.Partitions
}

// pull leases and completes until stop is closed. All items of an answer are of the
// partition that it names.
func (c *client) pull(who, queue string, seen *deliveries, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		var reply struct {
			Partition int
			Items     []struct {
				Receipt string
				ItemID  string `json:"item_id"`
			}
		}
		a := c.try("queue.lease", object{"queue_name": queue, "batch_size": 20, "request_timeout": "200ms", "client_id": who})
		if a.status != http.StatusOK {
			c.t.Errorf("lease: %d: %s", a.status, a.raw)
			return
		}
		if err := json.Unmarshal(a.raw, &reply); err != nil {
			c.t.Errorf("lease: %v", err)
			return
		}
		if len(reply.Items) == 0 {
			continue
		}
		var receipts []string
		for _, it := range reply.Items {
			seen.add(who, it.ItemID)
			receipts = append(receipts, it.Receipt)
		}
		if a := c.try("queue.complete", object{"queue_name": queue, "partition": reply.Partition, "receipts": receipts}); a.status != http.StatusOK {
			c.t.Errorf("complete: %d: %s", a.status, a.raw)
			return
		}
	}
}

// A queue whose partitions are raised and lowered while two consumers and a lane take from
// it loses nothing and gives nothing out twice.
func partitionsChange(t *testing.T, e *env) {
	const calls, perCall = 200, 25
	e.call("queues.create", object{"queue_name": e.queue, "requested_partitions": 8}, nil)
	seen := &deliveries{came: map[string]int{}, by: map[string]int{}}
	r := newReceiver(t, nil)
	r.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		seen.add("lane", req.Header.Get("webhook-id"))
	})
	e.subscribe(e.queue, r.URL, object{"max_in_flight": 8})
	stop := make(chan struct{})
	var consumers sync.WaitGroup
	defer func() {
		close(stop)
		consumers.Wait()
	}()
	for _, who := range []string{"first", "second"} {
		consumers.Go(func() { e.pull(who, e.queue, seen, stop) })
	}

	produced, keyOf, keyed := map[string]bool{}, map[string]string{}, map[string][]string{}
	produce := func(calls int) {
		for n := range calls {
			items := make([]object, perCall)
			for i := range items {
				items[i] = object{"utf8": "x"}
				if i%5 == 0 {
					items[i]["ordering_key"] = fmt.Sprint("key-", n%40)
				}
			}
			for i, id := range e.produce(e.queue, items...) {
				produced[id] = true
				if key, _ := items[i]["ordering_key"].(string); key != "" {
					keyOf[id] = key
					keyed[key] = append(keyed[key], id)
				}
			}
		}
	}
	produce(calls / 4)
	e.call("queues.update", object{"queue_name": e.queue, "requested_partitions": 12}, nil)
	produce(calls / 4)
	// So that there is something in the partitions that go.
	e.call("queues.pause", object{"queue_name": e.queue, "what": "lease"}, nil)
	produce(calls / 4)
	if parts := e.partitions(e.queue); len(parts) != 12 {
		t.Errorf("got %+v, want 12 partitions", parts)
	}
	e.call("queues.update", object{"queue_name": e.queue, "requested_partitions": 3}, nil)
	before := e.partitions(e.queue)
	if len(before) <= 3 {
		t.Errorf("got %+v, want read-only partitions beside three", before)
	}
	for i, p := range before {
		if p.ReadOnly != (i >= 3) || p.ReadOnly && p.Total == 0 {
			t.Errorf("got %+v, want three partitions, and read-only ones that hold items", before)
		}
	}
	produce(calls / 8)
	if after := e.partitions(e.queue); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("read-only partitions changed while nobody leased: %+v, then %+v", before, after)
	}
	e.call("queues.resume", object{"queue_name": e.queue, "what": "lease"}, nil)
	produce(calls / 8)

	eventually(t, "all are delivered and the queue is empty", func() bool {
		return seen.count() >= calls*perCall && e.total(e.queue) == 0
	})
	seen.mu.Lock()
	defer seen.mu.Unlock()
	for id, n := range seen.came {
		if n != 1 || !produced[id] {
			t.Errorf("item %s came %d times, want once", id, n)
		}
	}
	// A consumer that got an item has told so before it lets the next of its key go.
	came := map[string][]string{}
	for _, id := range seen.order {
		if key := keyOf[id]; key != "" {
			came[key] = append(came[key], id)
		}
	}
	for key, ids := range keyed {
		if !slices.Equal(came[key], ids) {
			t.Errorf("the items of %s did not come in order", key)
		}
	}
	if len(produced) != calls*perCall || len(seen.came) != len(produced) {
		t.Errorf("%d items produced and %d came, want %d", len(produced), len(seen.came), calls*perCall)
	}
	for _, who := range []string{"first", "second", "lane"} {
		if seen.by[who] == 0 {
			t.Errorf("%s got nothing: %v", who, seen.by)
		}
	}
	if parts := e.partitions(e.queue); len(parts) != 3 || parts[2].ReadOnly {
		t.Errorf("got %+v at the end, want three partitions", parts)
	}
	e.refused(http.StatusBadRequest, "invalid", "storage/items.list", object{"queue_name": e.queue, "partition": 60})
}

// Nodes that share a store spread and drain by their own estimates, and take over changes at
// different times: still each item comes once.
func TestNodes_PartitionsChange(t *testing.T) {
	t.Parallel()
	const calls, perCall = 60, 25
	url := pgtest.URL(t)
	var nodes []*client
	for range 2 {
		server := harness.Start(t, harness.Options{Store: url, Args: loopback})
		nodes = append(nodes, newClient(t, server.URL, harness.Key))
	}
	const name = "parts"
	nodes[0].call("queues.create", object{"queue_name": name, "requested_partitions": 2}, nil)
	seen := &deliveries{came: map[string]int{}, by: map[string]int{}}
	stop := make(chan struct{})
	var consumers, producers sync.WaitGroup
	defer func() {
		close(stop)
		consumers.Wait()
	}()
	for i, node := range nodes {
		consumers.Go(func() { node.pull(fmt.Sprint("consumer-", i), name, seen, stop) })
		producers.Go(func() {
			for range calls {
				node.produce(name, numbered(perCall)...)
			}
		})
	}
	// One node is told, the other finds out.
	for _, n := range []int{9, 1, 5} {
		nodes[0].call("queues.update", object{"queue_name": name, "requested_partitions": n}, nil)
		nodes[0].produce(name, numbered(perCall)...)
	}
	producers.Wait()
	const all = (2*calls + 3) * perCall
	eventually(t, "all have come and the queue is empty", func() bool {
		return seen.count() >= all && nodes[1].total(name) == 0
	})
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if len(seen.order) != all {
		t.Errorf("%d deliveries of %d items, want each of %d once", len(seen.order), len(seen.came), all)
	}
	if parts := nodes[0].partitions(name); len(parts) != 5 {
		t.Errorf("got %+v at the end, want five partitions", parts)
	}
}
