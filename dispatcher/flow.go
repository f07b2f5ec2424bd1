package dispatcher

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/posthaste-io/posthaste/subscriptions"
	"github.com/posthaste-io/posthaste/webhooks"
)

// flow is how much of what waits for one endpoint may go there: a lane has one for its
// URL, and one for each host where items bring their own targets. The lane's mu guards it.
type flow struct {
	breaker *breaker
	window  window
	// rate is nil where there is no limit.
	rate        *rate.Limiter
	inFlight    int
	pausedUntil time.Time
	lastError   string
	lastErrorAt time.Time
	// usedAt is when a request last began or ended.
	usedAt time.Time
}

func newFlow(limit subscriptions.Rate, nodes int, now time.Time) *flow {
	f := &flow{breaker: newBreaker(), window: newWindow(), usedAt: now}
	f.limit(limit, nodes)
	return f
}

// reset forgets what the endpoint did: it is another one, or was taken back into service,
// where it starts slowly. Requests that run go on to count.
func (f *flow) reset(revived bool, now time.Time) {
	f.breaker = newBreaker()
	f.pausedUntil = time.Time{}
	f.window = newWindow()
	if revived {
		f.window.restart(now)
	}
}

// limit sets the rate at which requests may start, which so many nodes share. The burst, a tenth of what may start in
// a period, is there after a time without requests, so that a rate of 100 a second does not
// become one request each 10 ms and no more.
func (f *flow) limit(r subscriptions.Rate, nodes int) {
	if r.Count <= 0 {
		f.rate = nil
		return
	}
	nodes = max(1, nodes)
	perSecond := rate.Limit(float64(r.Count) / r.Period.Seconds() / float64(nodes))
	burst := max(1, int(r.Count)/10/nodes)
	if f.rate == nil {
		f.rate = rate.NewLimiter(perSecond, burst)
		return
	}
	f.rate.SetLimit(perSecond)
	f.rate.SetBurst(burst)
}

// gate says how many requests may start now, of at most most at a time, and if none, when
// to ask again; zero is when something changes. healthy says that nothing but the number of
// requests keeps more from starting.
func (f *flow) gate(most int, now time.Time) (want int, healthy bool, until time.Time) {
	switch {
	case most == 0: // other nodes have all of it
		return 0, false, time.Time{}
	case now.Before(f.pausedUntil):
		return 0, false, f.pausedUntil
	}
	room, until := f.breaker.room(now)
	want = max(0, min(room, f.window.limit(most, now)-f.inFlight))
	healthy = room == unlimitedRoom && f.rate == nil
	if f.rate == nil || want == 0 {
		return want, healthy, until
	}
	if tokens := int(f.rate.TokensAt(now)); tokens < want {
		want, until = tokens, f.rateUntil(now)
	}
	return want, healthy, until
}

// rateUntil is when the rate lets a request start, zero if that is now.
func (f *flow) rateUntil(now time.Time) time.Time {
	if f.rate == nil {
		return time.Time{}
	}
	missing := 1 - f.rate.TokensAt(now)
	if missing <= 0 {
		return time.Time{}
	}
	// A little later than the fraction says, lest rounding has us ask once more.
	return now.Add(time.Duration(missing/float64(f.rate.Limit())*float64(time.Second)) + time.Microsecond)
}

// begin takes a place, unless there is none.
func (f *flow) begin(now time.Time) (report func(health), ok bool) {
	if report, ok = f.breaker.begin(now); !ok {
		return nil, false
	}
	if f.rate != nil {
		f.rate.AllowN(now, 1) // the gate has looked
	}
	f.inFlight++
	f.usedAt = now
	return report, true
}

// ended frees the place of a request and takes note of what came of it; pause is how long
// the endpoint wants to be left alone.
func (f *flow) ended(p *push, res *webhooks.Result, pause time.Duration, most int, now time.Time) {
	running := f.inFlight
	f.inFlight--
	f.usedAt = now
	p.report(healthOf(res))
	if f.breaker.recovered() {
		f.window.restart(now)
	}
	switch {
	case res.Verdict == webhooks.Throttled,
		res.Class == webhooks.ClassTimeout, res.Class == webhooks.ClassTLSTimeout:
		f.window.shrink(p.started, most, now)
	case healthOf(res) == well && res.Duration <= p.timeout()/2:
		f.window.grow(running, most, now)
	}
	if res.Verdict != webhooks.Delivered && res.Verdict != webhooks.Deferred && res.Verdict != webhooks.Aborted {
		f.lastError, f.lastErrorAt = res.Error, now
	}
	if until := now.Add(pause); pause > 0 && until.After(f.pausedUntil) {
		f.pausedUntil = until
		f.window.restart(until)
	}
}

// idle says that nothing is lost by forgetting the flow.
func (f *flow) idle(now time.Time) bool {
	if f.inFlight > 0 || now.Before(f.pausedUntil) || now.Sub(f.usedAt) < idleFlow {
		return false
	}
	room, _ := f.breaker.room(now)
	return room == unlimitedRoom
}

// idleFlow is how long a host is remembered that gives no trouble: longer than the breaker
// counts, and than a window takes to grow.
const idleFlow = 10 * time.Minute
