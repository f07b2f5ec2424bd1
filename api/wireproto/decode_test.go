package wireproto_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/api/wireproto"
	"github.com/posthaste-io/posthaste/queue"
)

// Parts of messages, written by hand: the library writes nothing that is wrong.

func varint(number protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), v)
}

func text(number protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

// sub is a message within another one.
func sub(number protowire.Number, fields ...[]byte) []byte {
	return text(number, string(bytes.Join(fields, nil)))
}

func double(number protowire.Number, v float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(nil, number, protowire.Fixed64Type), math.Float64bits(v))
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func TestDecode_ReadsWhatIsMeant(t *testing.T) {
	t.Parallel()
	negative := int64(-5)
	cases := []struct {
		name string
		in   []byte
		want proto.Message
	}{
		{"nothing", nil, &v1.ProduceRequest{}},
		{"a text", text(1, "grün \x00 ok"), &v1.ProduceRequest{QueueName: "grün \x00 ok"}},
		{"a text twice", join(text(1, "a"), text(1, "b")), &v1.ProduceRequest{QueueName: "b"}},
		{"two messages that are one", join(sub(8, varint(1, 3)), sub(8, text(3, "1s"))), &v1.Subscription{Retry: &v1.RetryPolicy{MaxAttempts: 3, MinBackoff: "1s"}}},
		{"any order", join(text(2, "1s"), text(1, "a")), &v1.ProduceRequest{QueueName: "a", RequestTimeout: "1s"}},
		{"messages in messages", join(sub(3, text(2, "a")), sub(3), sub(3, text(2, "c"))), &v1.ProduceRequest{Items: []*v1.Produce{{Kind: "a"}, {}, {Kind: "c"}}}},
		{"no bytes, but given", text(5, ""), &v1.Produce{Bytes: []byte{}}},
		{"bytes that are no text", text(5, "\xff\x00"), &v1.Produce{Bytes: []byte{0xff, 0}}},
		{"a map", join(sub(22, text(1, "a"), text(2, "1")), sub(22, text(2, "2"), text(1, "b"))), &v1.Produce{Headers: map[string]string{"a": "1", "b": "2"}}},
		{"a map's key twice", join(sub(22, text(1, "a"), text(2, "1")), sub(22, text(1, "a"), text(2, "2"))), &v1.Produce{Headers: map[string]string{"a": "2"}}},
		{"an entry of a map with neither", sub(22), &v1.Produce{Headers: map[string]string{"": ""}}},
		{"an instant", sub(4, varint(1, 1), varint(2, 999_999_999)), &v1.Produce{EnqueueAt: &timestamppb.Timestamp{Seconds: 1, Nanos: 999_999_999}}},
		{"an instant before 1970", sub(4, varint(1, uint64(negative))), &v1.Produce{EnqueueAt: &timestamppb.Timestamp{Seconds: -5}}},
		{"a negative number", varint(23, uint64(negative)), &v1.Produce{MaxAttempts: -5}},
		{"the highest number", varint(2, math.MaxInt32), &v1.LeaseRequest{BatchSize: math.MaxInt32}},
		{"a number with more bytes than it needs", []byte{2 << 3, 0x81, 0x80, 0x00}, &v1.LeaseRequest{BatchSize: 1}},
		{"zero, but given", varint(2, 0), &v1.CompleteRequest{Partition: new(int32)}},
		{"a double", double(21, 1.5), &v1.LeaseRequest{MaxBytes: 1.5}},
		{"true", varint(22, 1), &v1.LeaseRequest{Text: true}},
		{"numbers, packed", text(7, "\x90\x03\x94\x03"), &v1.RetryPolicy{BuryOn: []int32{400, 404}}},
		{"numbers, each by itself", join(varint(7, 400), varint(7, 404)), &v1.RetryPolicy{BuryOn: []int32{400, 404}}},
		{"numbers in both ways", join(varint(7, 400), text(7, "\x94\x03")), &v1.RetryPolicy{BuryOn: []int32{400, 404}}},
		{"no numbers, packed", text(7, ""), &v1.RetryPolicy{}},
		{"texts in a list", join(text(2, "1s"), text(2, "2s")), &v1.RetryPolicy{Schedule: []string{"1s", "2s"}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := c.want.ProtoReflect().New().Interface()
			if err := wireproto.Decode(c.in, got); err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// refusals say of bytes which field is named, and a part of the reason.
var refusals = []struct {
	name          string
	in            []byte
	m             proto.Message
	field, reason string
}{
	{"JSON", []byte(`{"queue_name":"q"}`), new(v1.ProduceRequest), "", "Content-Type: application/json"},
	{"field number 0", []byte{0, 1}, new(v1.ProduceRequest), "", "no protobuf field"},
	{"half of a tag", []byte{0x80}, new(v1.ProduceRequest), "", "no protobuf field"},
	{"half of a tag behind a field", join(text(1, "q"), []byte{0xff}), new(v1.ProduceRequest), "", "byte 3: no protobuf field"},
	{"a tag without a value", []byte{1<<3 | 2}, new(v1.ProduceRequest), "queue_name", "byte 1: the message ends"},
	{"a text that ends early", text(1, "queue")[:4], new(v1.ProduceRequest), "queue_name", "the message ends"},
	{"a length of 2⁶⁴-1", join([]byte{1<<3 | 2}, protowire.AppendVarint(nil, math.MaxUint64)), new(v1.ProduceRequest), "queue_name", "the message ends"},
	{"a number that ends early", []byte{2 << 3, 0x80}, new(v1.LeaseRequest), "batch_size", "the message ends"},
	{"a number of eleven bytes", append([]byte{2 << 3}, bytes.Repeat([]byte{0x80}, 11)...), new(v1.LeaseRequest), "batch_size", "64 bits"},
	{"a double that ends early", double(21, 1)[:8], new(v1.LeaseRequest), "max_bytes", "the message ends"},
	{"a field that ends behind its message", sub(3, text(2, "kind")[:3]), new(v1.ProduceRequest), "items[0].kind", "the message ends"},
	{"a packed number that ends early", text(7, "\x90"), new(v1.RetryPolicy), "bury_on[0]", "the message ends"},
	{"a group", []byte{3<<3 | 3, 3<<3 | 4}, new(v1.ProduceRequest), "", "a group, field number 3"},
	{"the end of a group", sub(3, []byte{3<<3 | 4}), new(v1.ProduceRequest), "items[0]", "a group"},

	{"a number for a text", varint(1, 1), new(v1.ProduceRequest), "queue_name", "has wire type 0, want 2"},
	{"a text for a number", text(2, "1"), new(v1.LeaseRequest), "batch_size", "has wire type 2, want 0"},
	{"a number for a message", join(sub(3), varint(3, 1)), new(v1.ProduceRequest), "items[1]", "has wire type 0, want 2"},
	{"four bytes for a double", protowire.AppendTag(nil, 21, protowire.Fixed32Type), new(v1.LeaseRequest), "max_bytes", "has wire type 5, want 1"},
	{"a double in a list of numbers", double(7, 1), new(v1.RetryPolicy), "bury_on[0]", "has wire type 1, want 0"},
	{"a wire type that does not exist", []byte{1<<3 | 7}, new(v1.ProduceRequest), "queue_name", "has wire type 7, want 2"},
	{"a map's value of another type", sub(3, sub(22, varint(2, 1))), new(v1.ProduceRequest), "items[0].headers[0].value", "has wire type 0"},

	{"text that is not UTF-8", text(1, "\xff"), new(v1.ProduceRequest), "queue_name", "byte 2: not valid UTF-8"},
	{"text that is not UTF-8, within", join(sub(3), sub(3, text(2, "\xc3\x28"))), new(v1.ProduceRequest), "items[1].kind", "not valid UTF-8"},
	{"a lone surrogate", text(1, "\xed\xa0\x80"), new(v1.ProduceRequest), "queue_name", "not valid UTF-8"},
	{"a list's text that is not UTF-8", join(text(20, "a"), text(20, "\xff")), new(v1.CompleteRequest), "receipts[1]", "not valid UTF-8"},
	{"a map's key that is not UTF-8", sub(3, sub(22, text(1, "\xff"))), new(v1.ProduceRequest), "items[0].headers[0].key", "not valid UTF-8"},
	{"a map's value that is not UTF-8", sub(3, sub(22, text(1, "a")), sub(22, text(2, "\xff"))), new(v1.ProduceRequest), "items[0].headers[1].value", "not valid UTF-8"},

	{"a number above int32", varint(2, math.MaxInt32+1), new(v1.LeaseRequest), "batch_size", "2147483648 is out of range"},
	{"a number below int32", varint(23, math.MaxUint64-math.MaxInt32-1), new(v1.Produce), "max_attempts", "-2147483649 is out of range"},
	{"a packed number above int32", text(7, "\x01\xff\xff\xff\xff\x0f"), new(v1.RetryPolicy), "bury_on[1]", "out of range"},
	{"a bool of 2", varint(22, 2), new(v1.LeaseRequest), "text", "wants 0 or 1"},
	{"no number", double(21, math.NaN()), new(v1.LeaseRequest), "max_bytes", "wants a number, got NaN"},
	{"infinity", double(21, math.Inf(-1)), new(v1.LeaseRequest), "max_bytes", "wants a number, got -Inf"},
	{"an instant in the year 10000", sub(4, varint(1, 253_402_300_800)), new(v1.Produce), "enqueue_at.seconds", "out of range"},
	{"an instant before the year 1", sub(4, varint(1, uint64(math.MaxUint64-62_135_596_800))), new(v1.Produce), "enqueue_at.seconds", "out of range"},
	{"an instant with a billion nanoseconds", sub(4, varint(2, 1_000_000_000)), new(v1.Produce), "enqueue_at.nanos", "out of range"},
	{"an instant with negative nanoseconds", sub(4, varint(2, math.MaxUint64)), new(v1.Produce), "enqueue_at.nanos", "-1 is out of range"},
}

func TestI03_WhatCannotBeUnderstoodIsRefusedByName(t *testing.T) {
	t.Parallel()
	for _, c := range refusals {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := wireproto.Decode(c.in, proto.Clone(c.m))
			invalid, ok := errors.AsType[*queue.InvalidError](err)
			if !ok {
				t.Fatalf("got %v, want an invalid field", err)
			}
			if invalid.Field != c.field || !strings.Contains(invalid.Reason, c.reason) {
				t.Errorf("got %q, %q; want %q, …%s…", invalid.Field, invalid.Reason, c.field, c.reason)
			}
		})
	}
}

func TestI03_UnknownFieldNumbersAreNotSupported(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		in          []byte
		field, text string
	}{
		{"of the message", varint(99, 1), "99", "field number 99 is not supported by this release"},
		{"between two that are known", varint(10, 1), "10", "field number 10 is not"},
		{"the highest", varint(protowire.MaxValidNumber, 1), "536870911", "field number 536870911 is not"},
		{"within a list's entry", join(sub(3), sub(3), sub(3), sub(3, text(99, "x"))), "items[3].99", "items[3]: field number 99 is not supported by this release"},
		{"within an instant", sub(3, sub(4, varint(3, 1))), "items[0].enqueue_at.3", "items[0].enqueue_at: field number 3 is not"},
		{"within an entry of a map", sub(3, sub(22, text(3, "x"))), "items[0].headers[0].3", "items[0].headers[0]: field number 3 is not"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := wireproto.Decode(c.in, new(v1.ProduceRequest))
			unsupported, ok := errors.AsType[*queue.UnsupportedError](err)
			if !ok {
				t.Fatalf("got %v, want it not supported", err)
			}
			if unsupported.Field != c.field || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %q, %q; want %q, %q", unsupported.Field, err, c.field, c.text)
			}
		})
	}
}

// bombs make much of little.
func bombs() map[string]struct {
	in    []byte
	m     proto.Message
	field string
} {
	type bomb = struct {
		in    []byte
		m     proto.Message
		field string
	}
	const size = 5_000_000
	fill := func(part []byte) []byte { return bytes.Repeat(part, size/len(part)) }
	var keys []byte
	for i := 0; len(keys) < size-100; i++ {
		keys = append(keys, sub(22, text(1, fmt.Sprint(i)))...)
	}
	return map[string]bomb{
		"empty items":            {fill(sub(3)), new(v1.ProduceRequest), "items"},
		"empty receipts":         {fill(text(20, "")), new(v1.CompleteRequest), "receipts"},
		"packed numbers":         {sub(8, text(7, strings.Repeat("\x01", size))), new(v1.Subscription), "retry.bury_on"},
		"entries of a map":       {sub(3, keys), new(v1.ProduceRequest), "items[0].headers"},
		"entries of few maps":    {fill(sub(3, bytes.Repeat(sub(22), 900))), new(v1.ProduceRequest), "body"},
		"a field again and over": {fill(varint(2, 1)), new(v1.LeaseRequest), "body"},
		"a message in many part": {fill(sub(8, text(2, ""))), new(v1.Subscription), "body"},
	}
}

func TestI02_MuchOfLittleIsRefusedBeforeItIsAllocated(t *testing.T) {
	// Not parallel: others would allocate meanwhile.
	for name, c := range bombs() {
		t.Run(name, func(t *testing.T) {
			var err error
			used := leastAllocated(func() { err = wireproto.Decode(c.in, c.m) }, 64<<10)
			large, ok := errors.AsType[*queue.TooLargeError](err)
			if !ok || large.Field != c.field {
				t.Errorf("got %v, want %s over a limit", err, c.field)
			}
			if used > 64<<10 {
				t.Errorf("%d bytes were allocated before it was refused", used)
			}
		})
	}
}

func TestI02_TheLargestCallIsTaken(t *testing.T) {
	t.Parallel()
	item := &v1.Produce{
		Encoding: "e", Kind: "k", Reference: "r", EnqueueAt: timestamppb.Now(), Bytes: []byte("b"), Utf8: "u", Delay: "1s",
		IdempotencyKey: "i", Headers: map[string]string{}, MaxAttempts: 1, ExpireTimeout: "1h",
	}
	for i := range 10 {
		item.Headers[fmt.Sprint("X-", i)] = "v"
	}
	request := &v1.ProduceRequest{QueueName: "q", RequestTimeout: "1s"}
	for range wireproto.MaxList {
		request.Items = append(request.Items, item)
	}
	got := new(v1.ProduceRequest)
	if err := wireproto.Decode(wireproto.Append(nil, request), got); err != nil || !proto.Equal(got, request) {
		t.Errorf("got %d items, %v; want them as they were", len(got.GetItems()), err)
	}
}

func TestDecode_KeepsNothingOfTheBytes(t *testing.T) {
	t.Parallel()
	want := &v1.ProduceRequest{QueueName: "orders", Items: []*v1.Produce{{Kind: "kind", Bytes: []byte("bytes"), Headers: map[string]string{"a": "b"}}}}
	data := wireproto.Append(nil, want)
	got := new(v1.ProduceRequest)
	if err := wireproto.Decode(data, got); err != nil {
		t.Fatal(err)
	}
	clear(data)
	if !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
