package api_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
)

func TestItems_InfoHasAnEntryForEachQueue(t *testing.T) {
	t.Parallel()
	e := setup(t)
	id := queue.NewID()
	now := time.Unix(1_900_000_000, 0)
	e.subs.kept["s"] = subscriptions.Subscription{Name: "s", Queue: "a"}
	e.broker.look = func(got queue.ID, name string) ([]queue.ItemState, error) {
		if got != id || name != "" {
			t.Errorf("looked for %s on %q, want %s anywhere", got, name, id)
		}
		return []queue.ItemState{
			{Queue: queue.Settings{Name: "a"}, Now: now, Item: queue.Item{
				AvailableAt: now.Add(time.Minute), Deliveries: 4, Attempts: 3, Recoveries: 1, Last: queue.Last{Status: 500, Error: "oops"},
			}},
			{Queue: queue.Settings{Name: "b"}, Now: now, Ending: &queue.Record{
				Type: queue.AttemptRecord, Next: queue.StepComplete, At: now, Delivery: 2, Subscription: "t", Response: []byte("fine"), Status: 200,
			}},
		}, nil
	}
	a := e.call("items.info", `{"item_id":"`+id.String()+`"}`)
	for i, want := range []map[string]any{
		{
			"queue_name": "a", "state": "retrying", "why": "retrying", "next_at": "2030-03-17T17:47:40Z", "subscription": "s",
			"deliveries": 4.0, "attempts": 3.0, "recoveries": 1.0, "last_status": 500.0, "last_error": "oops", "ended_at": nil,
		},
		{
			"queue_name": "b", "state": "completed", "why": "completed", "next_at": nil, "subscription": "t",
			"deliveries": 2.0, "last_status": 200.0, "result": "ZmluZQ==", "ended_at": "2030-03-17T17:46:40Z",
		},
	} {
		for field, value := range want {
			a.is(value, "items", i, field)
		}
	}
}

func TestItems_WaitEndsByItself(t *testing.T) {
	t.Parallel()
	e := setup(t)
	id := queue.NewID()
	e.broker.await = func(ctx context.Context, got queue.ID, name string, wait time.Duration) ([]queue.ItemState, error) {
		if got != id || name != "orders" || wait != 5*time.Second {
			t.Errorf("waits %s for %s on %q", wait, got, name)
		}
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) <= wait {
			t.Errorf("the call ends with its wait, or never: %s", time.Until(deadline))
		}
		return []queue.ItemState{{Queue: queue.Settings{Name: name}, Ending: &queue.Record{Next: queue.StepCancel, Verdict: "cancelled"}}}, nil
	}
	a := e.call("items.wait", `{"item_id":"`+id.String()+`","queue_name":"orders","request_timeout":"5s"}`)
	a.is("cancelled", "items", 0, "state")
	a.is("cancelled", "items", 0, "why")
	e.broker.await = func(context.Context, queue.ID, string, time.Duration) ([]queue.ItemState, error) {
		return nil, queue.ErrShuttingDown
	}
	e.call("items.wait", `{"item_id":"`+id.String()+`"}`).want(503, "shutting_down")
}

func TestItems_SayWhatIsMissing(t *testing.T) {
	t.Parallel()
	for _, m := range []string{"items.info", "items.wait"} {
		e := setup(t)
		id := queue.NewID().String()
		for _, body := range []string{`{}`, `{"item_id":"x"}`} {
			e.call(m, body).invalid("item_id", "not an item id")
		}
		e.call(m, `{"item_id":"`+id+`","queue_name":"a/b"}`).invalid("queue_name", "want only")
		anywhere := e.call(m, `{"item_id":"`+id+`"}`).want(404, "not_found").get("message").(string)
		if !strings.Contains(anywhere, id) || !strings.Contains(anywhere, "keep_ended") {
			t.Errorf("%s: got %q, want the item and how long it is known", m, anywhere)
		}
		queueGone := e.call(m, `{"item_id":"`+id+`","queue_name":"orders"}`).want(404, "not_found").get("message").(string)
		if strings.Contains(queueGone, id) {
			t.Errorf("%s: got %q, want the queue", m, queueGone)
		}
		e.broker.queue = func(name string) (queue.Settings, uint64, error) { return queue.Settings{Name: name}, 1, nil }
		itemGone := e.call(m, `{"item_id":"`+id+`","queue_name":"orders"}`).want(404, "not_found").get("message").(string)
		if !strings.Contains(itemGone, id+" on queue orders") {
			t.Errorf("%s: got %q, want the item and its queue", m, itemGone)
		}
	}
}

func TestItems_WaitSaysWhatEndedAndIsNotKept(t *testing.T) {
	t.Parallel()
	e := setup(t)
	id := queue.NewID()
	ended := &queue.EndedError{ID: id}
	e.broker.await = func(context.Context, queue.ID, string, time.Duration) ([]queue.ItemState, error) { return nil, ended }
	e.call("items.wait", `{"item_id":"`+id.String()+`"}`).want(404, "not_found").is(ended.Error(), "message")
}

// What cannot be found out is an error, not a reason that may be wrong.
func TestItems_InfoDoesNotGuess(t *testing.T) {
	t.Parallel()
	body := `{"item_id":"` + queue.NewID().String() + `"}`
	ready := func(queue.ID, string) ([]queue.ItemState, error) {
		return []queue.ItemState{{Queue: queue.Settings{Name: "a"}}}, nil
	}
	e := setup(t)
	e.broker.look = ready
	e.broker.stats = func(string) (queue.QueueStats, error) { return queue.QueueStats{}, queue.ErrUnavailable }
	e.call("items.info", body).want(503, "store_unavailable")
	e.subs.kept["s"] = subscriptions.Subscription{Name: "s", Queue: "a"}
	e.subs.err = queue.ErrUnavailable
	e.call("items.info", body).want(503, "store_unavailable")

	e = setup(t)
	e.broker.look = func(queue.ID, string) ([]queue.ItemState, error) { return nil, errors.New("out of coffee") }
	e.call("items.info", body).want(500, "internal")
	// A queue that is deleted while we look is no error.
	e.broker.look = ready
	e.call("items.info", body).is("no_receiver", "items", 0, "why")
}
