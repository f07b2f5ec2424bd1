// Package queue is posthaste's domain: items, leases, receipts, the broker
// that queues are used through, and the contract that a store must keep.
//
// It imports nothing else of the project. Everything that has an opinion lives
// here, above the seam: limits, batching, waiting, names, what to bury. A [Store]
// below it knows order, tokens, counters and atomicity, and nothing else.
//
// # The model
//
// A partition is a set of items ordered by (available_at, seq), and everything
// that happens to an item is a move in that order:
//
//	state      held  available_at        how it got there
//	ready      no    <= now              produce; a due time that came; release
//	scheduled  no    > now               produce with a due time; redrive with a rate
//	retrying   no    > now               a settlement that said "later"
//	leased     yes   > now: the deadline lease
//	lapsed     yes   <= now              time passed; leasable again, at the tail
//	behind     no    infinity            an older item of its ordering key lives
//
// No job re-queues lapsed leases and none moves due items: time does it. State
// is derived by [Item.State], never stored.
//
// A queue has one partition or more. A call that produces goes whole to the emptiest, an item
// with an ordering key to the one of its key; a lease takes from the fullest, and from one
// only. Where several are, order holds within each, and by ordering key over all of them.
//
// # What is promised
//
//   - A produce that returned nil is durable, on stores that say so.
//   - While a lease is live by the store's clock nobody else holds the item, and
//     every change needs the token of the item's newest lease.
//   - An item leaves only by completion, or by an authenticated purge; everything
//     else ends in a dead-letter queue, with the reason.
//   - An outcome that is not known is reported as [ErrUnknownOutcome].
//
// # Topics
//
// A [Topic] is a document of the kind of queues, so that the two share one space of
// names, and a number for the keys of its items. It holds nothing: a produce to it makes
// one [NewItem] an item, with a [Copy] for each subscriber, and the store inserts all of
// them in one transaction. That is guarded by the revision of the topic's document, which
// every change of the subscribers raises: a subscription gets all that is produced from
// the answer to its creation on, on any node.
//
// The same holds for what comes with something else: the end of an item that a topic is
// told of, the item of a schedule, and what is redriven to a topic are written with what they
// belong to, or not at all, and made anew where the topic has changed. A redrive to a topic is
// a settlement that completes the dead item and produces its copies, rather than a move: a
// move changes rows that are there, and copies are new ones.
//
// What needs items does not take a topic, and says so with [TopicError].
//
// [Broker.TurnIntoTopic] makes a topic of a queue. Items lie under the number of their
// queue, and only its name changes: the settings of that number, its entry and the
// subscription get the name topic~subscription, and the topic takes the old name, with a
// number of its own, in one change of several documents. So nothing that is under way is
// touched: receipts, dead letters and ordering keys go by the number, and so do idempotency
// keys, which the topic keeps under that of the queue. What is by name is told the new one:
// who waits is sent to look again, and lanes follow their subscription. The dead-letter
// queue stays the one that it was, by being named.
//
// A node that has read the name before takes it for the queue until its settings are too
// old to be used, and puts items there past everybody but the first subscription. That is
// where all of them belong that are produced before there is a second. So the topic is
// marked, and a second subscription, or another filter, waits until a node that goes by
// older settings must have read them anew; the call that makes the topic waits for that
// itself, and takes the mark away. No clocks of two nodes are compared. To have nodes agree
// on the change before it is made would take as long, and let a call that ends in the
// middle leave a queue that is half way.
//
// # What is not
//
//   - Exactly-once processing: a consumer that dies after its work and before it
//     completes sees the item again.
//   - Order among items that failed, were released late, or lapsed.
package queue
