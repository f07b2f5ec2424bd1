package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/instrumentation/runtime"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/dispatcher"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// scope names what measures and traces, for those who look at where values come from.
const scope = "github.com/posthaste-io/posthaste"

// Options are what telemetry is made of. The zero value works: metrics for Prometheus
// alone, and no traces.
type Options struct {
	Version string
	// Instance tells servers apart, such as the host's name and the port. OTEL_SERVICE_NAME
	// and OTEL_RESOURCE_ATTRIBUTES win over what the resource has otherwise.
	Instance string
	// Export says what goes out by OTLP; see [ReadEnvironment].
	Export Export
	// Spans, if not nil, gets all spans, whatever Export says.
	Spans  sdktrace.SpanProcessor
	Logger *slog.Logger
}

// Telemetry counts and traces one server. Make it with [New], hand out its parts, and
// end it with Shutdown. Safe for concurrent use.
type Telemetry struct {
	log      *slog.Logger
	registry *prometheus.Registry
	meters   *sdkmetric.MeterProvider
	// tracers is nil where no traces are made.
	tracers *sdktrace.TracerProvider

	items     *storeMetrics
	requests  *requestMetrics
	pushes    *pushMetrics
	schedules *scheduleMetrics
	queues    *queueMetrics

	mu      sync.Mutex
	store   storage.Backend
	watched Watched
}

// New sets measuring up. It sends nothing before somebody measures.
func New(ctx context.Context, o Options) (*Telemetry, error) {
	t := &Telemetry{
		log: o.Logger, registry: prometheus.NewRegistry(),
		items: newStoreMetrics(), requests: newRequestMetrics(), pushes: newPushMetrics(), schedules: newScheduleMetrics(), queues: newQueueMetrics(),
	}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	who, err := describe(ctx, &o)
	if err != nil {
		return nil, fmt.Errorf("telemetry: resource: %w", err)
	}
	if err := t.measure(ctx, &o, who); err != nil {
		return nil, fmt.Errorf("telemetry: metrics: %w", err)
	}
	if err := t.trace(ctx, &o, who); err != nil {
		return nil, errors.Join(fmt.Errorf("telemetry: traces: %w", err), t.meters.Shutdown(ctx))
	}
	return t, nil
}

// describe says who measures. What comes later wins.
func describe(ctx context.Context, o *Options) (*resource.Resource, error) {
	return resource.New(
		ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(semconv.ServiceName("posthaste"), semconv.ServiceVersion(o.Version), semconv.ServiceInstanceID(o.Instance)),
		resource.WithFromEnv(),
	)
}

func (t *Telemetry) measure(ctx context.Context, o *Options, who *resource.Resource) error {
	if err := t.registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})); err != nil {
		return err
	}
	histograms := &producer{scope: instrumentation.Scope{Name: scope, Version: o.Version}, since: time.Now()}
	histograms.all = append(histograms.all, t.items.duration, t.items.entries, t.items.groups, t.requests.duration, t.pushes.duration)
	exporter, err := otelprom.New(otelprom.WithRegisterer(t.registry), otelprom.WithoutScopeInfo(), otelprom.WithProducer(histograms))
	if err != nil {
		return err
	}
	options := []sdkmetric.Option{
		sdkmetric.WithResource(who), sdkmetric.WithReader(exporter),
		// Tables keep to it; should one not, this does.
		sdkmetric.WithCardinalityLimit(maxSeries),
	}
	if o.Export.Metrics {
		reader, err := metricReader(ctx, t.log, histograms)
		if err != nil {
			return err
		}
		options = append(options, sdkmetric.WithReader(reader))
	}
	t.meters = sdkmetric.NewMeterProvider(options...)
	if err := runtime.Start(runtime.WithMeterProvider(t.meters)); err != nil {
		return err
	}
	return t.instruments(t.meters.Meter(scope, metric.WithInstrumentationVersion(o.Version)))
}

func (t *Telemetry) trace(ctx context.Context, o *Options, who *resource.Resource) error {
	options := []sdktrace.TracerProviderOption{sdktrace.WithResource(who)}
	if o.Spans != nil {
		options = append(options, sdktrace.WithSpanProcessor(o.Spans))
	}
	if o.Export.Traces {
		exporter, err := spanExporter(ctx, t.log)
		if err != nil {
			return err
		}
		options = append(options, sdktrace.WithBatcher(exporter))
	}
	if len(options) > 1 {
		// Which traces are kept says OTEL_TRACES_SAMPLER, and else who called us.
		t.tracers = sdktrace.NewTracerProvider(options...)
	}
	return nil
}

// Tracer makes spans; nil says that nobody wants any.
func (t *Telemetry) Tracer() trace.Tracer {
	if t.tracers == nil {
		return nil
	}
	return t.tracers.Tracer(scope)
}

// scrapeTimeout is longer than whoever scrapes waits by himself: it only ends what hangs.
const scrapeTimeout = 30 * time.Second

// Handler answers scrapes of Prometheus.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(t.log.Handler(), slog.LevelWarn),
		// Whoever scrapes more at a time than anybody needs waits for nothing.
		MaxRequestsInFlight: 4,
		Timeout:             scrapeTimeout,
	})
}

// Store returns a backend that counts what goes through it. The depth of queues is read
// through it as well. Called once.
func (t *Telemetry) Store(b storage.Backend) *Store {
	s := &Store{Backend: b, m: t.items}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.store = s
	return s
}

// Requests is for [api.Options].
func (t *Telemetry) Requests() api.Observer { return t.requests }

// Pushed is for [dispatcher.Options].
func (t *Telemetry) Pushed(a dispatcher.Attempt) { t.pushes.pushed(a) }

// FilterFailed is for [queue.Options].
func (t *Telemetry) FilterFailed(ns queue.Namespace, subscription string, _ error) {
	t.pushes.unjudged.add(byName{name: labelOf(ns, subscription)}, 1)
}

// Watched is who is asked when metrics are read; what is nil has none.
type Watched struct {
	Broker    Broker
	Lanes     Lanes
	Schedules Schedules
	// Connections is how many the HTTP server has.
	Connections func() int
}

// Watch says whom to ask when metrics are read. Before it is called they have no queues:
// names are the broker's.
func (t *Telemetry) Watch(w Watched) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watched = w
}

// shutdownTime bounds the sending of what is left: a collector that does not answer
// must not keep a server from stopping.
const shutdownTime = time.Second

// Shutdown sends what is left, and ends measuring. What could not be sent is logged, and
// is no error: nobody's items depend on it.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shutdownTime)
	defer cancel()
	err := t.meters.Shutdown(ctx)
	if t.tracers != nil {
		err = errors.Join(err, t.tracers.Shutdown(ctx))
	}
	if err != nil {
		t.log.Warn("the last metrics or traces were not sent", "error", err)
	}
	return nil
}
