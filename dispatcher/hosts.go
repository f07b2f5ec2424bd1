package dispatcher

import (
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
)

const (
	// maxHosts bounds the hosts that a lane remembers, maxShownHosts those that it shows.
	maxHosts      = 10_000
	maxShownHosts = 50
	// An item whose host has no room is given back for a time between these: the time
	// that those before it take, or the other one while nobody knows.
	minTurnAway, maxTurnAway = queue.Soon, 5 * time.Minute
	anyTurnAway              = 500 * time.Millisecond
)

// hosts are the flows of a lane whose items bring their own targets.
//
// Which host an item is for is known only once it is leased. Where its host has no room
// it waits for that, if it is not for long; else it is given back, uncounted, until there
// should be: so one host that hangs holds as many requests as its window, and nothing of
// the others'.
type hosts struct {
	// main is the flow to the subscription's own endpoint, for items that bring no target.
	main  *hostFlow
	flows map[string]*hostFlow
	// held counts the items that wait in all of them.
	held int
}

// all goes over the flows.
func (h *hosts) all() iter.Seq[*hostFlow] {
	return func(yield func(*hostFlow) bool) {
		if !yield(h.main) {
			return
		}
		for _, f := range h.flows {
			if !yield(f) {
				return
			}
		}
	}
}

// wait has an item wait for a request to its host to end.
func (h *hosts) wait(f *hostFlow, it leased) {
	f.waiting = append(f.waiting, it)
	h.held++
}

// next takes out the item that waits longest for a host.
func (h *hosts) next(f *hostFlow) leased {
	it := f.waiting[0]
	f.waiting[0] = leased{}
	f.waiting = f.waiting[1:]
	h.held--
	return it
}

// takeAll takes out all that waits for a host.
func (h *hosts) takeAll(f *hostFlow) []leased {
	items := f.waiting
	f.waiting = nil
	h.held -= len(items)
	return items
}

// takeStale takes all that waits for a host out if the oldest has waited too long.
func (h *hosts) takeStale(f *hostFlow, now time.Time) []leased {
	if len(f.waiting) == 0 || now.Sub(f.waiting[0].received) < aheadStay {
		return nil
	}
	return h.takeAll(f)
}

type hostFlow struct {
	*flow
	// took is how long its requests take, on average.
	took time.Duration
	// away counts the items that were turned away and have not come back since.
	away int
	// waiting are those for which there should be room soon, oldest first.
	waiting []leased
}

// takes says whether one more item may wait for a request to end. Of a host whose requests
// were not timed yet, one may for each that runs.
func (f *hostFlow) takes(most int, now time.Time) bool {
	window := f.window.limit(most, now)
	if f.took <= 0 {
		return len(f.waiting) < window
	}
	return len(f.waiting) < min(int(time.Duration(window)*(aheadStay/2)/f.took), aheadWindows*window)
}

// of returns the flow of a host, made if it is new, with a limit that so many nodes share.
func (h *hosts) of(host string, limit subscriptions.Rate, nodes int, now time.Time) *hostFlow {
	if f := h.flows[host]; f != nil {
		return f
	}
	if len(h.flows) >= maxHosts {
		h.forget(now)
	}
	f := &hostFlow{flow: newFlow(limit, nodes, now)}
	if h.flows == nil {
		h.flows = map[string]*hostFlow{}
	}
	h.flows[host] = f
	return f
}

// forget makes room: what is idle goes, and if nothing is, what was used longest ago
// and has no request running.
func (h *hosts) forget(now time.Time) {
	var oldest string
	for host, f := range h.flows {
		if len(f.waiting) > 0 {
			continue
		}
		if f.idle(now) {
			delete(h.flows, host)
			continue
		}
		if f.inFlight == 0 && (oldest == "" || f.usedAt.Before(h.flows[oldest].usedAt)) {
			oldest = host
		}
	}
	if len(h.flows) >= maxHosts {
		delete(h.flows, oldest)
	}
}

// oldest is since when the oldest item waits for its host, zero if none does.
func (h *hosts) oldest() (oldest time.Time) {
	if h.held == 0 {
		return oldest
	}
	for f := range h.all() {
		if len(f.waiting) > 0 && (oldest.IsZero() || f.waiting[0].received.Before(oldest)) {
			oldest = f.waiting[0].received
		}
	}
	return oldest
}

// reset forgets what the hosts did.
func (h *hosts) reset(revived bool, now time.Time) {
	for _, f := range h.flows {
		f.reset(revived, now)
		f.away = 0
	}
}

// limit sets the rate of all flows, which so many nodes share.
func (h *hosts) limit(r subscriptions.Rate, nodes int) {
	for f := range h.all() {
		f.limit(r, nodes)
	}
}

// turnAway is how long an item waits whose host has no room until then, or for nobody
// knows how long.
func (f *hostFlow) turnAway(until time.Time, most int, rnd float64, now time.Time) time.Duration {
	f.away++
	wait := until.Sub(now)
	switch {
	case !until.IsZero():
	case f.took == 0:
		wait = anyTurnAway
	default:
		wait = f.took * time.Duration(f.away) / time.Duration(max(1, f.window.limit(most, now)))
	}
	if f.rate != nil {
		// Those that were turned away before start first.
		wait = max(wait, time.Duration(float64(f.away)/float64(f.rate.Limit())*float64(time.Second)))
	}
	wait = min(max(wait, minTurnAway), maxTurnAway)
	return wait + portion(wait/4, rnd)
}

// shown returns hosts with requests or trouble, by their names.
func (h *hosts) shown(most int, now time.Time) []HostState {
	var states []HostState
	for host, f := range h.flows {
		s := f.state(most, now)
		if s.InFlight > 0 || s.Breaker != breakerClosed || !s.PausedUntil.IsZero() || !s.RateUntil.IsZero() {
			s.Host = host
			states = append(states, s)
		}
	}
	slices.SortFunc(states, func(a, b HostState) int { return strings.Compare(a.Host, b.Host) })
	return states[:min(len(states), maxShownHosts)]
}
