package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

func inputUnknownQueue(t *testing.T, e *env) {
	for method, request := range map[string]object{
		"queue.produce":      {"queue_name": e.queue, "items": []object{{"utf8": "x"}}},
		"queue.lease":        {"queue_name": e.queue, "request_timeout": "10ms"},
		"queue.stats":        {"queue_name": e.queue},
		"queues.info":        {"queue_name": e.queue},
		"queues.delete":      {"queue_name": e.queue},
		"storage/items.list": {"queue_name": e.queue},
		"subscriptions.info": {"name": e.queue},
	} {
		a := e.refused(http.StatusNotFound, "not_found", method, request)
		if !strings.Contains(a.Message, e.queue) {
			t.Errorf("%s: the message %q does not name %s", method, a.Message, e.queue)
		}
	}
	a, err := e.post("/v1/produce/"+e.queue, "", nil, []byte("x"))
	if err != nil || a.status != http.StatusNotFound {
		t.Errorf("raw produce: status %d: %s, %v; want 404", a.status, a.raw, err)
	}
}

func inputFaults(t *testing.T, e *env) {
	e.call("queues.create", object{"queue_name": e.queue}, nil)
	tests := []struct {
		name, method, body, field string
	}{
		{"unknown field", "queue.produce", `{"queue_name":"Q","itemz":[]}`, "itemz"},
		{"unknown nested field", "queue.produce", `{"queue_name":"Q","items":[{"utf8":"x","prio":1}]}`, "items[0].prio"},
		{"duplicate field", "queue.produce", `{"queue_name":"Q","queue_name":"Q","items":[{}]}`, "queue_name"},
		{"both spellings of a field", "queue.produce", `{"queue_name":"Q","queueName":"Q","items":[{}]}`, "queue"},
		{"text for a list", "queue.produce", `{"queue_name":"Q","items":"x"}`, "items"},
		{"text for a number", "queue.lease", `{"queue_name":"Q","batch_size":"many"}`, "batch_size"},
		{"invalid UTF-8", "queue.produce", "{\"queue_name\":\"Q\",\"items\":[{\"kind\":\"\xff\"}]}", "items[0].kind"},
		{"lone surrogate", "queue.produce", `{"queue_name":"Q","items":[{"kind":"\ud800"}]}`, "items[0].kind"},
		{"bad duration", "queue.produce", `{"queue_name":"Q","items":[{"utf8":"x"},{"delay":"soon"}]}`, "items[1].delay"},
		{"bad base64", "queue.produce", `{"queue_name":"Q","items":[{"bytes":"***"}]}`, "items[0].bytes"},
		{"delay and due time", "queue.produce", `{"queue_name":"Q","items":[{"delay":"1s","enqueue_at":"2030-01-01T00:00:00Z"}]}`, "items[0]"},
		{"no items", "queue.produce", `{"queue_name":"Q","items":[]}`, "items"},
		{"no queue", "queue.produce", `{"items":[{"utf8":"x"}]}`, "queue_name"},
		{"name of the system", "queues.create", `{"queue_name":"a~b"}`, "queue_name"},
		{"too large a batch", "queue.lease", `{"queue_name":"Q","batch_size":100000}`, "batch_size"},
		{"trailing data", "queue.stats", `{"queue_name":"Q"}{}`, ""},
		{"no JSON", "queue.stats", `queue`, ""},
		{"nothing", "queue.stats", ``, ""},
		{"an address that is no receipt", "queue.complete", `{"receipts":["nonsense"]}`, "receipts[0]"},
		{"an endpoint without a host", "subscriptions.create", `{"name":"s","queue_name":"Q","url":"http:///x"}`, "url"},
	}
	for _, tt := range tests {
		body := strings.ReplaceAll(tt.body, "Q", e.queue)
		a, err := e.post("/v1/"+tt.method, "application/json", nil, []byte(body))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if a.status != http.StatusBadRequest || a.CodeText != "invalid" || !strings.Contains(a.Message, tt.field) {
			t.Errorf("%s: got %d: %s; want 400 naming %q", tt.name, a.status, a.raw, tt.field)
		}
	}
	if s := e.stats(e.queue); s.Total != 0 {
		t.Errorf("refused calls left %d items", s.Total)
	}
}

func inputOversize(t *testing.T, e *env) {
	e.call("queues.create", object{"queue_name": e.queue}, nil)
	large := bytes.Repeat([]byte("x"), 1_000_001)
	a, err := e.post("/v1/produce/"+e.queue, "text/plain", nil, large)
	if err != nil || a.status != http.StatusRequestEntityTooLarge || a.CodeText != "too_large" {
		t.Errorf("raw item of 1,000,001 bytes: got %d: %s, %v; want 413 too_large", a.status, a.raw, err)
	}
	// One too many in a call, and one too large in a call that is not.
	for name, items := range map[string][]object{
		"1,001 items":    bigCall(1001, "x"),
		"large payload":  {{"utf8": "small"}, {"utf8": string(large)}},
		"call over 5 MB": bigCall(6, strings.Repeat("y", 900_000)),
	} {
		a := e.try("queue.produce", object{"queue_name": e.queue, "items": items})
		if a.status != http.StatusRequestEntityTooLarge || a.CodeText != "too_large" {
			t.Errorf("%s: got %d: %.200s; want 413 too_large", name, a.status, a.raw)
		}
	}
	if s := e.stats(e.queue); s.Total != 0 {
		t.Errorf("refused calls left %d items", s.Total)
	}
	// The limit itself is no oversize.
	a, err = e.post("/v1/produce/"+e.queue, "text/plain", nil, large[1:])
	if err != nil || a.status != http.StatusCreated {
		t.Errorf("raw item of 1,000,000 bytes: got %d: %s, %v; want 201", a.status, a.raw, err)
	}
}

func bigCall(n int, payload string) []object {
	items := make([]object, n)
	for i := range items {
		items[i] = object{"utf8": payload}
	}
	return items
}

func inputUnknownType(t *testing.T, e *env) {
	e.call("queues.create", object{"queue_name": e.queue}, nil)
	body := fmt.Appendf(nil, `{"queue_name":%q}`, e.queue)
	for _, contentType := range []string{"text/csv", "application/xml", "application/x-www-form-urlencoded"} {
		a, err := e.post("/v1/queue.stats", contentType, nil, body)
		if err != nil || a.status != http.StatusUnsupportedMediaType {
			t.Errorf("%s: got %d: %s, %v; want 415", contentType, a.status, a.raw, err)
		}
	}
	for _, contentType := range []string{"", "application/json", "application/json; charset=utf-8", "*/*"} {
		a, err := e.post("/v1/queue.stats", contentType, nil, body)
		if err != nil || a.status != http.StatusOK {
			t.Errorf("%q: got %d: %s, %v; want 200", contentType, a.status, a.raw, err)
		}
	}
}

func inputNotSupported(t *testing.T, e *env) {
	e.call("queues.create", object{"queue_name": e.queue}, nil)
	call := fmt.Appendf(nil, `{"queue_name":%q,"items":[{"utf8":"x"}]}`, e.queue)
	for name, value := range map[string]string{
		"Posthaste-Namespace": "n",
	} {
		a, err := e.post("/v1/queue.produce", "application/json", map[string]string{name: value}, call)
		if err != nil || a.status != http.StatusBadRequest || a.CodeText != "not_supported" {
			t.Errorf("header %s: got %d: %s, %v; want 400 not_supported", name, a.status, a.raw, err)
		}
	}
	for _, method := range []string{"namespaces.create", "audit.list"} {
		e.refused(http.StatusBadRequest, "not_supported", method, object{})
	}
	if s := e.stats(e.queue); s.Total != 0 {
		t.Errorf("refused calls left %d items", s.Total)
	}
}

func inputIdempotency(t *testing.T, e *env) {
	e.call("queues.create", object{"queue_name": e.queue}, nil)
	const callers = 50
	body := fmt.Appendf(nil, `{"queue_name":%q,"items":[{"utf8":"pay","idempotency_key":"invoice-1"}]}`, e.queue)
	answers := make([]answer, callers)
	errs := make([]error, callers)
	start := make(chan struct{})
	var callersDone sync.WaitGroup
	for i := range callers {
		callersDone.Go(func() {
			<-start
			answers[i], errs[i] = e.post("/v1/queue.produce", "application/json", nil, body)
		})
	}
	close(start)
	callersDone.Wait()

	ids, first := map[string]int{}, 0
	for i, a := range answers {
		var reply struct{ Items []produced }
		if errs[i] != nil || a.status != http.StatusOK {
			t.Errorf("caller %d: status %d: %s, %v", i, a.status, a.raw, errs[i])
			continue
		}
		if err := json.Unmarshal(a.raw, &reply); err != nil || len(reply.Items) != 1 {
			t.Fatalf("caller %d: %v in %s", i, err, a.raw)
		}
		ids[reply.Items[0].ItemID]++
		if !reply.Items[0].Duplicate {
			first++
		}
	}
	if len(ids) != 1 || first != 1 {
		t.Errorf("%d callers got %d ids, %d of them as the first; want one of each: %v", callers, len(ids), first, ids)
	}
	if s := e.stats(e.queue); s.Total != 1 {
		t.Errorf("queue holds %d items, want 1", s.Total)
	}
}

func inputMismatch(t *testing.T, e *env) {
	e.call("queues.create", object{"queue_name": e.queue}, nil)
	e.produce(e.queue, object{"utf8": "a", "idempotency_key": "k"})
	e.refused(http.StatusConflict, "idempotency_mismatch", "queue.produce",
		object{"queue_name": e.queue, "items": []object{{"utf8": "fresh"}, {"utf8": "b", "idempotency_key": "k"}}})
	if s := e.stats(e.queue); s.Total != 1 {
		t.Errorf("queue holds %d items, want the first alone", s.Total)
	}
}

func health(t *testing.T, e *env) {
	for _, base := range []string{e.server.URL, e.server.AdminURL} {
		for _, path := range []string{"/livez", "/readyz", "/health"} {
			resp, err := e.http.Get(base + path)
			if err != nil {
				t.Fatal(err)
			}
			var body struct{ Status, Version string }
			err = json.NewDecoder(resp.Body).Decode(&body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK || body.Status != "ok" {
				t.Errorf("%s: status %d, %+v, %v", path, resp.StatusCode, body, err)
			}
			// Whoever has no key hears no more than whether it works.
			if told := body.Version != ""; told != (path == "/health" && base == e.server.AdminURL) {
				t.Errorf("%s%s: version %q", base, path, body.Version)
			}
		}
	}
}

func profiles(t *testing.T, e *env) {
	for base, want := range map[string]int{e.server.URL: http.StatusNotFound, e.server.AdminURL: http.StatusOK} {
		resp, err := e.http.Get(base + "/debug/pprof/")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s/debug/pprof/: got %d, want %d", base, resp.StatusCode, want)
		}
	}
}
