package queue

import (
	"context"
	"fmt"
	"time"
)

// JournalQuery asks the journal of a namespace for a page. It filters by all of its fields
// that are set; From <= At < To. Oldest first, or with Backward newest first.
type JournalQuery struct {
	Namespace    Namespace
	Item         ID
	Subscription string
	From, To     time.Time
	Backward     bool
	// Cursor is what the page before gave out, for the same query.
	Cursor string
	Limit  int
}

// JournalPage is a page; Next is empty at the end.
type JournalPage struct {
	Records []Record
	Next    string
}

// AttemptsQuery reads the journal of a namespace, newest first. What is set filters; all
// of it must apply, and From <= At < To.
type AttemptsQuery struct {
	Namespace    Namespace
	Item         ID
	Subscription string
	// Queue is where it happened; it must exist.
	Queue   string
	Verdict string
	// Type is 0 for records of all types.
	Type        RecordType
	From, To    time.Time
	OldestFirst bool
	// Cursor goes on after a page of the same query.
	Cursor string
	// Limit is 1 to [DefaultMaxItems].
	Limit int
}

// AttemptsPage is a page. Next is empty at the end; a page may be short, or empty, and
// have a Next: there were many records to which the query does not apply.
type AttemptsPage struct {
	Records []Record
	Next    string
}

// maxRecordsRead bounds what one call reads of the journal.
const maxRecordsRead = 10_000

// Attempts reads the journal. What was there when a walk over pages began is in it once,
// whatever is written meanwhile. Oldest first, what other nodes are just writing may be
// behind the last page already when it shows: who follows the journal reads the last
// seconds again.
//
// The records of a queue that was deleted are found by their items.
//
// Errors: [InvalidError]; [ErrNotFound], for the queue; those of [Store].
func (b *Broker) Attempts(ctx context.Context, q AttemptsQuery) (AttemptsPage, error) {
	switch {
	case q.Limit < 1 || q.Limit > DefaultMaxItems:
		return AttemptsPage{}, Invalid("limit", "is %d; want 1 to %d", q.Limit, DefaultMaxItems)
	case q.Type < 0 || q.Type > OutcomeRecord:
		return AttemptsPage{}, Invalid("type", "is none; want attempt, lapse, ending or outcome")
	case !q.From.IsZero() && !q.To.IsZero() && q.To.Before(q.From):
		return AttemptsPage{}, Invalid("to", "is before from")
	}
	in, err := b.namedOrAny(ctx, q.Namespace, q.Queue)
	if err != nil {
		return AttemptsPage{}, err
	}
	if b.opts.Journal == nil {
		return AttemptsPage{}, nil
	}
	var found AttemptsPage
	read := 0
	next := JournalQuery{
		Namespace: q.Namespace, Item: q.Item, Subscription: q.Subscription,
		From: q.From, To: q.To, Backward: !q.OldestFirst, Cursor: q.Cursor,
	}
	_, err = inPages(ctx, func() (more bool, err error) {
		// No more than there is room for, so that the page ends where the journal's does:
		// its cursor is the only one that there is.
		next.Limit = q.Limit - len(found.Records)
		page, err := b.opts.Journal(ctx, next)
		if err != nil {
			return false, err
		}
		for i := range page.Records {
			if q.wants(&page.Records[i], in) {
				found.Records = append(found.Records, page.Records[i])
			}
		}
		read += len(page.Records)
		next.Cursor, found.Next = page.Next, page.Next
		return page.Next != "" && len(found.Records) < q.Limit && read < maxRecordsRead, nil
	})
	if err != nil {
		return AttemptsPage{}, fmt.Errorf("attempts: %w", err)
	}
	return found, nil
}

// wants judges a record by what the journal does not.
func (q *AttemptsQuery) wants(r *Record, in *knownQueue) bool {
	switch {
	case in != nil && r.Key.Queue != in.number:
		return false
	case q.Verdict != "" && r.Verdict != q.Verdict:
		return false
	default:
		return q.Type == 0 || r.Type == q.Type
	}
}
