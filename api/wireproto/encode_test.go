package wireproto_test

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/api/wireproto"
)

func TestAppend_WritesBehindWhatIsThere(t *testing.T) {
	t.Parallel()
	m := &v1.ProduceReply{Code: 200, CodeText: "ok", Items: []*v1.Produced{{ItemId: "i"}}, Details: map[string]string{"a": "1", "b": "2", "c": "3"}}
	out := wireproto.Append([]byte("head"), m)
	got := new(v1.ProduceReply)
	if err := proto.Unmarshal(bytes.TrimPrefix(out, []byte("head")), got); err != nil || !proto.Equal(got, m) {
		t.Errorf("got %v, %v; want %v", got, err, m)
	}
	for range 20 {
		if again := wireproto.Append([]byte("head"), m); !bytes.Equal(again, out) {
			t.Fatalf("the same message is %x and %x", out, again)
		}
	}
}

func TestAppend_MakesTextsValid(t *testing.T) {
	t.Parallel()
	m := &v1.LeaseReply{QueueName: "a\xff\xfeb", Items: []*v1.Leased{
		{LastError: "\xc3", Bytes: []byte("\xff")},
		{Headers: map[string]string{"good": "grün", "bad": "\xff", "\xff": "x"}},
	}}
	want := &v1.LeaseReply{QueueName: "a��b", Items: []*v1.Leased{
		{LastError: "�", Bytes: []byte("\xff")},
		{Headers: map[string]string{"good": "grün", "bad": "�", "�": "x"}},
	}}
	got := new(v1.LeaseReply)
	if err := wireproto.Decode(wireproto.Append(nil, m), got); err != nil || !proto.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if m.GetQueueName() != "a\xff\xfeb" {
		t.Error("the message itself was changed")
	}
	settled := &v1.CountReply{NotFound: []string{"ok", "\xff"}}
	list := new(v1.CountReply)
	if err := wireproto.Decode(wireproto.Append(nil, settled), list); err != nil || list.GetNotFound()[1] != "�" {
		t.Errorf("got %v, %v; want U+FFFD in the list", list, err)
	}
}
