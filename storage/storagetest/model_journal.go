package storagetest

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// journalLine is a record with its place in the order of writing, which is the
// order of time.
type journalLine struct {
	queue.Record
	line uint64
}

// append stamps a record with what the transaction found and keeps it.
func (m *Model) append(record queue.Record, found *queue.Item, now time.Time) {
	record = cloneRecord(record)
	record.At = now
	record.Key = found.Key
	record.Delivery = found.Deliveries
	m.line++
	m.journal = append(m.journal, journalLine{Record: record, line: m.line})
}

// Records implements [storage.Journal]. A cursor is the line after which the page
// begins.
func (m *Model) Records(ctx context.Context, q storage.RecordQuery) (storage.RecordPage, error) {
	_, end, err := m.begin(ctx)
	if err != nil {
		return storage.RecordPage{}, err
	}
	defer end()
	var matching []journalLine
	for _, l := range m.journal {
		if matches(q, l.Record) {
			matching = append(matching, l)
		}
	}
	if q.Backward {
		slices.Reverse(matching)
	}
	if q.Cursor != "" {
		last, err := strconv.ParseUint(q.Cursor, 10, 64)
		if err != nil {
			return storage.RecordPage{}, queue.Invalid("cursor", "is not one that this call gave out")
		}
		matching = slices.DeleteFunc(matching, func(l journalLine) bool {
			return !q.Backward && l.line <= last || q.Backward && l.line >= last
		})
	}
	var page storage.RecordPage
	for i, l := range matching {
		if i == q.Limit {
			page.Next = strconv.FormatUint(matching[i-1].line, 10)
			break
		}
		page.Records = append(page.Records, cloneRecord(l.Record))
	}
	return page, nil
}

func matches(q storage.RecordQuery, r queue.Record) bool {
	return r.Key.Queue.Namespace() == q.Namespace &&
		(q.Item.IsZero() || r.Key.ID == q.Item) &&
		(q.Subscription == "" || r.Subscription == q.Subscription) &&
		(q.From.IsZero() || !r.At.Before(q.From)) &&
		(q.To.IsZero() || r.At.Before(q.To))
}
