package telemetry_test

import (
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/telemetry"
)

func TestExport_FollowsTheEnvironment(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		env  map[string]string
		want telemetry.Export
		err  string
	}{
		"nothing":              {},
		"one endpoint":         {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, want: telemetry.Export{Metrics: true, Traces: true}},
		"of traces":            {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318"}, want: telemetry.Export{Traces: true}},
		"of metrics":           {env: map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:4318"}, want: telemetry.Export{Metrics: true}},
		"asked for by name":    {env: map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, want: telemetry.Export{Traces: true}},
		"turned off":           {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_METRICS_EXPORTER": "none"}, want: telemetry.Export{Traces: true}},
		"Prometheus alone":     {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_METRICS_EXPORTER": "prometheus"}, want: telemetry.Export{Traces: true}},
		"both":                 {env: map[string]string{"OTEL_METRICS_EXPORTER": "prometheus, otlp"}, want: telemetry.Export{Metrics: true}},
		"all turned off":       {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "TRUE"}},
		"its protocol":         {env: map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, want: telemetry.Export{Traces: true}},
		"the signal's wins":    {env: map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}, want: telemetry.Export{Traces: true}},
		"another protocol":     {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, err: "$OTEL_EXPORTER_OTLP_PROTOCOL"},
		"another exporter":     {env: map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, err: "$OTEL_TRACES_EXPORTER"},
		"not what traces have": {env: map[string]string{"OTEL_TRACES_EXPORTER": "prometheus"}, err: "$OTEL_TRACES_EXPORTER"},
		"a user":               {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://u:canary@c"}, err: "$OTEL_EXPORTER_OTLP_ENDPOINT"},
		"no URL":               {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://u:canary@c:1:2/"}, err: "$OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
		"headers":              {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_HEADERS": "a=b, Authorization=Bearer%20x=="}, want: telemetry.Export{Metrics: true, Traces: true}},
		"headers as in HTTP":   {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_HEADERS": "Authorization: Bearer canary"}, err: "$OTEL_EXPORTER_OTLP_HEADERS: header 1"},
		"headers of traces":    {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "a=b,c=canary%zz"}, err: "$OTEL_EXPORTER_OTLP_TRACES_HEADERS: header 2"},
		"no use, no complaint": {env: map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}},
	} {
		got, err := telemetry.ReadEnvironment(func(name string) string { return tt.env[name] })
		switch {
		case tt.err == "" && (err != nil || got != tt.want):
			t.Errorf("%s: got %+v, %v; want %+v", name, got, err, tt.want)
		case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("%s: got %v, want an error that names %s", name, err, tt.err)
		case err != nil && strings.Contains(err.Error(), "canary"):
			t.Errorf("%s: %v tells a secret", name, err)
		}
	}
}

// collector takes what is sent by OTLP.
type collector struct {
	t       *testing.T
	mu      sync.Mutex
	metrics metricspb.ExportMetricsServiceRequest
	traces  tracepb.ExportTraceServiceRequest
}

func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(r.Body); err != nil {
			c.t.Error(err)
			return
		}
	}
	raw, err := io.ReadAll(body)
	if err != nil {
		c.t.Error(err)
	}
	switch r.URL.Path {
	case "/v1/metrics":
		err = proto.Unmarshal(raw, &c.metrics)
	case "/v1/traces":
		err = proto.Unmarshal(raw, &c.traces)
	default:
		c.t.Errorf("sent to %s", r.URL.Path)
	}
	if err != nil {
		c.t.Error(err)
	}
}

func TestExport_SendsMetricsAndTraces(t *testing.T) {
	c := &collector{t: t}
	backend := httptest.NewServer(c)
	defer backend.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", backend.URL)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=tests")
	measured, err := telemetry.New(t.Context(), telemetry.Options{Version: "1.2.3", Instance: "one", Export: telemetry.Export{Metrics: true, Traces: true}})
	if err != nil {
		t.Fatal(err)
	}
	_, span := measured.Tracer().Start(t.Context(), "call")
	span.End()
	measured.Requests().RequestBegan("queue.lease")
	measured.Requests().RequestEnded(api.Request{Method: "queue.lease", Status: 200, CodeText: "ok", Duration: time.Second})
	if err := measured.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.traces.ResourceSpans) != 1 || c.traces.ResourceSpans[0].ScopeSpans[0].Spans[0].Name != "call" {
		t.Fatalf("got spans %v, want one", &c.traces)
	}
	resource := make(map[string]string)
	for _, kv := range c.traces.ResourceSpans[0].Resource.Attributes {
		resource[kv.Key] = kv.Value.GetStringValue()
	}
	for key, want := range map[string]string{
		"service.name": "posthaste", "service.version": "1.2.3", "service.instance.id": "one", "deployment.environment.name": "tests",
	} {
		if resource[key] != want {
			t.Errorf("resource: %s: got %q, want %q", key, resource[key], want)
		}
	}
	sent := make(map[string]bool)
	for _, rm := range c.metrics.ResourceMetrics {
		for _, sm := range rm.ScopeMetrics {
			for _, m := range sm.Metrics {
				sent[m.Name] = true
			}
		}
	}
	for _, name := range []string{"posthaste.http.requests", "posthaste.http.request.duration", "go.goroutine.count"} {
		if !sent[name] {
			t.Errorf("%s was not sent; got %v", name, sent)
		}
	}
}

func TestExport_ACollectorThatIsAwayIsToldOnce(t *testing.T) {
	var log lines
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }))
	defer backend.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", backend.URL)
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
	measured, err := telemetry.New(t.Context(), telemetry.Options{
		Export: telemetry.Export{Traces: true}, Logger: slog.New(slog.NewJSONHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, span := measured.Tracer().Start(t.Context(), "call")
		span.End()
	}
	if err := measured.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := log.all(t, "traces cannot be sent; what there is until they can be is lost"); len(got) != 1 {
		t.Errorf("got %d lines, want one", len(got))
	}
}
