package queue

import (
	"context"
	"time"
)

// Store is the contract of a backend: order, tokens, counters, atomicity, time.
// It knows nothing of limits in force, back-off, names, HTTP or cron.
//
// Every method may be called concurrently, keeps no slice or map that it was
// given and gives away none that it keeps. Verbs are batches that join many
// callers; the broker bounds them by [MaxBatchEntries] and [MaxBatchBytes].
//
// The store owns time. Verbs take durations; the few absolute instants that a
// client may name (a due time) are taken as now when they are past. The store's
// now never runs backwards, and is stamped inside the commit. Instants are kept
// to the microsecond.
//
// An error for the whole call means that nothing was applied, unless it is
// [ErrUnknownOutcome]. It is one of [ErrUnavailable], [ErrUnknownOutcome],
// [ErrDiskFull] (Produce, and whatever else would only grow the store), a
// context's error before anything was sent, or an error that nobody foresaw, in
// which case nothing was applied. A store that returned from a writing verb has
// made the change durable, if Durable says so.
//
// # Ordering keys
//
// Items of a queue that have one [Content.OrderingKey] are bound to each other, in whatever
// partition they are, until they are buried: in a dead-letter queue (where Dead is set) keys
// do not bind. Of bound items the one with the lowest seq is the head. It has a finite
// position; all others are at [Forever], with the due time at which they will stand. So only
// a head is ever leased, and a head that is held, retried or not yet due blocks its key and
// no other.
//
// Whatever takes a head out of its queue (complete, bury, purge) puts the next one at its due
// time, in the same step. Nothing else of that one changes, its token neither. An item that
// is moved into a queue where its key lives goes behind what is there. Produce and Move bind,
// and so do the items of a document's Put and of a settlement.
//
// storage/storagetest judges every implementation.
type Store interface {
	HotStore
	ColdStore
	// Durable says whether what was answered survives kill -9 and power loss.
	Durable() bool
}

// Bounds of one call of a verb, over all its groups: a Badger transaction takes
// about 100,000 writes and 10 MB.
const (
	MaxBatchEntries = 10_000
	MaxBatchBytes   = 8 << 20
)

// HotStore is what produce, lease and settle need: native in each backend, with
// a cost that depends on what is returned, never on what is queued, held or dead.
type HotStore interface {
	// Produce inserts each group whole or not at all. A group of which a guard does not
	// hold fails alone, and so does one with a dedupe key that is known for another
	// body; one that is known for the same body answers the first item and inserts
	// nothing for it, in none of its places. Two equal keys in one call count the same
	// way, in order. An item that lives in its queue already is a duplicate of itself,
	// so that a call with an unknown outcome can be repeated.
	Produce(ctx context.Context, groups []ProduceGroup) (ProduceAnswer, error)

	// Lease deals available items, in order, to each queue's takers: round robin,
	// one at a time, until nobody wants more. See [LeaseCall].
	Lease(ctx context.Context, calls []LeaseCall) (LeaseAnswer, error)

	// Settle ends leases. Each group is applied whole or not at all; not, where a guard of
	// what it produces does not hold.
	Settle(ctx context.Context, groups []SettleGroup) (SettleAnswer, error)

	// Extend moves deadlines, each entry by itself.
	Extend(ctx context.Context, entries []Extension) (ExtendAnswer, error)

	// NextDue tells for every partition that has an item with a finite position
	// the earliest one, in one call. It may be early (a bound), never late.
	NextDue(ctx context.Context) (DueAnswer, error)
}

// ColdStore is what inspection, clean-up and operations need. Leasing never
// waits for any of it for longer than a page takes.
type ColdStore interface {
	// Sweep returns a page of what a limit may bury: lapsed items, and expired ones
	// that are not under a live lease. It changes nothing. Calls walk the whole
	// store page by page, so that rows that need nothing never hide one that does.
	Sweep(ctx context.Context, req SweepRequest) (SweepPage, error)

	// Tidy drops dedupe keys that are past their time, journal records older than
	// keep, and whatever else a backend has to clean, a bounded page a call; more
	// says that there is more.
	Tidy(ctx context.Context, keep time.Duration) (more bool, err error)

	// Find returns every living copy of items, in no order. At most [MaxBatchEntries] ids,
	// each of them once; content says whether payloads and attributes are read.
	Find(ctx context.Context, ids []ID, content bool) ([]Item, error)

	// ListItems returns items of one partition in the order (available_at, seq).
	ListItems(ctx context.Context, req ListRequest) (ListPage, error)

	// Move takes items out of dead-letter queues, each entry by itself.
	Move(ctx context.Context, entries []Move) ([]MoveStatus, error)

	// Purge removes items without delivering them and writes an ending record for
	// each: at most req.Limit a call.
	Purge(ctx context.Context, req PurgeRequest) (PurgeAnswer, error)

	// ListKeys returns the ordering keys of a queue that have items behind their head, in the
	// order of the keys as bytes.
	ListKeys(ctx context.Context, req KeysRequest) (KeysPage, error)

	// Stats counts; without queues it tells about all that hold anything. A queue
	// that holds nothing is left out.
	Stats(ctx context.Context, queues []Number) ([]Stats, error)
}

// LeaseCall leases from one partition. A call names a partition at most once.
//
// An item is leased when its position is finite and not after now, held or not:
// what is held then has lapsed. A lapsed item first gets what its lapse costs:
// one attempt or one recovery, by the flag of the lapsed lease, a lapse record in
// the journal, and the lapsed deadline as its due time. Then, as every leased
// item: a new token with a higher counter, deliveries + 1, the taker's owner and
// flag, and now + TTL as its position. Expired items are leased too: the broker
// buries them.
type LeaseCall struct {
	Queue     Number
	Partition int32
	Takers    []Taker
}

// Taker is one consumer or lane that waits. It gets items until Limit, or until
// the next one would pass MaxBytes by [Item.Size] (0: no bound); the first item
// is given whatever its size.
type Taker struct {
	Limit       int
	MaxBytes    int
	TTL         time.Duration
	Owner       string
	LapseCounts bool
}

// LeaseAnswer answers each call at its index.
type LeaseAnswer struct {
	Now   time.Time
	Calls []LeaseResult
}

// LeaseResult holds what each taker got, at its index, with content.
type LeaseResult struct {
	Takers [][]Item
	// Corrupt counts items that could not be read back and were left alone.
	Corrupt int
	// Lapsed counts leases that lapsed and were ended by this call. It is for people: the
	// repeat of a call whose outcome was not known may leave some out.
	Lapsed int
}

// SettleGroup is one caller's call.
type SettleGroup struct {
	Entries []Settlement
}

// Outcome is what a settlement does with the item.
type Outcome int

// The outcomes.
const (
	// Complete removes the item.
	Complete Outcome = iota + 1
	// Retry counts an attempt and makes the item available later, at the tail; or,
	// where that reaches the limit, buries it in the same step.
	Retry
	// Release gives the lease back, uncounted: to the place where the item stood, or
	// later, if DueAt or Delay say so.
	Release
	// Bury moves the item to the dead-letter queue, now.
	Bury
)

// String returns the verb.
func (o Outcome) String() string {
	switch o {
	case Complete:
		return "complete"
	case Retry:
		return "retry"
	case Release:
		return "release"
	case Bury:
		return "bury"
	default:
		return "invalid"
	}
}

// Guard says in which state a settlement finds its item. The token must match
// in any case.
type Guard int

// The guards. The zero value is the consumer's.
const (
	// Held: the lease was not settled yet; whether it lapsed does not matter.
	Held Guard = iota
	// NotLive: not under a live lease. The sweep buries with it; a lapse that nobody
	// accounted for is accounted for first, as a lease would.
	NotLive
)

// Settlement is one entry of a group. Tokens rise with every one. An outcome
// (complete, retry with a Held guard) sets recoveries to 0; what is buried takes the
// count that it had along in [Dead].
type Settlement struct {
	Key     Key
	Token   Token
	Guard   Guard
	Outcome Outcome

	// DueAt and Delay are where Retry and Release put the item, as in [NewItem].
	DueAt time.Time
	Delay time.Duration

	// MaxAttempts is the limit in force for a Retry, -1 or 0 for none; the item's
	// own wins.
	MaxAttempts int32
	// Undead: the item is in a dead-letter queue, so a Retry never buries it.
	Undead bool
	// DeadQueue is where Bury goes, and Retry at its limit. With 0 they answer
	// [OverLimit] if they are good otherwise, and nothing of the group is applied: so
	// the broker learns that it has to make the queue. Should an earlier copy with the same key lie there, it gives
	// way.
	DeadQueue Number
	// Reason is kept with what is buried.
	Reason string
	// Counts goes with Bury: an attempt came before it, which [Dead.Attempts] counts.
	Counts bool
	// Last replaces the item's, for all but Complete, unless it is zero.
	Last Last

	// Record is appended to the journal if the entry is applied, or nil.
	Record *Record
	// Produce is inserted in the same transaction if the entry is applied. None of it has the
	// id and the queue of an item that the group settles.
	Produce []NewItem
}

// SettleAnswer answers each group at its index, each entry at its own.
type SettleAnswer struct {
	Now    time.Time
	Groups [][]Settled
}

// SettleStatus is what became of an entry.
type SettleStatus int

// The statuses. Only Applied changed anything.
const (
	// Applied: done.
	Applied SettleStatus = iota + 1
	// Stale: the item lives, under another token or in another state.
	Stale
	// Gone: no such item.
	Gone
	// OverLimit: a Bury, or a Retry that reached the limit, without a dead-letter queue.
	OverLimit
	// Undone: the entry was good, another of its group was not.
	Undone
	// Overtaken: a guard of what the group produces does not hold. All of its entries are
	// answered so, whatever else is wrong with them.
	Overtaken
)

// Settled is about one entry.
type Settled struct {
	Status SettleStatus
	// Buried says that a Retry ended in the dead-letter queue.
	Buried bool
	// Parked says that a Retry was the last that the item's ordering key has by itself. The
	// broker adds it; stores know nothing of it.
	Parked bool
	// AvailableAt is the item's new position, for Retry, Release and Bury.
	AvailableAt time.Time
}

// Extension moves one deadline to now + TTL, never earlier than it was. A lapsed
// lease that nobody took is revived, its lapse uncounted.
type Extension struct {
	Key   Key
	Token Token
	TTL   time.Duration
	// Handover, if not nil, changes who holds the lease: an endpoint that finishes
	// later takes it over from the lane.
	Handover *Handover
}

// Handover is the new holder of an extended lease.
type Handover struct {
	Owner       string
	LapseCounts bool
	Record      *Record
}

// ExtendAnswer answers each entry at its index.
type ExtendAnswer struct {
	Now     time.Time
	Entries []Extended
}

// Extended is about one entry: [Applied], [Stale] or [Gone].
type Extended struct {
	Status   SettleStatus
	Deadline time.Time
}

// DueAnswer lists partitions by their earliest position.
type DueAnswer struct {
	Now    time.Time
	Queues []QueueDue
}

// QueueDue is a partition's earliest finite position; what is not after now can
// be leased now.
type QueueDue struct {
	Queue     Number
	Partition int32
	At        time.Time
}

// SweepRequest asks for the next page; the first has no cursor.
type SweepRequest struct {
	Cursor string
	Limit  int
}

// SweepPage holds items with the token that a settlement must name and with the
// counters as the next lease would see them: lapses accounted for. Content is
// not read. Next is empty at the end of the walk.
type SweepPage struct {
	Now   time.Time
	Items []Item
	Next  string
}

// ListRequest asks for a page of one partition.
type ListRequest struct {
	Queue     Number
	Partition int32
	// States filters; none means all.
	States []State
	// From is the first item to return, or zero to begin at the head. If it is not
	// there, the page begins after the place where it would be, by the time in its id.
	From ID
	// Cursor continues a list, and wins over From.
	Cursor string
	Limit  int
	// Content says whether payloads and attributes are read.
	Content bool
}

// ListPage is a page; Next is empty at the end.
type ListPage struct {
	Now   time.Time
	Items []Item
	Next  string
}

// Move takes one item from where it is buried to the tail of a queue: generation
// + 1, attempts and recoveries 0, Dead cleared, expiry anew.
type Move struct {
	Key Key
	// Target is the queue to go to.
	Target    Number
	Partition int32
	ExpireTTL time.Duration
	// Delay is how long after now the item is due there, as in [NewItem]; its expiry
	// counts from then.
	Delay time.Duration
}

// MoveStatus is what became of an entry.
type MoveStatus int

// The statuses of a move.
const (
	// Moved: done.
	Moved MoveStatus = iota + 1
	// MoveGone: no such item, or it is held.
	MoveGone
	// MoveTaken: the same key lives in the target already; nothing was changed.
	MoveTaken
)

// PurgeRequest names items by key, or a partition and states.
type PurgeRequest struct {
	// Keys, if any, are purged whatever their state; Queue and States are ignored.
	Keys      []Key
	Queue     Number
	Partition int32
	States    []State
	Limit     int
	// Reason goes into the ending records.
	Reason string
}

// PurgeAnswer counts; More says that the limit ended the call.
type PurgeAnswer struct {
	Purged int
	More   bool
}

// KeysRequest asks for the ordering keys of a queue, after the one named.
type KeysRequest struct {
	Queue Number
	After string
	Limit int
}

// KeysPage is a page of keys; one that is shorter than its limit is the last.
type KeysPage struct {
	Now  time.Time
	Keys []KeyState
}

// KeyState is an ordering key with more than one item.
type KeyState struct {
	Key string
	// Head is the one that the others wait for, without content.
	Head Item
	// Behind counts the others, up to [KeyCap].
	Behind int
}

// KeyCap bounds what ListKeys counts of one key.
const KeyCap = 1_000

// Stats counts one partition.
type Stats struct {
	Queue     Number
	Partition int32
	// Total counts all items, Held those with an unsettled lease, lapsed ones too.
	Total int
	Held  int
	// Scheduled counts items that are not held and not yet due, up to
	// [StatsCap]. Behind counts those that stand behind another of their ordering key, and
	// are not among the scheduled ones, up to there at least. Capped says that there may be
	// more of either.
	Scheduled int
	Behind    int
	Capped    bool
	// Failing counts items whose budget is touched: attempts above 0.
	Failing int
	// OldestReady is the earliest due time of what waits, zero if nothing does.
	OldestReady time.Time
	// MeanAge is the mean time since items were created, MeanHeldAge the mean time
	// since held ones were leased or extended.
	MeanAge     time.Duration
	MeanHeldAge time.Duration
}

// StatsCap bounds what Stats counts one by one.
const StatsCap = 10_000
