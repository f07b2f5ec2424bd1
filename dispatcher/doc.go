// Package dispatcher leases items on behalf of subscriptions, pushes them, and
// settles what came of it.
//
// Each subscription has a lane: one goroutine that asks, in this order, whether the
// subscription is active, whether one of its requests may start by window and rate, whether
// its breaker is closed and whether the process has room, and only then leases. So an endpoint
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
// # Changes
//
// A change of a subscription that this process makes is handed to its lane before it is
// answered: to read it from the store afterwards would leave a moment in which a push begins
// with a secret that was just replaced, or after a pause. What was created or deleted here is
// read at once, and what other nodes did, every ten seconds.
//
// A topic may be made of a queue that is pushed. Its lane goes on under the queue's other
// name, with its flow and with the requests that run.
//
// # Flow
//
// How much goes to an endpoint at a time is its flow: a window between one request and
// max_in_flight that follows how it does, a rate, a breaker, and the pause that it asked
// for. A lane has one flow; where items bring their own targets, it has one for each host.
//
// What an endpoint that is slow or hangs can hold is its window, and a tenth of the
// process's requests while others wait. So it starts with a few, and every limit that it
// meets makes it less.
//
// Several nodes divide max_in_flight and rate between them. A document for each
// subscription and share would cost as many writes as there are subscriptions and nodes;
// here each node writes one every second to say that it is there, and all divide by
// how many they see. The limit may be passed for some seconds where a node that was silent
// comes back. Windows, breakers and pauses are each node's own.
//
// # What is not
//
//   - An order of items that are turned away, since their hosts have no room: each comes
//     back by itself.
//   - A limit of hosts over several subscriptions that go to the same one.
package dispatcher
