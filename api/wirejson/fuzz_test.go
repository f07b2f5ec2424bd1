package wirejson_test

import (
	"encoding/json"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/api/wirejson"
)

// FuzzDecoder holds that what is accepted is JSON, is what the protobuf library
// reads out of it, and comes back whole from the writer.
func FuzzDecoder(f *testing.F) {
	for _, c := range refusals {
		f.Add([]byte(c.in))
	}
	f.Add([]byte(`{"queue_name":"orders","items":[{"bytes":"AP8=","kind":"k","headers":{"a":"1"},"max_attempts":-1,"enqueue_at":"2030-01-31T08:00:00.5+02:00"}]}`))
	f.Add([]byte(`{"queueName":"\uD83D\uDE00","items":[{"utf8":"x"},{}]}`))
	f.Add([]byte(`{"batch_size":1000,"max_bytes":1e6,"text":true}`))
	f.Add([]byte(`{"name":"s","headers":{},"retry":{"schedule":["1s"],"multiplier":1.5,"bury_on":[400]},"lane":{"window":3}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, m := range []proto.Message{new(v1.ProduceRequest), new(v1.LeaseRequest), new(v1.Subscription), new(v1.RetryRequest)} {
			checkAccepted(t, data, m)
		}
	})
}

func checkAccepted(t *testing.T, data []byte, m proto.Message) {
	if decoder.Decode(data, m) != nil {
		return
	}
	if !json.Valid(data) {
		t.Errorf("accepted, but not JSON: %q", data)
	}
	other := m.ProtoReflect().New().Interface()
	if err := protojson.Unmarshal(data, other); err != nil {
		t.Errorf("accepted, but protojson says %v: %q", err, data)
	} else if !proto.Equal(m, other) {
		t.Errorf("read as %v, but protojson reads %v: %q", m, other, data)
	}
	written := wirejson.Append(nil, m)
	again := m.ProtoReflect().New().Interface()
	if err := decoder.Decode(written, again); err != nil || !proto.Equal(m, again) {
		t.Errorf("%q was written as %s, which reads as %v, %v", data, written, again, err)
	}
}
