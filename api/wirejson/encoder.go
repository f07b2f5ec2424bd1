package wirejson

import (
	"encoding/base64"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Append writes m behind dst and returns the longer slice. Texts in m are valid
// UTF-8; what is not becomes U+FFFD.
func Append(dst []byte, m proto.Message) []byte {
	msg := m.ProtoReflect()
	return appendMessage(dst, msg, tableOf(msg.Descriptor()))
}

func appendMessage(dst []byte, m protoreflect.Message, t *table) []byte {
	dst = append(dst, '{')
	first := true
	for _, f := range t.ordered {
		if !f.always && !m.Has(f.desc) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, f.key...)
		v := m.Get(f.desc)
		switch {
		case f.kind == mapKind:
			dst = appendTextMap(dst, v.Map())
		case f.list:
			dst = appendList(dst, v.List(), f)
		default:
			dst = appendValue(dst, v, f)
		}
	}
	return append(dst, '}')
}

func appendList(dst []byte, l protoreflect.List, f *field) []byte {
	dst = append(dst, '[')
	for i := range l.Len() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendValue(dst, l.Get(i), f)
	}
	return append(dst, ']')
}

// appendTextMap sorts, so that equal messages are equal texts.
func appendTextMap(dst []byte, m protoreflect.Map) []byte {
	keys := make([]string, 0, m.Len())
	m.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, k.String())
		return true
	})
	slices.Sort(keys)
	dst = append(dst, '{')
	for i, k := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, k)
		dst = append(dst, ':')
		dst = appendString(dst, m.Get(protoreflect.ValueOfString(k).MapKey()).String())
	}
	return append(dst, '}')
}

func appendValue(dst []byte, v protoreflect.Value, f *field) []byte {
	switch f.kind {
	case boolKind:
		return strconv.AppendBool(dst, v.Bool())
	case int32Kind:
		return strconv.AppendInt(dst, v.Int(), 10)
	case doubleKind:
		return appendDouble(dst, v.Float())
	case bytesKind:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, v.Bytes())
		return append(dst, '"')
	case instantKind:
		at := v.Message().Interface().(*timestamppb.Timestamp).AsTime()
		dst = append(dst, '"')
		dst = at.AppendFormat(dst, time.RFC3339Nano)
		return append(dst, '"')
	case messageKind:
		return appendMessage(dst, v.Message(), f.sub)
	default:
		return appendString(dst, v.String())
	}
}

// appendDouble writes what JSON has no number for as 0: no field of ours is meant
// to hold it, and an answer that nobody can read is worse.
func appendDouble(dst []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		v = 0
	}
	return strconv.AppendFloat(dst, v, 'f', -1, 64)
}

func appendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(dst, s[start:i]...)
				dst = append(dst, "\uFFFD"...)
				start = i + 1
			}
			i += size
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}
