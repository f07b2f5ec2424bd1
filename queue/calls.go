package queue

import "time"

// ProduceCall puts items on one queue: all of them or none. Payloads and headers
// are not copied: they may not be changed any more, not even after an error, since
// the store may still be reading them.
type ProduceCall struct {
	Namespace Namespace
	Queue     string
	Items     []ProduceItem
}

// ProduceItem is what a producer says of one item.
type ProduceItem struct {
	Content
	// DueAt and Delay: at most one of them.
	DueAt time.Time
	Delay time.Duration
	// IdempotencyKey is 1 to 255 visible ASCII characters, or empty.
	IdempotencyKey string
	MaxAttempts    int32
	// ExpireTTL overrides the queue's; 0 takes it.
	ExpireTTL time.Duration
}

// LeaseParams asks for items of one queue.
type LeaseParams struct {
	Namespace Namespace
	Queue     string
	// Limit is 1 to 1,000; MaxBytes 0 takes the broker's.
	Limit    int
	MaxBytes int
	// TTL 0 takes the queue's.
	TTL time.Duration
	// Wait is how long to wait for the first item; 0 answers at once.
	Wait time.Duration
	// Client, if set, may wait only once at a time on a queue; it is the owner's
	// name where Owner is empty.
	Client string
	Owner  string
	// Push marks a lane's lease: its lapse costs a recovery, not an attempt, since
	// only our own end can make it lapse.
	Push bool
	// MaxAttempts is the limit in force, by which lapsed items are buried; 0 takes
	// the queue's.
	MaxAttempts int32
}

// LeaseReply holds what was leased; no items means that the time was up.
type LeaseReply struct {
	Partition int32
	Now       time.Time
	Items     []Item
}

// SettleCall ends leases: all of them or none.
type SettleCall struct {
	Namespace Namespace
	// Queue, if set, must be the one that the receipts name, and Partition too.
	Queue     string
	Partition *int32
	Entries   []SettleEntry
}

// SettleEntry is one receipt and what to do.
type SettleEntry struct {
	Receipt Receipt
	Outcome Outcome
	DueAt   time.Time
	Delay   time.Duration
	Reason  string
	// MaxAttempts is the limit in force for a retry; 0 takes the queue's.
	MaxAttempts int32
	Last        Last
	Record      *Record
}

// ExtendEntry is one receipt and how much longer; TTL 0 takes the queue's.
type ExtendEntry struct {
	Receipt  Receipt
	TTL      time.Duration
	Handover *Handover
}

// QueueStats is what is known about a queue.
type QueueStats struct {
	// Stats has one entry for each partition.
	Stats []Stats
	// ProduceWaiting and LeaseWaiting count calls on this queue that have no answer
	// yet; in the former, settlements that may bury into it are counted as well.
	ProduceWaiting int
	LeaseWaiting   int
	// SettleWaiting counts settling calls that the store does not have yet, and
	// InFlight calls of all verbs that it has, over all queues: their batches are shared.
	SettleWaiting int
	InFlight      int
}

// ItemsQuery lists a queue's items; see [ListRequest].
type ItemsQuery struct {
	Namespace Namespace
	Queue     string
	States    []State
	From      ID
	Cursor    string
	Limit     int
}
