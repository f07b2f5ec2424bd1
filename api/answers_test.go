package api_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/queue"
)

// unread is a connection whose client does not read until it is told to.
type unread struct {
	*httptest.ResponseRecorder
	blocked, read chan struct{}
}

func (u *unread) FlushError() error {
	close(u.blocked)
	<-u.read
	return nil
}

func TestC16_AnswersThatNobodyReadsAreBounded(t *testing.T) {
	t.Parallel()
	item := leasedItem(strings.Repeat("x", 1000))
	e := setup(t, func(o *api.Options) { o.Limits = api.Limits{Answers: 4 * int64(item.Size())} })
	e.broker.lease = lease(item)
	e.broker.settle = func(queue.SettleCall) ([]queue.Settled, error) {
		t.Error("released, though there is room")
		return nil, nil
	}
	w := &unread{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.server.ServeHTTP(w, request("/v1/queue.lease", strings.NewReader(`{"queue_name":"orders"}`)))
	}()
	<-w.blocked

	var released queue.SettleCall
	e.broker.settle = settleAll(&released)
	a := e.call("queue.lease", `{"queue_name":"orders"}`).want(429, "overloaded")
	if a.header.Get("Retry-After") == "" {
		t.Error("429 without Retry-After")
	}
	if len(released.Entries) != 1 || released.Entries[0].Outcome != queue.Release || released.Entries[0].Receipt != item.Receipt() {
		t.Errorf("got %+v, want the item released", released)
	}
	e.broker.items = func(queue.ItemsQuery) (queue.ListPage, error) {
		return queue.ListPage{Items: []queue.Item{item}}, nil
	}
	e.call("storage/items.list", `{"queue_name":"orders"}`).want(429, "overloaded")

	close(w.read)
	<-done
	if a := e.call("queue.lease", `{"queue_name":"orders"}`); a.status != 200 {
		t.Errorf("after the answer was read: got %s", a.raw)
	}
	if a := e.call("storage/items.list", `{"queue_name":"orders"}`); a.status != 200 {
		t.Errorf("after the answer was read: got %s", a.raw)
	}
}
