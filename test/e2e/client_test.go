package e2e_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/test/harness"
)

// object is a JSON object.
type object map[string]any

// client speaks to one server.
type client struct {
	t   *testing.T
	url string
	// key is sent with every call, unless it is empty.
	key  string
	http *http.Client
}

func newClient(t *testing.T, url string) *client {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{t: t, url: url, key: harness.Key, http: &http.Client{Transport: &documented{t, transport}, Timeout: 2 * patience}}
}

// answer is any reply, and what errors say.
type answer struct {
	Code     int
	CodeText string `json:"code_text"`
	Message  string
	Details  map[string]string

	// status, header and raw are what came over HTTP.
	status int
	header http.Header
	raw    []byte
}

// post sends a body and returns what came; err is of the connection.
func (c *client) post(path, contentType string, headers map[string]string, body []byte) (answer, error) {
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.url+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header}
	if a.raw, err = io.ReadAll(resp.Body); err != nil {
		return answer{}, err
	}
	return a, json.Unmarshal(a.raw, &a)
}

// try makes a call and returns its answer, whatever the status.
func (c *client) try(method string, request any) answer {
	c.t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
	a, err := c.post("/v1/"+method, "application/json", nil, body)
	if err != nil {
		c.t.Fatalf("%s: %v (%s)", method, err, a.raw)
	}
	return a
}

// call makes a call that must succeed, and reads its reply unless that is nil.
func (c *client) call(method string, request, reply any) {
	c.t.Helper()
	a := c.try(method, request)
	if a.status != http.StatusOK {
		c.t.Fatalf("%s: status %d: %s", method, a.status, a.raw)
	}
	if reply == nil {
		return
	}
	if err := json.Unmarshal(a.raw, reply); err != nil {
		c.t.Fatalf("%s: %v in %s", method, err, a.raw)
	}
}

// refused makes a call that must be refused with this status and word.
func (c *client) refused(status int, word, method string, request any) answer {
	c.t.Helper()
	a := c.try(method, request)
	if a.status != status || a.Code != status || a.CodeText != word || a.Message == "" {
		c.t.Errorf("%s: got %d: %s; want %d %s with a message", method, a.status, a.raw, status, word)
	}
	return a
}

// produced is what produce says of one item.
type produced struct {
	ItemID    string `json:"item_id"`
	Duplicate bool
}

// produce puts items on a queue and returns their ids.
func (c *client) produce(queue string, items ...object) []string {
	c.t.Helper()
	var reply struct{ Items []produced }
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

// subscribe makes a subscription of the queue's own name and returns its secret.
func (c *client) subscribe(queue, url string, more object) (secret string) {
	c.t.Helper()
	request := object{"name": queue, "queue_name": queue, "url": url}
	maps.Copy(request, more)
	var reply struct{ Secret string }
	c.call("subscriptions.create", request, &reply)
	if reply.Secret == "" {
		c.t.Fatal("subscriptions.create showed no secret")
	}
	return reply.Secret
}

// leased is an item with its receipt.
type leased struct {
	ItemID        string `json:"item_id"`
	Receipt       string
	Attempts      int32
	LeaseDeadline time.Time `json:"lease_deadline"`
	Bytes         []byte
	Encoding      string
	Kind          string
	LastError     string `json:"last_error"`
}

// lease leases at least one item.
func (c *client) lease(queue string, limit int) []leased {
	c.t.Helper()
	items := c.leaseFor(queue, limit, patience)
	if len(items) == 0 {
		c.t.Fatalf("lease %s: nothing came in %s", queue, patience)
	}
	return items
}

func (c *client) leaseFor(queue string, limit int, wait time.Duration) []leased {
	c.t.Helper()
	var reply struct{ Items []leased }
	c.call("queue.lease", object{
		"queue_name": queue, "batch_size": limit, "client_id": c.t.Name(), "request_timeout": wait.String(),
	}, &reply)
	return reply.Items
}

// stats are the counts of a queue with one partition.
type stats struct {
	Total, Leased, Failures, Scheduled int
	LeaseWaiting                       int
}

func (c *client) stats(queue string) stats {
	c.t.Helper()
	var reply struct {
		LogicalQueues []struct {
			LeaseWaiting int `json:"lease_waiting"`
			Partitions   []struct {
				Total       int
				TotalLeased int `json:"total_leased"`
				Failures    int
				Scheduled   int
			}
		} `json:"logical_queues"`
	}
	c.call("queue.stats", object{"queue_name": queue}, &reply)
	var s stats
	for _, q := range reply.LogicalQueues {
		s.LeaseWaiting += q.LeaseWaiting
		for _, p := range q.Partitions {
			s.Total += p.Total
			s.Leased += p.TotalLeased
			s.Failures += p.Failures
			s.Scheduled += p.Scheduled
		}
	}
	return s
}

// item is an entry of storage/items.list.
type item struct {
	ID         string
	IsLeased   bool `json:"is_leased"`
	Attempts   int32
	Deliveries int32
	Payload    []byte
	Kind       string
	Dead       *struct {
		Reason     string
		LastStatus int32 `json:"last_status"`
	}
}

func (c *client) items(queue string) []item {
	c.t.Helper()
	var reply struct{ Items []item }
	c.call("storage/items.list", object{"queue_name": queue}, &reply)
	return reply.Items
}

// buried waits until a dead-letter queue holds one item, and returns it.
func (c *client) buried(dead string) item {
	c.t.Helper()
	var found []item
	eventually(c.t, "one item on "+dead, func() bool {
		if c.try("queues.info", object{"queue_name": dead}).status != http.StatusOK {
			return false // made when first needed
		}
		found = c.items(dead)
		return len(found) == 1
	})
	if found[0].Dead == nil {
		c.t.Fatalf("item on %s without a reason", dead)
	}
	return found[0]
}
