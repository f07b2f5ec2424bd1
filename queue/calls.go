package queue

import "time"

// ProduceCall puts items on one queue: all of them or none. Payloads and headers
// are not copied: they may not be changed any more, not even after an error, since
// the store may still be reading them.
type ProduceCall struct {
	Namespace Namespace
	Queue     string
	// Key makes the repeat of the whole call safe, for items without a key of their
	// own: 1 to 255 visible ASCII characters, or empty. Its space is apart from that of
	// the items' keys.
	Key   string
	Items []ProduceItem
}

// ProduceItem is what a producer says of one item.
type ProduceItem struct {
	Content
	// DueAt and Delay: at most one of them.
	DueAt time.Time
	Delay time.Duration
	// IdempotencyKey is 1 to 255 visible ASCII characters, or empty.
	IdempotencyKey string
	// Fingerprint, if set, is what two items with one key are compared by instead of their
	// content: for content that tells the time.
	Fingerprint string
	MaxAttempts int32
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
	// Result goes with Complete: what came of the work, at most [MaxResponse] bytes. It
	// is kept as long as the queue keeps ended items.
	Result []byte
	// MaxAttempts is the limit in force for a retry; 0 takes the queue's.
	MaxAttempts int32
	Last        Last
	// Record goes into the journal. In a call that tells of very many ends its response is
	// shortened further.
	Record *Record
	// Counts goes with Bury: an attempt came before it, which counts.
	Counts bool
	// Unlogged keeps Record out of the journal; it still tells what came of the work.
	Unlogged bool
	// Item is the item as it was leased, with its content, from who has it at hand. Without
	// it the item is read where [Receipt.Notify] or OnDone say that somebody is told.
	Item *Item
	// OnDone is the queue that is told of the item's end if the item names none itself.
	OnDone string
}

// tells says that somebody may have to be told, should the entry end its item.
func (e *SettleEntry) tells() bool {
	switch {
	case e.Outcome == Release:
		return false
	case e.Item != nil:
		return e.Item.ownOnDone() != "" || e.OnDone != ""
	default:
		return e.Receipt.Notify || e.OnDone != ""
	}
}

// ExtendEntry is one receipt and how much longer; TTL 0 takes the queue's.
type ExtendEntry struct {
	Receipt  Receipt
	TTL      time.Duration
	Handover *Handover
}

// QueueStats is what is known about a queue.
type QueueStats struct {
	// Stats has one entry for each partition, in order; of read-only ones for those alone that
	// hold anything.
	Stats []Stats
	// ProduceWaiting and LeaseWaiting count calls on this queue that have no answer
	// yet; in the former, settlements that may bury into it, or tell it of an end, are
	// counted as well.
	ProduceWaiting int
	LeaseWaiting   int
	// SettleWaiting counts settling calls that the store does not have yet, and
	// InFlight calls of all verbs that it has, over all queues: their batches are shared.
	SettleWaiting int
	InFlight      int
}

// ItemsQuery lists the items of one partition of a queue; see [ListRequest].
type ItemsQuery struct {
	Namespace Namespace
	Queue     string
	Partition int32
	States    []State
	From      ID
	Cursor    string
	Limit     int
}

// ClearCall cancels a queue's items by their state. At least one of the three is set.
type ClearCall struct {
	Namespace Namespace
	Queue     string
	// Scheduled: what is not yet due. Ready: what could be leased, lapsed leases among
	// it, and what stands behind its ordering key. Leased: what is under a live lease.
	Scheduled bool
	Ready     bool
	Leased    bool
}

// CancelCall names items by id, or by filter where IDs is empty.
type CancelCall struct {
	Namespace Namespace
	// IDs are at most 1,000. Queue, if set, limits them to one queue's copies; for a
	// filter it must be set.
	IDs   []ID
	Queue string
	// Partition beside a queue must be one that it has. It chooses nothing.
	Partition int32
	// Kind, State and Before, as far as they are set, all must apply.
	Kind   string
	State  State
	Before time.Time
}

// Cancelled counts items that were ended. More says that the context's time was up
// before the end of the queue, so that the call should be repeated.
type Cancelled struct {
	Count int
	More  bool
	// NotFound are those of the ids that no item has.
	NotFound []ID
}

// ImportCall brings items along from elsewhere: all of them or none.
type ImportCall struct {
	Namespace Namespace
	Queue     string
	// Partition, if it is not 0, is where items without an ordering key go. It may not be
	// read-only.
	Partition int32
	Items     []ImportItem
}

// ImportItem is an item as it was elsewhere. SourceID must be set: while an item with
// it lives in the queue, another one is left out.
type ImportItem struct {
	Content
	// DueAt, if it is zero or past, means now.
	DueAt time.Time
	// ExpiresAt zero takes the queue's ExpireTTL, as with a new item.
	ExpiresAt   time.Time
	Attempts    int32
	MaxAttempts int32
	// DueField and ExpireField are what the caller calls the two instants, for errors;
	// empty is enqueue_at and expire_deadline.
	DueField, ExpireField string
}

// RedriveCall moves items out of a dead-letter queue.
type RedriveCall struct {
	Namespace Namespace
	// Queue is the dead-letter queue.
	Queue string
	// What follows filters, as far as it is set; all must apply. IDs are at most 1,000.
	IDs    []ID
	Kind   string
	Reason string
	Before time.Time
	From   string
	// Limit is 1 to [MaxRedrive].
	Limit  int
	DryRun bool
	// Target is where to, or empty: where each came from.
	Target string
	// Every spreads the items: each is due so much after the one before it, the first
	// now. 0 is all of them now. With the limit it comes to [MaxSpread] at most.
	Every time.Duration
}

// Redriven counts what was moved, or in a dry run, what would be.
type Redriven struct {
	Moved int
	// Skipped stay: the target holds their copy already, they are leased, the queue that
	// they came from is gone, nobody wants them of the topic, their copies are more than a
	// transaction takes, or they stand behind one that stays.
	Skipped int
	// More says that the limit or the context's time ended the call before the end of
	// the queue.
	More bool
	// Until is when the last of what was moved is due, or in a dry run, would be; it may be
	// late by what the call took. Zero without [RedriveCall.Every].
	Until time.Time
}

// Bounds of one call.
const (
	MaxRedrive = 100_000
	// MaxSpread is how far ahead the last item may be due.
	MaxSpread = 30 * 24 * time.Hour
)

// ItemState is where an item is in one queue, or how it ended there.
type ItemState struct {
	Queue Settings
	// Item is what the queue holds; once it has ended, its Key alone is set.
	Item Item
	Now  time.Time
	// Ending is the record of the end, or nil while the item lives; Attempts is how many
	// attempts the journal has of an item that has ended, of the newest hundred records.
	Ending   *Record
	Attempts int32
}
