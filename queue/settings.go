package queue

import "time"

// Settings are a queue's document.
type Settings struct {
	Number    Number
	Namespace Namespace
	Name      string
	// Reference is the owner's note, at most 2,000 bytes.
	Reference string
	// LeaseTTL is how long a pull lease lasts, if it does not say.
	LeaseTTL time.Duration
	// ExpireTTL runs from an item's first due time; 0 is never.
	ExpireTTL time.Duration
	// MaxAttempts is the budget of items without one of their own; -1 is no limit.
	MaxAttempts int32
	// MaxRecoveries is how many lapses in a row, without an outcome, make an item
	// poison.
	MaxRecoveries int32
	// Partitions is how many ordered sets new items are spread over, 1 to [MaxPartitions].
	Partitions int32
	// Extent is how many partitions may hold items, where that is more than Partitions, and
	// 0 where it is not. Those from Partitions on are read-only: they are drained, and
	// then forgotten. The broker sets it.
	Extent int32 `json:",omitempty"`
	// DeadQueue receives what is buried; empty means the queue's own, which is made
	// when first needed.
	DeadQueue string
	// DeadLetter says that the queue is somebody's dead-letter queue: nothing in it
	// is buried.
	DeadLetter bool
	// Paused is what callers may not do now.
	Paused Paused
	// ParkAfter is after how many failures the head of an ordering key is not tried again by
	// itself, so that its key waits for somebody; 0 is never. It is below MaxAttempts, at
	// which the head is buried.
	ParkAfter int32 `json:",omitempty"`
	// KeepEnded is how long items that have ended are known, with their results; 0 is
	// not at all, and the journal's own age the most.
	KeepEnded time.Duration
	// Topic makes it a topic, which has the names and numbers of queues, and no items; nil
	// is a queue. Of the other settings a topic has the reference alone.
	Topic *Topic `json:",omitempty"`
	// SubscribesTo is the topic whose items are copied into the queue, empty if there is
	// none. Such a queue comes and goes with its subscription.
	SubscribesTo string `json:",omitempty"`
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

// Paused is a set of the sides of a queue.
type Paused uint8

// The sides of a queue.
const (
	PausedLease Paused = 1 << iota
	PausedProduce

	PausedBoth = PausedLease | PausedProduce
)

// Defaults of [Settings], as the wire contract states them.
const (
	DefaultLeaseTTL      = 60 * time.Second
	DefaultMaxAttempts   = 25
	DefaultMaxRecoveries = 3
)

// SettingsUpdate changes the fields that are set and no other.
type SettingsUpdate struct {
	Namespace Namespace
	Name      string
	// Revision, if not 0, must be the stored one.
	Revision      uint64
	Reference     *string
	LeaseTTL      *time.Duration
	ExpireTTL     *time.Duration
	MaxAttempts   *int32
	MaxRecoveries *int32
	KeepEnded     *time.Duration
	ParkAfter     *int32
	// Partitions may be raised and lowered at any time. Nothing moves: what is in
	// partitions that go stays there until it ends.
	Partitions *int32
	// DeadQueue, if empty, goes back to the queue's own.
	DeadQueue *string
}
