package api

import (
	"time"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/queue"
)

// Bounds of a rate. Those of a subscription's are its own to judge.
const (
	maxRate       = 1_000_000
	minPeriod     = 100 * time.Millisecond
	maxPeriod     = 24 * time.Hour
	defaultPeriod = time.Second
)

// readEvery returns how far apart a rate puts things, 0 for no rate.
func readEvery(field string, q *v1.Rate) (time.Duration, error) {
	if q == nil {
		return 0, nil
	}
	// A program whose rate came out empty does not mean all at once.
	if n := q.GetCount(); n < 1 || n > maxRate {
		return 0, queue.Invalid(field+".count", "is %d; want 1 to %d", n, maxRate)
	}
	period, err := readPeriod(field+".period", q.GetPeriod(), minPeriod, maxPeriod)
	return period / time.Duration(q.GetCount()), err
}

// readPeriod reads the period of a rate, which may be left out.
func readPeriod(field, text string, low, high time.Duration) (time.Duration, error) {
	if text == "" {
		return defaultPeriod, nil
	}
	return parseDuration(field, text, low, high)
}
