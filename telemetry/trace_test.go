package telemetry_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// What a caller sends along.
const (
	callersTrace  = "0af7651916cd43dd8448eb211c80319c"
	callersSpan   = "b7ad6b7169203331"
	callersParent = "00-" + callersTrace + "-" + callersSpan + "-01"
)

// traced starts a server whose spans are kept.
func traced(t *testing.T) (*server, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	return setup(t, spans), spans
}

// named waits for n spans of a name and returns them in the order of their end.
func named(t *testing.T, spans *tracetest.SpanRecorder, name string, n int) []sdktrace.ReadOnlySpan {
	t.Helper()
	var found []sdktrace.ReadOnlySpan
	eventually(t, fmt.Sprintf("%d spans %q", n, name), func() bool {
		found = slices.DeleteFunc(slices.Clone(spans.Ended()), func(s sdktrace.ReadOnlySpan) bool { return s.Name() != name })
		return len(found) >= n
	})
	if len(found) != n {
		t.Fatalf("got %d spans %q, want %d", len(found), name, n)
	}
	return found
}

// attributes of a span, as texts.
func attributes(s sdktrace.ReadOnlySpan) map[attribute.Key]string {
	got := make(map[attribute.Key]string)
	for _, kv := range s.Attributes() {
		got[kv.Key] = kv.Value.String()
	}
	return got
}

func wantAttributes(t *testing.T, s sdktrace.ReadOnlySpan, want map[attribute.Key]string) {
	t.Helper()
	got := attributes(s)
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s: %s: got %q, want %q", s.Name(), key, got[key], value)
		}
	}
}

// endpoint answers with these statuses, then 200, and keeps the trace headers.
func endpoint(t *testing.T, statuses ...int) (url string, seen func() []string) {
	var mu sync.Mutex
	var parents []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		parents = append(parents, r.Header.Get("Traceparent"))
		if n := len(parents); n <= len(statuses) {
			w.WriteHeader(statuses[n-1])
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(parents)
	}
}

func TestTrace_GoesFromTheProducerThroughTheQueueToTheEndpoint(t *testing.T) {
	t.Parallel()
	s, spans := traced(t)
	url, seen := endpoint(t, http.StatusServiceUnavailable)
	s.subscribe("hooks", url)
	s.call("queue.produce", object{"queue_name": "hooks", "items": []object{{"utf8": "a"}}}, nil, "Traceparent", callersParent)

	produce := named(t, spans, "queue.produce", 1)[0]
	if got := produce.Parent(); got.TraceID().String() != callersTrace || got.SpanID().String() != callersSpan {
		t.Errorf("the call's span has the parent %v, want the caller's", got)
	}
	if produce.SpanKind() != trace.SpanKindServer {
		t.Errorf("the call's span is of kind %s, want server", produce.SpanKind())
	}
	wantAttributes(t, produce, map[attribute.Key]string{
		"http.request.method": "POST", "http.route": "/v1/queue.produce", "http.response.status_code": "200",
		"messaging.system": "posthaste", "messaging.destination.name": "hooks", "messaging.batch.message_count": "1",
		"messaging.operation.type": "send", "posthaste.code_text": "ok",
	})

	pushes := named(t, spans, "push hooks", 2)
	// They are kept as they end, and the first may do so after its retry has.
	slices.SortFunc(pushes, func(a, b sdktrace.ReadOnlySpan) int { return a.StartTime().Compare(b.StartTime()) })
	parents := seen()
	for i, push := range pushes {
		if push.SpanContext().TraceID().String() != callersTrace || push.Parent().SpanID() != produce.SpanContext().SpanID() {
			t.Errorf("push %d is in trace %v under %v, want the producer's", i+1, push.SpanContext().TraceID(), push.Parent().SpanID())
		}
		if links := push.Links(); len(links) != 1 || links[0].SpanContext.SpanID() != produce.SpanContext().SpanID() {
			t.Errorf("push %d links to %v, want the producing span", i+1, links)
		}
		if push.SpanKind() != trace.SpanKindClient {
			t.Errorf("push %d is of kind %s, want client", i+1, push.SpanKind())
		}
		if want := parentOf(push.SpanContext()); parents[i] != want {
			t.Errorf("push %d sent traceparent %q, want that of its span, %q", i+1, parents[i], want)
		}
	}
	if pushes[0].SpanContext().SpanID() == pushes[1].SpanContext().SpanID() {
		t.Error("the retry has the span of the attempt before")
	}
	wantAttributes(t, pushes[0], map[attribute.Key]string{
		"posthaste.attempt": "1", "posthaste.verdict": "retryable", "posthaste.next": "retry", "http.response.status_code": "503",
		"messaging.destination.subscription.name": "hooks", "server.address": "127.0.0.1", "error.type": "status",
	})
	wantAttributes(t, pushes[1], map[attribute.Key]string{
		"posthaste.attempt": "2", "posthaste.verdict": "delivered", "posthaste.next": "complete", "http.request.resend_count": "1",
	})
	if got := [2]codes.Code{pushes[0].Status().Code, pushes[1].Status().Code}; got != [2]codes.Code{codes.Error, codes.Unset} {
		t.Errorf("the spans' statuses are %v, want an error and none", got)
	}
}

func parentOf(sc trace.SpanContext) string {
	return fmt.Sprintf("00-%s-%s-%s", sc.TraceID(), sc.SpanID(), sc.TraceFlags())
}

func TestTrace_LeaseLinksToWhoProduced(t *testing.T) {
	t.Parallel()
	s, spans := traced(t)
	s.call("queues.create", object{"queue_name": "work"}, nil)
	const calls, most = 40, 32
	for range calls {
		s.call("queue.produce", object{"queue_name": "work", "items": []object{{"utf8": "a"}, {"utf8": "b"}}}, nil)
	}
	var producers []trace.SpanID
	for _, span := range named(t, spans, "queue.produce", calls) {
		producers = append(producers, span.SpanContext().SpanID())
	}
	s.lease("work", 6)
	s.lease("work", 1000)
	leases := named(t, spans, "queue.lease", 2)
	wantAttributes(t, leases[0], map[attribute.Key]string{"messaging.operation.type": "receive", "messaging.batch.message_count": "6"})
	for i, want := range []int{3, most} {
		links := leases[i].Links()
		if len(links) != want {
			t.Errorf("lease %d has %d links, want %d", i+1, len(links), want)
		}
		for _, link := range links {
			if !slices.Contains(producers, link.SpanContext.SpanID()) {
				t.Errorf("lease %d links to %v, which produced nothing", i+1, link.SpanContext.SpanID())
			}
		}
	}
}

func TestTrace_RawItemsAndFailuresHaveSpans(t *testing.T) {
	t.Parallel()
	s, spans := traced(t)
	s.call("queues.create", object{"queue_name": "work"}, nil)
	resp, err := http.Post(s.api.URL+"/v1/produce/work", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	raw := named(t, spans, "produce", 1)[0]
	wantAttributes(t, raw, map[attribute.Key]string{"http.route": "/v1/produce/{queue}", "messaging.operation.type": "send", "messaging.destination.name": "work"})
	s.lease("work", 1)
	if links := named(t, spans, "queue.lease", 1)[0].Links(); len(links) != 1 || links[0].SpanContext.SpanID() != raw.SpanContext().SpanID() {
		t.Errorf("the lease of a raw item links to %v, want the span that produced it", links)
	}

	s.store.Down()
	s.try("queues.info", object{"queue_name": "other"})
	s.store.Up()
	failed := named(t, spans, "queues.info", 1)[0]
	wantAttributes(t, failed, map[attribute.Key]string{"http.response.status_code": "503", "error.type": "store_unavailable"})
	if failed.Status().Code != codes.Error {
		t.Errorf("the span of a failure has status %v, want an error", failed.Status())
	}
	// Probes come every few seconds, and say nothing.
	before := len(spans.Ended())
	resp, err = http.Get(s.api.URL + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := len(spans.Started()); got != before {
		t.Error("a probe has a span")
	}
}

func TestTrace_LogLinesNameTheirSpan(t *testing.T) {
	t.Parallel()
	s, spans := traced(t)
	url, _ := endpoint(t)
	s.subscribe("hooks", url)
	s.call("queue.produce", object{"queue_name": "hooks", "items": []object{{"utf8": "a"}}}, nil, "Traceparent", callersParent)
	push := named(t, spans, "push hooks", 1)[0].SpanContext()
	produce := named(t, spans, "queue.produce", 1)[0].SpanContext()

	pushed := s.log.all(t, "item pushed")
	if len(pushed) != 1 {
		t.Fatalf("a push left %d lines, want one", len(pushed))
	}
	for _, key := range []string{"item_id", "subscription", "queue", "attempt", "verdict", "status", "duration", "next"} {
		if pushed[0][key] == nil {
			t.Errorf("the line of a push has no %s", key)
		}
	}
	wantIDs(t, pushed[0], push)
	for _, line := range s.log.all(t, "request") {
		if line["method"] == "queue.produce" {
			wantIDs(t, line, produce)
		}
	}
}

func wantIDs(t *testing.T, line map[string]any, sc trace.SpanContext) {
	t.Helper()
	if line["trace_id"] != sc.TraceID().String() || line["span_id"] != sc.SpanID().String() {
		t.Errorf("line %v: want trace_id %s and span_id %s", line, sc.TraceID(), sc.SpanID())
	}
}

func TestTrace_WithoutTracesTheCallersIsKept(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	url, seen := endpoint(t)
	s.subscribe("hooks", url)
	s.call("queue.produce", object{"queue_name": "hooks", "items": []object{{"utf8": "a"}}}, nil, "Traceparent", callersParent)
	eventually(t, "pushed", func() bool { return len(seen()) == 1 })
	if got := seen()[0]; !strings.HasPrefix(got, "00-"+callersTrace+"-") || got == callersParent {
		t.Errorf("the endpoint got %q, want the caller's trace under a new span", got)
	}
	for _, line := range slices.Concat(s.log.all(t, "request"), s.log.all(t, "item pushed")) {
		if line["trace_id"] != nil {
			t.Errorf("line %v names a trace that nobody keeps", line)
		}
	}
}

// The environment is the process's, so this test does not run beside others.
func TestTrace_WhatIsNotSampledHereIsNobodysParent(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	s, _ := traced(t)
	url, seen := endpoint(t)
	s.subscribe("hooks", url)
	s.call("queue.produce", object{"queue_name": "hooks", "items": []object{{"utf8": "a"}}}, nil, "Traceparent", callersParent)
	eventually(t, "pushed", func() bool { return len(seen()) == 1 })
	if got := seen()[0]; !strings.HasPrefix(got, "00-"+callersTrace+"-") || !strings.HasSuffix(got, "-01") {
		t.Errorf("the endpoint got %q, want the caller's trace, which is sampled", got)
	}
}
