package judge

import (
	"slices"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/test/recorder"
)

// checkEnd: after the drain every item has ended, once: it was completed, or it
// lies in the dead-letter queue. What was never seen again is lost.
func checkEnd(it *item, policy Policy, report reporter) {
	var completed, certain, buried bool
	for _, s := range it.settled {
		completed = completed || s.Verb == recorder.Complete && s.may()
		certain = certain || s.Verb == recorder.Complete && s.phase == recorder.OK
		buried = buried || s.Verb == recorder.Bury && s.phase == recorder.OK
	}
	for _, p := range it.posts {
		completed = completed || p.Item.Status/100 == 2
	}
	dead := 0
	for _, where := range it.found {
		if where == policy.Dead {
			dead++
		} else {
			report(NoLoss, it.id, "still lies in %s after the drain", where)
		}
	}
	switch {
	case len(it.found) == 0 && !completed:
		report(NoLoss, it.id, "is gone: neither completed nor in %s", policy.Dead)
	case dead > 1:
		report(TerminalOnce, it.id, "lies %d times in %s", dead, policy.Dead)
	case dead > 0 && certain:
		report(TerminalOnce, it.id, "was completed and lies in %s", policy.Dead)
	case buried && dead == 0:
		report(NoLoss, it.id, "was buried and is not in %s", policy.Dead)
	}
}

// checkLeases: between a lease and its deadline nobody else gets the item,
// unless the lease was settled. All instants are the store's own, so the
// tolerance is nothing.
func checkLeases(it *item, report reporter) {
	for i := 1; i < len(it.leases); i++ {
		held, next := it.leases[i-1], it.leases[i]
		deadline := held.Deadline
		for _, e := range it.extended {
			if e.Counter == held.Counter && e.phase == recorder.OK {
				deadline = max(deadline, e.Deadline)
			}
		}
		if next.Granted >= deadline || it.settledBefore(held.Counter, next.returned()) {
			continue
		}
		report(NoDoubleLease, it.id, "lease %d was granted %d µs before lease %d ended", next.Counter,
			deadline-next.Granted, held.Counter)
	}
}

// settledBefore says that a settlement of the token may have taken effect before
// the instant.
func (it *item) settledBefore(counter uint64, instant int64) bool {
	return slices.ContainsFunc(it.settled, func(s step) bool {
		return s.Counter == counter && s.may() && s.Mono < instant
	})
}

// checkFencing: tokens rise, and nothing but the newest one ever gets an ok.
func checkFencing(it *item, report reporter) {
	for i, l := range it.leases {
		for _, higher := range it.leases[i+1:] {
			switch {
			case higher.Counter == l.Counter:
				report(Fencing, it.id, "token %d was given out twice", l.Counter)
			case higher.returned() < l.Mono:
				report(Fencing, it.id, "token %d was given out after token %d", l.Counter, higher.Counter)
			case higher.Delivery <= l.Delivery:
				report(Fencing, it.id, "delivery %d follows delivery %d", higher.Delivery, l.Delivery)
			}
		}
	}
	for _, s := range slices.Concat(it.settled, it.extended) {
		if s.phase != recorder.OK {
			continue
		}
		for _, l := range it.leases {
			if l.Counter > s.Counter && l.returned() < s.Mono {
				report(Fencing, it.id, "%s with token %d was done after lease %d", s.Verb, s.Counter, l.Counter)
			}
		}
		for _, first := range it.settled {
			if first.Op != s.Op && first.phase == recorder.OK && first.Counter == s.Counter && first.returned() < s.Mono {
				report(Fencing, it.id, "%s with token %d was done after its %s", s.Verb, s.Counter, first.Verb)
			}
		}
		if s.Verb != recorder.Complete && s.Verb != recorder.Bury {
			continue
		}
		if n := len(it.leases); n > 0 && it.leases[n-1].Counter > s.Counter {
			report(TerminalOnce, it.id, "was leased with token %d after its %s with token %d",
				it.leases[n-1].Counter, s.Verb, s.Counter)
		}
	}
}

// checkBudget: a lease that was not released costs an attempt, so an item is
// leased at most as often as its budget and its releases allow; and it is
// buried only when the budget is used, unless somebody asked for it.
func checkBudget(it *item, policy Policy, report reporter) {
	released, retried, unsettled, asked := 0, 0, 0, false
	for _, s := range it.settled {
		switch {
		case !s.may():
		case s.Verb == recorder.Release:
			released++
		case s.Verb == recorder.Retry:
			retried++
		case s.Verb == recorder.Bury:
			asked = true
		}
	}
	for _, l := range it.leases {
		if !it.settledBefore(l.Counter, maxMono) {
			unsettled++
		}
	}
	if n := len(it.leases); n > policy.MaxAttempts+released {
		report(BoundedAttempts, it.id, "was leased %d times with %d attempts allowed and %d releases",
			n, policy.MaxAttempts, released)
	}
	used := retried + max(unsettled, it.count(queue.LapseRecord))
	if slices.Contains(it.found, policy.Dead) && !asked && used < policy.MaxAttempts {
		report(BoundedAttempts, it.id, "was buried after %d of %d attempts", used, policy.MaxAttempts)
	}
	if lapses := it.count(queue.LapseRecord); policy.Graceful && lapses > 0 {
		report(BoundedAttempts, it.id, "lapsed %d times, though the process only stopped gracefully", lapses)
	}
}

// checkLapses: a lease that nobody settled and that another one followed has one
// lapse record; one that was settled has none.
func checkLapses(it *item, report reporter) {
	for i, l := range it.leases {
		lapses := 0
		for _, record := range it.records {
			if record.Type == queue.LapseRecord && record.Delivery == l.Delivery {
				lapses++
			}
		}
		certain := slices.ContainsFunc(it.settled, func(s step) bool {
			return s.Counter == l.Counter && s.phase == recorder.OK
		})
		followed := i+1 < len(it.leases)
		switch {
		case lapses > 1:
			report(AttemptLedger, it.id, "delivery %d has %d lapse records", l.Delivery, lapses)
		case lapses == 1 && certain:
			report(AttemptLedger, it.id, "delivery %d was settled and has a lapse record", l.Delivery)
		case lapses == 0 && followed && !it.settledBefore(l.Counter, maxMono):
			report(AttemptLedger, it.id, "delivery %d lapsed without a record", l.Delivery)
		}
	}
}

// count returns how many records of a type the item has.
func (it *item) count(kind queue.RecordType) int {
	n := 0
	for _, record := range it.records {
		if record.Type == kind {
			n++
		}
	}
	return n
}
