package wirejson_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/api/wirejson"
	"github.com/posthaste-io/posthaste/queue"
)

var decoder = wirejson.NewDecoder(nil)

func TestDecoder_ReadsWhatIsMeant(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, in string
		want     proto.Message
	}{
		{"an empty object", ` {} `, &v1.ProduceRequest{}},
		{"an empty list", `{"items":[]}`, &v1.ProduceRequest{}},
		{"every kind of space", "\t{\r\n\"queue_name\" : \"q\"\n}\n", &v1.ProduceRequest{QueueName: "q"}},
		{"camelCase", `{"queueName":"q","requestTimeout":"1s"}`, &v1.ProduceRequest{QueueName: "q", RequestTimeout: "1s"}},
		{"both spellings, in different fields", `{"queue_name":"q","requestTimeout":"1s"}`, &v1.ProduceRequest{QueueName: "q", RequestTimeout: "1s"}},
		{"an escaped name", `{"queue\u005fname":"q"}`, &v1.ProduceRequest{QueueName: "q"}},
		{"every escape", `{"queue_name":"\"\\\/\b\f\n\r\t\u00e9\uD83D\uDE00x"}`, &v1.ProduceRequest{QueueName: "\"\\/\b\f\n\r\té😀x"}},
		{"text beyond ASCII", `{"queue_name":"grün \u0000 ok"}`, &v1.ProduceRequest{QueueName: "grün \x00 ok"}},
		{"the highest number", `{"batch_size":2147483647}`, &v1.LeaseRequest{BatchSize: 2147483647}},
		{"the lowest number", `{"batch_size":-2147483648}`, &v1.LeaseRequest{BatchSize: -2147483648}},
		{"minus zero", `{"batch_size":-0}`, &v1.LeaseRequest{}},
		{"a double with all that a number can have", `{"max_bytes":-1.5e+3}`, &v1.LeaseRequest{MaxBytes: -1500}},
		{"a bool", `{"text":true}`, &v1.LeaseRequest{Text: true}},
		{"false", `{"text":false}`, &v1.LeaseRequest{}},
		{"numbers in a list", `{"bury_on":[400, 404]}`, &v1.RetryPolicy{BuryOn: []int32{400, 404}}},
		{"texts in a list", `{"schedule":["1s","2s"]}`, &v1.RetryPolicy{Schedule: []string{"1s", "2s"}}},
		{"padded base64", `{"bytes":"AP8="}`, &v1.Produce{Bytes: []byte{0, 0xff}}},
		{"base64 without padding", `{"bytes":"AP8"}`, &v1.Produce{Bytes: []byte{0, 0xff}}},
		{"base64 with escapes", `{"bytes":"\/\/8="}`, &v1.Produce{Bytes: []byte{0xff, 0xff}}},
		{"no bytes, but given", `{"bytes":""}`, &v1.Produce{Bytes: []byte{}}},
		{"an instant in UTC", `{"enqueue_at":"2030-01-31T08:00:00.25Z"}`, &v1.Produce{EnqueueAt: at("2030-01-31T08:00:00.25Z")}},
		{"an instant with an offset", `{"enqueue_at":"2030-01-31T08:00:00+02:00"}`, &v1.Produce{EnqueueAt: at("2030-01-31T06:00:00Z")}},
		{"a map", `{"headers":{"b":"2","a":"1"}}`, &v1.Produce{Headers: map[string]string{"a": "1", "b": "2"}}},
		{"messages in messages", `{"items":[{"kind":"a"},{},{"kind":"c"}]}`, &v1.ProduceRequest{Items: []*v1.Produce{{Kind: "a"}, {}, {Kind: "c"}}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := c.want.ProtoReflect().New().Interface()
			if err := decoder.Decode([]byte(c.in), got); err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func at(s string) *timestamppb.Timestamp {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		panic(err)
	}
	return timestamppb.New(t)
}

// refusals says of a text which field is named, and a part of the reason.
var refusals = []struct {
	name, in, field, reason string
}{
	{"nothing", ``, "", "empty"},
	{"only space", ` `, "", "empty"},
	{"a byte order mark", "\xef\xbb\xbf{}", "", "wants an object"},
	{"a list", `[]`, "", "wants an object, got a list"},
	{"null", `null`, "", "got null"},
	{"a comment", `{/**/}`, "", "double quotes"},
	{"single quotes", `{'queue_name':1}`, "", "double quotes"},
	{"a bare name", `{queue_name:1}`, "", "double quotes"},
	{"a comma too many", `{"queue_name":"q",}`, "", "double quotes"},
	{"a comma too many in a list", `{"items":[{},]}`, "items[1]", "got no JSON value"},
	{"a comma too few", `{"queue_name":"q" "items":[]}`, "", "comma"},
	{"a colon too few", `{"queue_name" "q"}`, "", "colon"},
	{"no end of the object", `{"queue_name":"q"`, "", "closing brace"},
	{"no end of the list", `{"items":[{}`, "items[0]", "closing bracket"},
	{"no end of the string", `{"queue_name":"q`, "queue_name", "without an end"},
	{"no end of the escape", `{"queue_name":"\`, "queue_name", "without an end"},
	{"a second message", `{}{}`, "", "follows the message"},
	{"trailing data", `{} x`, "", "follows the message"},
	{"a NUL behind", "{}\x00", "", "follows the message"},

	{"an unknown field", `{"queue":"q"}`, "queue", "not a field"},
	{"an unknown field within", `{"items":[{},{"payload":1}]}`, "items[1].payload", "not a field"},
	{"another case", `{"Queue_Name":"q"}`, "Queue_Name", "not a field"},
	{"an unknown field of 10 kB", `{"` + strings.Repeat("x", 10_000) + `":1}`, strings.Repeat("x", 60) + "…", "not a field"},
	{"a field twice", `{"queue_name":"a","queue_name":"a"}`, "queue_name", "given twice"},
	{"a field in both spellings", `{"queue_name":"a","queueName":"a"}`, "queue_name", "given twice"},
	{"a field twice after unescaping", `{"queue_name":"a","queue\u005fname":"a"}`, "queue_name", "given twice"},
	{"a list twice", `{"items":[],"items":[]}`, "items", "given twice"},
	{"a field twice within", `{"items":[{"kind":"a","kind":"b"}]}`, "items[0].kind", "given twice"},
	{"a map key twice", `{"items":[{"headers":{"a":"1","\u0061":"2"}}]}`, "items[0].headers.a", "given twice"},

	{"a number for a text", `{"queue_name":1}`, "queue_name", "wants a string, got a number"},
	{"null for a text", `{"queue_name":null}`, "queue_name", "wants a string, got null"},
	{"a list for a text", `{"queue_name":["q"]}`, "queue_name", "wants a string, got a list"},
	{"an object for a list", `{"items":{}}`, "items", "wants a list, got an object"},
	{"a text for a list", `{"items":"x"}`, "items", "wants a list, got a string"},
	{"a list for a message", `{"items":[[]]}`, "items[0]", "wants an object, got a list"},
	{"a list for a map", `{"items":[{"headers":[]}]}`, "items[0].headers", "wants an object of strings, got a list"},
	{"a number in a map", `{"items":[{"headers":{"a":1}}]}`, "items[0].headers.a", "wants a string, got a number"},
	{"a number for an instant", `{"items":[{"enqueue_at":1}]}`, "items[0].enqueue_at", "RFC 3339"},
	{"a word that is none", `{"queue_name":nil}`, "queue_name", "got no JSON value"},

	{"bytes that are not UTF-8", "{\"queue_name\":\"\xff\"}", "queue_name", "not valid UTF-8"},
	{"a name that is not UTF-8", "{\"\xc3\x28\":1}", "", "not valid UTF-8"},
	{"bytes that are not UTF-8 behind an escape", "{\"queue_name\":\"\\n\xff\"}", "queue_name", "not valid UTF-8"},
	{"a surrogate as UTF-8", "{\"queue_name\":\"\xed\xa0\x80\"}", "queue_name", "not valid UTF-8"},
	{"an overlong NUL", "{\"queue_name\":\"\xc0\x80\"}", "queue_name", "not valid UTF-8"},
	{"a high surrogate alone", `{"queue_name":"\ud83d"}`, "queue_name", "lone surrogate"},
	{"a low surrogate alone", `{"queue_name":"\ude00x"}`, "queue_name", "lone surrogate"},
	{"two high surrogates", `{"queue_name":"\ud83d\ud83d"}`, "queue_name", "lone surrogate"},
	{"a high surrogate before another escape", `{"queue_name":"\ud83d\n"}`, "queue_name", "lone surrogate"},
	{"a high surrogate before a short escape", `{"queue_name":"\ud83d\u12"}`, "queue_name", "lone surrogate"},
	{"a short escape", `{"queue_name":"\u12"}`, "queue_name", "four hexadecimal digits"},
	{"an unknown escape", `{"queue_name":"\x41"}`, "queue_name", "escape that JSON does not have"},
	{"a line break in a text", "{\"queue_name\":\"a\nb\"}", "queue_name", "control character"},
	{"a NUL in a text", "{\"queue_name\":\"a\x00b\"}", "queue_name", "control character"},

	{"base64 for URLs", `{"items":[{"bytes":"_-8="}]}`, "items[0].bytes", "not standard base64"},
	{"base64 with a space", `{"items":[{"bytes":"AP 8="}]}`, "items[0].bytes", "not standard base64"},
	{"base64 with a line break", `{"items":[{"bytes":"AP8=\n"}]}`, "items[0].bytes", "line break"},
	{"base64 with half a padding", `{"items":[{"bytes":"AA="}]}`, "items[0].bytes", "not standard base64"},
	{"base64 with bits left over", `{"items":[{"bytes":"AP9"}]}`, "items[0].bytes", "not standard base64"},
	{"base64 of one character", `{"items":[{"bytes":"A"}]}`, "items[0].bytes", "not standard base64"},

	{"an instant without an offset", `{"items":[{"enqueue_at":"2030-01-31T08:00:00"}]}`, "items[0].enqueue_at", "RFC 3339"},
	{"an instant with a leap second", `{"items":[{"enqueue_at":"2016-12-31T23:59:60Z"}]}`, "items[0].enqueue_at", "RFC 3339"},
	{"an instant with a short hour", `{"items":[{"enqueue_at":"2030-01-31T8:00:00Z"}]}`, "items[0].enqueue_at", "RFC 3339"},
	{"an instant with a comma", `{"items":[{"enqueue_at":"2030-01-31T08:00:00,5Z"}]}`, "items[0].enqueue_at", "RFC 3339"},
	{"an offset of a day", `{"items":[{"enqueue_at":"2030-01-31T08:00:00+24:00"}]}`, "items[0].enqueue_at", "RFC 3339"},
	{"an offset of 60 minutes", `{"items":[{"enqueue_at":"2030-01-31T08:00:00+00:60"}]}`, "items[0].enqueue_at", "RFC 3339"},
	{"a date", `{"items":[{"enqueue_at":"2030-01-31"}]}`, "items[0].enqueue_at", "RFC 3339"},
	{"a day that is none", `{"items":[{"enqueue_at":"2030-02-30T08:00:00Z"}]}`, "items[0].enqueue_at", "RFC 3339"},
	{"an instant past the year 9999", `{"items":[{"enqueue_at":"9999-12-31T23:59:59-01:00"}]}`, "items[0].enqueue_at", "RFC 3339"},
	{"the year 0", `{"items":[{"enqueue_at":"0000-01-01T00:00:00Z"}]}`, "items[0].enqueue_at", "RFC 3339"},
}

func TestI03_DecoderRefusesWhatCanBeReadInTwoWays(t *testing.T) {
	t.Parallel()
	for _, c := range refusals {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			checkRefusal(t, decoder.Decode([]byte(c.in), new(v1.ProduceRequest)), c.field, c.reason)
		})
	}
}

func checkRefusal(t *testing.T, err error, field, reason string) {
	t.Helper()
	invalid, ok := errors.AsType[*queue.InvalidError](err)
	if !ok {
		t.Fatalf("got %v, want an InvalidError", err)
	}
	if invalid.Field != field || !strings.Contains(invalid.Reason, reason) {
		t.Errorf("got %q: %q, want %q: …%s…", invalid.Field, invalid.Reason, field, reason)
	}
}

func TestI09_NumbersAreWholeAndInRange(t *testing.T) {
	t.Parallel()
	for number, reason := range map[string]string{
		"2147483648": "out of range", "-2147483649": "out of range",
		"9007199254740993": "out of range", "99999999999999999999": "out of range",
		"1.0": "whole number", "1.5": "whole number", "1e3": "whole number", "1E0": "whole number", "1e309": "whole number",
		"01": "not a number", "-01": "not a number", "00": "not a number", "-": "not a number", "1.": "not a number",
		"1e": "not a number", "1e+": "not a number", "0x10": "not a number", "1_000": "not a number", "1.2.3": "not a number",
		"+1": "got no JSON value", ".5": "got no JSON value", "NaN": "got no JSON value", "Infinity": "got no JSON value",
		`"5"`: "got a string", "true": "got a bool", "null": "got null", "{}": "got an object",
	} {
		t.Run(number, func(t *testing.T) {
			t.Parallel()
			err := decoder.Decode([]byte(`{"batch_size":`+number+`}`), new(v1.LeaseRequest))
			checkRefusal(t, err, "batch_size", reason)
		})
	}
	for number, reason := range map[string]string{
		"1e309": "out of range", "-1e309": "out of range", "NaN": "got no JSON value", `"5"`: "got a string",
	} {
		t.Run("double "+number, func(t *testing.T) {
			t.Parallel()
			err := decoder.Decode([]byte(`{"max_bytes":`+number+`}`), new(v1.LeaseRequest))
			checkRefusal(t, err, "max_bytes", reason)
		})
	}
}

func TestI02_MuchFromLittleIsRefused(t *testing.T) {
	list := func(n int) string {
		return `{"items":[` + strings.Repeat("{},", n-1) + `{}]}`
	}
	if err := decoder.Decode([]byte(list(wirejson.MaxList)), new(v1.ProduceRequest)); err != nil {
		t.Errorf("a full list: got %v, want nil", err)
	}
	err := decoder.Decode([]byte(list(wirejson.MaxList+1)), new(v1.ProduceRequest))
	if large, ok := errors.AsType[*queue.TooLargeError](err); !ok || large.Field != "items" || large.Limit != wirejson.MaxList {
		t.Errorf("one entry more: got %v, want items to be too large", err)
	}

	var b strings.Builder
	b.WriteString(`{"items":[{"headers":{"a":""`)
	for i := range wirejson.MaxTokens {
		b.WriteString(`,"` + strings.Repeat("x", i%7) + queue.NewID().String() + `":""`)
	}
	b.WriteString(`}}]}`)
	err = decoder.Decode([]byte(b.String()), new(v1.ProduceRequest))
	if large, ok := errors.AsType[*queue.TooLargeError](err); !ok || large.Limit != wirejson.MaxTokens {
		t.Errorf("too many headers: got %v, want the body to be too large", err)
	}

	for _, open := range []string{"[", `{"items":`, `{"items":[`, `{"a":`} {
		deep := `{"items":` + strings.Repeat(open, 1_000_000)
		body := []byte(deep)
		allocations := testing.AllocsPerRun(10, func() {
			err = decoder.Decode(body, new(v1.ProduceRequest))
		})
		if err == nil || allocations > 50 {
			t.Errorf("a million times %q: error %v, %v allocations", open, err, allocations)
		}
	}
}

func TestDecoder_NamesWhatComesLater(t *testing.T) {
	t.Parallel()
	decoder := wirejson.NewDecoder(wirejson.Later{"posthaste.v1.Produce": {"group_key"}})
	for _, name := range []string{"group_key", "groupKey"} {
		err := decoder.Decode([]byte(`{"items":[{},{"`+name+`":"k"}]}`), new(v1.ProduceRequest))
		if later, ok := errors.AsType[*queue.UnsupportedError](err); !ok || later.What != "field items[1]."+name {
			t.Errorf("%s: got %v, want an UnsupportedError that names items[1].%[1]s", name, err)
		}
	}
	err := decoder.Decode([]byte(`{"group_key":"k"}`), new(v1.ProduceRequest))
	checkRefusal(t, err, "group_key", "not a field")
}

func TestDecoder_KeepsNothingOfItsInput(t *testing.T) {
	t.Parallel()
	in := []byte(`{"queue_name":"orders","items":[{"kind":"k\u0061","utf8":"text","bytes":"AAAA","headers":{"h":"v"}}]}`)
	m := new(v1.ProduceRequest)
	if err := decoder.Decode(in, m); err != nil {
		t.Fatal(err)
	}
	before := proto.Clone(m)
	clear(in)
	if !proto.Equal(m, before) {
		t.Errorf("the message changed with its input: %v", m)
	}
}

func TestDecoder_TellsAnEmptyListFromNone(t *testing.T) {
	t.Parallel()
	m := new(v1.Subscription)
	if err := decoder.Decode([]byte(`{"headers":{},"retry":{"bury_on":[],"schedule":[]}}`), m); err != nil {
		t.Fatal(err)
	}
	if m.Headers == nil || m.Retry.BuryOn == nil || m.Retry.Schedule == nil {
		t.Errorf("given and empty, but nil: %#v %#v %#v", m.Headers, m.Retry.BuryOn, m.Retry.Schedule)
	}
}
