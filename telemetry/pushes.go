package telemetry

import (
	"fmt"

	"github.com/posthaste-io/posthaste/dispatcher"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
)

// Lanes tells what a dispatcher is doing; see [dispatcher.Dispatcher].
type Lanes interface {
	Lanes() map[subscriptions.Key]dispatcher.LaneState
	Running() (running int, stale int64)
}

var _ Lanes = (*dispatcher.Dispatcher)(nil)

// pushMetrics is what is counted of pushes.
type pushMetrics struct {
	attempts, retries, unsettled      *counts[byName]
	unjudged                          *counts[byName] // items of topics
	window, inFlight, breaker, paused *counts[byName]
	duration                          *histograms[byName]
}

func newPushMetrics() *pushMetrics {
	m := &pushMetrics{duration: newHistograms(pushDuration, restOfNames, byName.names)}
	for _, c := range m.counts() {
		*c = newCounts(restOfNames)
	}
	return m
}

func (m *pushMetrics) counts() []**counts[byName] {
	return []**counts[byName]{&m.attempts, &m.retries, &m.unsettled, &m.unjudged, &m.window, &m.inFlight, &m.breaker, &m.paused}
}

// pushed takes note of an attempt.
func (m *pushMetrics) pushed(a dispatcher.Attempt) {
	name := labelOf(a.Subscription.Namespace, a.Subscription.Name)
	m.attempts.add(byName{name, a.Verdict}, 1)
	if a.Delivery > 1 {
		m.retries.add(byName{name: name}, 1)
	}
	if a.Unsettled {
		m.unsettled.add(byName{name: name}, 1)
	}
	m.duration.record(byName{name: name}, int64(a.Duration))
}

// breakerStates are the values of the gauge.
var breakerStates = map[string]int64{"closed": 0, "half-open": 1, "open": 2}

// look reads what lanes do now, and drops the series of subscriptions that are gone.
func (m *pushMetrics) look(lanes Lanes) {
	states := lanes.Lanes()
	there := make(map[string]bool, len(states))
	for _, c := range []*counts[byName]{m.window, m.inFlight, m.breaker, m.paused} {
		c.clear()
	}
	for key, state := range states {
		k := byName{name: labelOf(key.Namespace, key.Name)}
		there[k.name] = true
		m.window.add(k, int64(state.Window))
		m.inFlight.at(k).Add(int64(state.InFlight)) // shown also while it is 0
		// Of those that share a series the one that is worst off is shown.
		m.breaker.raise(k, breakerStates[state.Breaker])
		paused := int64(0)
		if !state.PausedUntil.IsZero() {
			paused = 1
		}
		m.paused.raise(k, paused)
	}
	gone := func(k byName) bool { return !there[k.name] && k.name != other }
	for _, c := range m.counts() {
		(*c).forget(gone)
	}
	m.duration.forget(gone)
}

// labelOf is a name as a label. The default namespace, which is most often the only one,
// goes without saying.
func labelOf(ns queue.Namespace, name string) string {
	if ns == queue.DefaultNamespace {
		return name
	}
	return fmt.Sprintf("%d/%s", ns, name)
}
