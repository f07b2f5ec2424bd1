// Package telemetry counts and traces what a server does, for Prometheus and for whoever
// collects by OTLP.
//
// It looks on from outside: items are counted by a [Store] around the backend, requests
// and pushes by what api and dispatcher tell their observers, and what stands in queues
// is asked for when somebody reads the metrics. None of those knows of this package.
//
// What is counted is counted in numbers of its own ([table], [histograms]) and read when
// the metrics are. An instrument of OpenTelemetry takes a lock and a third of a
// microsecond, and a store in memory takes not much more for a whole call.
//
// Labels come from small sets, and from the names of queues and subscriptions, which
// whoever has a key makes. So no metric has more than 1,000 series: what is beyond is
// added up under the name "other".
//
// Traces are made only where an exporter is configured. Without one there is no tracer,
// and neither api nor dispatcher does anything for them.
package telemetry
