package resident

import (
	"context"
	"fmt"

	"github.com/posthaste-io/posthaste/queue"
)

// Disk is what a backend brings: an ordered set of keys with values, written in
// atomic steps. Get and Scan may be called concurrently with everything; Append
// is called under the store's lock.
type Disk interface {
	// Append takes one group's writes into the commit that gathers, whole: they are
	// durable together or not at all, after everything that was appended before. It
	// does not wait. The keys and values are the disk's from now on, the slice is
	// not. The mark is kept with the commit. A nil answer means that it is done.
	Append(writes []Write, mark Mark) *Commit

	// Get returns a copy of a value, and nil if there is none.
	Get(key []byte) ([]byte, error)

	// Scan visits keys from From (included) up to To (not included), or with Backward
	// from the greatest below To down to From, until visit says false. What visit is
	// given is valid only during the call.
	Scan(r Range, visit func(key, value []byte) bool) error

	// Mark returns the newest mark that is durable.
	Mark() Mark
}

// Write sets a key, or deletes it. Get and Scan see it from Append on if Reread
// is set, and otherwise when it is durable.
type Write struct {
	Key    []byte
	Value  []byte
	Delete bool
	Reread bool
}

// Mark is how far the store's counter and clock got, and how much there is. A
// store goes on above it, whatever was lost below, and does not open when the disk
// holds another number of items or documents: part of it was lost then.
type Mark struct {
	Seq       uint64
	Stamp     int64 // µs
	Items     uint64
	Documents uint64
}

// Range is what a [Disk.Scan] visits; Reread says that writes which are not
// durable yet have to be seen.
type Range struct {
	From, To []byte
	Backward bool
	Reread   bool
	// KeysOnly spares the values: visit gets nil for them.
	KeysOnly bool
}

// Commit is writes on their way to the disk. A nil *Commit is done.
type Commit struct {
	done chan struct{}
	err  error
}

// NewCommit returns one that is pending.
func NewCommit() *Commit { return &Commit{done: make(chan struct{})} }

// Resolve wakes all who wait. It may be called once.
func (c *Commit) Resolve(err error) {
	c.err = err
	close(c.done)
}

// Wait returns when the commit is durable. Any error is [queue.ErrUnknownOutcome]:
// what was appended cannot be taken back, only waited for.
func (c *Commit) Wait(ctx context.Context) error {
	if c == nil {
		return nil
	}
	select {
	case <-c.done:
	default:
		select {
		case <-c.done:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", queue.ErrUnknownOutcome, context.Cause(ctx))
		}
	}
	if c.err != nil {
		return fmt.Errorf("%w: %w", queue.ErrUnknownOutcome, c.err)
	}
	return nil
}
