package wirejson_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/api/wirejson"
)

func produceBody(items int) []byte {
	payload := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 200)))
	item := `{"kind":"order.created","encoding":"application/json","reference":"customer-17","bytes":"` + payload + `"}`
	return []byte(`{"queue_name":"orders","items":[` + strings.Repeat(item+",", items-1) + item + `]}`)
}

func BenchmarkDecodeProduce(b *testing.B) {
	for _, items := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("items=%d", items), func(b *testing.B) {
			body := produceBody(items)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := decoder.Decode(body, new(v1.ProduceRequest)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncodeLease(b *testing.B) {
	for _, items := range []int{1, 100} {
		b.Run(fmt.Sprintf("items=%d", items), func(b *testing.B) {
			reply := &v1.LeaseReply{QueueName: "orders"}
			now := timestamppb.New(time.Now())
			for range items {
				reply.Items = append(reply.Items, &v1.Leased{
					Encoding: "application/json", Kind: "order.created", Reference: "customer-17",
					Id: strings.Repeat("r", 71), Receipt: strings.Repeat("r", 71), ItemId: strings.Repeat("i", 36),
					Attempts: 1, LeaseDeadline: now, CreatedAt: now, Bytes: []byte(strings.Repeat("x", 200)),
				})
			}
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				buf = wirejson.Append(buf[:0], reply)
			}
			b.SetBytes(int64(len(buf)))
		})
	}
}
