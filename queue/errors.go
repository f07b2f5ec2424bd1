package queue

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Errors that callers branch on. What wraps them adds the queue's name and the
// operation, never the word "failed".
var (
	// ErrNotFound: no such queue, subscription, item or document in this namespace.
	ErrNotFound = errors.New("not found")
	// ErrNotBlocking: the item keeps no others of its ordering key from going.
	ErrNotBlocking = errors.New("it blocks no ordering key")
	// ErrExists: the name is taken.
	ErrExists = errors.New("already exists")
	// ErrRevision: the document changed since it was read; read it again.
	ErrRevision = errors.New("revision mismatch")
	// ErrOvertaken: a document by which an item was made is another by now, or gone; read it
	// again.
	ErrOvertaken = errors.New("overtaken")
	// ErrStale: the receipt's lease was settled or the item was leased again.
	// Nothing was changed.
	ErrStale = errors.New("stale lease")
	// ErrMismatch: the idempotency key was used with another body.
	ErrMismatch = errors.New("idempotency key was used with another body")
	// ErrAlreadyDead: the item is in a dead-letter queue, where nothing is buried.
	ErrAlreadyDead = errors.New("already dead")
	// ErrNotEmpty: the queue still holds items, has a subscription, or is a
	// dead-letter queue.
	ErrNotEmpty = errors.New("not empty")
	// ErrDiskFull: the store takes no new items until there is room. Settling works.
	ErrDiskFull = errors.New("disk nearly full")
	// ErrUnavailable: the store cannot answer now, and nothing was done.
	ErrUnavailable = errors.New("store unavailable")
	// ErrUnknownOutcome: the store could not find out in time whether it was done.
	// A repeat with the same idempotency key is safe.
	ErrUnknownOutcome = errors.New("outcome unknown")
	// ErrShuttingDown: this process takes no new work.
	ErrShuttingDown = errors.New("shutting down")
	// ErrClientWaiting: the client has a lease that waits on this queue already; it
	// may have one at a time.
	ErrClientWaiting = errors.New("the client waits on this queue already")
	// ErrPaused: the queue takes no items now.
	ErrPaused = errors.New("queue paused")
	// ErrNotSupported: a field or method of a later release.
	ErrNotSupported = errors.New("not supported")
)

// InvalidError is bad input. Field is the path as the caller spelled it, such as
// items[3].delay; Reason says what is wrong and what would be right.
type InvalidError struct {
	Field  string
	Reason string
}

// Error implements error.
func (e *InvalidError) Error() string {
	if e.Field == "" {
		return e.Reason
	}
	return e.Field + ": " + e.Reason
}

// Invalid makes an [InvalidError]. Durations among args are written as people read
// them: 168h.
func Invalid(field, format string, args ...any) error {
	for i, arg := range args {
		if d, ok := arg.(time.Duration); ok {
			args[i] = span(d)
		}
	}
	return &InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// span is a duration without the zeros at its end: 168h, not 168h0m0s.
type span time.Duration

// String implements fmt.Stringer.
func (s span) String() string {
	text := time.Duration(s).String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}

// TooLargeError is input over a limit; nothing of it was kept.
type TooLargeError struct {
	Field string
	// Limit and Unit say what would have been taken: 1000 items, 1000000 bytes.
	Limit int
	Unit  string
}

// Error implements error.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s: over the limit of %d %s", e.Field, e.Limit, e.Unit)
}

// TopicError is a topic where a queue was wanted.
type TopicError struct {
	Topic string
	// Was is the queue that had the topic's name before, as it is named now; empty where
	// the topic was none.
	Was string
}

// Error implements error.
func (e *TopicError) Error() string {
	if e.Was != "" {
		return fmt.Sprintf("%s is a topic, not a queue: what was the queue %s is %s now; "+
			"name that, or subscribe to the topic for a queue of your own", e.Topic, e.Topic, e.Was)
	}
	return fmt.Sprintf("%s is a topic, not a queue: its items are in the queues of its subscriptions; "+
		"subscribe to it, or name one of those queues, %s~<subscription>", e.Topic, e.Topic)
}

// FanOutError is a call of which a topic would make more copies than one call may, or
// larger ones than a transaction of the store takes; nothing of it was kept.
type FanOutError struct {
	// Field is that of the call, items or receipts.
	Field string
	Topic string
	// Items and Copies are what the call would come to, and Limit what it may, in Unit.
	Items, Copies int
	Limit         int
	Unit          string
}

// Error implements error.
func (e *FanOutError) Error() string {
	if e.Field == "receipts" {
		return fmt.Sprintf("receipts: telling how %d items end makes %d copies in the queues of topic %s, over the limit of %d %s; "+
			"settle fewer receipts in a call", e.Items, e.Copies, e.Topic, e.Limit, e.Unit)
	}
	if e.Items == 1 {
		return fmt.Sprintf("items: the copies of an item in %d queues of topic %s are over the limit of %d %s; send a smaller item, or have fewer subscriptions on a topic",
			e.Copies, e.Topic, e.Limit, e.Unit)
	}
	return fmt.Sprintf("items: %d items are %d copies in the queues of topic %s, over the limit of %d %s; send fewer items in a call",
		e.Items, e.Copies, e.Topic, e.Limit, e.Unit)
}

// OverloadedError is work that was refused, not queued; come back later.
type OverloadedError struct {
	What string
	// Reason is What in a word of a small set, for metrics: leases_waiting.
	Reason     string
	RetryAfter time.Duration
}

// Error implements error.
func (e *OverloadedError) Error() string {
	return fmt.Sprintf("overloaded: %s; retry after %s", e.What, span(e.RetryAfter))
}

// EndedError is an item that ended while somebody waited for it, on queues that know
// nothing of ended items. It is an [ErrNotFound], and the item was there.
type EndedError struct{ ID ID }

// Error implements error.
func (e *EndedError) Error() string {
	return fmt.Sprintf("item %s has ended, and its queue keeps nothing of ended items; keep_ended has it keep more", e.ID)
}

// Is makes errors.Is(err, ErrNotFound) true.
func (e *EndedError) Is(target error) bool { return target == ErrNotFound }

// UnsupportedError names a field or method of a later release.
type UnsupportedError struct {
	What string
	// Field is the path as the caller spelled it, or empty if it is none.
	Field string
}

// Error implements error.
func (e *UnsupportedError) Error() string { return e.What + " is not supported by this release" }

// Is makes errors.Is(err, ErrNotSupported) true.
func (e *UnsupportedError) Is(target error) bool { return target == ErrNotSupported }

// StaleError names every receipt of a settling call that was refused. The call
// changed nothing.
type StaleError struct {
	// Entries are the indexes of the receipts in the call, with their reasons:
	// [ErrStale], [ErrNotFound] or [ErrAlreadyDead].
	Entries map[int]error
}

// Error implements error.
func (e *StaleError) Error() string {
	return fmt.Sprintf("%d of the receipts cannot be settled; nothing of the call was done", len(e.Entries))
}

// Is makes errors.Is find [ErrStale], and the other reasons that occur.
func (e *StaleError) Is(target error) bool {
	for _, reason := range e.Entries {
		if errors.Is(reason, target) {
			return true
		}
	}
	return false
}
