package api_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

func TestQueueKeys_TellWhatTheyWaitFor(t *testing.T) {
	t.Parallel()
	e := setup(t)
	now := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	head := queue.NewID()
	var asked queue.KeysQuery
	e.broker.keys = func(q queue.KeysQuery) (queue.KeysPage, error) {
		asked = q
		return queue.KeysPage{Now: now, Keys: []queue.KeyState{{
			Key: "customer-7", Behind: 12, Head: queue.Item{
				Key: queue.Key{ID: head}, Attempts: 3, Deliveries: 3, Last: queue.Last{Status: 503, Error: "no"},
				CreatedAt: now.Add(-time.Hour), FirstDueAt: now.Add(-time.Hour), AvailableAt: now.Add(time.Minute),
			},
		}}}, nil
	}
	a := e.call("queue.keys", `{"queue_name":"orders","limit":1}`)
	for want, path := range map[any][]any{
		"customer-7": {"ordering_key"}, head.String(): {"item_id"}, "retrying": {"state"}, "2030-01-31T08:01:00Z": {"next_at"},
		"2030-01-31T07:00:00Z": {"created_at"}, 3.0: {"attempts"}, 503.0: {"last_status"}, "no": {"last_error"}, 12.0: {"behind"},
	} {
		a.is(want, append([]any{"items", 0}, path...)...)
	}
	cursor := fmt.Sprint(a.get("cursor")) // the page is full
	e.call("queue.keys", fmt.Sprintf(`{"queue_name":"orders","limit":1,"cursor":%q}`, cursor))
	if want := (queue.KeysQuery{Namespace: queue.DefaultNamespace, Queue: "orders", After: "customer-7", Limit: 1}); asked != want {
		t.Errorf("asked %+v, want %+v", asked, want)
	}
	e.call("queue.keys", fmt.Sprintf(`{"queue_name":"others","cursor":%q}`, cursor)).invalid("cursor", "not given out by this list")
	e.call("queue.keys", `{"queue_name":"orders"}`).is(nil, "cursor")
	e.call("queue.keys", `{"queue_name":"orders","limit":1001}`).invalid("limit", "1 to 1000")
}

func TestQueueKeys_SayThatAKeyIsParked(t *testing.T) {
	t.Parallel()
	e := setup(t)
	now := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	e.broker.keys = func(queue.KeysQuery) (queue.KeysPage, error) {
		return queue.KeysPage{Now: now, Keys: []queue.KeyState{{Key: "customer-7", Behind: 1, Head: queue.Item{
			Key: queue.Key{ID: queue.NewID()}, Attempts: 3, Deliveries: 3, Last: queue.Last{Status: 503},
			FirstDueAt: now.Add(-time.Hour), AvailableAt: now.AddDate(100, 0, 0),
		}}}}, nil
	}
	a := e.call("queue.keys", `{"queue_name":"orders"}`)
	a.is("parked", "items", 0, "state")
	a.is(nil, "items", 0, "next_at")

	e.broker.items = func(queue.ItemsQuery) (queue.ListPage, error) {
		return queue.ListPage{Now: now, Items: []queue.Item{{Deliveries: 3, AvailableAt: now.AddDate(100, 0, 0)}}}, nil
	}
	a = e.call("storage/scheduled.list", `{"queue_name":"orders"}`)
	a.is("retrying", "items", 0, "state")
	a.is(nil, "items", 0, "enqueue_at")
}

func TestQueueUnblock_NamesTheHead(t *testing.T) {
	t.Parallel()
	e := setup(t)
	id := queue.NewID()
	var got queue.UnblockCall
	e.broker.unblock = func(call queue.UnblockCall) error {
		got = call
		return nil
	}
	for _, skip := range []bool{false, true} {
		e.call("queue.unblock", fmt.Sprintf(`{"queue_name":"orders","item_id":%q,"skip":%v}`, id, skip)).want(http.StatusOK, "ok")
		if want := (queue.UnblockCall{Namespace: queue.DefaultNamespace, Queue: "orders", Item: id, Skip: skip}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	e.call("queue.unblock", `{"queue_name":"orders","item_id":"7"}`).invalid("item_id", "")
	e.call("queue.unblock", `{"queue_name":"orders"}`).invalid("item_id", "name the head of a key")
	e.broker.unblock = func(queue.UnblockCall) error {
		return fmt.Errorf("item %s is being worked on: %w", id, queue.ErrNotBlocking)
	}
	e.call("queue.unblock", fmt.Sprintf(`{"queue_name":"orders","item_id":%q}`, id)).want(http.StatusConflict, "not_blocking")
}
