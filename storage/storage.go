// Package storage is the part of the backend contract that is not about items:
// documents and the journal. A backend implements [Backend]; storagetest judges it.
package storage

import (
	"context"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// Backend is one database: items, documents, journal.
type Backend interface {
	queue.Store
	Documents
	Journal
	// Close waits for what is being written and lets go of the database. It may be
	// called once; verbs that come later answer [queue.ErrUnavailable].
	Close() error
	// Failed is closed when the store can promise nothing any more and the process
	// has to end; Err says why. A store never retries a sync that was refused.
	Failed() <-chan struct{}
	// Err is nil while the store is well.
	Err() error
}

// Documents keeps small versioned records: a queue's settings, a subscription,
// a schedule. A new kind needs no new storage code.
//
// Errors are [queue.ErrNotFound], [queue.ErrExists] (a put of revision 0 that
// found one), [queue.ErrRevision], and those of [queue.Store].
type Documents interface {
	// Get returns a document.
	Get(ctx context.Context, key DocumentKey) (Document, error)
	// Put writes doc if its Revision is the stored one (0: if there is none), and
	// inserts the items in the same transaction. It returns the new revision, which
	// is higher than any that the key ever had. Items with a known dedupe key are
	// left out, without an error. Where a guard of an item does not hold it writes nothing,
	// and answers [queue.ErrOvertaken]; the document's own revision is judged before that.
	Put(ctx context.Context, doc Document, items ...queue.NewItem) (revision uint64, err error)
	// Delete removes a document if its revision is the stored one.
	Delete(ctx context.Context, key DocumentKey, revision uint64) error
	// Change puts several documents in one transaction: all of them, if each has the
	// revision that its change names (0: if there is none), or none of them. It returns
	// their new revisions, as those of Put, in the order of the changes, and higher than any
	// that one of these documents had. A document is named once; at most [MaxChanges].
	Change(ctx context.Context, changes []queue.DocumentChange) (revisions []uint64, err error)
	// List returns documents of one kind and namespace in the order of their names,
	// after the one named (or from the first).
	List(ctx context.Context, kind string, ns queue.Namespace, after string, limit int) ([]Document, error)
	// Due returns documents of one kind, in any namespace, whose WakeAt is not after
	// the store's now, earliest first. A limit of 0 asks for the times alone.
	Due(ctx context.Context, kind string, limit int) (DueDocuments, error)
}

// DueDocuments answers [Documents.Due].
type DueDocuments struct {
	Documents []Document
	// Next is the earliest WakeAt that is still to come, zero if there is none.
	Next time.Time
	// Now is the store's time, by which that was judged.
	Now time.Time
}

// DocumentKey names a document. Kind and Name are at most 255 and 500 bytes of
// UTF-8 without NUL.
type DocumentKey struct {
	Kind      string
	Namespace queue.Namespace
	Name      string
}

// Document is a record with its revision.
type Document struct {
	DocumentKey
	Revision uint64
	// WakeAt, if not zero, is when Due returns it.
	WakeAt time.Time
	// Value is at most 1,000,000 bytes.
	Value []byte
}

// Journal is read here and written by the verbs of [queue.Store].
type Journal interface {
	// Records returns records in the order of their time, oldest first (newest first
	// with Backward). Without a filter it reads all of the namespace.
	Records(ctx context.Context, q RecordQuery) (RecordPage, error)
}

// RecordQuery filters by all of its fields that are set. With neither Item nor
// Subscription it reads by time.
type RecordQuery struct {
	Namespace    queue.Namespace
	Item         queue.ID
	Subscription string
	// From and To bound At: From <= At < To; zero is no bound.
	From, To time.Time
	Backward bool
	Cursor   string
	Limit    int
}

// RecordPage is a page; Next is empty at the end.
type RecordPage struct {
	Records []queue.Record
	Next    string
}
