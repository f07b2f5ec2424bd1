package api

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/posthaste-io/posthaste/queue"
)

// maxLinks bounds the producers that a lease's span names: a batch may have a thousand.
const maxLinks = 32

// beginSpan opens the span of a call, in its caller's trace if it has one.
func (x *exchange) beginSpan() {
	ctx := propagation.TraceContext{}.Extract(x.r.Context(), propagation.HeaderCarrier(x.r.Header))
	ctx, x.span = x.s.tracer.Start(
		ctx, x.method,
		trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(semconv.HTTPRequestMethodPost, semconv.HTTPRoute(x.route())),
	)
	x.r = x.r.WithContext(ctx)
}

// route is the pattern of the path: a span's attributes are kept by whoever collects
// them, and a path that is none of ours may hold anything.
func (x *exchange) route() string {
	switch x.method {
	case rawProduce:
		return "/v1/produce/{queue}"
	case unknownMethod:
		return ""
	default:
		return "/v1/" + x.method
	}
}

// endSpan closes the span with what the log says as well.
func (x *exchange) endSpan() {
	defer x.span.End()
	if !x.span.IsRecording() {
		return
	}
	attrs := []attribute.KeyValue{
		semconv.HTTPResponseStatusCode(x.status),
		attribute.String("posthaste.code_text", x.word),
		attribute.String("posthaste.request_id", x.id),
	}
	if x.noun == "queue" && x.name != "" {
		attrs = append(attrs, semconv.MessagingSystemKey.String("posthaste"), semconv.MessagingDestinationName(clip(x.name)))
		if kind, ok := messagingTypes[x.method]; ok {
			attrs = append(attrs, semconv.MessagingOperationName(x.method), kind)
		}
	}
	if x.items > 0 {
		attrs = append(attrs, semconv.MessagingBatchMessageCount(x.items))
	}
	if x.status >= http.StatusInternalServerError {
		attrs = append(attrs, semconv.ErrorTypeKey.String(x.word))
		x.span.SetStatus(codes.Error, x.word)
	}
	x.span.SetAttributes(attrs...)
}

// messagingTypes are the kinds of call that the conventions know.
var messagingTypes = map[string]attribute.KeyValue{
	"queue.produce":        semconv.MessagingOperationTypeSend,
	rawProduce:             semconv.MessagingOperationTypeSend,
	"storage/items.import": semconv.MessagingOperationTypeSend,
	"queue.lease":          semconv.MessagingOperationTypeReceive,
	"queue.complete":       semconv.MessagingOperationTypeSettle,
	"queue.retry":          semconv.MessagingOperationTypeSettle,
	"queue.release":        semconv.MessagingOperationTypeSettle,
	"queue.bury":           semconv.MessagingOperationTypeSettle,
}

func (x *exchange) recording() bool { return x.span != nil && x.span.IsRecording() }

// traceOf is the traceparent that items of this call keep: that of its own span, or
// where there is none, its caller's.
func (x *exchange) traceOf(info headerInfo) string {
	if !x.recording() || !x.span.SpanContext().IsSampled() {
		return info.trace
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(x.r.Context(), carrier)
	return carrier["traceparent"]
}

// linkProducers names in a lease's span the calls that produced what it got.
func linkProducers(ctx context.Context, items []queue.Item) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	linked := make(map[string]bool)
	for i := range items {
		parent := items[i].Trace
		if parent == "" || linked[parent] {
			continue
		}
		if len(linked) == maxLinks {
			return
		}
		linked[parent] = true
		producer := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": parent}))
		if producer.IsValid() {
			span.AddLink(trace.Link{SpanContext: producer})
		}
	}
}
