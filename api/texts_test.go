package api_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
)

func TestErrors_SayEachThingOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("queue orders: %w", queue.ErrNotFound), "queue orders: there is none of that name; create it first, or check the spelling"},
		{
			fmt.Errorf("produce to orders: %w", queue.ErrPaused),
			"produce to orders: it is paused and takes no items; nothing was done; send it again when queues.resume was called",
		},
		{queue.ErrNotFound, "there is none of that name; create it first, or check the spelling"},
		{fmt.Errorf("queue orders: %w", queue.ErrExists), "queue orders: the name is taken"},
		{fmt.Errorf("queue orders: %w", queue.ErrRevision), "queue orders: it was changed in between; read it again and repeat"},
		{
			fmt.Errorf("delete orders: %w: it holds 2 items", queue.ErrNotEmpty),
			"delete orders: not empty: it holds 2 items; empty it, delete its subscription, or use force",
		},
		{&queue.UnsupportedError{What: "field topic"}, "field topic is not supported by this release"},
	} {
		e := setup(t)
		e.broker.stats = func(string) (queue.QueueStats, error) { return queue.QueueStats{}, c.err }
		e.call("queue.stats", `{"queue_name":"orders"}`).is(c.want, "message")
	}
	taken := &subscriptions.TakenError{Queue: "orders", By: "a"}
	e := setup(t)
	e.subs.err = taken
	e.call("subscriptions.create", `{"name":"b","queue_name":"orders","url":"https://example.com"}`).is(taken.Error(), "message")
}

func TestErrors_DurationsAreInUnitsForPeople(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for body, want := range map[string]string{
		`"request_timeout":"1h"`: "request_timeout: 1h is out of range; want 10ms to 15m",
		`"lease_timeout":"170h"`: "lease_timeout: 170h is out of range; want 1ms to 168h",
	} {
		e.call("queue.lease", `{"queue_name":"q",`+body+`}`).is(want, "message")
	}
}

func TestErrors_ForDevelopersAreIndentedAndTellTheirCause(t *testing.T) {
	t.Parallel()
	e := setup(t, func(o *api.Options) { o.Dev = true })
	e.broker.stats = func(string) (queue.QueueStats, error) { return queue.QueueStats{}, errors.New("out of coffee") }
	a := e.call("queue.stats", `{"queue_name":"orders"}`).want(500, "internal")
	a.is("out of coffee", "details", "cause")
	if !strings.Contains(a.raw, "\n  \"code\": 500,") {
		t.Errorf("not indented: %s", a.raw)
	}
	a = e.call("queue.stats", `{}`).want(400, "invalid")
	a.is(nil, "details", "cause")
	if !strings.Contains(a.raw, "\n    \"field\": \"queue_name\"") {
		t.Errorf("not indented: %s", a.raw)
	}
	if a := e.call("queues.list", `{}`); strings.Contains(a.raw, "\n") {
		t.Errorf("what went well is for programs: %s", a.raw)
	}
}

func TestLimits_OfItemsAreTheCallersAlone(t *testing.T) {
	t.Parallel()
	e := setup(t, func(o *api.Options) { o.Limits.Items = 2 })
	e.broker.produce = accept
	var settled queue.SettleCall
	e.broker.settle = settleAll(&settled)
	e.broker.lease = lease()
	listed := 0
	e.broker.items = func(q queue.ItemsQuery) (queue.ListPage, error) {
		listed = q.Limit
		return queue.ListPage{}, nil
	}

	e.call("queue.produce", `{"queue_name":"q","items":[{},{}]}`).want(200, "ok")
	e.call("queue.produce", `{"queue_name":"q","items":[{},{},{}]}`).want(413, "too_large").is("2", "details", "limit")
	e.call("queue.produce", `{"queue_name":"q"}`).invalid("items", "want 1 to 2")
	if a := e.call("queue.lease", `{"queue_name":"q","batch_size":2}`); a.status != 200 {
		t.Errorf("lease: got %s", a.raw)
	}
	e.call("queue.lease", `{"queue_name":"q","batch_size":3}`).invalid("batch_size", "want 1 to 2")
	receipts := func(n int) string {
		return `"` + strings.Repeat(receipt(1).String()+`","`, n-1) + receipt(1).String() + `"`
	}
	for method, field := range map[string]string{"complete": "ids", "release": "receipts", "bury": "receipts", "extend": "receipts"} {
		e.call("queue."+method, `{"`+field+`":[`+receipts(3)+`]}`).want(413, "too_large").is(field, "details", "field")
		e.call("queue."+method, `{}`).invalid("receipts", "want 1 to 2")
	}
	e.call("queue.retry", `{"items":[{},{},{}]}`).want(413, "too_large").is("items", "details", "field")
	e.call("queue.complete", `{"ids":[`+receipts(2)+`]}`).want(200, "ok")

	e.call("storage/items.list", `{"queue_name":"q","limit":1000}`)
	if listed < 3 {
		t.Errorf("a list asked for %d items, want its own limit", listed)
	}
}
