package wireproto

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Deterministic, so that equal messages are equal bytes.
var marshal = proto.MarshalOptions{Deterministic: true}

// Append writes m behind dst and returns the longer slice. Texts in m are valid
// UTF-8; what is not becomes U+FFFD.
func Append(dst []byte, m proto.Message) []byte {
	if out, err := marshal.MarshalAppend(dst, m); err == nil {
		return out
	}
	m = proto.Clone(m)
	repair(m.ProtoReflect())
	out, err := marshal.MarshalAppend(dst, m)
	if err != nil {
		panic(fmt.Sprintf("wireproto: %s cannot be written: %v", m.ProtoReflect().Descriptor().FullName(), err))
	}
	return out
}

// repair makes all texts valid, for no other reason is a message of ours not written.
func repair(m protoreflect.Message) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			repairMap(v.Map())
		case fd.IsList():
			for i := range v.List().Len() {
				v.List().Set(i, repaired(v.List().Get(i)))
			}
		default:
			m.Set(fd, repaired(v))
		}
		return true
	})
}

// repairMap is for map<string, string>, the only one that the interface has.
func repairMap(m protoreflect.Map) {
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		if key, value := repaired(k.Value()), repaired(v); !key.Equal(k.Value()) || !value.Equal(v) {
			m.Clear(k)
			m.Set(key.MapKey(), value)
		}
		return true
	})
}

func repaired(v protoreflect.Value) protoreflect.Value {
	switch value := v.Interface().(type) {
	case string:
		// The conversion makes U+FFFD of each byte that is part of no character.
		return protoreflect.ValueOfString(string([]rune(value)))
	case protoreflect.Message:
		repair(value)
	}
	return v
}
