package resident

import (
	"encoding/binary"
	"errors"

	"github.com/posthaste-io/posthaste/queue"
)

// Stored values begin with a format byte; a layout that changes gets the next one,
// and readers keep the old.
const (
	stateFormat       = 1
	sharedStateFormat = 2
	newestStateFormat = sharedStateFormat
	contentFormat     = 1
	dedupeFormat      = 1
	documentFormat    = 1
	recordFormat      = 1
	cursorFormat      = 1
)

// errCorrupt says that a stored value is not what was written, errNewer that it may be what
// this version does not know.
var (
	errCorrupt = errors.New("stored value is damaged")
	errNewer   = errors.New("stored value is of a newer version, or damaged")
)

// Layout of a state: format, flags, partition, then varints; in that of an item which
// shares its content, the topic and which of the copies it is. What was never touched
// ends there; see ext for the rest.
const (
	stateHeld = 1 << iota
	stateLapseCounts
	stateTouched
	stateDead
)

func (s *Store) encodeState(e *entry) []byte {
	x := s.extOf(e)
	bits := byte(0)
	if e.is(held) {
		bits |= stateHeld
	}
	if e.is(lapseCounts) {
		bits |= stateLapseCounts
	}
	n := 64
	if x != nil {
		bits |= stateTouched
		n += 128 + len(x.owner) + len(x.orderingKey) + len(x.last.Error)
		if x.dead != nil {
			bits |= stateDead
			n += 64 + len(x.dead.Reason)
		}
	}
	b := s.arena.bytes(n)
	topic := s.origin(e).topic
	format := byte(stateFormat)
	if topic != 0 {
		format = sharedStateFormat
	}
	b = append(b, format, bits)
	b = binary.AppendVarint(b, int64(s.parts[e.part].number))
	b = binary.AppendUvarint(b, e.seq)
	b = binary.AppendVarint(b, e.created)
	b = binary.AppendVarint(b, e.at)
	b = binary.AppendUvarint(b, uint64(e.size))
	if topic != 0 {
		b = binary.AppendUvarint(b, uint64(topic))
		b = binary.AppendUvarint(b, uint64(e.nth))
	}
	if x == nil {
		return b
	}
	b = binary.AppendUvarint(b, x.token.Counter)
	b = be.AppendUint64(b, x.token.Random)
	b = binary.AppendVarint(b, x.first)
	b = binary.AppendVarint(b, x.due)
	b = binary.AppendVarint(b, x.updated)
	b = binary.AppendVarint(b, x.expires)
	b = binary.AppendUvarint(b, x.body)
	b = appendString(b, x.owner)
	b = appendString(b, x.orderingKey)
	for _, n := range [...]int32{x.generation, x.deliveries, x.attempts, x.recoveries, x.maxAttempts, x.last.Status} {
		b = binary.AppendVarint(b, int64(n))
	}
	b = appendString(b, x.last.Error)
	if d := x.dead; d != nil {
		b = binary.AppendUvarint(b, uint64(d.From))
		b = appendString(b, d.Reason)
		b = binary.AppendVarint(b, d.At.UnixMicro())
		for _, n := range [...]int32{d.Status, d.Attempts, d.Recoveries} {
			b = binary.AppendVarint(b, int64(n))
		}
	}
	return b
}

// state is a decoded one: where it belongs, and what to keep.
type state struct {
	part    int32
	topic   queue.Number // whose copies share the content, or 0
	entry   entry        // without part, origin and ext
	touched bool
	ext     ext
}

// extOrNil is the ext of what was touched.
func (st *state) extOrNil() *ext {
	if !st.touched {
		return nil
	}
	return &st.ext
}

// name is that of the content.
func (st *state) name() contentName { return nameWith(&st.entry, st.extOrNil(), st.topic) }

func decodeState(b []byte) (state, error) {
	r := reader{b: b}
	var st state
	format := r.byte()
	if format > newestStateFormat {
		return st, errNewer
	}
	if format != stateFormat && format != sharedStateFormat {
		return st, errCorrupt
	}
	bits := r.byte()
	st.entry.set(held, bits&stateHeld != 0)
	st.entry.set(lapseCounts, bits&stateLapseCounts != 0)
	st.part = int32(r.varint())
	st.entry.seq = r.uvarint()
	st.entry.created = r.varint()
	st.entry.at = r.varint()
	st.entry.size = uint32(r.uvarint())
	if format == sharedStateFormat {
		st.topic = queue.Number(r.uvarint())
		nth := r.uvarint()
		if nth >= sharers {
			return st, errCorrupt
		}
		st.entry.nth = uint16(nth)
	}
	if bits&stateTouched == 0 {
		return st, r.end()
	}
	st.touched = true
	x := &st.ext
	x.token.Counter = r.uvarint()
	x.token.Random = r.uint64()
	x.first = r.varint()
	x.due = r.varint()
	x.updated = r.varint()
	x.expires = r.varint()
	x.body = r.uvarint()
	x.owner = r.string()
	x.orderingKey = r.string()
	for _, n := range [...]*int32{&x.generation, &x.deliveries, &x.attempts, &x.recoveries, &x.maxAttempts, &x.last.Status} {
		*n = int32(r.varint())
	}
	x.last.Error = r.string()
	if bits&stateDead != 0 {
		d := &queue.Dead{}
		d.From = queue.Number(r.uvarint())
		d.Reason = r.string()
		d.At = instant(r.varint())
		for _, n := range [...]*int32{&d.Status, &d.Attempts, &d.Recoveries} {
			*n = int32(r.varint())
		}
		x.dead = d
	}
	return st, r.end()
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendBytes(b, s []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// reader takes a value apart. After the first thing that does not fit, all it
// returns is zero, and end says so.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	taken := r.b[:n:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return be.Uint64(b)
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

// bytes returns a part of the value itself.
func (r *reader) bytes() []byte { return r.take(r.uvarint()) }

func (r *reader) string() string { return string(r.bytes()) }

func (r *reader) end() error {
	if r.bad || len(r.b) > 0 {
		return errCorrupt
	}
	return nil
}
