package push_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"testing"
	"time"
)

// batched is an item as a JSON batch has it.
type batched struct {
	ID        string
	Kind      string
	Encoding  string
	Reference string
	Attempt   int
	UTF8      *string
	Bytes     []byte
}

func (a arrival) batch(t *testing.T) (items []batched) {
	t.Helper()
	a.expect(t, map[string]string{"Content-Type": "application/json"})
	if err := json.Unmarshal(a.body, &items); err != nil {
		t.Fatalf("%v in %q", err, a.body)
	}
	return items
}

// batching waits long enough for all that one call produces.
func batching(more object) object {
	batch := object{"max_items": 10, "max_wait": "500ms"}
	for name, value := range more {
		batch[name] = value
	}
	return object{"batch": batch, "retry": object{"schedule": []string{"100ms"}}}
}

func numbered(n int) (items []object) {
	for i := range n {
		items = append(items, object{"utf8": fmt.Sprint("item ", i), "kind": "n", "reference": fmt.Sprint(i), "encoding": "text/plain"})
	}
	return items
}

func batchBare(t *testing.T, e *env) {
	r := newReceiver(t, nil)
	secret := e.subscribe(e.queue, r.URL, batching(nil)).Secret
	ids := e.produce(e.queue, numbered(5)...)
	a := r.next()
	if !a.verifies(t, secret) {
		t.Error("the batch is not signed")
	}
	items := a.batch(t)
	if len(items) != 5 {
		t.Fatalf("%d items in the request, want 5", len(items))
	}
	for i, it := range items {
		if it.ID != ids[i] || it.Kind != "n" || it.Reference != fmt.Sprint(i) || it.Attempt != 1 || it.UTF8 == nil || *it.UTF8 != fmt.Sprint("item ", i) {
			t.Errorf("item %d of the batch: %+v", i, it)
		}
	}
	if slices.Contains(ids, a.id()) {
		t.Error("the request goes under the id of one of its items")
	}
	for _, id := range ids {
		if it := e.ended(e.queue, id); it.State != "completed" {
			t.Errorf("got %+v, want it completed", it)
		}
	}
	if lines := e.attempts(object{"subscription": e.queue, "type": "attempt"}); len(lines) != 5 {
		t.Errorf("%d attempts in the log, want one for each item: %+v", len(lines), lines)
	}
	// More than one request takes: the rest comes in others.
	ids = e.produce(e.queue, numbered(23)...)
	var came []string
	for len(came) < 23 {
		items := r.next().batch(t)
		if len(items) > 10 {
			t.Errorf("%d items in a request, want 10 at most", len(items))
		}
		for _, it := range items {
			came = append(came, it.ID)
		}
	}
	slices.Sort(came)
	slices.Sort(ids)
	if !slices.Equal(came, ids) {
		t.Errorf("came %q, want each of %q once", came, ids)
	}
}

func batchPartial(t *testing.T, e *env) {
	failed := make(chan []string, 1)
	r := newReceiver(t, func(w http.ResponseWriter, a arrival) {
		var items []batched
		if err := json.Unmarshal(a.body, &items); err != nil || len(items) < 5 {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"failed": [{"id": %q}, {"id": %q, "retry_after": 2}]}`, items[1].ID, items[3].ID)
		failed <- []string{items[1].ID, items[3].ID}
	})
	e.subscribe(e.queue, r.URL, batching(object{"max_items": 5}))
	ids := e.produce(e.queue, numbered(5)...)
	first := r.next()
	again := map[string]time.Duration{}
	for len(again) < 2 {
		a := r.next()
		for _, it := range a.batch(t) {
			if again[it.ID] != 0 || it.Attempt != 2 {
				t.Errorf("item %s came again as attempt %d", it.ID, it.Attempt)
			}
			again[it.ID] = a.at.Sub(first.at)
		}
	}
	named := <-failed
	if again[named[0]] == 0 || again[named[1]] < 1900*time.Millisecond {
		t.Errorf("came again after %v; want %s soon and %s after 2s", again, named[0], named[1])
	}
	for i, id := range ids {
		it := e.ended(e.queue, id)
		if want := map[bool]int32{true: 2, false: 1}[i == 1 || i == 3]; it.State != "completed" || it.Deliveries != want {
			t.Errorf("item %d: got %+v, want it completed at delivery %d", i, it, want)
		}
	}
	r.noneBefore(e.client, e.queue+"-marker")
}

func batchNever(t *testing.T, e *env) {
	poison := make(chan string, 1)
	r := newReceiver(t, func(w http.ResponseWriter, a arrival) {
		var items []batched
		if err := json.Unmarshal(a.body, &items); err != nil || len(items) < 3 {
			return
		}
		fmt.Fprintf(w, `{"failed": [{"id": %q, "retry_after": "30s", "never": true}]}`, items[1].ID)
		poison <- items[1].ID
	})
	e.subscribe(e.queue, r.URL, batching(object{"max_items": 3}))
	ids := e.produce(e.queue, numbered(3)...)
	it := e.buried(e.dead, 1)[0]
	if it.ID != <-poison || it.Dead.Reason != "rejected" || it.Dead.Attempts != 1 {
		t.Errorf("buried: got %+v, want the item that was named, rejected at its first attempt", it)
	}
	for _, id := range ids {
		if got := e.ended(e.queue, id); (got.State == "buried") != (id == it.ID) {
			t.Errorf("item %s: got %+v, want only %s buried", id, got, it.ID)
		}
	}
	r.next()
	r.noneBefore(e.client, e.queue+"-marker")
}

// An answer of which a part is missing may have named any of the items.
func batchBrokenOff(t *testing.T, e *env) {
	for name, tt := range map[string]struct {
		head       string
		deliveries int32
	}{
		"before-its-first-byte": {"", 2},
		"as-json":               {`{"failed": [`, 2},
		"as-text":               {"thank", 1},
	} {
		queue := e.queue + "-" + name
		whole := make(chan struct{}, 1)
		r := newReceiver(t, func(w http.ResponseWriter, _ arrival) {
			select {
			case whole <- struct{}{}:
				w.Header().Set("Content-Length", "100")
				_, _ = w.Write([]byte(tt.head))
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			default:
			}
		})
		e.subscribe(queue, r.URL, batching(object{"max_items": 3}))
		for _, id := range e.produce(queue, numbered(3)...) {
			if it := e.ended(queue, id); it.State != "completed" || it.Deliveries != tt.deliveries {
				t.Errorf("%s: got %+v, want it completed at delivery %d", name, it, tt.deliveries)
			}
		}
	}
}

func batchRefused(t *testing.T, e *env) {
	for name, more := range map[string]object{
		"batch":          {"batch": object{"max_items": 3}, "format": "cloudevents"},
		"batch.max_wait": {"batch": object{"max_items": 3, "max_wait": "11s"}},
	} {
		request := object{"name": e.queue, "queue_name": e.queue, "url": "http://127.0.0.1:9/"}
		maps.Copy(request, more)
		a := e.refused(http.StatusBadRequest, "invalid", "subscriptions.create", request)
		if a.Details["field"] != name {
			t.Errorf("got %s, want it refused for its %s", a.raw, name)
		}
	}
}

func batchMultipart(t *testing.T, e *env) {
	r := newReceiver(t, nil)
	e.subscribe(e.queue, r.URL, batching(object{"encoding": "multipart"}))
	payloads := [][]byte{[]byte("text\r\n--boundary"), {0, 0xff, '\r', '\n'}, {}}
	var items []object
	for _, p := range payloads {
		items = append(items, object{"bytes": base64.StdEncoding.EncodeToString(p), "encoding": "application/x-odd", "kind": "größe", "headers": object{"X-Own": "1"}})
	}
	ids := e.produce(e.queue, items...)
	a := r.next()
	kind, params, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	if err != nil || kind != "multipart/mixed" {
		t.Fatalf("Content-Type: got %q, %v", a.header.Get("Content-Type"), err)
	}
	parts := multipart.NewReader(bytes.NewReader(a.body), params["boundary"])
	for i, want := range payloads {
		part, err := parts.NextRawPart()
		if err != nil {
			t.Fatalf("part %d: %v", i, err)
		}
		got, err := io.ReadAll(part)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("part %d: got %q, %v; want %q", i, got, err, want)
		}
		h := http.Header(part.Header)
		for name, value := range map[string]string{
			"Webhook-Id": ids[i], "Content-Type": "application/x-odd", "Posthaste-Kind": "gr%C3%B6%C3%9Fe", "Posthaste-Attempt": "1", "X-Own": "1",
		} {
			if h.Get(name) != value {
				t.Errorf("part %d: %s: got %q, want %q", i, name, h.Get(name), value)
			}
		}
	}
	if _, err := parts.NextRawPart(); err != io.EOF {
		t.Errorf("after the last part: %v", err)
	}
}

func batchFails(t *testing.T, e *env) {
	r := newReceiver(t, answers(http.StatusInternalServerError, http.StatusOK))
	e.subscribe(e.queue, r.URL, batching(nil))
	ids := e.produce(e.queue, numbered(3)...)
	if items := r.next().batch(t); len(items) != 3 {
		t.Fatalf("%d items in the request, want 3", len(items))
	}
	for _, id := range ids {
		if it := e.ended(e.queue, id); it.State != "completed" || it.Deliveries != 2 {
			t.Errorf("got %+v, want it completed at its second delivery", it)
		}
	}
	lines := e.attempts(object{"subscription": e.queue, "verdict": "retryable"})
	if len(lines) != 3 {
		t.Errorf("%d failures in the log, want one for each item: %+v", len(lines), lines)
	}
	// The answer is read as JSON only where it is an object.
	r2 := newReceiver(t, func(w http.ResponseWriter, _ arrival) { _, _ = w.Write([]byte("thank you")) })
	queue := e.queue + "-2"
	e.subscribe(queue, r2.URL, batching(nil))
	for _, id := range e.produce(queue, numbered(2)...) {
		if it := e.ended(queue, id); it.State != "completed" {
			t.Errorf("after a text as answer: got %+v, want it completed", it)
		}
	}
}
