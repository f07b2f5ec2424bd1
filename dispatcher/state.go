package dispatcher

import (
	"maps"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
)

// LaneState is what a lane is doing, for people.
type LaneState struct {
	// Window is how many requests may run, InFlight how many do.
	Window   int
	InFlight int
	// Breaker is closed, open or half-open; BreakerUntil, if not zero, when an open one probes.
	Breaker      string
	BreakerUntil time.Time
	// PausedUntil, if not zero, is how long the endpoint asked us to wait.
	PausedUntil time.Time
	// LastError is the newest failure's text, with the time when it was known; empty if
	// there was none since the process started.
	LastError   string
	LastErrorAt time.Time
}

// LaneState returns the state of a subscription's lane in this process, and false
// if it has none. Safe for concurrent use.
func (d *Dispatcher) LaneState(ns queue.Namespace, name string) (LaneState, bool) {
	d.mu.Lock()
	l := d.lanes[subscriptions.Key{Namespace: ns, Name: name}]
	d.mu.Unlock()
	if l == nil {
		return LaneState{}, false
	}
	return l.state(time.Now()), true
}

// Lanes returns the states of all lanes of this process. Safe for concurrent use.
func (d *Dispatcher) Lanes() map[subscriptions.Key]LaneState {
	d.mu.Lock()
	lanes := maps.Clone(d.lanes)
	d.mu.Unlock()
	now := time.Now()
	states := make(map[subscriptions.Key]LaneState, len(lanes))
	for key, l := range lanes {
		states[key] = l.state(now)
	}
	return states
}

func (l *lane) state(now time.Time) LaneState {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := LaneState{
		Window: l.sub.MaxInFlight, InFlight: l.inFlight,
		LastError: l.lastError, LastErrorAt: l.lastErrorAt,
	}
	state.Breaker, state.BreakerUntil = l.breaker.state(now)
	if now.Before(l.pausedUntil) {
		state.PausedUntil = l.pausedUntil
	}
	return state
}

// Running is how many items this process holds, Stale how many outcomes came too
// late to count since it started.
func (d *Dispatcher) Running() (running int, stale int64) {
	return d.running.count(), d.stale.Load()
}

func (r *running) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}
