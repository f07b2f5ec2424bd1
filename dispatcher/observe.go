package dispatcher

import (
	"time"

	"github.com/posthaste-io/posthaste/subscriptions"
)

// Attempt is what became of one push, for who counts.
type Attempt struct {
	Subscription subscriptions.Key
	Queue        string
	// Delivery counts the item's leases from 1: what is above is a further try.
	Delivery int32
	// Verdict is a word of a small set, such as delivered.
	Verdict string
	// Status is the endpoint's, 0 if it did not answer.
	Status   int
	Duration time.Duration
	// Next is what was done with the item: complete, retry, release, bury, park where that
	// has its ordering key wait for somebody, or hold where the endpoint keeps it; Unsettled
	// says that it could not be written, because the lease was lost or the store did not
	// take it.
	Next      string
	Unsettled bool
}
