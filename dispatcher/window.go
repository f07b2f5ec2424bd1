package dispatcher

import "time"

const (
	// firstWindow is how many requests run to an endpoint of which nothing is known.
	firstWindow = 4
	// rampStep is how long a window takes at least to double after an outage, a pause, or
	// an answer that asked for less.
	rampStep = 10 * time.Second
)

// window is how many requests may run to one endpoint at a time, between 1 and max. It
// follows what TCP does with segments: up by one for each request that went well until
// it has met a limit, up by one for each whole window from half of that limit on, and
// halved when the endpoint asks for less or does not answer in time.
//
// It grows only while about as many run, more than half of it, so that it says something of
// what was tried. After an outage it starts at 1 and at most doubles every rampStep, so that
// an endpoint which has just come back does not meet all that waited for it.
//
// Whoever owns it guards it.
type window struct {
	size float64
	// slow is where growth turns from one for each request to one for each window, 0
	// while no limit was met.
	slow float64
	// ramp is when growth was bound, zero if it is not, and rampFrom the size then.
	ramp     time.Time
	rampFrom float64
	// cut is when the window was halved last: what began before that says no more about it.
	cut time.Time
}

func newWindow() window { return window{size: firstWindow} }

// limit is how many may run now: none, if other nodes have all of most.
func (w *window) limit(most int, now time.Time) int {
	if most == 0 {
		return 0
	}
	size := w.size
	if !w.ramp.IsZero() {
		size = min(size, w.rampLimit(now))
	}
	return max(1, min(int(size), most))
}

// rampLimit is what the ramp allows; it ends where that is beyond any window.
func (w *window) rampLimit(now time.Time) float64 {
	steps := now.Sub(w.ramp) / rampStep
	if steps >= 20 { // a million times
		w.ramp = time.Time{}
		return w.size
	}
	return w.rampFrom * float64(int64(1)<<max(0, steps))
}

// grow takes note of a request that went well while running requests, itself included, ran.
func (w *window) grow(running, most int, now time.Time) {
	if 2*running <= w.limit(most, now) {
		return
	}
	if w.slow == 0 || w.size < w.slow {
		w.size++
	} else {
		w.size += 1 / w.size
	}
	w.size = min(w.size, float64(most))
	if !w.ramp.IsZero() {
		w.size = min(w.size, w.rampLimit(now))
	}
}

// shrink takes note of a request, begun at a time, that met a limit of the endpoint.
func (w *window) shrink(began time.Time, most int, now time.Time) {
	if !began.After(w.cut) {
		return // it ran when the window was cut, and for the same reason
	}
	w.size = max(1, min(w.size, float64(most))/2)
	w.slow = w.size
	w.cut = now
	w.startRamp(now)
}

// restart begins anew at one request.
func (w *window) restart(now time.Time) {
	w.size = 1
	w.cut = now
	w.startRamp(now)
}

func (w *window) startRamp(now time.Time) { w.ramp, w.rampFrom = now, w.size }
