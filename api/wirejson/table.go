package wirejson

import (
	"fmt"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// kind is how a field's values are read and written.
type kind int

const (
	boolKind kind = iota + 1
	int32Kind
	doubleKind
	stringKind
	bytesKind
	instantKind
	messageKind
	// mapKind is map<string, string>, the only one that the interface has.
	mapKind
)

// wants says in words what a value of the kind looks like.
func (k kind) wants() string {
	switch k {
	case boolKind:
		return "true or false"
	case int32Kind:
		return "a whole number"
	case doubleKind:
		return "a number"
	case bytesKind:
		return "a string in base64"
	case instantKind:
		return "a string with an RFC 3339 time, such as 2030-01-31T08:00:00Z"
	case messageKind:
		return "an object"
	case mapKind:
		return "an object of strings"
	default:
		return "a string"
	}
}

// field is what the reader and the writer know of a field.
type field struct {
	desc protoreflect.FieldDescriptor
	name string
	// key is the name as it is written: "name":
	key  string
	kind kind
	list bool
	// always says that it is written even if it has no value.
	always bool
	// bit tells fields of one message apart, for finding doubles.
	bit uint64
	// sub is the table of a message's fields.
	sub *table
}

// table is what is known of a message's fields, by both spellings and in the
// order of their numbers.
type table struct {
	name    protoreflect.FullName
	byName  map[string]*field
	ordered []*field
}

// maxFields is how many fields a message can have: one bit each.
const maxFields = 64

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
			panic(fmt.Sprintf("wirejson: %s contains itself: nothing would bound its depth", name))
		}
	}
	outer = append(outer, desc.FullName())
	fields := desc.Fields()
	if fields.Len() > maxFields {
		panic(fmt.Sprintf("wirejson: %s has more than %d fields", desc.FullName(), maxFields))
	}
	t := &table{name: desc.FullName(), byName: make(map[string]*field, 2*fields.Len())}
	for i := range fields.Len() {
		fd := fields.Get(i)
		f := &field{
			desc: fd, name: string(fd.Name()), key: `"` + string(fd.Name()) + `":`,
			kind: kindOf(fd), list: fd.IsList(), bit: 1 << i,
		}
		if f.kind == messageKind {
			f.sub = newTable(fd.Message(), outer)
		}
		f.always = f.list || !fd.HasPresence() && (f.kind == boolKind || f.kind == int32Kind || f.kind == doubleKind)
		t.byName[f.name] = f
		t.byName[fd.JSONName()] = f
		t.ordered = append(t.ordered, f)
	}
	return t
}

const timestampName = "google.protobuf.Timestamp"

func kindOf(fd protoreflect.FieldDescriptor) kind {
	if fd.IsMap() {
		if fd.MapKey().Kind() == protoreflect.StringKind && fd.MapValue().Kind() == protoreflect.StringKind {
			return mapKind
		}
		panic(fmt.Sprintf("wirejson: %s is not a map from string to string", fd.FullName()))
	}
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return boolKind
	case protoreflect.Int32Kind:
		return int32Kind
	case protoreflect.DoubleKind:
		return doubleKind
	case protoreflect.StringKind:
		return stringKind
	case protoreflect.BytesKind:
		return bytesKind
	case protoreflect.MessageKind:
		if fd.Message().FullName() == timestampName {
			return instantKind
		}
		return messageKind
	default:
		panic(fmt.Sprintf("wirejson: %s has kind %s, which the interface does not use", fd.FullName(), fd.Kind()))
	}
}
