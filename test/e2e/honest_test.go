package e2e_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/posthaste-io/posthaste/storage/postgres/pgtest"
	"github.com/posthaste-io/posthaste/test/harness"
)

func TestProduce_SaysWhetherItIsDurable(t *testing.T) {
	t.Parallel()
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, harness.Start(t, harness.Options{Store: store.url(t)}).URL)
			c.call("queues.create", object{"queue_name": "q"}, nil)
			var reply, raw struct{ Durable *bool }
			c.call("queue.produce", object{"queue_name": "q", "items": []object{{"utf8": "x"}}}, &reply)
			a, err := c.post("/v1/produce/q", "text/plain", nil, []byte("x"))
			if err == nil {
				err = json.Unmarshal(a.raw, &raw)
			}
			want := store.name != "memory"
			if err != nil || reply.Durable == nil || *reply.Durable != want || raw.Durable == nil || *raw.Durable != want {
				t.Errorf("got %v, and %s as a raw item, %v; want %v", reply.Durable, a.raw, err, want)
			}
		})
	}
}

// The database does not answer, and so nobody can know what it does with the batch.
func TestProduce_SaysThatTheOutcomeIsUnknown(t *testing.T) {
	t.Parallel()
	proxy := pgtest.NewProxy(t, pgtest.URL(t))
	_, c := node(t, proxy.URL())
	c.call("queues.create", object{"queue_name": "q"}, nil)
	call := object{"queue_name": "q", "items": []object{{"utf8": "x", "idempotency_key": "once"}}, "request_timeout": "1s"}

	proxy.Blackhole(true)
	a := c.refused(http.StatusServiceUnavailable, "unknown_outcome", "queue.produce", call)
	if a.header.Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}

	proxy.Blackhole(false)
	var reply struct{ Items []produced }
	eventually(t, "an answer to the repeat", func() bool {
		a := c.try("queue.produce", call)
		return a.status == http.StatusOK && json.Unmarshal(a.raw, &reply) == nil
	})
	if len(reply.Items) != 1 || !reply.Items[0].Duplicate {
		t.Errorf("the repeat: got %+v, want the first one's id", reply.Items)
	}
	if got := c.stats("q").Total; got != 1 {
		t.Errorf("%d items, want 1", got)
	}
}
