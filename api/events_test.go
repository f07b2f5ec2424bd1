package api_test

import (
	"encoding/base64"
	"errors"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/queue"
)

const (
	structured = "application/cloudevents+json"
	batched    = "application/cloudevents-batch+json"
)

// least are the headers of the smallest event in binary mode.
var least = []string{"ce-specversion", "1.0", "ce-id", "1", "ce-source", "/shop", "ce-type", "order.paid"}

// with returns the least, with other headers laid over; an empty value takes one away.
func with(headers ...string) []string {
	all := slices.Clone(least)
	for i := 0; i < len(headers); i += 2 {
		if at := slices.Index(all, headers[i]); at >= 0 {
			all = slices.Delete(all, at, at+2)
		}
		if headers[i+1] != "" {
			all = append(all, headers[i], headers[i+1])
		}
	}
	return all
}

// events is a server that takes what comes, and keeps the newest call.
func events(t *testing.T) (e *env, got *queue.ProduceCall) {
	e, got = setup(t), new(queue.ProduceCall)
	e.broker.produce = func(c queue.ProduceCall) ([]queue.Produced, error) {
		*got = c
		return accept(c)
	}
	return e, got
}

// wantItem checks what an event became, without the key that was made of it.
func wantItem(t *testing.T, got *queue.ProduceCall, i int, want queue.Content) {
	t.Helper()
	if i >= len(got.Items) {
		t.Fatalf("%d items, want more than %d", len(got.Items), i)
	}
	if !reflect.DeepEqual(got.Items[i].Content, want) {
		t.Errorf("item %d: got  %+v\nwant %+v", i, got.Items[i].Content, want)
	}
}

func TestG09_RawProduceTakesAnEventInBinaryMode(t *testing.T) {
	t.Parallel()
	e, got := events(t)
	e.do(request("/v1/produce/orders", strings.NewReader("\xff\x00data"), with(
		"ce-subject", "Euro%20%E2%82%AC%20%F0%9F%98%80", "CE-Time", "2026-03-01T13:00:00.500+01:00", "ce-dataschema", "https://example.com/s",
		"ce-partitionkey", "a%20%22b%22%20100%25", "ce-plain", "grün", "ce-quoted", `"two \"words\""`, "ce-sampled", "true",
		"ce-traceparent", trace, "ce-tracestate", "a=b",
		"Content-Type", "text/csv; header=present", "Posthaste-Reference", "r-1", "Posthaste-Delay", "90s",
		"Posthaste-Forward-X-Tenant", "t1", "Webhook-Hop", "1",
	)...)).want(http.StatusCreated, "ok")
	wantItem(t, got, 0, queue.Content{
		Kind: "order.paid", Encoding: "text/csv; header=present", Reference: "r-1", Hop: 1, Payload: []byte("\xff\x00data"),
		Headers: map[string]string{
			"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/shop", "ce-subject": "Euro € 😀", "ce-time": "2026-03-01T13:00:00.500+01:00",
			"ce-dataschema": "https://example.com/s", "ce-partitionkey": `a "b" 100%`, "ce-plain": "grün", "ce-quoted": `two "words"`,
			"ce-sampled": "true", "ce-traceparent": trace, "ce-tracestate": "a=b", "X-Tenant": "t1",
		},
	})
	if got.Items[0].Delay != 90*time.Second {
		t.Errorf("delay: got %s", got.Items[0].Delay)
	}
	e.do(request("/v1/produce/orders", nil, least...)).want(http.StatusCreated, "ok")
	wantItem(t, got, 0, queue.Content{Kind: "order.paid", Payload: []byte{}, Headers: map[string]string{"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/shop"}})
}

func TestRawProduce_TakesAnEventInStructuredMode(t *testing.T) {
	t.Parallel()
	e, got := events(t)
	const head = `"specversion":"1.0","id":"1","source":"/shop","type":"order.paid"`
	kept := func(more ...string) map[string]string {
		h := map[string]string{"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/shop"}
		for i := 0; i < len(more); i += 2 {
			h[more[i]] = more[i+1]
		}
		return h
	}
	for _, tt := range []struct {
		name, body string
		want       queue.Content
	}{
		{"JSON stays as it is written", `{"data": {"b" : 1.0, "a":"\u00e9", "b":[ ]} ,` + head + `}`, queue.Content{Encoding: "application/json", Payload: []byte(`{"b" : 1.0, "a":"\u00e9", "b":[ ]}`), Headers: kept()}},
		{"a string may be JSON", `{` + head + `,"datacontenttype":"application/vnd.a+json; v=1","data":"x"}`, queue.Content{Encoding: "application/vnd.a+json; v=1", Payload: []byte(`"x"`), Headers: kept()}},
		{"null is JSON", `{` + head + `,"data":null}`, queue.Content{Encoding: "application/json", Payload: []byte("null"), Headers: kept()}},
		{"text is taken out of its string", `{` + head + `,"datacontenttype":"text/plain","data":"a\"\u00e9\n"}`, queue.Content{Encoding: "text/plain", Payload: []byte("a\"é\n"), Headers: kept()}},
		{"bytes", `{` + head + `,"datacontenttype":"image/png","data_base64":"AP8="}`, queue.Content{Encoding: "image/png", Payload: []byte{0, 0xff}, Headers: kept()}},
		{"bytes of no type", `{` + head + `,"data_base64":"AP8="}`, queue.Content{Payload: []byte{0, 0xff}, Headers: kept()}},
		{"no data", "\n{" + head + "}\n", queue.Content{Headers: kept()}},
		{"null is not given", `{` + head + `,"subject":null,"data_base64":null,"x":null}`, queue.Content{Headers: kept()}},
		{"bools and numbers", `{` + head + `,"t":true,"f":false,"n":-2147483648,"z":-0,"s":"","subject":"\u20ac 100%"}`, queue.Content{
			Headers: kept("ce-t", "true", "ce-f", "false", "ce-n", "-2147483648", "ce-z", "0", "ce-s", "", "ce-subject", "€ 100%"),
		}},
	} {
		for _, media := range []string{structured, "Application/CloudEvents+JSON; Charset=\"UTF-8\""} {
			e.do(request("/v1/produce/orders", strings.NewReader(tt.body), "Content-Type", media)).want(http.StatusCreated, "ok")
			tt.want.Kind = "order.paid"
			t.Log(tt.name)
			wantItem(t, got, 0, tt.want)
		}
	}
	// Headers may repeat what the body says.
	e.do(request("/v1/produce/orders", strings.NewReader(`{`+head+`,"n":1}`), with("Content-Type", structured, "ce-n", "1", "Posthaste-Kind", "order.paid")...)).
		want(http.StatusCreated, "ok")
}

func TestRawProduce_TakesABatchOfEvents(t *testing.T) {
	t.Parallel()
	e, got := events(t)
	const two = `[{"specversion":"1.0","id":"1","source":"/s","type":"a","data":1},
		{"specversion":"1.0","id":"2","source":"/s","type":"b","datacontenttype":"text/plain","data":"x"}]`
	send := func(body string, headers ...string) answer {
		return e.do(request("/v1/produce/orders", strings.NewReader(body), append(headers, "Content-Type", batched)...))
	}
	send(two, "Posthaste-Delay", "1s", "Posthaste-Forward-X-A", "1").want(http.StatusCreated, "ok").is(false, "items", 1, "duplicate")
	wantItem(t, got, 0, queue.Content{Kind: "a", Encoding: "application/json", Payload: []byte("1"), Headers: map[string]string{"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "X-A": "1"}})
	wantItem(t, got, 1, queue.Content{Kind: "b", Encoding: "text/plain", Payload: []byte("x"), Headers: map[string]string{"ce-specversion": "1.0", "ce-id": "2", "ce-source": "/s", "X-A": "1"}})
	if got.Key != "" || got.Items[0].IdempotencyKey == got.Items[1].IdempotencyKey || got.Items[1].Delay != time.Second {
		t.Errorf("got %+v", got)
	}
	send(two, "Idempotency-Key", "whole").want(http.StatusCreated, "ok")
	if got.Key != "whole" || got.Items[0].IdempotencyKey != "" || got.Items[0].Fingerprint != "" {
		t.Errorf("got %+v, want the key to be the call's", got)
	}
	// New is what has something new.
	for known, status := range map[int]int{1: http.StatusCreated, 2: http.StatusOK} {
		e.broker.produce = func(c queue.ProduceCall) ([]queue.Produced, error) {
			produced, err := accept(c)
			for i := range known {
				produced[i].Duplicate = true
			}
			return produced, err
		}
		send(two).want(status, "ok").is(true, "items", 0, "duplicate")
	}

	e.broker.produce = accept
	send(`[]`).invalid("body", "none given; want 1 to 1000")
	send(`{}`).invalid("body", "wants a list, got an object")
	send(``).invalid("body", "is empty")
	send(two, "ce-id", "1").invalid("ce-id", "their own attributes")
	send(two, "Posthaste-Kind", "a").invalid("Posthaste-Kind", "[1].type")
	send(strings.Replace(two, `"source":"/s","type":"b"`, `"type":"b"`, 1)).invalid("[1].source", "missing")
	send(strings.Replace(two, `"data":1`, `"data":01`, 1)).invalid("[0]", "not a number")
	send(strings.Replace(two, `{`, `7,{`, 1)).invalid("[0]", "wants an object")
	send(two+",").invalid("body", "follows")
	send("["+strings.Repeat("1,", 1000)+"1]").want(http.StatusRequestEntityTooLarge, "too_large")
	e.broker.produce = func(queue.ProduceCall) ([]queue.Produced, error) {
		return nil, &queue.TooLargeError{Field: "items[1].bytes", Limit: 5, Unit: "bytes"}
	}
	send(two).want(http.StatusRequestEntityTooLarge, "too_large").is("[1].data", "details", "field")
	e.broker.produce = func(queue.ProduceCall) ([]queue.Produced, error) { return nil, &queue.MismatchError{Index: 1} }
	send(two).want(http.StatusConflict, "idempotency_mismatch").is("[1].id", "details", "field")
	send(two, "Idempotency-Key", "whole").want(http.StatusConflict, "idempotency_mismatch").is("Idempotency-Key", "details", "field")
}

func TestRawProduce_KnowsAnEventAgain(t *testing.T) {
	t.Parallel()
	e, got := events(t)
	key := func(body string, headers ...string) [2]string {
		t.Helper()
		e.do(request("/v1/produce/orders", strings.NewReader(body), headers...)).want(http.StatusCreated, "ok")
		it := got.Items[0]
		if len(it.IdempotencyKey) > queue.MaxIdempotencyKey || strings.Trim(it.IdempotencyKey, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" {
			t.Errorf("key %q", it.IdempotencyKey)
		}
		return [2]string{it.IdempotencyKey, it.Fingerprint}
	}
	first := key("{}", with("Content-Type", "application/json")...)
	for name, again := range map[string][2]string{
		"another time":       key("{}", with("Content-Type", "application/json", "ce-time", "2026-03-01T12:00:00Z")...),
		"another extension":  key("{}", with("Content-Type", "application/json", "ce-hops", "2", "ce-traceparent", trace)...),
		"in structured mode": key(`{"specversion":"1.0","id":"1","source":"/shop","type":"order.paid","data":{}}`, "Content-Type", structured),
		"other headers":      key("{}", with("Content-Type", "application/json", "Posthaste-Forward-A", "1", "Webhook-Hop", "2")...),
	} {
		if again != first {
			t.Errorf("%s: got %q, want what the first had: %q", name, again, first)
		}
	}
	// What the same id and source say must be the same.
	for name, other := range map[string][2]string{
		"other data": key("[]", with("Content-Type", "application/json")...),
		"type":       key("{}", with("Content-Type", "application/json", "ce-type", "t")...),
		"media type": key("{}", with("Content-Type", "application/ld+json")...),
		"subject":    key("{}", with("Content-Type", "application/json", "ce-subject", "s")...),
	} {
		if other[0] != first[0] || other[1] == first[1] {
			t.Errorf("%s: got %q, want the key of %q, and another content", name, other, first)
		}
	}
	for name, other := range map[string][2]string{
		"id": key("{}", with("ce-id", "2")...), "source": key("{}", with("ce-source", "/shop/")...),
		"both, moved": key("{}", with("ce-id", "p1", "ce-source", "/sho")...),
		"long ones":   key("{}", with("ce-id", strings.Repeat("%E2%82%AC", 300), "ce-source", strings.Repeat("a", 1024))...),
	} {
		if other[0] == first[0] {
			t.Errorf("%s: has the key of another event", name)
		}
	}
	if own := key("{}", with("Idempotency-Key", "mine")...); own != [2]string{"mine", ""} {
		t.Errorf("got %q, want the producer's own key", own)
	}
}

func TestRawProduce_SaysWhatIsWrongWithAnEventInHeaders(t *testing.T) {
	t.Parallel()
	e, got := events(t)
	long := strings.Repeat("x", 1025)
	for _, tt := range []struct {
		headers       []string
		field, reason string
	}{
		{with("ce-specversion", "0.3"), "ce-specversion", `"0.3"; want 1.0`},
		{with("ce-specversion", "1.0.2"), "ce-specversion", "want 1.0"},
		{with("ce-specversion", ""), "ce-specversion", "missing beside ce-id; want 1.0"},
		{[]string{"ce-type", "t"}, "ce-specversion", "missing beside ce-type"},
		{append(with(), "ce-specversion", "1.0"), "ce-specversion", "twice"},
		{append(with(), "ce-id", "1"), "ce-id", "twice"},
		{with("ce-id", ""), "ce-id", "missing; an event has an id, a source and a type"},
		{with("ce-source", ""), "ce-source", "missing"},
		{with("ce-type", ""), "ce-type", "missing"},
		{with("ce-id", `""`), "ce-id", "is empty"},
		{with("ce-subject", `""`), "ce-subject", "leave it out"},
		{with("ce-source", ":%3A"), "ce-source", "URI"},
		{with("ce-dataschema", "schema.json"), "ce-dataschema", "with a scheme"},
		{with("ce-time", "yesterday"), "ce-time", "RFC 3339"},
		{with("ce-time", "2026-03-01T8:00:00Z"), "ce-time", "RFC 3339"},
		{with("ce-time", "2026-03-01T08:00:00,5Z"), "ce-time", "RFC 3339"},
		{with("ce-time", "2026-03-01T08:00:00"), "ce-time", "RFC 3339"},
		{with("ce-x", "%C0%A0"), "ce-x", "not UTF-8"},
		{with("ce-x", "%ED%A0%80"), "ce-x", "not UTF-8"},
		{with("ce-x", "\xff"), "ce-x", "not UTF-8"},
		{with("ce-x", "100%"), "ce-x", "percent sign without two hexadecimal digits; percent-encode"},
		{with("ce-x", `"open`), "ce-x", "quote"},
		{with("ce-x", "a%0D%0Ab"), "ce-x", "U+000D at 1"},
		{with("ce-x", "%C2%85"), "ce-x", "U+0085"},
		{with("ce-x", "%EF%BF%BF"), "ce-x", "U+FFFF"},
		{with("ce-x", "a\tb"), "ce-x", "U+0009"},
		{with("ce-x", long), "ce-x", "longer than 1024 bytes"},
		{with("ce-a-b", "1"), "ce-a-b", "a-z 0-9"},
		{with("ce-"+strings.Repeat("x", 62), "1"), "ce-" + strings.Repeat("x", 62), "1 to 61 characters"},
		{with("ce-", "1"), "ce-*", "no name"},
		{with("ce-data", "1"), "ce-data", "the body"},
		{with("ce-data_base64", "1"), "ce-data_base64", "a-z 0-9"},
		{with("ce-datacontenttype", "text/plain"), "ce-datacontenttype", "Content-Type"},
		{with("Content-Type", "JSON"), "Content-Type", "no media type"},
		{append(with("Content-Type", "text/plain"), "Content-Type", structured), "Content-Type", "twice"},
		{with("Posthaste-Kind", "order"), "Posthaste-Kind", "another one than ce-type"},
		{with("Posthaste-Forward-Content-Type", "text/plain"), "Posthaste-Forward-Content-Type", "datacontenttype"},
		{with("Posthaste-Forward-Ce-Id", "2"), "Posthaste-Forward-*", "reserved"},
		{with("Posthaste-Forward-Ce_Id", "2"), "Posthaste-Forward-*", "reserved"},
	} {
		*got = queue.ProduceCall{}
		e.do(request("/v1/produce/orders", strings.NewReader("x"), tt.headers...)).invalid(tt.field, tt.reason)
		if got.Items != nil {
			t.Errorf("%q: produced all the same", tt.headers)
		}
	}
	many := with()
	for i := range 21 {
		many = append(many, "ce-x"+string(rune('a'+i)), "1")
	}
	e.do(request("/v1/produce/orders", nil, many...)).invalid("ce-*", "more than 20 extensions")
	large := with()
	for i := range 17 {
		large = append(large, "ce-x"+string(rune('a'+i)), long[:1000])
	}
	e.do(request("/v1/produce/orders", nil, large...)).invalid("ce-*", "16384 bytes together")
	for field, name := range map[string]string{"kind": "ce-type", "encoding": "Content-Type", "headers": "ce-*", "delay": "Posthaste-Delay"} {
		e.broker.produce = func(queue.ProduceCall) ([]queue.Produced, error) {
			return nil, queue.Invalid("items[0]."+field, "is too long")
		}
		e.do(request("/v1/produce/orders", nil, least...)).invalid(name, "is too long")
	}
	e.broker.produce = func(queue.ProduceCall) ([]queue.Produced, error) { return nil, &queue.MismatchError{} }
	e.do(request("/v1/produce/orders", nil, least...)).want(http.StatusConflict, "idempotency_mismatch").is("ce-id", "details", "field")
}

func TestRawProduce_SaysWhatIsWrongWithAnEventInJSON(t *testing.T) {
	t.Parallel()
	e, got := events(t)
	const head = `"specversion":"1.0","id":"1","source":"/shop","type":"t"`
	for _, tt := range []struct{ body, field, reason string }{
		{``, "body", "is empty; want an object"},
		{`[{` + head + `}]`, "body", "wants an object, got a list"},
		{`{` + head, "type", "wants a comma or }"},
		{`{` + head + `} {}`, "body", "something follows"},
		{`{` + head + `,}`, "body", "name in quotes"},
		{`{` + head + `,'a':1}`, "body", "name in quotes"},
		{`{` + head + `,"id":"1"}`, "id", "twice"},
		{`{` + head + `,"data":1,"data":1}`, "data", "twice"},
		{`{` + head + `,"\u0064ata":1,"data":1}`, "data", "twice"},
		{`{` + head + `,"x":"` + "\xff" + `"}`, "x", "not valid UTF-8"},
		{`{` + head + `,"` + "\xff" + `":""}`, "body", "not valid UTF-8"},
		{`{` + head + `,"x":"\ud800"}`, "x", "lone surrogate"},
		{`{` + head + `,"x":"a` + "\n" + `"}`, "x", "control character in a string"},
		{`{` + head + `,"x":"a\u0000"}`, "x", "U+0000 at 1"},
		{`{` + head + `,"x":{}}`, "x", "wants a string, a bool or a whole number of 32 bits, got an object"},
		{`{` + head + `,"x":1.0}`, "x", "whole number"},
		{`{` + head + `,"x":2147483648}`, "x", "32 bits"},
		{`{` + head + `,"subject":1}`, "subject", "wants a string, got a number"},
		{`{` + head + `,"time":true}`, "time", "wants a string, got a bool"},
		{`{` + head + `,"X":"1"}`, "X", "a-z 0-9"},
		{`{` + head + `,"":"1"}`, "body", "no name"},
		{`{` + head + `,"a_b":"1"}`, "a_b", "a-z 0-9"},
		{`{` + head + `,"data":1,"data_base64":"AA=="}`, "data_base64", "one of them"},
		{`{` + head + `,"data_base64":"AA"}`, "data_base64", "not base64"},
		{`{` + head + `,"data_base64":"AA\n=="}`, "data_base64", "not base64"},
		{`{` + head + `,"data_base64":"AB=="}`, "data_base64", "not base64"},
		{`{` + head + `,"data_base64":"-_8="}`, "data_base64", "not base64"},
		{`{` + head + `,"data_base64":1}`, "data_base64", "wants a string"},
		{`{` + head + `,"datacontenttype":"text/plain","data":{}}`, "data", "wants a string, since datacontenttype is not JSON"},
		{`{` + head + `,"datacontenttype":"application/cloudevents+json","data":{}}`, "datacontenttype", "event within an event"},
		{`{` + head + `,"datacontenttype":"text"}`, "datacontenttype", "no media type"},
		{`{` + head + `,"data":[1,{"a":tru}]}`, "data", "no JSON value"},
		{`{` + head + `,"data":[1,]}`, "data", "wants a value"},
		{`{` + head + `,"data":{"a"}}`, "data", "colon"},
		{`{` + head + `,"data":[1}}`, "data", "wants a comma or ]"},
		{`{` + head + `,"data":` + strings.Repeat("[", 1001) + strings.Repeat("]", 1001) + `}`, "data", "nests more than 1000 deep"},
		{`{"id":"1","source":"/s","type":"t"}`, "specversion", "missing; want 1.0"},
		{`{"specversion":"0.3","id":"1","source":"/s","type":"t"}`, "specversion", "want 1.0"},
		{`{"specversion":1.0,"id":"1","source":"/s","type":"t"}`, "specversion", "wants a string"},
		{`{"specversion":"1.0","id":null,"source":"/s","type":"t"}`, "id", "missing"},
		{`{"specversion":"1.0","id":"","source":"/s","type":"t"}`, "id", "empty"},
	} {
		*got = queue.ProduceCall{}
		e.do(request("/v1/produce/orders", strings.NewReader(tt.body), "Content-Type", structured)).invalid(tt.field, tt.reason)
		if got.Items != nil {
			t.Errorf("%s: produced all the same", tt.body)
		}
	}
	e.do(request("/v1/produce/orders", strings.NewReader(`{`+head+`}`), "Content-Type", structured, "ce-id", "2")).invalid("ce-id", "something else")
	e.do(request("/v1/produce/orders", strings.NewReader(`{`+head+`}`), "Content-Type", structured, "ce-x", "2")).invalid("ce-x", "leave it out")
	e.broker.produce = func(queue.ProduceCall) ([]queue.Produced, error) {
		return nil, &queue.TooLargeError{Field: "items[0].bytes", Limit: 5, Unit: "bytes"}
	}
	e.do(request("/v1/produce/orders", strings.NewReader(`{`+head+`}`), "Content-Type", structured)).
		want(http.StatusRequestEntityTooLarge, "too_large").is("data", "details", "field")
}

func TestRawProduce_RefusesOtherFormatsOfEvents(t *testing.T) {
	t.Parallel()
	e, _ := events(t)
	for _, media := range []string{
		"application/cloudevents", "application/cloudevents+xml", "APPLICATION/cloudevents+avro; charset=utf-8", "application/cloudevents+protobuf",
		"application/cloudevents-batch+avro", "application/cloudevents+json, text/plain",
	} {
		a := e.do(request("/v1/produce/orders", strings.NewReader("x"), with("Content-Type", media)...)).want(http.StatusUnsupportedMediaType, "unsupported_media_type")
		for _, taken := range []string{structured, batched, "binary mode"} {
			if !strings.Contains(a.raw, taken) {
				t.Errorf("%s: got %s, want it to name %s", media, a.raw, taken)
			}
		}
	}
	for _, media := range []string{structured, batched} {
		a := e.do(request("/v1/produce/orders", strings.NewReader("x"), "Content-Type", media+"; charset=latin1"))
		a.want(http.StatusUnsupportedMediaType, "unsupported_media_type")
	}
	e.do(request("/v1/produce/orders", strings.NewReader("x"), "Content-Type", "application/cloudeventsfoo")).want(http.StatusCreated, "ok")
}

// Data in JSON may be as long as a payload, whatever its letters need there.
func TestRawProduce_LimitsTheDataOfAnEvent(t *testing.T) {
	t.Parallel()
	e, got := events(t)
	data := make([]byte, 1_000_000)
	body := `{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"` + base64.StdEncoding.EncodeToString(data) + `"}`
	e.do(request("/v1/produce/orders", strings.NewReader(body), "Content-Type", structured)).want(http.StatusCreated, "ok")
	if len(got.Items[0].Payload) != len(data) {
		t.Errorf("%d bytes", len(got.Items[0].Payload))
	}
	e.do(request("/v1/produce/orders", strings.NewReader(strings.Repeat(" ", 5_000_001)), "Content-Type", structured)).
		want(http.StatusRequestEntityTooLarge, "too_large").is("body", "details", "field")
}

// What lists answer can be imported: an event stays one, and nobody makes half of one.
func TestImport_KeepsEvents(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var got queue.ImportCall
	e.broker.imports = keep(&got)
	send := func(fields string) answer {
		return e.call("storage/items.import", `{"queue_name":"orders","items":[{"id":"1",`+fields+`}]}`)
	}
	const ce = `"ce-specversion":"1.0","ce-id":"1","ce-source":"/s"`
	if a := send(`"kind":"t","encoding":"text/plain","headers":{` + ce + `,"ce-subject":"€","X-A":"1"}`); a.status != http.StatusOK {
		t.Fatalf("got %s", a.raw)
	}
	want := map[string]string{"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-subject": "€", "X-A": "1"}
	if it := got.Items[0]; !maps.Equal(it.Headers, want) {
		t.Errorf("got %v", it.Headers)
	}
	send(`"kind":"t","headers":{"ce-id":"1"}`).invalid("items[0].headers", "ce-specversion is missing")
	send(`"kind":"t","headers":{`+ce+`,"ce-X":"1"}`).invalid("items[0].headers", "a-z 0-9")
	send(`"kind":"t","headers":{`+ce+`,"Ce-Subject":"1"}`).invalid("items[0].headers", "reserved")
	send(`"kind":"t","headers":{`+ce+`,"ce-type":"t"}`).invalid("items[0].headers", "the item's kind")
	send(`"kind":"t","headers":{`+ce+`,"content-type":"t"}`).invalid("items[0].headers", "encoding")
	send(`"headers":{`+ce+`}`).invalid("items[0].kind", "missing")
	send(`"kind":"t","encoding":"application/cloudevents+json","headers":{`+ce+`}`).invalid("items[0].encoding", "event within an event")
	e.call("queue.produce", `{"queue_name":"orders","items":[{"kind":"t","headers":{`+ce+`}}]}`).invalid("items[0].headers", "reserved")
}

// Whatever is taken for an event can be sent, and says the same when it comes back.
func FuzzStructuredEvent(f *testing.F) {
	f.Add([]byte(`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"a":[1,"\u00e9"]}}`))
	f.Add([]byte(`{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"text/plain","data":"x","n":1,"b":true}`))
	f.Add([]byte(`{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"AP8=","time":"2026-03-01T13:00:00.500+01:00","z":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		attributes, data, err := api.ReadStructured(body)
		if err != nil {
			invalid, ok := errors.AsType[*queue.InvalidError](err)
			if ok && (!utf8.ValidString(invalid.Field) || !utf8.ValidString(invalid.Reason)) {
				t.Errorf("%q: the answer is not UTF-8: %q", body, err)
			}
			return
		}
		again, err := api.ReadBinary(api.BinaryHeaders(attributes))
		if err != nil || !maps.Equal(again, attributes) {
			t.Errorf("%q: read as %q, came back as %q, %v", body, attributes, again, err)
		}
		if len(data) > len(body) {
			t.Errorf("%q: %d bytes of data", body, len(data))
		}
	})
}
