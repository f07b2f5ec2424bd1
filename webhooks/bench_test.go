package webhooks

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
)

// BenchmarkSend is a push to an endpoint that answers at once on a connection that is kept.
func BenchmarkSend(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for r := bufio.NewReader(c); ; {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					io.Copy(io.Discard, req.Body)
					io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				}
			}()
		}
	}()
	rule, err := ParseAllow("127.0.0.0/8")
	if err != nil {
		b.Fatal(err)
	}
	s := NewSender(SenderOptions{Guard: NewGuard(GuardOptions{Allow: []AllowRule{rule}})})
	defer s.Close()
	r := request("http://" + l.Addr().String() + "/hook")
	r.Info = Info{Queue: "orders", Subscription: "billing", Attempt: 1}
	b.ReportAllocs()
	for b.Loop() {
		if got := s.Send(b.Context(), r); got.Verdict != Delivered {
			b.Fatal(got.Error)
		}
	}
}
