package overload_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// outcome is what a load came to.
type outcome struct {
	lasted time.Duration
	// sent is how many calls there were, by status for those that were answered.
	sent     int
	statuses map[int]int
	// took is how long each accepted call took, in order.
	took []time.Duration
	// faults are answers that no server under load may give; of many, a few.
	faults []string
}

// goodput is what was accepted, in calls a second.
func (o *outcome) goodput() float64 { return float64(o.statuses[200]) / o.lasted.Seconds() }

// quantile of the accepted calls' times.
func (o *outcome) quantile(q float64) time.Duration {
	if len(o.took) == 0 {
		return 0
	}
	return o.took[min(int(q*float64(len(o.took))), len(o.took)-1)]
}

// String is a line for the log.
func (o *outcome) String() string {
	return fmt.Sprintf("%.0f/s sent, %.0f/s accepted, p50 %s, p99 %s, statuses %v",
		float64(o.sent)/o.lasted.Seconds(), o.goodput(),
		o.quantile(0.5).Round(100*time.Microsecond), o.quantile(0.99).Round(100*time.Microsecond), o.statuses)
}

// add takes in what another connection saw.
func (o *outcome) add(other *outcome) {
	o.sent += other.sent
	for status, n := range other.statuses {
		o.statuses[status] += n
	}
	o.took = append(o.took, other.took...)
	if len(o.faults) < 10 {
		o.faults = append(o.faults, other.faults...)
	}
}

// note keeps an answer. Every refusal has to say when to come back.
func (o *outcome) note(a answer, took time.Duration) {
	o.statuses[a.status]++
	switch {
	case a.status == 200:
		o.took = append(o.took, took)
	case a.status != 429 && a.status != 503, !a.retryAfter:
		o.faults = append(o.faults, fmt.Sprintf("%d, Retry-After %v: %.200s", a.status, a.retryAfter, a.body))
	}
}

// load is calls of one kind from many connections.
type load struct {
	url         string
	connections int
	request     []byte
	// rate, if not 0, is how many calls a second are to be sent, whatever becomes of
	// them. A connection has one call at a time: one that is due while another has not
	// been answered is not sent. Without a rate each call follows the one before.
	rate float64
	last time.Duration
}

// run puts the load on.
func (l load) run(t *testing.T) *outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), l.last)
	defer cancel()
	parts := make([]*outcome, l.connections)
	var group sync.WaitGroup
	began := time.Now()
	for i := range parts {
		c := mustDial(t, l.url)
		group.Go(func() { parts[i] = l.drive(ctx, c) })
	}
	group.Wait()
	sum := &outcome{lasted: time.Since(began), statuses: map[int]int{}}
	for _, part := range parts {
		sum.add(part)
	}
	slices.Sort(sum.took)
	if len(sum.faults) > 0 {
		t.Errorf("answers that may not be:\n%s", strings.Join(sum.faults, "\n"))
	}
	return sum
}

func (l load) drive(ctx context.Context, c *conn) *outcome {
	o := &outcome{statuses: map[int]int{}}
	defer c.net.Close()
	due := func() bool { return ctx.Err() == nil }
	if l.rate > 0 {
		ticker := time.NewTicker(time.Duration(float64(l.connections) / l.rate * float64(time.Second)))
		defer ticker.Stop()
		due = func() bool {
			select {
			case <-ticker.C:
				return true
			case <-ctx.Done():
				return false
			}
		}
	}
	for due() {
		began := time.Now()
		o.sent++
		a, err := c.call(l.request)
		if err != nil {
			o.faults = append(o.faults, err.Error())
			return o
		}
		o.note(a, time.Since(began))
	}
	return o
}
