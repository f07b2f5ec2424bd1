package api_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

func leasedItem(payload string) queue.Item {
	r := receipt(7)
	return queue.Item{
		Key: r.Key, Token: r.Token, Held: true, Deliveries: 3, Recoveries: 1,
		AvailableAt: time.Unix(1_900_000_000, 250_000_000), CreatedAt: time.Unix(1_800_000_000, 0),
		Last:    queue.Last{Error: "status 500"},
		Content: queue.Content{Kind: "k", Encoding: "e", Reference: "r", Headers: map[string]string{"A": "1"}, Payload: []byte(payload)},
	}
}

func lease(items ...queue.Item) func(context.Context, queue.LeaseParams) (queue.LeaseReply, error) {
	return func(context.Context, queue.LeaseParams) (queue.LeaseReply, error) {
		return queue.LeaseReply{Items: items}, nil
	}
}

func TestLease_AsksForWhatWasGiven(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var got queue.LeaseParams
	e.broker.lease = func(ctx context.Context, p queue.LeaseParams) (queue.LeaseReply, error) {
		got = p
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) <= p.Wait {
			t.Errorf("the call ends with its wait, or never: %s", time.Until(deadline))
		}
		return queue.LeaseReply{}, nil
	}
	a := e.call("queue.lease", `{"queue_name":"orders","batch_size":20,"client_id":"c","request_timeout":"5s","lease_timeout":"1m","max_bytes":1000000}`)
	if a.status != http.StatusOK || a.raw != `{"queue_name":"orders","partition":0,"items":[]}` {
		t.Errorf("no items: got %d %s", a.status, a.raw)
	}
	want := queue.LeaseParams{
		Namespace: queue.DefaultNamespace, Queue: "orders", Limit: 20, MaxBytes: 1_000_000,
		TTL: time.Minute, Wait: 5 * time.Second, Client: "c",
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	e.call("queue.lease", `{"queue_name":"orders"}`)
	if want := (queue.LeaseParams{Namespace: queue.DefaultNamespace, Queue: "orders", Limit: 1, Wait: time.Minute}); got != want {
		t.Errorf("defaults: got %+v, want %+v", got, want)
	}
}

func TestLease_GivesItemsWithReceipts(t *testing.T) {
	t.Parallel()
	e := setup(t)
	item := leasedItem("\x00\xff")
	e.broker.lease = lease(item, leasedItem(""), leasedItem("grün"))
	for _, text := range []bool{false, true} {
		body := `{"queue_name":"orders","text":false}`
		if text {
			body = `{"queue_name":"orders","text":true}`
		}
		a := e.call("queue.lease", body)
		for field, want := range map[string]any{
			"encoding": "e", "kind": "k", "reference": "r", "attempts": 3.0, "recoveries": 1.0, "last_error": "status 500",
			"lease_deadline": "2030-03-17T17:46:40.25Z", "created_at": "2027-01-15T08:00:00Z", "item_id": item.ID.String(),
			"id": item.Receipt().String(), "receipt": item.Receipt().String(), "bytes": "AP8=",
		} {
			a.is(want, "items", 0, field)
		}
		a.is("1", "items", 0, "headers", "A")
		a.is(nil, "items", 0, "utf8")
		if text {
			a.is("", "items", 1, "utf8")
			a.is(nil, "items", 1, "bytes")
			a.is("grün", "items", 2, "utf8")
		} else {
			a.is("", "items", 1, "bytes")
			a.is(base64.StdEncoding.EncodeToString([]byte("grün")), "items", 2, "bytes")
		}
	}
}

func TestI09_LeaseNamesNumbersOutOfRange(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for body, want := range map[string][2]string{
		`"batch_size":1.5`:             {"batch_size", "whole number"},
		`"max_bytes":-1`:               {"max_bytes", "whole number"},
		`"max_bytes":1.5`:              {"max_bytes", "whole number"},
		`"max_bytes":1e309`:            {"max_bytes", "out of range"},
		`"max_bytes":9007199254740993`: {"max_bytes", "whole number"},
		`"lease_timeout":"0s"`:         {"lease_timeout", "want 1ms to 168h"},
		`"lease_timeout":"-5s"`:        {"lease_timeout", "want 1ms to 168h"},
	} {
		e.call("queue.lease", `{"queue_name":"q",`+body+`}`).invalid(want[0], want[1])
	}
}

// broken is a connection that cannot be written to, at once or when it is flushed.
type broken struct {
	*httptest.ResponseRecorder
	onWrite, onFlush error
}

func (b *broken) Write(p []byte) (int, error) {
	if b.onWrite != nil {
		return 0, b.onWrite
	}
	return b.ResponseRecorder.Write(p)
}

func (b *broken) FlushError() error { return b.onFlush }

func TestLease_ItemsThatDidNotReachTheirConsumerAreReleased(t *testing.T) {
	t.Parallel()
	reset := errors.New("connection reset")
	for name, w := range map[string]*broken{"write": {onWrite: reset}, "flush": {onFlush: reset}, "gone": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			item := leasedItem("x")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			e.broker.lease = func(context.Context, queue.LeaseParams) (queue.LeaseReply, error) {
				if name == "gone" {
					cancel()
				}
				return queue.LeaseReply{Items: []queue.Item{item}}, nil
			}
			var released queue.SettleCall
			e.broker.settle = settleAll(&released)
			w.ResponseRecorder = httptest.NewRecorder()
			e.server.ServeHTTP(w, request("/v1/queue.lease", strings.NewReader(`{"queue_name":"orders"}`)).WithContext(ctx))
			if len(released.Entries) != 1 || released.Entries[0].Outcome != queue.Release || released.Entries[0].Receipt != item.Receipt() {
				t.Errorf("got %+v, want the item released", released)
			}
		})
	}
	t.Run("well", func(t *testing.T) {
		t.Parallel()
		e := setup(t)
		e.broker.lease = lease(leasedItem("x"))
		e.broker.settle = func(queue.SettleCall) ([]queue.Settled, error) {
			t.Error("released, though the answer was written")
			return nil, nil
		}
		e.call("queue.lease", `{"queue_name":"orders"}`)
	})
}

// hasty is a client that closes its connection as soon as it has the whole answer.
type hasty struct {
	*httptest.ResponseRecorder
	leave context.CancelFunc
}

func (h *hasty) Write(p []byte) (int, error) {
	defer h.leave()
	return h.ResponseRecorder.Write(p)
}

func TestLease_ClientThatHasItsAnswerMayGo(t *testing.T) {
	t.Parallel()
	e := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e.broker.lease = lease(leasedItem("x"))
	e.broker.settle = func(queue.SettleCall) ([]queue.Settled, error) {
		t.Error("released, though the client has its receipt")
		return nil, nil
	}
	w := &hasty{httptest.NewRecorder(), cancel}
	e.server.ServeHTTP(w, request("/v1/queue.lease", strings.NewReader(`{"queue_name":"orders"}`)).WithContext(ctx))
	if ctx.Err() == nil {
		t.Error("the answer was not written")
	}
}

func BenchmarkProduce(b *testing.B) {
	e := setup(new(testing.T))
	e.broker.produce = accept
	body := []byte(`{"queue_name":"orders","items":[{"kind":"k","bytes":"` + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("x"), 200)) + `"}]}`)
	b.ReportAllocs()
	for b.Loop() {
		rec := httptest.NewRecorder()
		e.server.ServeHTTP(rec, request("/v1/queue.produce", bytes.NewReader(body)))
		if rec.Code != http.StatusOK {
			b.Fatal(rec.Body)
		}
	}
}
