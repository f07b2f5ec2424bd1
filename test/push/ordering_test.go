package push_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// keyedItems is what an endpoint saw of items "key/number".
type keyedItems struct {
	mu sync.Mutex
	// next is the number that each key is at, running whether it is being worked on.
	next    map[string]int
	running map[string]bool
	tries   map[string]int
	faults  []string
	done    int
}

// begin takes an item, and says whether it is to be accepted: the first try of every third is
// not.
func (k *keyedItems) begin(item string) (accept bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, number, _ := strings.Cut(item, "/")
	if k.running[key] {
		k.faults = append(k.faults, item+" came beside another of its key")
	}
	if want := fmt.Sprint(k.next[key]); number != want {
		k.faults = append(k.faults, fmt.Sprintf("%s came when %s was next", item, want))
	}
	k.running[key] = true
	k.tries[item]++
	// Not the same numbers of all keys: a row of failures would open the breaker.
	sum := 0
	for _, b := range []byte(item) {
		sum += int(b)
	}
	return k.tries[item] > 1 || sum%3 != 0
}

func (k *keyedItems) end(item string, accepted bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, _, _ := strings.Cut(item, "/")
	delete(k.running, key)
	if accepted {
		k.next[key]++
		k.done++
	}
}

// Items of a key come one after the other, in the order in which they were produced, also
// where some fail; other keys do not wait for them.
func orderByKey(t *testing.T, e *env) {
	const keys, perKey = 20, 12
	seen := &keyedItems{next: map[string]int{}, running: map[string]bool{}, tries: map[string]int{}}
	r := newReceiver(t, nil)
	r.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		item := string(body)
		accept := seen.begin(item)
		select { // the work, beside which another of the key would be seen
		case <-time.After(2 * time.Millisecond):
		case <-req.Context().Done():
		}
		seen.end(item, accept) // before the answer, after which the next may come
		if !accept {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	e.subscribe(e.queue, r.URL, object{"max_in_flight": 16, "retry": object{"schedule": []string{"100ms"}, "max_attempts": 10}})
	var items []object
	for number := range perKey {
		for key := range keys {
			items = append(items, object{"utf8": fmt.Sprintf("key-%d/%d", key, number), "ordering_key": fmt.Sprint("key-", key)})
		}
	}
	e.produce(e.queue, items...)
	within(t, patience, "all are delivered", func() bool {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		return seen.done == keys*perKey || len(seen.faults) > 0
	})
	seen.mu.Lock()
	defer seen.mu.Unlock()
	for _, fault := range seen.faults {
		t.Error(fault)
	}
}

// A head that keeps failing keeps its key from going and no other, is told of, and can be
// skipped.
func orderBlockedKey(t *testing.T, e *env) {
	r := newReceiver(t, func(w http.ResponseWriter, a arrival) {
		if strings.HasPrefix(string(a.body), "bad") {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	e.subscribe(e.queue, r.URL, object{"retry": object{"schedule": []string{"1h"}, "max_attempts": -1}})
	ids := e.produce(e.queue,
		object{"utf8": "bad head", "ordering_key": "a"}, object{"utf8": "behind it", "ordering_key": "a"}, object{"utf8": "of another", "ordering_key": "b"})
	came := map[string]bool{}
	for range 2 {
		a := r.next()
		came[a.id()] = true
	}
	if !came[ids[0]] || !came[ids[2]] {
		t.Errorf("%v came, want both heads", came)
	}
	type keys struct {
		Items []struct {
			OrderingKey string    `json:"ordering_key"`
			ItemID      string    `json:"item_id"`
			State       string    `json:"state"`
			NextAt      time.Time `json:"next_at"`
			LastStatus  int       `json:"last_status"`
			Behind      int       `json:"behind"`
		}
	}
	var blocked keys
	within(t, patience, "the key is told to be blocked", func() bool {
		e.call("queue.keys", object{"queue_name": e.queue}, &blocked)
		return len(blocked.Items) == 1 && blocked.Items[0].State == "retrying"
	})
	if k := blocked.Items[0]; k.OrderingKey != "a" || k.ItemID != ids[0] || k.LastStatus != 503 || k.Behind != 1 || time.Until(k.NextAt) < 5*time.Minute {
		t.Errorf("got %+v", k)
	}
	e.refused(http.StatusConflict, "not_blocking", "queue.unblock", object{"queue_name": e.queue, "item_id": ids[1]})
	e.call("queue.unblock", object{"queue_name": e.queue, "item_id": ids[0]}, nil)
	if a := r.next(); a.id() != ids[0] {
		t.Errorf("%s came, want the head again", a.id())
	}
	within(t, patience, "it failed again", func() bool {
		e.call("queue.keys", object{"queue_name": e.queue}, &blocked)
		return len(blocked.Items) == 1 && blocked.Items[0].State == "retrying"
	})
	e.call("queue.unblock", object{"queue_name": e.queue, "item_id": ids[0], "skip": true}, nil)
	if a := r.next(); a.id() != ids[1] {
		t.Errorf("%s came, want the next", a.id())
	}
}
