// Package dispatcher leases items on behalf of subscriptions, pushes them, and
// settles what came of it.
//
// Each subscription has a lane: one goroutine that asks, in this order, whether the
// subscription is active, whether one of its requests may start, whether its breaker
// is closed and whether the process has room, and only then leases. So an endpoint
// that is down, slow or throttled costs its items nothing: they stay on the queue, ready.
// A lane leases no more than it can start at once, since a lease's clock runs while
// an item waits.
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
