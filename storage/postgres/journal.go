package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// recordsSQL reads between two places, both left out. The bounds by time alone are
// there for the planner, which leaves out days by them.
const recordsSQL = `select at, number, type, next, item, queue, home, delivery, next_at, subscription,
	started_at, duration, verdict, status, error, response, node
from {s}.attempts
where namespace = $1 and at >= $2 and at <= $4 and (at, number) > ($2, $3) and (at, number) < ($4, $5)`

// Records implements [storage.Journal]. Records of one instant are in the order of
// their numbers.
func (s *Store) Records(ctx context.Context, q storage.RecordQuery) (storage.RecordPage, error) {
	low, high, err := recordBounds(q)
	if err != nil {
		return storage.RecordPage{}, err
	}
	text := recordsSQL
	// One more than asked for tells whether there is a next page.
	args := []any{int64(q.Namespace), low.at, low.number, high.at, high.number, q.Limit + 1}
	if !q.Item.IsZero() {
		args = append(args, [16]byte(q.Item))
		text += fmt.Sprintf(" and item = $%d", len(args))
	}
	if q.Subscription != "" {
		args = append(args, q.Subscription)
		text += fmt.Sprintf(" and subscription = $%d and subscription <> ''", len(args))
	}
	if q.Backward {
		text += " order by at desc, number desc limit $6"
	} else {
		text += " order by at, number limit $6"
	}
	return read(ctx, s, func(ctx context.Context, conn *pgxpool.Conn) (storage.RecordPage, error) {
		rows, err := conn.Query(ctx, s.text(text), args...)
		if err != nil {
			return storage.RecordPage{}, err
		}
		var page storage.RecordPage
		var last int64
		for rows.Next() {
			if len(page.Records) == q.Limit {
				at := page.Records[q.Limit-1].At
				page.Next = cursor(cursorRecords, spot{at, last}.append(nil))
				break
			}
			r, number, err := scanRecord(rows)
			if err != nil {
				return storage.RecordPage{}, err
			}
			last = number
			page.Records = append(page.Records, r)
		}
		rows.Close()
		return page, rows.Err()
	})
}

// recordBounds are the places between which records are read.
func recordBounds(q storage.RecordQuery) (low, high spot, err error) {
	low = spot{ceilMicros(q.From), -1}
	high = spot{ceilMicros(q.To), -1}
	if q.To.IsZero() {
		high.at = queue.Forever
	}
	if q.Cursor == "" {
		return low, high, nil
	}
	b, err := parseCursor(q.Cursor, cursorRecords, spotSize)
	if err != nil {
		return low, high, err
	}
	place, err := readSpot(b)
	if q.Backward {
		high = place
	} else {
		low = place
	}
	return low, high, err
}

// ceilMicros is the first instant with microseconds that is not before t.
func ceilMicros(t time.Time) time.Time {
	floor := t.UTC().Truncate(time.Microsecond)
	if floor.Before(t) {
		return floor.Add(time.Microsecond)
	}
	return floor
}

func scanRecord(row pgx.Rows) (r queue.Record, number int64, err error) {
	var typ, next int16
	var item [16]byte
	var in, home, duration int64
	var nextAt, startedAt *time.Time
	err = row.Scan(&r.At, &number, &typ, &next, &item, &in, &home, &r.Delivery, &nextAt, &r.Subscription,
		&startedAt, &duration, &r.Verdict, &r.Status, &r.Error, &r.Response, &r.Node)
	r.At = r.At.UTC()
	r.Type, r.Next = queue.RecordType(typ), queue.Step(next)
	r.Key = queue.Key{ID: item, Queue: queue.Number(in), Home: queue.Number(home)}
	r.NextAt, r.StartedAt = instant(nextAt), instant(startedAt)
	r.Duration = time.Duration(duration)
	return r, number, err
}
