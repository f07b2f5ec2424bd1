package client

import (
	"net/http"
	"time"
)

// ReceiptFrom returns the receipt that a push brings along, where the subscription has
// Defer: whoever answers it with 202 and posthaste-lease: keep has the item until the
// deadline, and then ends it by Complete, Retry, Release or Bury, or gets more time by
// Extend. The receipt alone is the credential for its item, so any client of the server
// may do that, one without a key too. ok is false for a push without one: finish the work
// before the answer.
//
// Once the endpoint has answered, the item is its own for the subscription's DeferTimeout;
// deadline is that of the request.
func ReceiptFrom(h http.Header) (receipt string, deadline time.Time, ok bool) {
	receipt = h.Get("posthaste-receipt")
	deadline, _ = time.Parse(time.RFC3339Nano, h.Get("posthaste-lease-deadline")) // zero without one
	return receipt, deadline, receipt != ""
}
