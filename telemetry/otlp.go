package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/net/http/httpguts"
)

// Export says what is sent by OTLP, over HTTP in protobuf. Where to, with which headers
// and how often, the exporters read from the environment themselves.
type Export struct{ Metrics, Traces bool }

// ReadEnvironment reads what OpenTelemetry has every program read: metrics and traces
// are sent where an endpoint is given for them, or OTEL_METRICS_EXPORTER and
// OTEL_TRACES_EXPORTER say otlp; OTEL_SDK_DISABLED turns both off. Its errors name the
// variable; what it cannot do is refused, for nobody would notice that nothing comes.
func ReadEnvironment(getenv func(string) string) (Export, error) {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return Export{}, nil
	}
	metrics, err := exported(getenv, "METRICS")
	if err != nil {
		return Export{}, err
	}
	traces, err := exported(getenv, "TRACES")
	return Export{Metrics: metrics, Traces: traces}, err
}

func exported(getenv func(string) string, signal string) (bool, error) {
	wanted := getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
	if name := "OTEL_" + signal + "_EXPORTER"; getenv(name) != "" {
		wanted = false
		for word := range strings.SplitSeq(getenv(name), ",") {
			switch word = strings.TrimSpace(word); {
			case word == "otlp":
				wanted = true
			case word == "none", word == "prometheus" && signal == "METRICS":
				// Prometheus is served in any case.
			default:
				return false, fmt.Errorf("$%s: %q is none of otlp and none", name, word)
			}
		}
	}
	if !wanted {
		return false, nil
	}
	for _, prefix := range []string{"OTEL_EXPORTER_OTLP_" + signal, "OTEL_EXPORTER_OTLP"} {
		if err := checkEndpoint(getenv(prefix + "_ENDPOINT")); err != nil {
			return false, fmt.Errorf("$%s_ENDPOINT: %w", prefix, err)
		}
		if err := checkHeaders(getenv(prefix + "_HEADERS")); err != nil {
			return false, fmt.Errorf("$%s_HEADERS: %w", prefix, err)
		}
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		switch protocol := getenv(name); protocol {
		case "":
			continue
		case "http/protobuf":
			return true, nil
		default:
			return false, fmt.Errorf("$%s: %q is not sent; want http/protobuf", name, protocol)
		}
	}
	return true, nil
}

// checkEndpoint and checkHeaders refuse what the exporters cannot read, which they would
// write to standard error, secrets and all, and go on without.
func checkEndpoint(endpoint string) error {
	u, err := url.Parse(strings.TrimSpace(endpoint))
	switch {
	case endpoint == "":
		return nil
	case err != nil, u.Host == "", u.Scheme != "http" && u.Scheme != "https":
		return errors.New("want a URL such as http://127.0.0.1:4318")
	case u.User != nil, u.RawQuery != "":
		return errors.New("has a user or a query, which are not sent; give what the collector wants as a header")
	}
	return nil
}

func checkHeaders(list string) error {
	if list == "" {
		return nil
	}
	for i, header := range strings.Split(list, ",") {
		name, value, ok := strings.Cut(header, "=")
		if _, err := url.PathUnescape(value); !ok || err != nil || !httpguts.ValidHeaderFieldName(strings.TrimSpace(name)) {
			return fmt.Errorf("header %d: want name=value, with commas between headers, and values in percent encoding", i+1)
		}
	}
	return nil
}

func metricReader(ctx context.Context, log *slog.Logger, p sdkmetric.Producer) (sdkmetric.Reader, error) {
	exporter, err := otlpmetrichttp.New(ctx)
	if err != nil {
		return nil, err
	}
	sender := &metricSender{Exporter: exporter, trouble: trouble{log: log, what: "metrics"}}
	return sdkmetric.NewPeriodicReader(sender, sdkmetric.WithProducer(p)), nil
}

func spanExporter(ctx context.Context, log *slog.Logger) (sdktrace.SpanExporter, error) {
	exporter, err := otlptrace.New(ctx, otlptracehttp.NewClient())
	if err != nil {
		return nil, err
	}
	return &spanSender{SpanExporter: exporter, trouble: trouble{log: log, what: "traces"}}, nil
}

// metricSender logs what the SDK would write to standard error by itself.
type metricSender struct {
	sdkmetric.Exporter
	trouble
}

// Export implements [sdkmetric.Exporter].
func (s *metricSender) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	s.note(s.Exporter.Export(ctx, m))
	return nil
}

// spanSender is a [metricSender] of spans.
type spanSender struct {
	sdktrace.SpanExporter
	trouble
}

// ExportSpans implements [sdktrace.SpanExporter].
func (s *spanSender) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	s.note(s.SpanExporter.ExportSpans(ctx, spans))
	return nil
}

// trouble tells of the first failure and of its end, and not of each in between: a
// collector may be away for a day.
type trouble struct {
	log     *slog.Logger
	what    string
	failing atomic.Bool
}

func (t *trouble) note(err error) {
	switch was := t.failing.Swap(err != nil); {
	case err != nil && !was:
		t.log.Warn(t.what+" cannot be sent; what there is until they can be is lost", "error", err)
	case err == nil && was:
		t.log.Info(t.what + " are sent again")
	}
}
