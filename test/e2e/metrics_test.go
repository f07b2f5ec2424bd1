package e2e_test

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/posthaste-io/posthaste/test/harness"
)

// scrape reads the metrics of a server.
func scrape(t *testing.T, server *harness.Server) map[string]float64 {
	t.Helper()
	resp, err := http.Get(server.AdminURL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("/metrics: got %d, %v", resp.StatusCode, err)
	}
	values := make(map[string]float64)
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		series, text, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			values[series+"}"] = value
		}
	}
	return values
}

func TestMetrics_TellWhatAServerDid(t *testing.T) {
	t.Parallel()
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			server := harness.Start(t, harness.Options{Store: store.url(t), Args: loopback})
			c := newClient(t, server.URL)
			good, bad := newReceiver(t), newReceiver(t, http.StatusInternalServerError)
			c.subscribe("good", good.URL, nil)
			c.subscribe("bad", bad.URL, object{"retry": object{"max_attempts": 1}})
			c.call("queues.create", object{"queue_name": "pull"}, nil)
			c.produce("good", object{"utf8": "a"}, object{"utf8": "b"})
			c.produce("bad", object{"utf8": "c"})
			c.produce("pull", object{"utf8": "d"}, object{"utf8": "e"}, object{"utf8": "f", "delay": "1h"})
			c.call("queue.complete", object{"ids": []string{c.lease("pull", 1)[0].Receipt}}, nil)

			want := map[string]float64{
				`posthaste_items_produced_total{queue="good"}`:                                            2,
				`posthaste_items_produced_total{queue="pull"}`:                                            3,
				`posthaste_items_leased_total{queue="pull"}`:                                              1,
				`posthaste_items_settled_total{outcome="complete",queue="good"}`:                          2,
				`posthaste_items_settled_total{outcome="complete",queue="pull"}`:                          1,
				`posthaste_items_buried_total{queue="bad",reason="max_attempts"}`:                         1,
				`posthaste_push_attempts_total{subscription="good",verdict="delivered"}`:                  2,
				`posthaste_push_attempts_total{subscription="bad",verdict="retryable"}`:                   1,
				`posthaste_push_duration_seconds_count{subscription="bad"}`:                               1,
				`posthaste_queue_items{queue="bad~dead",state="dead"}`:                                    1,
				`posthaste_queue_items{queue="pull",state="ready"}`:                                       1,
				`posthaste_queue_items{queue="pull",state="scheduled"}`:                                   1,
				`posthaste_queue_items{queue="good",state="ready"}`:                                       0,
				`posthaste_http_requests_total{code_text="ok",method="queue.produce",status_class="2xx"}`: 3,
			}
			// Counters of pushes are raised after the settlement was acknowledged,
			// so that the store may tell the end of an item a moment before them.
			var got, differ map[string]float64
			defer func() {
				for series, value := range differ {
					t.Errorf("%s: got %v, want %v", series, value, want[series])
				}
			}()
			eventually(t, "the metrics tell all of it", func() bool {
				got, differ = scrape(t, server), make(map[string]float64)
				for series, value := range want {
					if got[series] != value {
						differ[series] = got[series]
					}
				}
				return len(differ) == 0
			})
			if got[`posthaste_store_call_duration_seconds_count{result="ok",verb="produce"}`] < 1 {
				t.Error("no call of the store was measured")
			}
		})
	}
}

func TestTraces_ReachTheCollectorAndTheEndpoint(t *testing.T) {
	t.Parallel()
	const parent, traceID = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "0af7651916cd43dd8448eb211c80319c"
	var mu sync.Mutex
	names := make(map[string]string) // of spans, with their trace
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var sent tracepb.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &sent)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("the collector got %s: %v", r.URL.Path, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, rs := range sent.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, span := range ss.Spans {
					names[span.Name] = hex.EncodeToString(span.TraceId)
				}
			}
		}
	}))
	defer collector.Close()
	server := harness.Start(t, harness.Options{
		Store: "memory:", Args: loopback,
		Env: []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + collector.URL + "/v1/traces", "OTEL_BSP_SCHEDULE_DELAY=100"},
	})
	c := newClient(t, server.URL)
	r := newReceiver(t)
	c.subscribe("hooks", r.URL, nil)
	a, err := c.post("/v1/queue.produce", "application/json", map[string]string{"Traceparent": parent}, []byte(`{"queue_name":"hooks","items":[{"utf8":"a"}]}`))
	if err != nil || a.status != http.StatusOK {
		t.Fatalf("produce: got %d, %v: %s", a.status, err, a.raw)
	}
	if got := r.next().header.Get("traceparent"); !strings.HasPrefix(got, "00-"+traceID+"-") || got == parent {
		t.Errorf("the endpoint got traceparent %q, want the producer's trace under another span", got)
	}
	eventually(t, "both spans at the collector", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return names["queue.produce"] == traceID && names["push hooks"] == traceID
	})
}

func TestServe_RefusesAnOTLPProtocolThatIsNotSent(t *testing.T) {
	t.Parallel()
	code, _, stderr := harness.Run(t, harness.Options{Env: []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
	}}, "serve", "--store", "memory:", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	if code != 2 || !strings.Contains(stderr, "OTEL_EXPORTER_OTLP_PROTOCOL") {
		t.Errorf("got code %d: %s; want 2 and the variable named", code, stderr)
	}
}
