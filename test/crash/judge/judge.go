// Package judge says whether a history of a run could have been written by a
// server that keeps its promises. It is pure: it reads what a recorder kept
// outside the store, and the journal of the stopped store, and returns every
// contradiction that it finds.
//
// The run must have been drained: after its last fault the server ran without
// one until every queue was empty, and what then lay in the dead-letter queues
// was recorded as found.
package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/test/recorder"
)

// The checks, by the names of the invariants that they hold a run to.
const (
	NoLoss          = "INV-01 NoLoss"
	NoGhost         = "INV-02 NoGhost"
	NoDoubleLease   = "INV-03 NoDoubleLease"
	Fencing         = "INV-04 Fencing"
	BoundedAttempts = "INV-05 BoundedAttempts"
	AttemptLedger   = "INV-06 AttemptLedger"
	TerminalOnce    = "INV-07 TerminalOnce"
	NotBeforeDue    = "INV-08 NotBeforeDue"
	PayloadExact    = "INV-13 PayloadExact"
)

// History is everything that is known of a run.
type History struct {
	Events []recorder.Event
	// Queues are the policies in force, by the queue's name.
	Queues map[string]Policy
	// Journal is what the stopped store holds, of all items.
	Journal []queue.Record
}

// Policy is what a queue was set to.
type Policy struct {
	// Push says that a subscription drains the queue; otherwise consumers do.
	Push bool
	// Dead is the name of the dead-letter queue.
	Dead          string
	MaxAttempts   int
	MaxRecoveries int
	// LaneTTL is how long a push's lease lasts.
	LaneTTL time.Duration
	// Graceful says that the process was only ever asked to stop: then no lease may
	// have lapsed at all.
	Graceful bool
}

// Violation is one contradiction.
type Violation struct {
	Check string
	// Item is the id, or the payload's hash where no id is known.
	Item string
	Text string
}

// String returns one line.
func (v Violation) String() string { return v.Check + ": " + v.Item + ": " + v.Text }

// Judge returns all contradictions, ordered by check and item; none means that
// the history is one of a correct server.
func Judge(h History) []Violation {
	x := newIndex(h)
	var found []Violation
	report := func(check, item, format string, args ...any) {
		found = append(found, Violation{Check: check, Item: item, Text: fmt.Sprintf(format, args...)})
	}
	x.checkProduced(report)
	for _, it := range x.items {
		policy, known := h.Queues[it.queue]
		if !known {
			report(NoGhost, it.id, "seen on %q, where nothing was produced", it.queue)
			continue
		}
		x.checkSeen(it, report)
		checkEnd(it, policy, report)
		checkDue(it, report)
		if policy.Push {
			checkPosts(it, policy, x.faults, report)
			checkLedger(it, policy, report)
		} else {
			checkLeases(it, report)
			checkFencing(it, report)
			checkBudget(it, policy, report)
			checkLapses(it, report)
		}
	}
	slices.SortFunc(found, func(a, b Violation) int {
		return strings.Compare(a.String(), b.String())
	})
	return found
}

// reporter takes a violation; the text after the item is a format.
type reporter func(check, item, format string, args ...any)
