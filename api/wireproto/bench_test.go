package wireproto_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/api/wireproto"
)

// The messages are those of the benchmarks of JSON.

func BenchmarkDecodeProduce(b *testing.B) {
	for _, items := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("items=%d", items), func(b *testing.B) {
			request := &v1.ProduceRequest{QueueName: "orders"}
			for range items {
				request.Items = append(request.Items, &v1.Produce{
					Kind: "order.created", Encoding: "application/json", Reference: "customer-17", Bytes: []byte(strings.Repeat("x", 200)),
				})
			}
			body := wireproto.Append(nil, request)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := wireproto.Decode(body, new(v1.ProduceRequest)); err != nil {
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
				buf = wireproto.Append(buf[:0], reply)
			}
			b.SetBytes(int64(len(buf)))
		})
	}
}
