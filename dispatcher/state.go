package dispatcher

import (
	"maps"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
)

// LaneState is what a lane is doing, for people.
type LaneState struct {
	// Window is how many requests may run to the subscription's own endpoint, InFlight how
	// many do.
	Window   int
	InFlight int
	// Breaker is closed, open or half-open; BreakerUntil, if not zero, when an open one probes.
	Breaker      string
	BreakerUntil time.Time
	// PausedUntil, if not zero, is how long the endpoint asked us to wait.
	PausedUntil time.Time
	// RateUntil, if not zero, is when the rate lets the next request start.
	RateUntil time.Time
	// Deferred is how many items the endpoint keeps to finish later, MaxDeferred how many
	// it may, 0 if it may not.
	Deferred    int
	MaxDeferred int
	// LastError is the newest failure's text, with the time when it was known; empty if
	// there was none since the process started.
	LastError   string
	LastErrorAt time.Time
	// Hosts are those with requests or trouble, where items bring their own targets, by
	// their names, at most 50.
	Hosts []HostState
}

// HostState is what a lane does for one host; see [LaneState].
type HostState struct {
	Host         string
	Window       int
	InFlight     int
	Breaker      string
	BreakerUntil time.Time
	PausedUntil  time.Time
	RateUntil    time.Time
	LastError    string
	LastErrorAt  time.Time
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
	m := l.main.state(l.most, now)
	state := LaneState{
		Window: m.Window, InFlight: m.InFlight,
		Breaker: m.Breaker, BreakerUntil: m.BreakerUntil,
		PausedUntil: m.PausedUntil, RateUntil: m.RateUntil,
		LastError: m.LastError, LastErrorAt: m.LastErrorAt,
		Hosts: l.hosts.shown(l.most, now),
	}
	if l.sub.Defer.Allowed {
		state.Deferred, state.MaxDeferred = l.deferred, l.sub.Defer.Max
	}
	return state
}

func (f *flow) state(most int, now time.Time) HostState {
	state := HostState{
		Window: f.window.limit(most, now), InFlight: f.inFlight, RateUntil: f.rateUntil(now),
		LastError: f.lastError, LastErrorAt: f.lastErrorAt,
	}
	state.Breaker, state.BreakerUntil = f.breaker.state(now)
	if now.Before(f.pausedUntil) {
		state.PausedUntil = f.pausedUntil
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
