package telemetry

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// numBounds is how many bounds each histogram has.
const numBounds = 12

// bounds are the upper ends of a histogram's buckets, which belong to them.
type bounds [numBounds]float64

// perHistogram is how many series one histogram is: its buckets, the sum and the count.
const perHistogram = numBounds + 3

// distribution is one histogram's values. To record is a few additions of atomic numbers:
// an instrument takes a lock, and calls of a store in memory are quicker than that.
type distribution struct {
	buckets [numBounds + 1]atomic.Int64
	// sum is in the unit of the histogram's raw values.
	sum atomic.Int64
}

// histograms is a metric whose values are distributed over buckets.
type histograms[K comparable] struct {
	table[K, distribution]
	def *definition
	// scale turns raw values into the metric's unit: nanoseconds into seconds.
	scale  float64
	labels func(K) []string
	limits [numBounds]int64
}

func newHistograms[K comparable](def *definition, rest func(K) K, labels func(K) []string) *histograms[K] {
	h := &histograms[K]{
		table: table[K, distribution]{rest: rest, max: maxSeries/perHistogram - numResults, values: make(map[K]*distribution)},
		def:   def, scale: 1, labels: labels,
	}
	if def.unit == "s" {
		h.scale = 1 / float64(time.Second)
	}
	for i, bound := range def.bounds {
		h.limits[i] = int64(bound / h.scale)
	}
	return h
}

// record adds a value: nanoseconds, where the unit is seconds.
func (h *histograms[K]) record(k K, value int64) {
	d := h.at(k)
	i := 0
	for i < numBounds && value > h.limits[i] {
		i++
	}
	d.buckets[i].Add(1)
	d.sum.Add(value)
}

// read returns the metric as it is now.
func (h *histograms[K]) read(since, now time.Time) metricdata.Metrics {
	all := h.all()
	points := make([]metricdata.HistogramDataPoint[float64], 0, len(all))
	for k, d := range all {
		point := metricdata.HistogramDataPoint[float64]{
			Attributes: h.def.attributes(h.labels(k)), StartTime: since, Time: now,
			Bounds: slices.Clone(h.def.bounds[:]), BucketCounts: make([]uint64, numBounds+1), Sum: float64(d.sum.Load()) * h.scale,
		}
		for i := range d.buckets {
			point.BucketCounts[i] = uint64(d.buckets[i].Load())
			point.Count += point.BucketCounts[i]
		}
		points = append(points, point)
	}
	return metricdata.Metrics{
		Name: h.def.name, Description: h.def.help, Unit: h.def.unit,
		Data: metricdata.Histogram[float64]{DataPoints: points, Temporality: metricdata.CumulativeTemporality},
	}
}

// producer hands all histograms to whoever reads metrics.
type producer struct {
	scope instrumentation.Scope
	since time.Time
	all   []interface {
		read(since, now time.Time) metricdata.Metrics
	}
}

var _ sdkmetric.Producer = (*producer)(nil)

// Produce implements [sdkmetric.Producer].
func (p *producer) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	now := time.Now()
	out := metricdata.ScopeMetrics{Scope: p.scope}
	for _, h := range p.all {
		if m := h.read(p.since, now); len(m.Data.(metricdata.Histogram[float64]).DataPoints) > 0 {
			out.Metrics = append(out.Metrics, m)
		}
	}
	return []metricdata.ScopeMetrics{out}, nil
}

// attributes are the definition's labels with these values, in its order.
func (d *definition) attributes(labels []string) attribute.Set {
	attrs := make([]attribute.KeyValue, len(labels))
	for i, label := range labels {
		attrs[i] = attribute.String(d.labels[i], label)
	}
	return attribute.NewSet(attrs...)
}
