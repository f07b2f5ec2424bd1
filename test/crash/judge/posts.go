package judge

import (
	"math"
	"slices"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/test/recorder"
)

// maxMono is later than every event.
const maxMono = math.MaxInt64

// checkPosts: one request of an item at a time, with rising numbers, and at most
// one more than the budget for each fault that may have hit one.
func checkPosts(it *item, policy Policy, faults []int64, report reporter) {
	cut := 0
	hit := map[int]bool{}
	for i, p := range it.posts {
		// The time between two faults in which the request was sent.
		calm, _ := slices.BinarySearch(faults, p.Mono)
		if calm < len(faults) {
			hit[calm] = true
		}
		if p.phase != recorder.OK {
			cut++
		}
		if i == 0 {
			continue
		}
		before := it.posts[i-1]
		if before.phase == recorder.OK && before.returned() > p.Mono {
			report(NoDoubleLease, it.id, "delivery %d arrived while delivery %d was being answered", p.Delivery, before.Delivery)
		}
		if p.Delivery <= before.Delivery {
			report(AttemptLedger, it.id, "delivery %d arrived after delivery %d", p.Delivery, before.Delivery)
		}
	}
	allowed := policy.MaxAttempts + len(hit)
	if policy.Graceful {
		allowed = policy.MaxAttempts + cut
	}
	if n := len(it.posts); n > allowed {
		report(BoundedAttempts, it.id, "was pushed %d times with %d attempts allowed and %d of them interrupted",
			n, policy.MaxAttempts, allowed-policy.MaxAttempts)
	}
	switch lapses := it.count(queue.LapseRecord); {
	case lapses > len(faults):
		report(BoundedAttempts, it.id, "lapsed %d times in a run with %d faults", lapses, len(faults))
	case policy.Graceful && lapses > 0:
		report(BoundedAttempts, it.id, "lapsed %d times, though the process only stopped gracefully", lapses)
	}
}

// checkLedger: every request that reached the receiver has exactly one record,
// of the attempt or of the lapse; every attempt that cost something has its
// request, with the same status; the numbers rise; and the last step ends it.
func checkLedger(it *item, policy Policy, report reporter) {
	records := map[int32][]queue.Record{}
	var last int32
	var ended *queue.Record
	for _, record := range it.records {
		if record.Type == queue.EndingRecord {
			continue
		}
		if ended != nil {
			report(TerminalOnce, it.id, "has a record of delivery %d after the one that ended it, %d", record.Delivery, ended.Delivery)
		}
		if record.Delivery <= last {
			report(AttemptLedger, it.id, "has a record of delivery %d after one of %d", record.Delivery, last)
		}
		last = record.Delivery
		records[last] = append(records[last], record)
		if record.Next == queue.StepComplete || record.Next == queue.StepBury {
			ended = &record
		}
	}
	posts := map[int32]step{}
	for _, p := range it.posts {
		posts[p.Delivery] = p
		checkPosted(it, policy, p, records[p.Delivery], report)
		if ended != nil && p.Delivery > ended.Delivery {
			report(TerminalOnce, it.id, "delivery %d was pushed after delivery %d ended it", p.Delivery, ended.Delivery)
		}
	}
	for _, record := range it.records {
		free := record.Next == queue.StepRelease && record.Status == 0
		if _, arrived := posts[record.Delivery]; record.Type == queue.AttemptRecord && !arrived && !free {
			report(AttemptLedger, it.id, "has an attempt record of delivery %d, which never arrived", record.Delivery)
		}
	}
	checkSpent(it, policy, ended, report)
}

// checkPosted compares a request with what the journal says of its delivery. A
// request that a graceful stop cut short may be without a record: it cost
// nothing.
func checkPosted(it *item, policy Policy, p step, records []queue.Record, report reporter) {
	free := policy.Graceful && p.phase != recorder.OK
	if len(records) != 1 {
		if len(records) > 1 || !free {
			report(AttemptLedger, it.id, "delivery %d was pushed and has %d records", p.Delivery, len(records))
		}
		return
	}
	record := records[0]
	switch {
	case record.Type == queue.AttemptRecord && p.phase == recorder.OK && record.Status != p.Item.Status:
		report(AttemptLedger, it.id, "delivery %d was answered %d and recorded as %d", p.Delivery, p.Item.Status, record.Status)
	case record.Type == queue.LapseRecord && policy.LaneTTL > 0:
		// The lease was granted shortly before the request arrived; it may not have
		// lapsed much earlier than its length after the arrival.
		const shortly = 2 * time.Second
		if lived := record.At.Sub(time.UnixMicro(p.Wall)); lived < policy.LaneTTL-shortly {
			report(NoDoubleLease, it.id, "the lease of delivery %d lapsed %s after it was pushed, of %s",
				p.Delivery, lived, policy.LaneTTL)
		}
	}
}

// checkSpent: the budget is neither passed nor left unused: what lies in the
// dead-letter queue failed as often as it was allowed to, or was in flight at so
// many faults in a row that it counts as poison.
func checkSpent(it *item, policy Policy, ended *queue.Record, report reporter) {
	counted, inRow, poison := 0, 0, false
	for _, record := range it.records {
		switch {
		case record.Type == queue.LapseRecord:
			inRow++
			poison = poison || policy.MaxRecoveries > 0 && inRow >= policy.MaxRecoveries
		case record.Type == queue.AttemptRecord && record.Next != queue.StepRelease:
			inRow = 0
			if record.Next != queue.StepComplete {
				counted++
			}
		}
	}
	dead := slices.Contains(it.found, policy.Dead)
	if counted > policy.MaxAttempts {
		report(BoundedAttempts, it.id, "has %d failed attempts on record, %d allowed", counted, policy.MaxAttempts)
	}
	if dead && !poison && counted < policy.MaxAttempts {
		report(BoundedAttempts, it.id, "was buried after %d of %d attempts", counted, policy.MaxAttempts)
	}
	switch {
	case dead && ended != nil && ended.Next == queue.StepComplete:
		report(TerminalOnce, it.id, "is on record as completed and lies in %s", policy.Dead)
	case !dead && ended != nil && ended.Next == queue.StepBury:
		report(NoLoss, it.id, "is on record as buried and is not in %s", policy.Dead)
	case !dead && ended == nil && len(it.posts) > 0:
		report(AttemptLedger, it.id, "ended without a record of how")
	}
}
