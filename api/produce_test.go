package api_test

import (
	"bytes"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/queue"
)

const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestProduce_HandsItemsToTheBroker(t *testing.T) {
	t.Parallel()
	e := setup(t, func(o *api.Options) { o.Durable = true })
	var got queue.ProduceCall
	first, second := queue.NewID(), queue.NewID()
	e.broker.produce = func(c queue.ProduceCall) ([]queue.Produced, error) {
		got = c
		return []queue.Produced{{ID: first}, {ID: second, Duplicate: true}, {}, {}}, nil
	}
	body := `{"queue_name":"orders","request_timeout":"5s","items":[
		{"kind":"k","encoding":"text/plain","reference":"r","bytes":"AP8=","idempotency_key":"i","headers":{"X-A":"1"},"max_attempts":-1,"delay":"90s","expire_timeout":"1h"},
		{"utf8":"grün","enqueue_at":"2030-01-31T08:00:00+02:00"},
		{"bytes":"","utf8":"ignored"},
		{}]}`
	a := e.do(request("/v1/queue.produce", strings.NewReader(body), "Traceparent", trace, "Webhook-Hop", "4")).want(200, "ok")
	a.is(first.String(), "items", 0, "item_id")
	a.is(false, "items", 0, "duplicate")
	a.is(second.String(), "items", 1, "item_id")
	a.is(true, "items", 1, "duplicate")
	a.is(true, "durable")

	item := func(c queue.Content) queue.ProduceItem {
		c.Trace, c.Hop = trace, 4
		return queue.ProduceItem{Content: c}
	}
	one := item(queue.Content{Kind: "k", Encoding: "text/plain", Reference: "r", Headers: map[string]string{"X-A": "1"}, Payload: []byte{0, 0xff}})
	one.IdempotencyKey, one.MaxAttempts, one.Delay, one.ExpireTTL = "i", -1, 90*time.Second, time.Hour
	two := item(queue.Content{Payload: []byte("grün")})
	two.DueAt = time.Date(2030, 1, 31, 6, 0, 0, 0, time.UTC)
	want := queue.ProduceCall{
		Namespace: queue.DefaultNamespace, Queue: "orders",
		Items: []queue.ProduceItem{one, two, item(queue.Content{Payload: []byte{}}), item(queue.Content{Payload: []byte{}})},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestProduce_SaysThatMemoryIsNotDurable(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.broker.produce = accept
	e.call("queue.produce", `{"queue_name":"q","items":[{}]}`).want(200, "ok").is(false, "durable")
}

func TestProduce_NamesTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.broker.produce = accept
	for item, want := range map[string][2]string{
		`{"delay":"soon"}`: {"items[1].delay", "not a duration"},
		`{"delay":"-1s"}`:  {"items[1].delay", "out of range"},
		`{"delay":"1s","enqueue_at":"2030-01-31T08:00:00Z"}`: {"items[1].delay", "one of them"},
		`{"headers":{"Host":"a"}}`:                           {"items[1].headers", "reserved"},
		`{"expire_timeout":"0s"}`:                            {"items[1].expire_timeout", "want 1ms to 87600h"},
		`{"max_attempts":1e309}`:                             {"items[1].max_attempts", "whole number"},
		`{"target":{"url":"u","timeout":"1"}}`:               {"items[1].target.timeout", "not a duration"},
		`{"target":{"uri":"u"}}`:                             {"items[1].target.uri", "not a field"},
		`{"on_done":"a/b"}`:                                  {"items[1].on_done", "want only"},
	} {
		e.call("queue.produce", `{"queue_name":"q","items":[{},`+item+`]}`).invalid(want[0], want[1])
	}
	e.call("queue.produce", `{"queue_name":"q"}`).invalid("items", "none given; want 1 to 1000")
	e.call("queue.produce", `{"items":[{}]}`).invalid("queue_name", "missing")
	e.call("queue.produce", `{"queue_name":"q","items":[`+strings.Repeat("{},", 1000)+`{}]}`).want(413, "too_large")
}

func TestProduce_APastDueTimeIsTheBrokers(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.broker.produce = accept
	e.call("queue.produce", `{"queue_name":"q","items":[{"enqueue_at":"1970-01-01T00:00:00Z"}]}`).want(200, "ok")
}

func TestI06_ACallHasAKeyOfItsOwn(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var got queue.ProduceCall
	e.broker.produce = func(call queue.ProduceCall) ([]queue.Produced, error) {
		got = call
		return accept(call)
	}
	send := func(body string, headers ...string) answer {
		return e.do(request("/v1/queue.produce", strings.NewReader(body), headers...))
	}
	const body = `{"queue_name":"q","items":[{"utf8":"a"},{"utf8":"b","idempotency_key":"own"}]}`
	send(body, "Idempotency-Key", "whole").want(http.StatusOK, "ok")
	if got.Key != "whole" || got.Items[0].IdempotencyKey != "" || got.Items[1].IdempotencyKey != "own" {
		t.Errorf("got %+v, want the call's key beside the item's", got)
	}
	send(body).want(http.StatusOK, "ok")
	if got.Key != "" {
		t.Errorf("no key was given, got %q", got.Key)
	}
	send(body, "Idempotency-Key", "").invalid("Idempotency-Key", "empty")
	send(body, "Idempotency-Key", "a", "Idempotency-Key", "b").invalid("Idempotency-Key", "twice")

	// A mismatch names the place where its key stands.
	for i, field := range []string{"Idempotency-Key", "items[1].idempotency_key"} {
		e.broker.produce = func(queue.ProduceCall) ([]queue.Produced, error) { return nil, &queue.MismatchError{Index: i} }
		send(body, "Idempotency-Key", "whole").want(http.StatusConflict, "idempotency_mismatch").is(field, "details", "field")
	}
}

func TestProduce_LoopsEnd(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.broker.produce = accept
	for _, path := range []string{"/v1/queue.produce", "/v1/produce/q"} {
		body := func() *strings.Reader { return strings.NewReader(`{"queue_name":"q","items":[{}]}`) }
		if a := e.do(request(path, body(), "webhook-hop", "4")); a.status >= 300 {
			t.Errorf("%s: the fourth hop: got %d", path, a.status)
		}
		for hop, reason := range map[string]string{"5": "loop", "2147483647": "loop", "-1": "whole number", "x": "whole number", "": "whole number", "99999999999": "whole number"} {
			e.do(request(path, body(), "webhook-hop", hop)).invalid("webhook-hop", reason)
		}
		e.do(request(path, body(), "webhook-hop", "1", "webhook-hop", "1")).invalid("webhook-hop", "one")
	}
}

func TestProduce_KeepsOnlyATraceThatCanBeContinued(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var got string
	e.broker.produce = func(c queue.ProduceCall) ([]queue.Produced, error) {
		got = c.Items[0].Trace
		return accept(c)
	}
	for given, want := range map[string]string{
		trace: trace, "": "", "x": "",
		strings.ToUpper(trace):                                                                 "",
		strings.Replace(trace, "00-", "ff-", 1):                                                "",
		strings.Replace(trace, "b7ad6b7169203331", "0000000000000000", 1):                      "",
		strings.Replace(trace, "0af7651916cd43dd8448eb211c80319c", strings.Repeat("0", 32), 1): "",
		strings.Replace(trace, "0af7", "0a-7", 1):                                              "",
		trace + "-more": "",
	} {
		e.do(request("/v1/produce/q", nil, "Traceparent", given)).want(201, "ok")
		if got != want {
			t.Errorf("%q: got %q, want %q", given, got, want)
		}
	}
}

func TestRawProduce_TakesAnyBytesAsTheyAre(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var got []byte
	e.broker.produce = func(c queue.ProduceCall) ([]queue.Produced, error) {
		got = c.Items[0].Payload
		return accept(c)
	}
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, payload := range [][]byte{{}, {0}, []byte("\xff\xfe"), []byte(`{"a":`), every, bytes.Repeat(every, 1_000_000/256)} {
		e.do(request("/v1/produce/orders", bytes.NewReader(payload))).want(201, "ok")
		if !bytes.Equal(got, payload) {
			t.Errorf("%d bytes were changed: %.20q became %.20q", len(payload), payload, got)
		}
	}
}

func TestI01_RawProduceTakesAPayloadToTheByte(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.broker.produce = accept
	e.do(request("/v1/produce/orders", bytes.NewReader(make([]byte, 1_000_000)))).want(201, "ok")
	e.do(request("/v1/produce/orders", bytes.NewReader(make([]byte, 1_000_001)))).want(413, "too_large").is("body", "details", "field")
	e.do(request("/v1/produce/orders", struct{ *bytes.Buffer }{bytes.NewBuffer(make([]byte, 1_000_001))})).want(413, "too_large")
}

func TestRawProduce_ReadsAttributesFromHeaders(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var got queue.ProduceCall
	e.broker.produce = func(c queue.ProduceCall) ([]queue.Produced, error) {
		got = c
		return []queue.Produced{{ID: queue.NewID(), Duplicate: c.Items[0].IdempotencyKey == "known"}}, nil
	}
	e.do(request("/v1/produce/orders", strings.NewReader("x"),
		"Content-Type", "text/csv; header=present", "Idempotency-Key", "known", "Posthaste-Kind", "k",
		"Posthaste-Reference", "r-1",
		"posthaste-delay", "90s", "posthaste-forward-x-tenant", "t1", "Traceparent", trace, "Webhook-Hop", "1")).
		want(200, "ok").is(true, "items", 0, "duplicate")
	want := queue.ProduceCall{Namespace: queue.DefaultNamespace, Queue: "orders", Items: []queue.ProduceItem{{
		Content: queue.Content{
			Kind: "k", Reference: "r-1", Encoding: "text/csv; header=present", Headers: map[string]string{"X-Tenant": "t1"},
			Trace: trace, Hop: 1, Payload: []byte("x"),
		},
		Delay: 90 * time.Second, IdempotencyKey: "known",
	}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	e.do(request("/v1/produce/orders", nil, "Posthaste-Enqueue-At", "2030-01-31T08:00:00Z")).want(201, "ok")
	if at := got.Items[0].DueAt; !at.Equal(time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)) {
		t.Errorf("due at %s", at)
	}
}

// pushHeaders are what a push says of itself.
var pushHeaders = []string{
	"Posthaste-Queue", "Posthaste-Subscription", "Posthaste-Attempt", "Posthaste-Max-Attempts", "Posthaste-Enqueued-At",
	"Posthaste-Retry-Reason", "Posthaste-Previous-Status", "Posthaste-Receipt", "Posthaste-Lease-Deadline",
}

func TestProduce_TakesWhatAnotherQueuePushed(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var got queue.Content
	e.broker.produce = func(c queue.ProduceCall) ([]queue.Produced, error) {
		got = c.Items[0].Content
		return accept(c)
	}
	push := []string{"Webhook-Id", "1", "Posthaste-Kind", "gr%C3%BCn 100%25", "Posthaste-Reference", "100%"}
	for _, name := range pushHeaders {
		push = append(push, name, "3")
	}
	e.do(request("/v1/produce/orders", nil, push...)).want(201, "ok")
	if got.Kind != "grün 100%" || got.Reference != "100%" {
		t.Errorf("got %+v, want the kind and the reference as they were before the push", got)
	}
	e.do(request("/v1/queue.produce", strings.NewReader(`{"queue_name":"q","items":[{"kind":"own"}]}`), push...)).want(200, "ok")
	if got.Kind != "own" || got.Reference != "" {
		t.Errorf("got %+v, want what the message says", got)
	}
}

func TestProduce_RefusesHeadersThatItDoesNotTake(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.broker.produce = func(queue.ProduceCall) ([]queue.Produced, error) {
		t.Error("produced all the same")
		return nil, queue.ErrNotFound
	}
	for _, name := range pushHeaders {
		e.do(request("/v1/produce/orders", nil, name, "3")).invalid(name, "not taken here")
	}
	for _, name := range append([]string{"Posthaste-Kind", "Posthaste-Reference"}, pushHeaders...) {
		e.do(request("/v1/queue.produce", strings.NewReader(`{"queue_name":"q","items":[{}]}`), name, "3")).invalid(name, "into the item")
	}
}

func TestRawProduce_NamesTheHeaderThatIsWrong(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.broker.produce = accept
	send := func(headers ...string) answer { return e.do(request("/v1/produce/orders", nil, headers...)) }
	send("Posthaste-Delay", "soon").invalid("Posthaste-Delay", "not a duration")
	send("Posthaste-Delay", "1s", "Posthaste-Delay", "2s").invalid("Posthaste-Delay", "twice")
	send("Posthaste-Delay", "0s", "Posthaste-Enqueue-At", "2030-01-31T08:00:00Z").invalid("Posthaste-Delay", "one of them")
	send("Posthaste-Enqueue-At", "tomorrow").invalid("Posthaste-Enqueue-At", "RFC 3339")
	send("Posthaste-Dealy", "1s").invalid("Posthaste-Dealy", "no header that this server knows")
	send("Posthaste-Forward-Host", "1").invalid("Posthaste-Forward-*", "reserved")
	send("Posthaste-Forward-", "1").invalid("Posthaste-Forward-", "no header that this server knows")
	send("Posthaste-Kind", "a", "Posthaste-Kind", "b").invalid("Posthaste-Kind", "twice")
	send("Idempotency-Key", "").invalid("Idempotency-Key", "empty")
	send("Posthaste-Namespace", "x").want(http.StatusBadRequest, "not_supported").is("Posthaste-Namespace", "details", "field")

	for field, name := range map[string]string{"items[0].kind": "Posthaste-Kind", "items[0].encoding": "Content-Type", "items[0].headers": "Posthaste-Forward-*", "items[0].ordering_key": "Posthaste-Ordering-Key"} {
		e.broker.produce = func(queue.ProduceCall) ([]queue.Produced, error) { return nil, queue.Invalid(field, "is too long") }
		send().invalid(name, "is too long")
	}
	e.broker.produce = func(queue.ProduceCall) ([]queue.Produced, error) { return nil, &queue.MismatchError{} }
	send().want(http.StatusConflict, "idempotency_mismatch").is("Idempotency-Key", "details", "field")
	e.broker.produce = nil
	send().want(http.StatusNotFound, "not_found")
}
