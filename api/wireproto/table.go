package wireproto

import (
	"fmt"
	"math"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// kind is how the value of a field is judged.
type kind int

const (
	boolKind kind = iota + 1
	intKind
	doubleKind
	stringKind
	bytesKind
	// messageKind includes instants, and the entries of maps.
	messageKind
)

// wire returns the wire type of a kind's values.
func (k kind) wire() protowire.Type {
	switch k {
	case boolKind, intKind:
		return protowire.VarintType
	case doubleKind:
		return protowire.Fixed64Type
	default:
		return protowire.BytesType
	}
}

// field is what the checker knows of a field.
type field struct {
	name string
	kind kind
	// list is the field's place among the lists and maps of its message, or noList.
	list int
	// low and high bound whole numbers.
	low, high int64
	// sub is the table of a message's fields.
	sub *table
}

const noList = -1

// table has a message's fields by their numbers, with gaps.
type table []*field

// Bounds of messages that have a table.
const (
	maxNumber = 200
	maxLists  = 4
)

// tables holds a *table for each message descriptor that was met.
var tables sync.Map

func tableOf(desc protoreflect.MessageDescriptor) *table {
	if t, ok := tables.Load(desc); ok {
		return t.(*table)
	}
	t, _ := tables.LoadOrStore(desc, newTable(desc, nil))
	return t.(*table)
}

// newTable panics on messages that this package cannot read: that is a mistake in
// a .proto file, and the first use shows it.
func newTable(desc protoreflect.MessageDescriptor, outer []protoreflect.FullName) *table {
	for _, name := range outer {
		if name == desc.FullName() {
			panic(fmt.Sprintf("wireproto: %s contains itself: nothing would bound its depth", name))
		}
	}
	outer = append(outer, desc.FullName())
	var t table
	lists := 0
	for i := range desc.Fields().Len() {
		fd := desc.Fields().Get(i)
		number := int(fd.Number())
		if number > maxNumber {
			panic(fmt.Sprintf("wireproto: %s is numbered above %d", fd.FullName(), maxNumber))
		}
		f := &field{name: string(fd.Name()), kind: kindOf(fd), list: noList}
		f.low, f.high = bounds(fd)
		if fd.Cardinality() == protoreflect.Repeated {
			if lists == maxLists {
				panic(fmt.Sprintf("wireproto: %s has more than %d lists", desc.FullName(), maxLists))
			}
			f.list = lists
			lists++
		}
		if f.kind == messageKind {
			f.sub = newTable(fd.Message(), outer)
		}
		if missing := number + 1 - len(t); missing > 0 {
			t = append(t, make(table, missing)...)
		}
		t[number] = f
	}
	return &t
}

func kindOf(fd protoreflect.FieldDescriptor) kind {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return boolKind
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return intKind
	case protoreflect.DoubleKind:
		return doubleKind
	case protoreflect.StringKind:
		return stringKind
	case protoreflect.BytesKind:
		return bytesKind
	case protoreflect.MessageKind:
		return messageKind
	default:
		panic(fmt.Sprintf("wireproto: %s has kind %s, which the interface does not use", fd.FullName(), fd.Kind()))
	}
}

// The fields of an instant are bounded here, so that what is no time is named where it
// stands: from the start of the year 1 to the end of 9999.
const (
	secondsName = "google.protobuf.Timestamp.seconds"
	nanosName   = "google.protobuf.Timestamp.nanos"

	minSeconds = -62_135_596_800
	maxSeconds = 253_402_300_799
	maxNanos   = 999_999_999
)

func bounds(fd protoreflect.FieldDescriptor) (low, high int64) {
	switch {
	case fd.FullName() == secondsName:
		return minSeconds, maxSeconds
	case fd.FullName() == nanosName:
		return 0, maxNanos
	case fd.Kind() == protoreflect.Int64Kind:
		return math.MinInt64, math.MaxInt64
	}
	return math.MinInt32, math.MaxInt32
}
