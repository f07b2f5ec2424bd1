package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
	"github.com/posthaste-io/posthaste/test/harness"
)

// crowd is an endpoint for each subscription of a topic, by the path: /ok/… takes what
// comes, /refuses/… buries it, /fails/… answers 500, and /hangs/… not at all until the test
// ends.
type crowd struct {
	*httptest.Server
	over chan struct{}

	mu sync.Mutex
	// seen are the items that came to each path, and how often.
	seen map[string]map[string]int
}

func newCrowd(t *testing.T) *crowd {
	c := &crowd{over: make(chan struct{}), seen: map[string]map[string]int{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		if c.seen[r.URL.Path] == nil {
			c.seen[r.URL.Path] = map[string]int{}
		}
		c.seen[r.URL.Path][r.Header.Get("webhook-id")]++
		c.mu.Unlock()
		switch {
		case strings.HasPrefix(r.URL.Path, "/refuses/"):
			w.WriteHeader(http.StatusUnprocessableEntity)
		case strings.HasPrefix(r.URL.Path, "/fails/"):
			w.WriteHeader(http.StatusInternalServerError)
		case strings.HasPrefix(r.URL.Path, "/hangs/"):
			select {
			case <-c.over:
			case <-r.Context().Done():
			}
		}
	}))
	t.Cleanup(func() {
		close(c.over)
		c.Close()
	})
	return c
}

// distinct is how many items came to a path.
func (c *crowd) distinct(path string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen[path])
}

// missing returns an item of ids that never came to a path, or "".
func (c *crowd) missing(path string, ids map[string]bool) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range ids {
		if c.seen[path][id] == 0 {
			return id
		}
	}
	return ""
}

// sizeOf is a size of the test below, which the environment may raise:
// POSTHASTE_TOPIC_SUBSCRIPTIONS, POSTHASTE_TOPIC_ITEMS.
func sizeOf(t *testing.T, what string, size int) int {
	t.Helper()
	text := os.Getenv("POSTHASTE_TOPIC_" + what)
	if text == "" {
		return size
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Every copy of every item is somewhere: delivered, buried, in the backlog of an endpoint
// that does not answer, or with a consumer that pulled it. None of these delays another.
func TestTopics_EveryCopyIsAccountedFor(t *testing.T) {
	t.Parallel()
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			accountForCopies(t, harness.Start(t, harness.Options{Store: store.url(t), Args: loopback}))
		})
	}
}

func accountForCopies(t *testing.T, server *harness.Server) {
	c, ends := newClient(t, server.URL), newCrowd(t)
	subscriptions, items := sizeOf(t, "SUBSCRIPTIONS", 20), sizeOf(t, "ITEMS", 400)
	patience := max(patience, time.Duration(subscriptions*items)*2*time.Millisecond)
	c.call("topics.create", object{"topic": "events"}, nil)
	paths := map[string]string{} // by subscription
	for i := range subscriptions {
		name, kind := fmt.Sprintf("s%d", i), "ok"
		switch {
		case i%10 == 1:
			kind = "refuses"
		case i%20 == 3:
			kind = "fails"
		case i%50 == 7:
			kind = "hangs"
		}
		paths[name] = "/" + kind + "/" + name
		c.call("subscriptions.create", object{
			"name": name, "topic": "events", "url": ends.URL + paths[name],
			"retry": object{"max_attempts": 3, "schedule": []string{"200ms"}, "bury_on": []int{422}},
		}, nil)
	}
	c.call("subscriptions.create", object{"name": "pull", "topic": "events"}, nil)

	ids := produceTo(t, c, "events", items, subscriptions+1)
	pulled := map[string]bool{}
	for len(pulled) < items {
		var receipts []string
		for _, it := range c.lease("events~pull", 100) {
			if pulled[it.ItemID] || !ids[it.ItemID] {
				t.Fatalf("pulled %s, which came before or was never produced", it.ItemID)
			}
			pulled[it.ItemID] = true
			receipts = append(receipts, it.Receipt)
		}
		c.call("queue.complete", object{"receipts": receipts}, nil)
	}
	for name, path := range paths {
		queue := "events~" + name
		healthy := strings.HasPrefix(path, "/ok/") || strings.HasPrefix(path, "/refuses/")
		if healthy {
			eventuallyIn(t, patience, path+" done", func() bool { return c.stats(queue).Total == 0 })
		}
		// Nothing moves between the two counts.
		c.call("queues.pause", object{"queue_name": queue, "what": "lease"}, nil)
		if strings.HasPrefix(path, "/fails/") {
			eventually(t, "settled", func() bool { return c.stats(queue).Leased == 0 })
		}
		left, buried := c.stats(queue).Total, 0
		if a := c.try("queue.stats", object{"queue_name": queue + "~dead"}); a.status == http.StatusOK {
			buried = c.stats(queue + "~dead").Total
		}
		var wantLeft, wantBuried int
		switch {
		case strings.HasPrefix(path, "/ok/"):
			if id := ends.missing(path, ids); id != "" || ends.distinct(path) != items {
				t.Errorf("%s got %d items of %d, and never %s", path, ends.distinct(path), items, id)
			}
		case strings.HasPrefix(path, "/refuses/"):
			wantBuried = items
		default: // the breaker spares its items
			wantLeft, wantBuried = items-buried, buried
		}
		if left != wantLeft || buried != wantBuried {
			t.Errorf("%s: %d items are left and %d buried, want %d and %d", path, left, buried, wantLeft, wantBuried)
		}
	}
	var topic struct{ Subscriptions int }
	c.call("topics.info", object{"topic": "events"}, &topic)
	if topic.Subscriptions != subscriptions+1 {
		t.Errorf("the topic has %d subscriptions, want %d", topic.Subscriptions, subscriptions+1)
	}
	c.call("subscriptions.delete", object{"name": "s1"}, nil)
	c.refused(http.StatusNotFound, "not_found", "queue.stats", object{"queue_name": "events~s1"})
	if got := c.stats("events~s1~dead").Total; got != items {
		t.Errorf("%d items are left of what was buried, want %d", got, items)
	}
	c.call("topics.delete", object{"topic": "events", "force": true}, nil)
	c.refused(http.StatusNotFound, "not_found", "queue.produce", object{"queue_name": "events", "items": []object{{}}})
}

// produceTo produces by several producers, each of whose calls is sent twice, and returns
// the ids.
func produceTo(t *testing.T, c *client, topic string, items, copies int) map[string]bool {
	t.Helper()
	const producers, perCall = 4, 20
	ids := map[string]bool{}
	var mu sync.Mutex
	var running sync.WaitGroup
	for p := range producers {
		running.Go(func() {
			for first := p * perCall; first < items; first += producers * perCall {
				var call []object
				for n := first; n < min(first+perCall, items); n++ {
					call = append(call, object{"utf8": strconv.Itoa(n), "idempotency_key": fmt.Sprintf("key-%d", n)})
				}
				for again := range 2 {
					var reply struct {
						Items []struct {
							ItemID    string `json:"item_id"`
							Duplicate bool
							Copies    *int
						}
					}
					a := c.try("queue.produce", object{"queue_name": topic, "items": call})
					if err := json.Unmarshal(a.raw, &reply); err != nil || a.status != http.StatusOK || len(reply.Items) != len(call) {
						t.Errorf("produce: status %d: %s, %v", a.status, a.raw, err)
						return
					}
					mu.Lock()
					for _, it := range reply.Items {
						if it.Duplicate != (again > 0) || again == 0 && (it.Copies == nil || *it.Copies != copies) || again > 0 && !ids[it.ItemID] {
							t.Errorf("produced for the %d. time: got %+v, want %d copies, and then a duplicate", again+1, it, copies)
						}
						ids[it.ItemID] = true
					}
					mu.Unlock()
				}
			}
		})
	}
	running.Wait()
	if len(ids) != items {
		t.Fatalf("produced %d items, want %d", len(ids), items)
	}
	return ids
}

// A node that knows a topic learns of subscriptions that another made before it puts the
// next item on it.
func TestTopics_SubscriptionsCountOnAllNodesAtOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	_, a := node(t, url)
	_, b := node(t, url)
	a.call("topics.create", object{"topic": "events"}, nil)
	b.produce("events", object{"utf8": "before"})
	for i := range 10 {
		name := fmt.Sprintf("s%d", i)
		a.call("subscriptions.create", object{"name": name, "topic": "events"}, nil)
		id := b.produce("events", object{"utf8": name})[0]
		if got := b.lease("events~"+name, 10); len(got) != 1 || got[0].ItemID != id {
			t.Errorf("%s: leased %+v, want what was produced after its creation, and nothing else", name, got)
		}
	}
	a.call("subscriptions.delete", object{"name": "s0"}, nil)
	var reply struct{ Items []struct{ Copies int } }
	b.call("queue.produce", object{"queue_name": "events", "items": []object{{}}}, &reply)
	if reply.Items[0].Copies != 9 {
		t.Errorf("after a deletion at the other node: %d copies, want 9", reply.Items[0].Copies)
	}
}

// The built-in store takes less in a transaction than others, but an item once for all of its
// copies. What it has no room for is refused as other copies that are too many.
func TestTopic_CopiesThatBadgerHasNoRoomForAreRefused(t *testing.T) {
	t.Parallel()
	c := newClient(t, harness.Start(t, harness.Options{Store: "badger:data", Args: loopback}).URL)
	c.call("topics.create", object{"topic": "events"}, nil)
	for i := range 8 {
		c.call("subscriptions.create", object{"name": fmt.Sprintf("s%d", i), "topic": "events"}, nil)
	}
	items := make([]object, 1000)
	for i := range items {
		items[i] = object{"ordering_key": fmt.Sprintf("%0255d", i)} // for each copy, 8,000 times
	}
	a := c.refused(http.StatusRequestEntityTooLarge, "fan_out_too_large", "queue.produce", object{"queue_name": "events", "items": items})
	if !strings.Contains(a.Message, "send fewer items") || !strings.Contains(a.Message, "6225920 bytes") {
		t.Errorf("got %q, want it to say that there are too many items", a.Message)
	}
	payload := strings.Repeat("x", 900_000) // 7.2 MB in all
	c.produce("events", object{"utf8": payload})
	for i := range 8 {
		name := fmt.Sprintf("events~s%d", i)
		if got := c.lease(name, 10); len(got) != 1 || len(got[0].Bytes) != len(payload) {
			t.Errorf("%s: leased %d items, want the one that was not refused, whole", name, len(got))
		}
	}
}
