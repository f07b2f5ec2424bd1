package telemetry

import (
	"strconv"

	"github.com/posthaste-io/posthaste/api"
)

// requestMetrics is what is counted of requests.
type requestMetrics struct {
	ended    *counts[byAnswer]
	inFlight *counts[byName]
	shed     *counts[byName]
	duration *histograms[byName]
}

var _ api.Observer = (*requestMetrics)(nil)

// byAnswer is the key of the metric of requests.
type byAnswer struct {
	method, codeText string
	// class is the first digit of the status, 0 if there was none.
	class int
}

func newRequestMetrics() *requestMetrics {
	return &requestMetrics{
		ended:    newCounts(func(k byAnswer) byAnswer { return byAnswer{other, other, k.class} }),
		inFlight: newCounts(restOfNames),
		shed:     newCounts(restOfNames),
		duration: newHistograms(httpDuration, restOfNames, byName.names),
	}
}

// RequestBegan implements [api.Observer].
func (m *requestMetrics) RequestBegan(method string) { m.inFlight.add(byName{name: method}, 1) }

// RequestEnded implements [api.Observer].
func (m *requestMetrics) RequestEnded(r api.Request) {
	m.inFlight.add(byName{name: r.Method}, -1)
	m.ended.add(byAnswer{r.Method, r.CodeText, r.Status / 100}, 1)
	if r.Shed != "" {
		m.shed.add(byName{name: r.Shed}, 1)
	}
	m.duration.record(byName{name: r.Method}, int64(r.Duration))
}

// labels are those of [httpRequests].
func (k byAnswer) labels() []string {
	class := "none"
	if k.class > 0 {
		class = strconv.Itoa(k.class) + "xx"
	}
	return []string{k.method, k.codeText, class}
}
