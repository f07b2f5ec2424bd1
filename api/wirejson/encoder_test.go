package wirejson_test

import (
	"encoding/json"
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/api/wirejson"
)

func TestAppend_WritesNumbersAlwaysAndTextsIfSet(t *testing.T) {
	t.Parallel()
	text := ""
	cases := []struct {
		name string
		in   proto.Message
		want string
	}{
		{"a reply", &v1.Reply{Code: 200, CodeText: "ok"}, `{"code":200,"code_text":"ok"}`},
		{"a reply with details", &v1.Reply{Code: 400, Details: map[string]string{"b": "2", "a": "1"}}, `{"code":400,"details":{"a":"1","b":"2"}}`},
		{"zeros and no items", &v1.LeaseReply{}, `{"partition":0,"items":[]}`},
		{"false", &v1.Produced{ItemId: "x"}, `{"item_id":"x","duplicate":false}`},
		{"an empty payload", &v1.Leased{Bytes: []byte{}}, `{"attempts":0,"bytes":"","recoveries":0}`},
		{"an empty text payload", &v1.Leased{Utf8: &text}, `{"attempts":0,"utf8":"","recoveries":0}`},
		{"bytes", &v1.Leased{Bytes: []byte{0, 0xff, 0xfe, 1}}, `{"attempts":0,"bytes":"AP/+AQ==","recoveries":0}`},
		{"an instant", &v1.Retry{RetryAt: at("2030-01-31T08:00:00.25+02:00")}, `{"retry_at":"2030-01-31T06:00:00.25Z","dead":false}`},
		{"a double", &v1.LeaseRequest{MaxBytes: 4e6}, `{"batch_size":0,"max_bytes":4000000,"text":false}`},
		{"no number", &v1.LeaseRequest{MaxBytes: math.Inf(1)}, `{"batch_size":0,"max_bytes":0,"text":false}`},
		{"what must be escaped", &v1.Retry{Reason: "\"\\\n\r\t\x01\x1f/é😀\u2028"}, `{"dead":false,"reason":"\"\\\n\r\t\u0001\u001f/é😀` + "\u2028" + `"}`},
		{"what is not UTF-8", &v1.Retry{Reason: "a\xffb\xc3"}, `{"dead":false,"reason":"a` + "\uFFFD" + `b` + "\uFFFD" + `"}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := wirejson.Append([]byte("x"), c.in)[1:]
			if string(got) != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if !json.Valid(got) {
				t.Errorf("not JSON: %s", got)
			}
		})
	}
}
