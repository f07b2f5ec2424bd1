package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/seal"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/memory"
	"github.com/posthaste-io/posthaste/subscriptions"
	"github.com/posthaste-io/posthaste/webhooks"
)

// whole is a server over the real broker and subscriptions, on the memory store.
func whole(t *testing.T) *env {
	t.Helper()
	store := memory.New(memory.Options{})
	known := &struct{ *subscriptions.Service }{}
	broker := queue.New(store, queue.Options{
		Subscribers: known,
		Queues:      storage.NewCollection[queue.Settings](store, "queue"),
		Counters:    storage.NewCollection[queue.Counter](store, "counter"),
		Numbers:     storage.NewCollection[queue.NumberEntry](store, "number"),
		Change:      store.Change,
		Alone:       true,
	})
	subs := subscriptions.New(subscriptions.Options{
		Docs:   storage.NewCollection[subscriptions.Document](store, "subscription"),
		Claims: storage.NewCollection[subscriptions.Claim](store, "claim"),
		Queues: broker, CheckURL: func(string) error { return nil }, CheckHeaders: webhooks.CheckHeaders,
		NewSecret: webhooks.NewSecret, Sealer: seal.Random(),
	})
	known.Service = subs
	e := &env{T: t, log: new(logBuffer)}
	e.server = api.New(api.Options{Broker: broker, Subscriptions: subs, Durable: store.Durable()})

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- broker.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// leaseOne leases an item and returns its receipt.
func (e *env) leaseOne(name string) (answer, string) {
	e.Helper()
	a := e.call("queue.lease", `{"queue_name":"`+name+`","request_timeout":"1s","text":true}`)
	return a, a.get("items", 0, "receipt").(string)
}

func TestLife_OfAnItemThatIsPulled(t *testing.T) {
	t.Parallel()
	e := whole(t)
	e.call("queue.produce", `{"queue_name":"orders","items":[{}]}`).want(404, "not_found")
	e.call("queues.create", `{"queue_name":"orders","max_attempts":2}`).want(200, "ok")
	e.call("queues.create", `{"queue_name":"orders"}`).want(409, "already_exists")
	e.call("queue.produce", `{"queue_name":"orders","items":[{"utf8":"one","kind":"k"}]}`).want(200, "ok").is(false, "durable")

	a, receipt := e.leaseOne("orders")
	a.is("one", "items", 0, "utf8")
	a.is(1.0, "items", 0, "attempts")
	e.call("queue.extend", `{"receipts":["`+receipt+`"],"lease_timeout":"2m"}`).want(200, "ok").is("ok", "results", 0, "status")
	e.call("queue.release", `{"receipts":["`+receipt+`"]}`).want(200, "ok")
	e.call("queue.complete", `{"receipts":["`+receipt+`"]}`).want(409, "stale_lease").is("stale_lease", "results", 0, "status")

	_, receipt = e.leaseOne("orders")
	e.call("queue.retry", `{"queue_name":"orders","partition":0,"items":[{"id":"`+receipt+`","reason":"busy"}]}`).want(200, "ok")
	a, receipt = e.leaseOne("orders")
	a.is("busy", "items", 0, "last_error")
	// The second attempt is the last.
	e.call("queue.retry", `{"items":[{"id":"`+receipt+`"}]}`).want(200, "ok").is(true, "results", 0, "buried")
	a = e.call("storage/items.list", `{"queue_name":"orders~dead"}`)
	a.is("orders", "items", 0, "dead", "queue")
	a.is(2.0, "items", 0, "dead", "attempts")

	_, receipt = e.leaseOne("orders~dead")
	e.call("queue.bury", `{"receipts":["`+receipt+`"]}`).want(409, "already_dead")
	e.call("queue.complete", `{"queue_name":"orders","receipts":["`+receipt+`"]}`).want(400, "invalid").is("queue_name", "details", "field")
	e.call("queue.complete", `{"ids":["`+receipt+`"]}`).want(200, "ok")
	e.call("queue.stats", `{"queue_name":"orders~dead"}`).is(0.0, "logical_queues", 0, "partitions", 0, "total")
}

func TestLife_SettlingIsAllOrNothing(t *testing.T) {
	t.Parallel()
	e := whole(t)
	e.call("queues.create", `{"queue_name":"q"}`).want(200, "ok")
	e.call("queue.produce", `{"queue_name":"q","items":[{},{}]}`).want(200, "ok")
	a := e.call("queue.lease", `{"queue_name":"q","batch_size":2}`)
	one, two := a.get("items", 0, "receipt").(string), a.get("items", 1, "receipt").(string)
	e.call("queue.complete", `{"ids":["`+one+`"]}`).want(200, "ok")
	a = e.call("queue.complete", `{"ids":["`+two+`","`+one+`"]}`).want(409, "stale_lease")
	a.is("undone", "results", 0, "status")
	a.is(nil, "details", "ids[0]")
	if a.get("details", "ids[1]") == nil {
		t.Errorf("the stale receipt is not named: %s", a.raw)
	}
	e.call("queue.complete", `{"ids":["`+two+`","`+two+`"]}`).invalid("ids[1]", "is the same as ids[0]")
	e.call("queue.complete", `{"ids":["`+two+`"]}`).want(200, "ok")
}

func TestI06_OneKeyMakesOneItem(t *testing.T) {
	t.Parallel()
	e := whole(t)
	e.call("queues.create", `{"queue_name":"q"}`).want(200, "ok")
	send := func(body string) answer {
		return e.do(request("/v1/produce/q", strings.NewReader(body), "Idempotency-Key", "k"))
	}
	const producers = 50
	answers := make([]answer, producers)
	var wg sync.WaitGroup
	for i := range producers {
		wg.Go(func() { answers[i] = send("same") })
	}
	wg.Wait()
	created := 0
	for _, a := range answers {
		a.is(answers[0].get("items", 0, "item_id"), "items", 0, "item_id")
		if a.status == http.StatusCreated {
			created++
		}
	}
	if created != 1 {
		t.Errorf("%d of %d answers say created, want 1", created, producers)
	}
	e.call("queue.stats", `{"queue_name":"q"}`).is(1.0, "logical_queues", 0, "partitions", 0, "total")
	send("other").want(409, "idempotency_mismatch")
	e.call("queue.produce", `{"queue_name":"q","items":[{"idempotency_key":"a b"}]}`).invalid("items[0].idempotency_key", "visible ASCII")
	e.do(request("/v1/produce/q", nil, "Idempotency-Key", strings.Repeat("k", 256))).invalid("Idempotency-Key", "longer than 255")
	e.do(request("/v1/produce/q", nil, "Posthaste-Enqueue-At", "9030-01-31T08:00:00Z")).invalid("Posthaste-Enqueue-At", "10 years")
}

func TestLife_OfSubscriptions(t *testing.T) {
	t.Parallel()
	e := whole(t)
	e.call("subscriptions.create", `{"name":"a","queue_name":"orders","url":"https://example.com"}`).is("orders", "queue_name")
	e.call("queues.info", `{"queue_name":"orders"}`).is("60s", "lease_timeout")
	e.call("subscriptions.create", `{"name":"b","queue_name":"orders","url":"https://example.com"}`).want(409, "already_exists")
	info := e.call("subscriptions.info", `{"name":"a"}`)
	info.is("active", "state")
	e.call("subscriptions.update", info.raw).is("active", "state")
	e.call("subscriptions.update", info.raw).want(409, "revision_mismatch")
	e.call("subscriptions.update", `{"name":"a","retry":{"bury_on":[99]}}`).invalid("retry.bury_on[0]", "want 300 to 599")
}

func TestLease_LongPollsEndWhenTheServerStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := whole(t)
		e.call("queues.create", `{"queue_name":"q"}`).want(200, "ok")
		began := time.Now()
		statuses := make(chan string, 2)
		lease := func(timeout string) {
			rec := httptest.NewRecorder()
			e.server.ServeHTTP(rec, request("/v1/queue.lease", strings.NewReader(`{"queue_name":"q","request_timeout":"`+timeout+`"}`)))
			var body map[string]any
			if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil {
				t.Error(err)
			}
			statuses <- fmt.Sprint(rec.Code, body["code_text"], time.Since(began))
		}
		go lease("10s")
		if got, want := <-statuses, fmt.Sprint(200, nil, 10*time.Second); got != want {
			t.Errorf("a time that is up: got %s, want %s", got, want)
		}
		go lease("15m")
		synctest.Wait()
		e.server.Drain()
		if got, want := <-statuses, fmt.Sprint(503, "shutting_down", 10*time.Second); got != want {
			t.Errorf("stopping: got %s, want %s", got, want)
		}
	})
}
