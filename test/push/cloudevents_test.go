package push_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/cloudevents/sdk-go/v2/types"

	"github.com/posthaste-io/posthaste/webhooks"
)

// sdkEvents are made by the SDK of CloudEvents, each with what the others lack.
func sdkEvents(t *testing.T) map[string]cloudevents.Event {
	t.Helper()
	event := func(id string, change func(e *cloudevents.Event) error) cloudevents.Event {
		e := cloudevents.NewEvent()
		e.SetID(id)
		e.SetSource("https://shop.example/orders?a=1")
		e.SetType("order.paid")
		if err := change(&e); err != nil {
			t.Fatal(err)
		}
		return e
	}
	return map[string]cloudevents.Event{
		"all attributes": event("a-1", func(e *cloudevents.Event) error {
			e.SetSubject("order/17")
			e.SetTime(time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC))
			e.SetDataSchema("https://shop.example/schema.json")
			e.SetExtension("partitionkey", "17")
			e.SetExtension("count", 42)
			e.SetExtension("sampled", true)
			e.SetExtension("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
			e.SetExtension("tracestate", "rojo=00f067aa0ba902b7")
			e.SetExtension("anextensionwithaverylongname", "x")
			return e.SetData("application/json; charset=utf-8", json.RawMessage(`{"order": 17, "price": 1.50}`))
		}),
		"text": event("a-2", func(e *cloudevents.Event) error { return e.SetData("text/plain", []byte("paid\n\"twice\" €")) }),
		"bytes": event("a-3", func(e *cloudevents.Event) error {
			return e.SetData("application/octet-stream", []byte{0, 0xff, 0xfe, '\n'})
		}),
		"no data": event("a-4", func(*cloudevents.Event) error { return nil }),
	}
}

// attributesOf returns what an event of the SDK says, as texts.
func attributesOf(t *testing.T, e cloudevents.Event) map[string]string {
	t.Helper()
	all := map[string]string{
		"specversion": e.SpecVersion(), "id": e.ID(), "source": e.Source(), "type": e.Type(), "subject": e.Subject(),
		"dataschema": e.DataSchema(), "datacontenttype": e.DataContentType(), "time": e.Time().UTC().Format(time.RFC3339Nano),
	}
	for name, value := range e.Extensions() {
		text, err := types.Format(value)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = text
	}
	return all
}

// sdkReceiver is an endpoint of the SDK, and what it took.
func sdkReceiver(t *testing.T) (*receiver, <-chan cloudevents.Event) {
	t.Helper()
	took := make(chan cloudevents.Event, 100)
	protocol, err := cloudevents.NewHTTP()
	if err != nil {
		t.Fatal(err)
	}
	handler, err := cloudevents.NewHTTPReceiveHandler(t.Context(), protocol, func(e cloudevents.Event) { took <- e })
	if err != nil {
		t.Fatal(err)
	}
	return newReceiver(t, func(w http.ResponseWriter, a arrival) {
		req := httptest.NewRequest(a.method, a.path, bytes.NewReader(a.body))
		req.Header = a.header
		handler.ServeHTTP(w, req)
	}), took
}

// raw sends a body to the raw endpoint of the scenario's queue.
func (e *env) raw(body string, headers map[string]string) answer {
	e.t.Helper()
	req, err := http.NewRequestWithContext(e.t.Context(), http.MethodPost, e.url+"/v1/produce/"+e.queue, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+e.key)
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	resp, err := e.http.Do(req)
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode}
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		e.t.Fatal(err)
	}
	return a
}

// What the SDK sends in either mode, its receiver gets: the same event.
func eventsOfTheSDK(t *testing.T, e *env) {
	r, took := sdkReceiver(t)
	secret := e.subscribe(e.queue, r.URL, object{"format": "cloudevents"}).Secret
	protocol, err := cloudevents.NewHTTP(
		cehttp.WithTarget(e.url+"/v1/produce/"+e.queue), cehttp.WithHeader("Authorization", "Bearer "+e.key),
	)
	if err != nil {
		t.Fatal(err)
	}
	sender, err := cloudevents.NewClient(protocol)
	if err != nil {
		t.Fatal(err)
	}
	for mode, in := range map[string]func(context.Context) context.Context{
		"binary": binding.WithForceBinary, "structured": binding.WithForceStructured,
	} {
		for name, event := range sdkEvents(t) {
			event.SetID(mode + event.ID())
			if result := sender.Send(in(t.Context()), event); !cloudevents.IsACK(result) {
				t.Fatalf("%s, %s: %v", mode, name, result)
			}
			a := r.next()
			var got cloudevents.Event
			select {
			case got = <-took:
			case <-time.After(patience):
				t.Fatalf("%s, %s: the SDK took no event from %v", mode, name, a.header)
			}
			if want, got := attributesOf(t, event), attributesOf(t, got); !maps.Equal(got, want) {
				t.Errorf("%s, %s: got  %q\nwant %q", mode, name, got, want)
			}
			if !bytes.Equal(got.Data(), event.Data()) || !a.verifies(t, secret) {
				t.Errorf("%s, %s: got %q, want %q, signed", mode, name, got.Data(), event.Data())
			}
			// Again, as whoever lost the answer does.
			if result := sender.Send(in(t.Context()), event); !cloudevents.IsACK(result) {
				t.Errorf("%s, %s, again: %v", mode, name, result)
			}
		}
	}
	r.noneBefore(e.client, e.queue+"-marker")
}

// Characters that the SDK for Go does not encode, and how an event goes on its other ways.
func eventsAsTheyCame(t *testing.T, e *env) {
	r := newReceiver(t, nil)
	headers := map[string]string{
		"Ce-Specversion": "1.0", "Ce-Id": "%C3%A9%201", "Ce-Source": "/shop", "Ce-Type": "order.paid", "Content-Type": "text/plain",
		"Ce-Subject": "Euro%20%E2%82%AC%20%F0%9F%98%80", "Ce-Time": "2026-03-01T13:00:00.500+01:00", "Ce-X": "a%20%22b%22%20100%25",
	}
	same := func(what string, a arrival) {
		t.Helper()
		a.expect(t, headers)
		id, event, err := webhooks.ReadCloudEvent(a.header)
		if err != nil || id != "é 1" || event.Subject != "Euro € 😀" || event.Extensions["x"] != `a "b" 100%` || string(a.body) != "paid" {
			t.Errorf("%s: got %q, %+v, %v with %q", what, id, event, err, a.body)
		}
	}
	e.call("queues.create", object{"queue_name": e.queue}, nil)
	if a := e.raw("paid", headers); a.status != http.StatusCreated {
		t.Fatalf("got %+v", a)
	}
	if a := e.raw("paid", headers); a.status != http.StatusOK {
		t.Errorf("again: got %+v", a)
	}
	if a := e.raw("other", headers); a.status != http.StatusConflict || a.Details["field"] != "ce-id" {
		t.Errorf("something else under the same id: got %+v", a)
	}
	// A consumer sees all of it, and who brings it to another queue keeps all of it.
	var leased, listed struct {
		Items []map[string]any
	}
	e.call("queue.lease", object{"queue_name": e.queue, "client_id": "c", "batch_size": 1, "request_timeout": "5s"}, &leased)
	kept, _ := leased.Items[0]["headers"].(map[string]any)
	if len(leased.Items) != 1 || kept["ce-id"] != "é 1" || kept["ce-subject"] != "Euro € 😀" || leased.Items[0]["kind"] != "order.paid" {
		t.Errorf("leased: %v", leased.Items)
	}
	e.call("queue.bury", object{"queue_name": e.queue, "receipts": []any{leased.Items[0]["receipt"]}, "reason": "later"}, nil)
	e.call("storage/items.list", object{"queue_name": e.dead}, &listed)
	other := e.queue + "-other"
	e.call("queues.create", object{"queue_name": other}, nil)
	e.call("storage/items.import", object{"queue_name": other, "items": listed.Items}, nil)
	e.subscribe(other, r.URL, object{"format": "cloudevents"})
	same("imported", r.next())

	e.call("queue.redrive", object{"queue_name": e.dead}, nil)
	e.subscribe(e.queue, r.URL, object{"format": "cloudevents"})
	same("redriven", r.next())

	// Without the format it is an item like others.
	e.call("subscriptions.update", object{"name": e.queue, "format": "plain"}, nil)
	batch := `[{"specversion":"1.0","id":"2","source":"/shop","type":"a","data":{"a":1}},{"specversion":"1.0","id":"2","source":"/shop","type":"a","data":{"a":1}},
		{"specversion":"1.0","id":"3","source":"/shop","type":"b"}]`
	if a := e.raw(batch, map[string]string{"Content-Type": "application/cloudevents-batch+json"}); a.status != http.StatusCreated {
		t.Errorf("batch: got %+v", a)
	}
	came := map[string]string{}
	for range 2 {
		a := r.next()
		for name := range a.header {
			if strings.HasPrefix(name, "Ce-") {
				t.Errorf("header %s without the format", name)
			}
		}
		came[a.header.Get("Posthaste-Kind")] = a.header.Get("Content-Type") + " " + string(a.body)
	}
	if want := map[string]string{"a": `application/json {"a":1}`, "b": "application/octet-stream "}; !maps.Equal(came, want) {
		t.Errorf("got %q, want %q", came, want)
	}
	r.noneBefore(e.client, e.queue+"-marker")
}
