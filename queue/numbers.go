package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// CounterDocs keeps the counters that hand out queue numbers, one in a namespace;
// storage.Collection[Counter] does. Errors are those of [QueueDocs].
type CounterDocs interface {
	Get(ctx context.Context, ns Namespace, name string) (Counter, uint64, error)
	Put(ctx context.Context, ns Namespace, name string, c Counter, revision uint64, wakeAt time.Time, items ...NewItem) (uint64, error)
}

// Counter is the last number that was handed out. It is never deleted, and only
// rises, so no number is used again.
type Counter struct {
	Last uint32
}

// queueCounter is the name of the counter of queues.
const queueCounter = "queues"

// NumberDocs finds queues by their number; storage.Collection[NumberEntry] does.
// Errors are those of [QueueDocs].
type NumberDocs interface {
	Get(ctx context.Context, ns Namespace, name string) (NumberEntry, uint64, error)
	Put(ctx context.Context, ns Namespace, name string, e NumberEntry, revision uint64, wakeAt time.Time, items ...NewItem) (uint64, error)
	Delete(ctx context.Context, ns Namespace, name string, revision uint64) error
	PutChange(ns Namespace, name string, e NumberEntry, revision uint64, wakeAt time.Time) (DocumentChange, error)
	Due(ctx context.Context, limit int) (Due[NumberEntry], error)
}

// NumberEntry is kept under a queue's number. It is written before the queue's
// settings and outlives them, until the last item is gone: whether the queue is
// there, only its settings say.
type NumberEntry struct {
	Queue  string
	Number Number
	// Deleted is what a queue was that was deleted while it was empty, until it is sure
	// that no other node has put anything on it since.
	Deleted *Settings `json:",omitempty"`
}

// insert gives a new queue its number, unless it has one from an earlier try, and
// writes its documents.
func (b *Broker) insert(ctx context.Context, s *Settings) error {
	// Asked first, so that an ordinary refusal costs no number.
	_, _, err := b.opts.Queues.Get(ctx, s.Namespace, s.Name)
	if err == nil {
		return fmt.Errorf("queue or topic %s: %w", s.Name, ErrExists)
	}
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	tried := s.Number != 0
	if !tried {
		own, err := b.nextNumber(ctx, s.Namespace)
		if err != nil {
			return err
		}
		s.Number = NewNumber(s.Namespace, own)
	}
	s.CreatedAt = stamp()
	s.UpdatedAt = s.CreatedAt
	entry := NumberEntry{Queue: s.Name, Number: s.Number}
	_, err = b.opts.Numbers.Put(ctx, s.Namespace, numberName(s.Number), entry, 0, time.Time{})
	if err != nil && !(tried && errors.Is(err, ErrExists)) { // the earlier try got that far
		return err
	}
	at := time.Now()
	revision, err := b.opts.Queues.Put(ctx, s.Namespace, s.Name, *s, 0, time.Time{})
	if err != nil {
		return err
	}
	b.known.changed(*s, revision, at)
	return nil
}

func (b *Broker) nextNumber(ctx context.Context, ns Namespace) (uint32, error) {
	for {
		c, revision, err := b.opts.Counters.Get(ctx, ns, queueCounter)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return 0, err
		}
		if c.Last == math.MaxUint32 {
			return 0, fmt.Errorf("namespace %d has used up its queue numbers", ns)
		}
		c.Last++
		_, err = b.opts.Counters.Put(ctx, ns, queueCounter, c, revision, time.Time{})
		if err == nil {
			return c.Last, nil
		}
		// Somebody else took the number; the next try gets another.
		if !errors.Is(err, ErrRevision) && !errors.Is(err, ErrExists) {
			return 0, err
		}
	}
}

// stamp is now as documents keep it, for people to read: nothing is decided by it.
func stamp() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
