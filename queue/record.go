package queue

import "time"

// RecordType says what a journal record tells.
type RecordType int

// The journal's records.
const (
	// AttemptRecord tells one HTTP request of one item to one endpoint.
	AttemptRecord RecordType = iota + 1
	// LapseRecord tells that a lease ended without an outcome.
	LapseRecord
	// EndingRecord tells that an item ended without an attempt of its own:
	// completed by a consumer, cancelled, expired, poisoned.
	EndingRecord
	// OutcomeRecord tells what an endpoint that was to finish later did with the item
	// without ending it: retry or release. A burial is one, too: the item lives on.
	OutcomeRecord
)

// String returns the word that the wire uses.
func (t RecordType) String() string {
	switch t {
	case AttemptRecord:
		return "attempt"
	case LapseRecord:
		return "lapse"
	case EndingRecord:
		return "ending"
	case OutcomeRecord:
		return "outcome"
	default:
		return "invalid"
	}
}

// Step is what was done with the item after what a record tells.
type Step int

// The steps; the store fills them in, since it alone knows what a limit did.
const (
	StepComplete Step = iota + 1
	StepRetry
	StepRelease
	StepBury
	StepHold
	StepCancel
)

// String returns the word that the wire uses.
func (s Step) String() string {
	switch s {
	case StepComplete:
		return "complete"
	case StepRetry:
		return "retry"
	case StepRelease:
		return "release"
	case StepBury:
		return "bury"
	case StepHold:
		return "hold"
	case StepCancel:
		return "cancel"
	default:
		return "none"
	}
}

// Record is a line of the journal, written in the transaction that it tells of.
// The caller of a verb fills in the second group; the store does the first, from
// the item as the transaction found it.
type Record struct {
	Type RecordType
	// At is the store's time of the transaction.
	At time.Time
	// Key is the item's before the transaction moved it.
	Key Key
	// Delivery is the item's count of leases: the number of the attempt.
	Delivery int32
	Next     Step
	// NextAt is when the item is available again, for retry, release and hold.
	NextAt time.Time

	// Subscription is empty for pull consumers.
	Subscription string
	StartedAt    time.Time
	Duration     time.Duration
	// Verdict is one of the dispatcher's words, or the reason of an ending.
	Verdict string
	Status  int32
	// Error is valid UTF-8 without NUL.
	Error string
	// Response is the head of the answer, at most [MaxResponse] bytes.
	Response []byte
	// Node is the process that did it.
	Node string
}

// MaxResponse bounds [Record.Response], in bytes.
const MaxResponse = 4096
