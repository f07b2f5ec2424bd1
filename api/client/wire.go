package client

import (
	"context"
	"fmt"
	"iter"
	"math"
	"net/http"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// inject adds the trace that ctx carries, if it does, so that pushes continue it.
func inject(ctx context.Context, h http.Header) {
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(h))
}

// text writes a duration for the wire; 0 is left out.
func text(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// span reads a duration of the server's, which writes none that cannot be read.
func span(text string) time.Duration {
	d, _ := time.ParseDuration(text) // the empty text is none
	return d
}

// stamp leaves the zero time out.
func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// presentStamp leaves nothing out but nil.
func presentStamp(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}

func instant(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

// pages walks a list: next returns a page and the cursor of the one after it, which is
// empty at the end. An error is yielded once, and ends the walk.
func pages[T any](next func(cursor string) ([]T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for cursor := ""; ; {
			page, after, err := next(cursor)
			if err != nil {
				var zero T
				yield(zero, err)
				return
			}
			for _, it := range page {
				if !yield(it, nil) {
					return
				}
			}
			if after == "" {
				return
			}
			cursor = after
		}
	}
}

// count bounds a number to what the wire can carry. What is cut is so far out of range
// that the server refuses it all the same.
func count(n int) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }

// unwritable is the refusal of a call that cannot be sent, as the server would word it.
func unwritable(method string, request proto.Message, err error) *Error {
	field := badText(request.ProtoReflect(), "")
	if field == "" {
		return &Error{Method: method, Err: err}
	}
	const reason = "is not valid UTF-8"
	return &Error{
		Method: method, CodeText: CodeInvalid, Message: field + ": " + reason,
		Details: map[string]string{"field": field, "reason": reason},
	}
}

// badText is the path of the first text that is not UTF-8, or empty.
func badText(m protoreflect.Message, at string) (path string) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		name := at + string(f.Name())
		switch {
		case f.IsMap():
			v.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
				if path = badValue(key.Value(), name); path == "" {
					path = badValue(value, name)
				}
				return path == ""
			})
		case f.IsList():
			for i := 0; i < v.List().Len() && path == ""; i++ {
				path = badValue(v.List().Get(i), fmt.Sprintf("%s[%d]", name, i))
			}
		default:
			path = badValue(v, name)
		}
		return path == ""
	})
	return path
}

func badValue(v protoreflect.Value, at string) string {
	switch x := v.Interface().(type) {
	case string:
		if !utf8.ValidString(x) {
			return at
		}
	case protoreflect.Message:
		return badText(x, at+".")
	}
	return ""
}
