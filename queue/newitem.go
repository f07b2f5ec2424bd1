package queue

import "time"

// ProduceGroup is one caller's call.
type ProduceGroup struct {
	Items []NewItem
}

// DocumentGuard names a document, by what tells it from all others, and its revision.
type DocumentGuard struct {
	Kind      string
	Namespace Namespace
	Name      string
	Revision  uint64
}

// NewItem is an item before its first write.
type NewItem struct {
	Content
	ID        ID
	Queue     Number
	Partition int32
	// Topic is 0, or the topic that the item was produced to. Then it goes to all of
	// Copies, nowhere if there are none, and Queue and Partition mean nothing. All copies
	// are one item: they have one id, count as one in an answer, and one dedupe key, which
	// is kept where there is no copy, too.
	Topic  Number
	Copies []Copy
	// Guard, if not nil, is a document that must be as it was when the item was made by it:
	// the transaction that inserts the item comes before any change of it, or all that
	// belongs to the item fails, with [ErrOvertaken] or as [Overtaken].
	Guard *DocumentGuard
	// DueAt is absolute and wins; else the item is due Delay after now. A due time
	// that is past, or less than [Soon] ahead, means now.
	DueAt time.Time
	Delay time.Duration
	// ExpiresAt is absolute, after the beginning of 1970, and wins; else the item
	// expires ExpireTTL after the first due time, and with 0 never, or as each copy says.
	ExpiresAt time.Time
	ExpireTTL time.Duration
	// MaxAttempts is the item's own limit, or 0.
	MaxAttempts int32
	// Attempts is the budget that the item used up where it was before.
	Attempts int32
	// Dedupe is nil for an item without an idempotency key.
	Dedupe *Dedupe
}

// Copy is one place of an item that goes to several queues, each of them once.
type Copy struct {
	Queue     Number
	Partition int32
	// ExpireTTL is that of an item that has none itself.
	ExpireTTL time.Duration
}

// Places is how many queues the item goes to.
func (it *NewItem) Places() int {
	if it.Topic != 0 {
		return len(it.Copies)
	}
	return 1
}

// copyBytes is what a store writes with a copy beside its attributes, at most.
const copyBytes = 512

// written is what a store writes of an item, in bytes. The copies of a topic's item share its
// payload.
func (it *NewItem) written() int {
	if it.Topic == 0 {
		return it.Size()
	}
	return len(it.Payload) + len(it.Copies)*(it.Size()-len(it.Payload)+copyBytes)
}

// Place is the i-th of [NewItem.Places], from 0, with what holds there for the item.
func (it *NewItem) Place(i int) Copy {
	if it.Topic == 0 {
		return Copy{Queue: it.Queue, Partition: it.Partition, ExpireTTL: it.ExpireTTL}
	}
	place := it.Copies[i]
	if it.ExpireTTL != 0 {
		place.ExpireTTL = it.ExpireTTL
	}
	return place
}

// Soon is how far ahead a due time must be to be waited for.
const Soon = 100 * time.Millisecond

// Dedupe makes the repeat of a produce harmless.
type Dedupe struct {
	// Scope is the queue (or topic) within which Key is unique.
	Scope Number
	// Call tells the keys of whole calls from those of items.
	Call bool
	// Key is at most 300 bytes.
	Key  string
	Hash [32]byte
	TTL  time.Duration
}

// ProduceAnswer answers each group at its index.
type ProduceAnswer struct {
	Now    time.Time
	Groups []ProduceResult
}

// ProduceResult is about one group. Err is nil; or wraps [ErrMismatch] and names the
// item; or is [ErrOvertaken], for a guard of one of its items, which are judged before all
// else. Then Items is empty and nothing of the group was inserted.
type ProduceResult struct {
	Items []Produced
	Err   error
}

// Produced is about one item: for a duplicate, the first item's id. Of copies that live
// already the others are inserted, and the item is a duplicate if there are none; its key
// is not kept if the first of them lives.
type Produced struct {
	ID        ID
	Duplicate bool
	// Copies is how many queues have the item, which may be none. It is nil but for topics,
	// and for a duplicate. The broker sets it.
	Copies *int
	// DueAt is when it is available; zero for a duplicate, and [Forever] for one that stands
	// behind another of its ordering key wherever it is.
	DueAt time.Time
}

// MismatchError says which item of a group met [ErrMismatch].
type MismatchError struct{ Index int }

// Error implements error.
func (e *MismatchError) Error() string { return ErrMismatch.Error() }

// Unwrap makes errors.Is find [ErrMismatch].
func (e *MismatchError) Unwrap() error { return ErrMismatch }
