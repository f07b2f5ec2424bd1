// Package dispatcher leases items on behalf of subscriptions, pushes them, and
// settles what came of it.
//
// Each subscription has a lane: one goroutine that asks, in this order, whether the
// subscription is active, whether one of its requests may start, whether its breaker
// is closed and whether the process has room, and only then leases. So an endpoint
// that is down, slow or throttled costs its items nothing: they stay on the queue, ready.
// A lease's clock runs while an item waits, so a lane leases what it can start at once.
// Only from endpoints that are quicker than the store it leases a few more: as many as
// end while the store is asked, since requests would otherwise stand still that long
// each time. Such an item waits about as long as one call of the store takes. After a
// quarter of a second it is given back, as when the gate closes.
//
// # What is promised
//
//   - Two requests for one item overlap only if this process stood still for longer
//     than its leases. They are renewed while requests run, and a request whose lease
//     could not be renewed is cancelled before the lease ends.
//   - What our own stop or our own store ended is given back uncounted.
//   - A request that panics is a failed attempt, and nothing else notices.
//   - When Run returns, nothing is leased by this process, unless the store could
//     not be reached; then the leases lapse, and each costs a recovery.
//
// # What is not
//
//   - Rate limits and windows that adapt. A subscription has max_in_flight, a breaker and
//     the pause that its endpoint asked for.
//   - Limits over several nodes: each node counts for itself.
//   - Endpoints that finish later. No receipt is handed out, so none can answer "keep".
package dispatcher
