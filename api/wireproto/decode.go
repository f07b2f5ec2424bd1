package wireproto

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/posthaste-io/posthaste/queue"
)

// Decode reads data into m, in place of what m had; m keeps nothing of data. What it
// answers is a [queue.InvalidError] with the field's path, a [queue.TooLargeError] or
// a [queue.UnsupportedError]; m is then as it was. Safe for concurrent use.
func Decode(data []byte, m proto.Message) error {
	c := checker{data: data}
	c.path = c.pathSpace[:0]
	if err := c.message(tableOf(m.ProtoReflect().Descriptor()), len(data)); err != nil {
		return err
	}
	if err := proto.Unmarshal(data, m); err != nil {
		return queue.Invalid("", "%v", err)
	}
	return nil
}

// checker is one pass over one message.
type checker struct {
	data   []byte
	pos    int
	fields int

	// path is where the checker stands, for errors.
	path      []step
	pathSpace [4]step
}

// step is a field, and which entry of it if it is a list.
type step struct {
	name  string
	index int
}

const noIndex = -1

// at returns the path as the caller would write it: items[3].delay.
func (c *checker) at() string {
	var b strings.Builder
	for _, s := range c.path {
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(s.name)
		if s.index != noIndex {
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		}
	}
	return b.String()
}

func (c *checker) invalid(format string, args ...any) error {
	return queue.Invalid(c.at(), format, args...)
}

// broken is for what is wrong with the bytes at pos.
func (c *checker) broken(format string, args ...any) error {
	return c.invalid("byte %d: %s", c.pos, fmt.Sprintf(format, args...))
}

func (c *checker) truncated() error {
	return c.broken("the message ends within this field, or a number has more than 64 bits")
}

// message judges the fields from pos to end.
func (c *checker) message(t *table, end int) error {
	var counts [maxLists]int
	for c.pos < end {
		f, wire, err := c.tag(t, end)
		if err != nil {
			return err
		}
		if c.fields++; c.fields > MaxFields {
			return &queue.TooLargeError{Field: "body", Limit: MaxFields, Unit: "fields"}
		}
		if f.list == noList {
			err = c.value(f, wire, noIndex, end)
		} else {
			err = c.entries(f, wire, &counts[f.list], end)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tag reads which field begins here.
func (c *checker) tag(t *table, end int) (*field, protowire.Type, error) {
	number, wire, n := protowire.ConsumeTag(c.data[c.pos:end])
	switch {
	case n < 0:
		return nil, 0, c.broken("no protobuf field begins here")
	case wire == protowire.StartGroupType && c.pos == 0 && c.data[0] == '{':
		return nil, 0, c.broken("this is not protobuf; if it is JSON, send Content-Type: application/json")
	case wire == protowire.StartGroupType, wire == protowire.EndGroupType:
		return nil, 0, c.broken("a group, field number %d; groups are not read", number)
	case int(number) >= len(*t) || (*t)[number] == nil:
		return nil, 0, c.unknown(number)
	}
	c.pos += n
	return (*t)[number], wire, nil
}

func (c *checker) unknown(number protowire.Number) error {
	digits := strconv.Itoa(int(number))
	what := "field number " + digits
	if outer := c.at(); outer != "" {
		what = outer + ": " + what
	}
	c.path = append(c.path, step{digits, noIndex})
	return &queue.UnsupportedError{What: what, Field: c.at()}
}

// entries judges one entry of a list, or several that are packed.
func (c *checker) entries(f *field, wire protowire.Type, count *int, end int) error {
	if wire != protowire.BytesType || f.kind.wire() == protowire.BytesType {
		return c.entry(f, wire, count, end)
	}
	end, err := c.length(end)
	if err != nil {
		return err
	}
	for c.pos < end {
		if err := c.entry(f, f.kind.wire(), count, end); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) entry(f *field, wire protowire.Type, count *int, end int) error {
	if *count == MaxList {
		c.path = append(c.path, step{f.name, noIndex})
		return &queue.TooLargeError{Field: c.at(), Limit: MaxList, Unit: "entries"}
	}
	*count++
	return c.value(f, wire, *count-1, end)
}

// value judges one value; index is its place in its list.
func (c *checker) value(f *field, wire protowire.Type, index, end int) error {
	c.path = append(c.path, step{f.name, index})
	if want := f.kind.wire(); wire != want {
		return c.broken("has wire type %d, want %d", wire, want)
	}
	var err error
	switch f.kind {
	case boolKind, intKind:
		err = c.varint(f, end)
	case doubleKind:
		err = c.double(end)
	default:
		err = c.sized(f, end)
	}
	if err != nil {
		return err
	}
	c.path = c.path[:len(c.path)-1]
	return nil
}

func (c *checker) varint(f *field, end int) error {
	v, n := protowire.ConsumeVarint(c.data[c.pos:end])
	switch {
	case n < 0:
		return c.truncated()
	case f.kind == boolKind && v > 1:
		return c.invalid("wants 0 or 1 for false or true, got %d", v)
	case f.kind == intKind && (int64(v) < f.low || int64(v) > f.high):
		return c.invalid("%d is out of range; want %d to %d", int64(v), f.low, f.high)
	}
	c.pos += n
	return nil
}

func (c *checker) double(end int) error {
	bits, n := protowire.ConsumeFixed64(c.data[c.pos:end])
	if n < 0 {
		return c.truncated()
	}
	if v := math.Float64frombits(bits); math.IsNaN(v) || math.IsInf(v, 0) {
		return c.invalid("wants a number, got %v", v)
	}
	c.pos += n
	return nil
}

// sized judges a value that has its length before it.
func (c *checker) sized(f *field, end int) error {
	end, err := c.length(end)
	switch {
	case err != nil:
		return err
	case f.kind == messageKind:
		return c.message(f.sub, end)
	case f.kind == stringKind && !utf8.Valid(c.data[c.pos:end]):
		return c.broken("not valid UTF-8")
	}
	c.pos = end
	return nil
}

// length reads how long the value is that begins here, and returns its end.
func (c *checker) length(end int) (int, error) {
	size, n := protowire.ConsumeVarint(c.data[c.pos:end])
	if n < 0 || size > uint64(end-c.pos-n) {
		return 0, c.truncated()
	}
	c.pos += n
	return c.pos + int(size), nil
}
