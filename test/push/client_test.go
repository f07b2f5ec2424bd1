package push_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"testing"
	"time"
)

// object is a JSON object.
type object map[string]any

// client speaks to one server as curl would.
type client struct {
	t   *testing.T
	url string
	// key is sent with every call, unless it is empty.
	key  string
	http *http.Client
}

func newClient(t *testing.T, url, key string) *client {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{t: t, url: url, key: key, http: &http.Client{Transport: transport, Timeout: 2 * patience}}
}

// stranger is the same without a key.
func (c *client) stranger() *client { return newClient(c.t, c.url, "") }

// answer is any reply, and what errors say.
type answer struct {
	status   int
	raw      []byte
	CodeText string `json:"code_text"`
	Message  string
	Details  map[string]string
}

// try makes a call and returns its answer, whatever the status.
func (c *client) try(method string, request any) answer {
	c.t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.url+"/v1/"+method, bytes.NewReader(body))
	if err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
	req.Header.Set("Content-Type", "application/json")
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode}
	if a.raw, err = io.ReadAll(resp.Body); err == nil {
		err = json.Unmarshal(a.raw, &a)
	}
	if err != nil {
		c.t.Fatalf("%s: %v (%s)", method, err, a.raw)
	}
	return a
}

// call makes a call that must succeed, and reads its reply unless that is nil.
func (c *client) call(method string, request, reply any) answer {
	c.t.Helper()
	a := c.try(method, request)
	if a.status != http.StatusOK {
		c.t.Fatalf("%s: status %d: %s", method, a.status, a.raw)
	}
	if reply != nil {
		if err := json.Unmarshal(a.raw, reply); err != nil {
			c.t.Fatalf("%s: %v in %s", method, err, a.raw)
		}
	}
	return a
}

// refused makes a call that must be refused with this status and word.
func (c *client) refused(status int, word, method string, request any) answer {
	c.t.Helper()
	a := c.try(method, request)
	if a.status != status || a.CodeText != word || a.Message == "" {
		c.t.Errorf("%s: got %d: %s; want %d %s with a message", method, a.status, a.raw, status, word)
	}
	return a
}

// produce puts items on a queue and returns their ids.
func (c *client) produce(queue string, items ...object) []string {
	c.t.Helper()
	var reply struct {
		Items []struct {
			ItemID string `json:"item_id"`
		}
	}
	c.call("queue.produce", object{"queue_name": queue, "items": items}, &reply)
	if len(reply.Items) != len(items) {
		c.t.Fatalf("produce: %d items answered for %d", len(reply.Items), len(items))
	}
	var ids []string
	for _, it := range reply.Items {
		ids = append(ids, it.ItemID)
	}
	return ids
}

// subscription is what a test reads of one.
type subscription struct {
	State           string
	Reason          string
	Secret          string
	URL             string
	Revision        string
	OldSecretsUntil []time.Time `json:"old_secrets_until"`
}

// subscribe makes a subscription of the queue's own name.
func (c *client) subscribe(queue, url string, more object) subscription {
	c.t.Helper()
	request := object{"name": queue, "queue_name": queue}
	if url != "" {
		request["url"] = url
	}
	maps.Copy(request, more)
	var reply subscription
	c.call("subscriptions.create", request, &reply)
	return reply
}

// itemInfo is where an item is.
type itemInfo struct {
	QueueName  string `json:"queue_name"`
	State      string
	Why        string
	Message    string
	Attempts   int32
	Deliveries int32
	LastStatus int32  `json:"last_status"`
	LastError  string `json:"last_error"`
	Result     []byte
}

// ended waits until an item has ended in a queue.
func (c *client) ended(queue, id string) itemInfo {
	c.t.Helper()
	var reply struct{ Items []itemInfo }
	c.call("items.wait", object{"item_id": id, "queue_name": queue, "request_timeout": patience.String()}, &reply)
	if len(reply.Items) != 1 || reply.Items[0].State != "completed" && reply.Items[0].State != "buried" && reply.Items[0].State != "cancelled" {
		c.t.Fatalf("item %s on %s has not ended after %s: %+v", id, queue, patience, reply.Items)
	}
	return reply.Items[0]
}

// buried waits until a dead-letter queue holds n items, and returns why they are there.
func (c *client) buried(dead string, n int) []deadItem {
	c.t.Helper()
	var reply struct{ Items []deadItem }
	eventually(c.t, "buried on "+dead, func() bool {
		a := c.try("storage/items.list", object{"queue_name": dead})
		if a.status != http.StatusOK {
			return false // made when first needed
		}
		reply.Items = nil
		if err := json.Unmarshal(a.raw, &reply); err != nil {
			c.t.Fatal(err)
		}
		return len(reply.Items) >= n
	})
	if len(reply.Items) != n {
		c.t.Fatalf("%d items on %s, want %d", len(reply.Items), dead, n)
	}
	return reply.Items
}

type deadItem struct {
	ID   string
	Dead struct {
		Reason     string
		LastStatus int32 `json:"last_status"`
		Attempts   int32
	}
}

// attempt is a line of the attempt log.
type attempt struct {
	ItemID       string `json:"item_id"`
	QueueName    string `json:"queue_name"`
	Subscription string
	Attempt      int32
	Type         string
	Verdict      string
	Status       int32
	Error        string
	Response     []byte
	Next         string
	At           time.Time
	StartedAt    time.Time `json:"started_at"`
	Duration     string
	Node         string
}

// attempts reads the log, oldest first, page by page.
func (c *client) attempts(filter object) (all []attempt) {
	c.t.Helper()
	request := object{"oldest_first": true, "limit": 1000}
	maps.Copy(request, filter)
	for {
		var page struct {
			Items  []attempt
			Cursor string
		}
		c.call("attempts.list", request, &page)
		all = append(all, page.Items...)
		if page.Cursor == "" {
			return all
		}
		request["cursor"] = page.Cursor
	}
}

// total counts the items of a queue.
func (c *client) total(queue string) int {
	c.t.Helper()
	var reply struct {
		LogicalQueues []struct {
			Partitions []struct{ Total int }
		} `json:"logical_queues"`
	}
	c.call("queue.stats", object{"queue_name": queue}, &reply)
	n := 0
	for _, logical := range reply.LogicalQueues {
		for _, partition := range logical.Partitions {
			n += partition.Total
		}
	}
	return n
}
