package wireproto_test

import (
	"math"
	"runtime/metrics"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/api/wireproto"
)

// FuzzDecode holds that what is accepted is what the protobuf library reads, has
// nothing that we do not know, is small for its bytes, and comes back whole from the
// writer.
func FuzzDecode(f *testing.F) {
	for _, c := range refusals {
		f.Add(c.in)
	}
	f.Add(join(text(1, "orders"), text(2, "1s"), sub(3, text(2, "k"), text(5, "\x00\xff"), sub(22, text(1, "a"), text(2, "1")), varint(23, 3), sub(4, varint(1, 1), varint(2, 5)))))
	f.Add(join(text(1, "orders"), varint(2, 1000), text(4, "1s"), double(21, 1e6), varint(22, 1)))
	f.Add(join(text(1, "s"), text(3, "https://example.com"), sub(5, text(1, "a"), text(2, "b")), sub(8, text(2, "1s"), double(5, 1.5), text(7, "\x90\x03")), sub(16, varint(1, 3))))
	f.Add(join(text(1, "orders"), sub(3, text(1, "receipt"), sub(2, varint(1, 1)), varint(3, 1), text(20, "1s"))))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, m := range []proto.Message{new(v1.ProduceRequest), new(v1.LeaseRequest), new(v1.Subscription), new(v1.RetryRequest), new(v1.CompleteRequest)} {
			checkDecoded(t, data, m)
		}
	})
}

func checkDecoded(t *testing.T, data []byte, m proto.Message) {
	var err error
	used := leastAllocated(func() { err = wireproto.Decode(data, m) }, bound(data))
	if used > bound(data) {
		t.Errorf("%d bytes made %d, %v: %x", len(data), used, err, data)
	}
	if err != nil {
		return
	}
	other := m.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(data, other); err != nil || !proto.Equal(m, other) {
		t.Errorf("read as %v, but the library reads %v, %v: %x", m, other, err, data)
	}
	if hasUnknown(m.ProtoReflect()) {
		t.Errorf("accepted with a field that nobody knows: %x", data)
	}
	written := wireproto.Append(nil, m)
	again := m.ProtoReflect().New().Interface()
	if err := wireproto.Decode(written, again); err != nil || !proto.Equal(m, again) {
		t.Errorf("%x was written as %x, which reads as %v, %v", data, written, again, err)
	}
}

// bound is what reading data may allocate: each field has two bytes at least, and none
// makes more than an item.
func bound(data []byte) uint64 { return uint64(64<<10 + 400*len(data)) }

// leastAllocated runs f again if it allocated more than the bound: what the runtime does
// meanwhile is counted as well, but not every time.
func leastAllocated(f func(), bound uint64) uint64 {
	least := uint64(math.MaxUint64)
	for range 10 {
		before := allocated()
		f()
		if least = min(least, allocated()-before); least <= bound {
			break
		}
	}
	return least
}

// allocated counts all bytes that were ever allocated, without stopping the world.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func hasUnknown(m protoreflect.Message) bool {
	found := len(m.GetUnknown()) > 0
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Kind() != protoreflect.MessageKind || fd.IsMap():
		case fd.IsList():
			for i := range v.List().Len() {
				found = found || hasUnknown(v.List().Get(i).Message())
			}
		default:
			found = found || hasUnknown(v.Message())
		}
		return !found
	})
	return found
}
