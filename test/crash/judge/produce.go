package judge

import (
	"strings"

	"github.com/posthaste-io/posthaste/test/recorder"
)

// checkProduced judges the calls of producers. Every payload of a run is its
// own, and is repeated only under an idempotency key, so a payload names at most
// one item whatever was unknown in between.
func (x *index) checkProduced(report reporter) {
	for payload := range x.attempts {
		if len(x.ids[payload]) > 1 {
			report(NoGhost, payload, "was produced once and lives as %s", x.idsOf(payload))
		}
	}
	for _, c := range x.calls {
		if c.Verb != recorder.Produce {
			continue
		}
		if c.phase == recorder.OK && len(c.end.Items) != len(c.Items) {
			report(NoLoss, c.Items[0].Payload, "%d items were produced, %d ids answered", len(c.Items), len(c.end.Items))
		}
		if c.phase != recorder.OK {
			x.checkWhole(c, report)
		}
	}
}

// checkWhole: of a call without an ok either all items exist or none, and after
// a drain everything that exists was seen. A repeat under the same keys is
// another call's doing, so calls with keys say nothing here.
func (x *index) checkWhole(c *call, report reporter) {
	seen := 0
	for _, asked := range c.Items {
		if asked.Key != "" {
			return
		}
		if len(x.ids[asked.Payload]) > 0 {
			seen++
		}
	}
	if seen != 0 && seen != len(c.Items) {
		report(NoLoss, c.Items[0].Payload, "of a call with %d items, %d exist", len(c.Items), seen)
	}
}

// checkSeen: what consumers and receivers get was produced, byte for byte, by a
// call that was not refused, and under the id that was answered.
func (x *index) checkSeen(it *item, report reporter) {
	if len(it.payloads) > 1 {
		report(PayloadExact, it.id, "was seen with the payloads %s", strings.Join(it.payloads, " and "))
	}
	if len(it.queues) > 1 {
		report(NoGhost, it.id, "was seen on %s", strings.Join(it.queues, " and "))
	}
	for _, got := range it.payloads {
		if x.attempts[got] == nil {
			report(PayloadExact, it.id, "payload %s was never produced", got)
			continue
		}
		possible := false
		for _, attempt := range x.attempts[got] {
			possible = possible || attempt.may() && attempt.Queue == it.queue
		}
		if !possible {
			report(NoGhost, it.id, "exists on %s, where every call with its payload was refused", it.queue)
		}
	}
}

// checkDue: nothing is delivered before the time that was asked for. A delay is
// judged by the recorder's clock, from the moment of asking; an instant by the
// store's clock where the grant is known.
func checkDue(it *item, report reporter) {
	for _, p := range it.produced {
		if !p.Item.Duplicate {
			checkNotBefore(it, p, 0, report)
		}
	}
	for _, s := range it.settled {
		if s.phase == recorder.OK {
			checkNotBefore(it, s, s.Counter, report)
		}
	}
}

// soon is how far ahead a due time must be to be waited for, in nanoseconds.
const soon = 100e6

// grace is how much too early an item may be that was asked for at an instant, in
// microseconds: nothing if the call had returned well before the time at which
// the instant counts as now.
func (s *step) grace() int64 {
	const clocks = 50e3
	if s.end.Wall+soon/1e3+clocks < s.Due {
		return 0
	}
	return soon / 1e3
}

// checkNotBefore looks at the first lease after the token counter, and at every
// post for produce.
func checkNotBefore(it *item, asked step, counter uint64, report reporter) {
	if asked.Delay < soon && asked.Due == 0 {
		return
	}
	for _, l := range it.leases {
		if l.Counter <= counter {
			continue
		}
		if early := asked.Mono + asked.Delay - l.end.Mono; asked.Delay >= soon && early > 0 {
			report(NotBeforeDue, it.id, "leased %d µs before its delay of %d ms was over (%s)",
				early/1e3, asked.Delay/1e6, asked.Verb)
		}
		if early := asked.Due - l.Granted; asked.Due > 0 && early > asked.grace() {
			report(NotBeforeDue, it.id, "leased %d µs before it was due (%s)", early, asked.Verb)
		}
		return
	}
	if len(it.posts) == 0 || counter > 0 {
		return
	}
	if early := asked.Mono + asked.Delay - it.posts[0].Mono; asked.Delay >= soon && early > 0 {
		report(NotBeforeDue, it.id, "pushed %d µs before its delay of %d ms was over", early/1e3, asked.Delay/1e6)
	}
}
