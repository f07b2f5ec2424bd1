package dispatcher

import (
	"context"
	"log/slog"
	"net/url"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/posthaste-io/posthaste/webhooks"
)

// pushSpan is the span of a push, or nothing where no traces are made: its zero value
// costs nothing.
type pushSpan struct{ span trace.Span }

// beginSpan opens a span in the trace of the item's producer, as a child of the span
// that produced it. Each attempt has one of its own. The link says the same once more for
// those who look for what came of a call: a sampler may have made a trace anew.
func (d *Dispatcher) beginSpan(ctx context.Context, p *push) pushSpan {
	if d.tracer == nil {
		return pushSpan{}
	}
	opts := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(p.spanAttributes()...),
	}
	producer := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": p.item.Trace}))
	if producer.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, producer)
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: producer}))
	}
	_, span := d.tracer.Start(ctx, "push "+p.lane.queueName(), opts...)
	return pushSpan{span}
}

func (p *push) spanAttributes() []attribute.KeyValue {
	attrs := []attribute.KeyValue{
		semconv.MessagingSystemKey.String("posthaste"),
		semconv.MessagingOperationName("push"),
		semconv.MessagingOperationTypeProcess,
		semconv.MessagingDestinationName(p.lane.queueName()),
		semconv.MessagingDestinationSubscriptionName(p.sub.Name),
		semconv.MessagingMessageID(p.item.ID.String()),
		semconv.MessagingMessageBodySize(len(p.item.Payload)),
		attribute.Int("posthaste.attempt", int(p.item.Deliveries)),
	}
	if len(p.items) > 1 {
		attrs = append(attrs, semconv.MessagingBatchMessageCount(len(p.items)))
	}
	if p.item.Deliveries > 1 {
		attrs = append(attrs, semconv.HTTPRequestResendCount(int(p.item.Deliveries)-1))
	}
	// The rest of the URL may be a secret.
	if u, err := url.Parse(p.url()); err == nil && u.Hostname() != "" {
		attrs = append(attrs, semconv.ServerAddress(u.Hostname()))
	}
	return attrs
}

// context returns a context with the span.
func (s pushSpan) context(ctx context.Context) context.Context {
	if s.span == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, s.span)
}

// parent is the traceparent that the endpoint gets, or empty. A span that is not kept is
// nobody's parent: the endpoint goes on in the trace of the producer, who may keep it.
func (s pushSpan) parent() string {
	if s.span == nil || !s.span.IsRecording() || !s.span.SpanContext().IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), s.span), carrier)
	return carrier["traceparent"]
}

// end closes the span with what came of the push.
func (s pushSpan) end(res *webhooks.Result, next string, unsettled error) {
	if s.span == nil {
		return
	}
	defer s.span.End()
	if !s.span.IsRecording() {
		return
	}
	s.span.SetAttributes(
		attribute.String("posthaste.verdict", res.Verdict.String()),
		attribute.String("posthaste.next", next),
	)
	if res.Status != 0 {
		s.span.SetAttributes(semconv.HTTPResponseStatusCode(res.Status))
	}
	if res.Verdict != webhooks.Delivered && res.Verdict != webhooks.Deferred {
		s.span.SetAttributes(semconv.ErrorTypeKey.String(res.Class))
		s.span.SetStatus(codes.Error, res.Error)
	}
	if unsettled != nil {
		s.span.RecordError(unsettled)
		s.span.SetStatus(codes.Error, "the outcome could not be written")
	}
}

// log adds the span's ids to a line.
func (s pushSpan) log(attrs []slog.Attr) []slog.Attr {
	if s.span == nil || !s.span.IsRecording() {
		return attrs
	}
	sc := s.span.SpanContext()
	return append(attrs, slog.String("trace_id", sc.TraceID().String()), slog.String("span_id", sc.SpanID().String()))
}
