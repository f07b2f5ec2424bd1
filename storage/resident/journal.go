package resident

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
)

// journal counts what is kept where the journal is bounded by count.
type journal struct {
	kept []oldRecord // oldest first, from head on
	head int
}

// oldRecord is what has to be known of a record to drop it.
type oldRecord struct {
	line
	id           queue.ID
	subscription string
}

// record stamps a record and keeps it, with the group that it tells of.
func (s *Store) record(r queue.Record, now int64) {
	r.At = instant(now)
	l := line{ns: r.Key.Queue.Namespace(), at: now, number: s.next()}
	s.put(appendRecordKey(s.arena.bytes(1+4+lineTailSize), l), s.encodeRecord(&r), false)
	s.put(appendLineTail(appendItemIndex(s.arena.bytes(1+4+16+lineTailSize), l.ns, r.Key.ID), l), nil, false)
	if r.Subscription != "" {
		b := s.arena.bytes(1 + 4 + len(r.Subscription) + 1 + lineTailSize)
		s.put(appendLineTail(appendSubscriptionIndex(b, l.ns, r.Subscription), l), nil, false)
	}
	if bound := s.options.MaxRecords; bound > 0 {
		s.journal.kept = append(s.journal.kept, oldRecord{l, r.Key.ID, r.Subscription})
		if len(s.journal.kept)-s.journal.head > bound {
			o := s.journal.kept[s.journal.head]
			s.journal.head++
			s.dropRecord(o.line, o.id, o.subscription)
		}
		if s.journal.head > bound {
			s.journal.kept = append([]oldRecord(nil), s.journal.kept[s.journal.head:]...)
			s.journal.head = 0
		}
	}
}

func (s *Store) dropRecord(l line, id queue.ID, subscription string) {
	s.del(appendRecordKey(nil, l), false)
	s.del(appendLineTail(appendItemIndex(nil, l.ns, id), l), false)
	if subscription != "" {
		s.del(appendLineTail(appendSubscriptionIndex(nil, l.ns, subscription), l), false)
	}
}

// recordSize is what a record writes, generously, in bytes.
func recordSize(r *queue.Record) int {
	return 256 + len(r.Response) + len(r.Error) + 2*len(r.Subscription) + len(r.Verdict) + len(r.Node)
}

func (s *Store) encodeRecord(r *queue.Record) []byte {
	b := append(s.arena.bytes(recordSize(r)), recordFormat, byte(r.Type), byte(r.Next))
	b = binary.AppendVarint(b, r.At.UnixMicro())
	b = append(b, r.Key.ID[:]...)
	b = binary.AppendUvarint(b, uint64(r.Key.Queue))
	b = binary.AppendUvarint(b, uint64(r.Key.Home))
	b = binary.AppendVarint(b, int64(r.Delivery))
	b = appendTime(b, r.NextAt)
	b = appendString(b, r.Subscription)
	b = appendTime(b, r.StartedAt)
	b = binary.AppendVarint(b, int64(r.Duration))
	b = appendString(b, r.Verdict)
	b = binary.AppendVarint(b, int64(r.Status))
	b = appendString(b, r.Error)
	b = appendBytes(b, r.Response)
	return appendString(b, r.Node)
}

func decodeRecord(value []byte) (queue.Record, error) {
	r := reader{b: value}
	if r.byte() != recordFormat {
		return queue.Record{}, fmt.Errorf("journal record: %w", errCorrupt)
	}
	var rec queue.Record
	rec.Type, rec.Next = queue.RecordType(r.byte()), queue.Step(r.byte())
	rec.At = instant(r.varint())
	copy(rec.Key.ID[:], r.take(16))
	rec.Key.Queue = queue.Number(r.uvarint())
	rec.Key.Home = queue.Number(r.uvarint())
	rec.Delivery = int32(r.varint())
	rec.NextAt = r.time()
	rec.Subscription = r.string()
	rec.StartedAt = r.time()
	rec.Duration = time.Duration(r.varint())
	rec.Verdict = r.string()
	rec.Status = int32(r.varint())
	rec.Error = r.string()
	if response := r.bytes(); len(response) > 0 {
		rec.Response = append([]byte(nil), response...)
	}
	rec.Node = r.string()
	return rec, r.end()
}

// appendTime writes an instant that may be missing, as 0.
func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return binary.AppendVarint(b, 0)
	}
	return binary.AppendVarint(b, t.UnixMicro())
}

func (r *reader) time() time.Time { return optional(r.varint()) }

// Records implements [storage.Journal].
func (s *Store) Records(ctx context.Context, q storage.RecordQuery) (storage.RecordPage, error) {
	if _, err := s.begin(ctx, reads); err != nil {
		return storage.RecordPage{}, err
	}
	if err := s.look(ctx); err != nil {
		return storage.RecordPage{}, err
	}
	r, err := recordRange(q)
	if err != nil {
		return storage.RecordPage{}, err
	}
	var page storage.RecordPage
	var last line
	var broken error
	err = s.disk.Scan(r, func(key, value []byte) bool {
		l := parseLineTail(q.Namespace, key)
		if value == nil || key[0] != spaceRecord {
			if value, broken = s.disk.Get(appendRecordKey(nil, l)); broken != nil {
				return false
			}
		}
		if value == nil {
			return true // dropped in between
		}
		rec, err := decodeRecord(value)
		if err != nil {
			s.log.Error("journal record passed over", "err", err)
			return true
		}
		if q.Subscription != "" && rec.Subscription != q.Subscription {
			return true
		}
		if len(page.Records) == q.Limit {
			page.Next = cursor(cursorRecords, appendLineTail(nil, last))
			return false
		}
		page.Records = append(page.Records, rec)
		last = l
		return ctx.Err() == nil
	})
	switch {
	case err != nil:
		return storage.RecordPage{}, fmt.Errorf("scan journal: %w", err)
	case broken != nil:
		return storage.RecordPage{}, fmt.Errorf("read journal: %w", broken)
	case ctx.Err() != nil:
		return storage.RecordPage{}, context.Cause(ctx)
	}
	return page, nil
}

// recordRange is where the records that a query asks for lie. A query by item and
// subscription reads by item, of which there is less.
func recordRange(q storage.RecordQuery) (Range, error) {
	var prefix []byte
	switch {
	case !q.Item.IsZero():
		prefix = appendItemIndex(nil, q.Namespace, q.Item)
	case q.Subscription != "":
		prefix = appendSubscriptionIndex(nil, q.Namespace, q.Subscription)
	default:
		prefix = be.AppendUint32([]byte{spaceRecord}, uint32(q.Namespace))
	}
	key := func(l line) []byte { return appendLineTail(append([]byte(nil), prefix...), l) }
	r := Range{From: prefix, To: after(prefix), Backward: q.Backward}
	if !q.From.IsZero() {
		r.From = key(line{at: max(0, ceilMicro(q.From))})
	}
	if !q.To.IsZero() {
		r.To = key(line{at: max(0, ceilMicro(q.To))})
	}
	if q.Cursor == "" {
		return r, nil
	}
	b, err := parseCursor(q.Cursor, cursorRecords)
	if err != nil {
		return r, err
	}
	if len(b) != lineTailSize {
		return r, errCursor
	}
	at := line{at: int64(be.Uint64(b)), number: be.Uint64(b[8:])}
	if q.Backward {
		r.To = key(at)
		return r, nil
	}
	at.number++
	r.From = key(at)
	return r, nil
}

// ceilMicro is the first microsecond that is not before t.
func ceilMicro(t time.Time) int64 {
	us := t.UnixMicro()
	if instant(us).Before(t) {
		us++
	}
	return us
}
