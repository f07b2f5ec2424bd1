// Package client calls a posthaste server: it produces items, leases and settles them,
// and works with queues, subscriptions, schedules, items and the log of attempts. [Worker]
// runs handlers on leased items; endpoints that finish later take their receipts by
// [ReceiptFrom].
//
// A [Client] repeats calls that did not reach the server or that it refused for the
// moment, with back-off, as long as the context allows. That is safe: what makes items
// carries a key by which the server knows a repeat, receipts settle once, and a lease whose
// answer was lost is given back by the server. Where a try may have been done without our
// knowing, an [*Error] says so: see its field Uncertain.
//
// Errors are [*Error]s; [Is] asks for their stable words.
//
// All calls take a context, which bounds them. If it carries a W3C trace, the server
// keeps it with the item and pushes continue it.
//
// The package needs nothing of the server: it speaks protobuf over HTTP, as described
// at /openapi.yaml.
package client
