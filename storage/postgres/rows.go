package postgres

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-io/posthaste/queue"
)

// stateColumns are an item's without its content.
var stateColumns = []string{
	"id", "queue", "home", "partition", "seq", "created_at", "updated_at", "first_due_at", "due_at", "available_at",
	"held", "lapse_counts", "counter", "random", "owner", "generation", "deliveries", "attempts", "recoveries", "max_attempts",
	"expires_at", "kind", "ordering_key", "source_id", "last_status", "last_error",
	"dead_from", "dead_reason", "dead_at", "dead_status", "dead_attempts", "dead_recoveries",
}

// itemColumns lists what [scanItem] reads, of items under an alias. Without content
// attributes and body are null.
func itemColumns(alias string, content bool) string {
	if content {
		return stateOf(alias) + ", " + alias + ".attributes, " + bodySQL(alias)
	}
	return stateOf(alias) + ", null::bytea, null::bytea"
}

// stateOf lists [stateColumns]. The end of time is null: as a text, which it is without
// prepared statements, pgx cannot read it.
func stateOf(alias string) string {
	var b strings.Builder
	for i, name := range stateColumns {
		if i > 0 {
			b.WriteString(", ")
		}
		column := alias + "." + name
		if name == "available_at" {
			column = "nullif(" + column + ", " + foreverSQL + ") as " + name
		}
		b.WriteString(column)
	}
	return b.String()
}

// row is an item as pgx reads it.
type row struct {
	item           queue.Item
	id             [16]byte
	queue, home    int64
	seq            int64
	counter        int64
	random         int64
	available      *time.Time
	expires        *time.Time
	deadFrom       *int64
	deadReason     *string
	deadAt         *time.Time
	deadStatus     *int32
	deadAttempts   *int32
	deadRecoveries *int32
	attributes     []byte
}

// targets are what a row of [itemColumns] is scanned into; item gives the result.
func (r *row) targets() []any {
	it := &r.item
	return []any{
		&r.id, &r.queue, &r.home, &it.Partition, &r.seq, &it.CreatedAt, &it.UpdatedAt, &it.FirstDueAt, &it.DueAt, &r.available,
		&it.Held, &it.LapseCounts, &r.counter, &r.random, &it.Owner, &it.Generation, &it.Deliveries, &it.Attempts, &it.Recoveries, &it.MaxAttempts,
		&r.expires, &it.Kind, &it.OrderingKey, &it.SourceID, &it.Last.Status, &it.Last.Error,
		&r.deadFrom, &r.deadReason, &r.deadAt, &r.deadStatus, &r.deadAttempts, &r.deadRecoveries,
		&r.attributes, &it.Payload,
	}
}

// finish makes the item of what was scanned.
func (r *row) finish() (queue.Item, error) {
	it := &r.item
	it.ID, it.Queue, it.Home = r.id, queue.Number(r.queue), queue.Number(r.home)
	it.Seq = uint64(r.seq)
	it.Token = queue.Token{Counter: uint64(r.counter), Random: uint64(r.random)}
	it.AvailableAt = queue.Forever
	if r.available != nil {
		it.AvailableAt = *r.available
	}
	for _, at := range []*time.Time{&it.CreatedAt, &it.UpdatedAt, &it.FirstDueAt, &it.DueAt, &it.AvailableAt} {
		*at = at.UTC()
	}
	if r.expires != nil {
		it.ExpiresAt = r.expires.UTC()
	}
	if r.deadFrom != nil {
		it.Dead = &queue.Dead{
			From: queue.Number(*r.deadFrom), Reason: *r.deadReason, At: r.deadAt.UTC(),
			Status: *r.deadStatus, Attempts: *r.deadAttempts, Recoveries: *r.deadRecoveries,
		}
	}
	if r.attributes != nil {
		if err := decodeAttributes(r.attributes, &it.Content); err != nil {
			return queue.Item{}, fmt.Errorf("item %s: %w", it.ID, err)
		}
		if it.Payload == nil {
			return queue.Item{}, fmt.Errorf("item %s: %w", it.ID, errPayload)
		}
	}
	return *it, nil
}

// scanItem reads the columns of [itemColumns], after others if those are given.
func scanItem(rows pgx.Rows, before ...any) (queue.Item, error) {
	var r row
	if err := rows.Scan(append(before, r.targets()...)...); err != nil {
		return queue.Item{}, err
	}
	return r.finish()
}

// The first byte of what [encodeAttributes] makes; another layout gets another one. Rows
// that share their payload have the same layout under another number, for nodes of the
// version before: they know nothing of that, and would take the payload for an empty one.
const (
	attributesFormat = 1
	sharingFormat    = 2
)

// encodeAttributes makes one record of the content that has no column of its own.
func encodeAttributes(c *queue.Content, shared bool) []byte {
	b := []byte{attributesFormat}
	if shared {
		b[0] = sharingFormat
	}
	for _, text := range []string{c.Encoding, c.Reference, c.Trace, c.OnDone} {
		b = appendText(b, text)
	}
	b = binary.AppendVarint(b, int64(c.Hop))
	names := make([]string, 0, len(c.Headers))
	for name := range c.Headers {
		names = append(names, name)
	}
	sort.Strings(names)
	b = binary.AppendUvarint(b, uint64(len(names)))
	for _, name := range names {
		b = appendText(appendText(b, name), c.Headers[name])
	}
	if c.Target == nil {
		return append(b, 0)
	}
	b = appendText(appendText(append(b, 1), c.Target.URL), c.Target.Method)
	return binary.AppendVarint(b, int64(c.Target.Timeout))
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// errDamaged says that content is not what was written, the others which part of it is not.
var (
	errDamaged    = errors.New("content is damaged")
	errAttributes = fmt.Errorf("%w: attributes", errDamaged)
	errPayload    = fmt.Errorf("%w: there is no payload", errDamaged)
)

// decodeAttributes is the reverse.
func decodeAttributes(b []byte, c *queue.Content) error {
	r := reader{b: b}
	if format := r.byte(); format != attributesFormat && format != sharingFormat {
		return errAttributes
	}
	c.Encoding, c.Reference, c.Trace, c.OnDone = r.text(), r.text(), r.text(), r.text()
	c.Hop = int32(r.varint())
	if n := r.uvarint(); n > 0 && n <= uint64(len(r.b)) {
		c.Headers = make(map[string]string, n)
		for range n {
			name := r.text()
			c.Headers[name] = r.text()
		}
	}
	if r.byte() == 1 {
		c.Target = &queue.Target{URL: r.text(), Method: r.text(), Timeout: time.Duration(r.varint())}
	}
	if r.bad || len(r.b) > 0 {
		return errAttributes
	}
	return nil
}

// reader takes a record apart; after the first thing that does not fit it is bad and
// returns zeros.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	r.take(uint64(max(n, 0)))
	r.bad = r.bad || n <= 0
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	r.take(uint64(max(n, 0)))
	r.bad = r.bad || n <= 0
	return v
}

func (r *reader) text() string { return string(r.take(r.uvarint())) }

// optional is a time that may be missing.
func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// instant is the reverse of optional.
func instant(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
