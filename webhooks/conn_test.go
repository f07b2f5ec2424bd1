package webhooks

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An endpoint may refuse a body without reading it, and be heard all the same.
func TestSend_AnswerBeforeTheBodyIsRead(t *testing.T) {
	t.Parallel()
	const refused = "HTTP/1.1 413 x\r\nContent-Length: 3\r\n\r\nbig"
	for name, closes := range map[string]bool{"and waits": false, "and closes": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := serve(t, func(_ *endpoint, c net.Conn, _ int) {
				if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					io.WriteString(c, refused)
					if closes {
						c.(*net.TCPConn).CloseWrite()
					}
					<-t.Context().Done()
				}
			})
			r := request(e.url)
			r.Body = make([]byte, 32<<20) // more than socket buffers take
			started := time.Now()
			got := newTestSender(t).Send(t.Context(), r)
			want(t, got, Rejected, 413, ClassStatus)
			within(t, started, writeGrace)
			if string(got.Response) != "big" {
				t.Errorf("response %q", got.Response)
			}
		})
	}
}

func TestSend_LargeBodiesShareAConnection(t *testing.T) {
	t.Parallel()
	body := bytes.Repeat([]byte{0, 0xff, '\n'}, 1<<20)
	e := serve(t, func(e *endpoint, c net.Conn, _ int) {
		for r := bufio.NewReader(c); ; {
			req := e.readFrom(r)
			if req == nil {
				return
			}
			if got, _ := io.ReadAll(req.Body); !bytes.Equal(got, body) {
				io.WriteString(c, "HTTP/1.1 400 x\r\nContent-Length: 0\r\n\r\n")
				continue
			}
			io.WriteString(c, okay)
		}
	})
	s := newTestSender(t)
	r := request(e.url)
	r.Body = body
	for range 5 {
		want(t, s.Send(t.Context(), r), Delivered, 200, "")
	}
	if n := e.accepted.Load(); n != 1 {
		t.Errorf("5 attempts used %d connections", n)
	}
}

// A byte that nobody asked for would be read as the next request's answer.
func TestH08_BytesAfterAnAnswerAreNotTheNextOne(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"at once": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := make(chan struct{})
			e := serve(t, func(e *endpoint, c net.Conn, n int) {
				r := bufio.NewReader(c)
				if e.readFrom(r) == nil {
					return
				}
				const smuggled = "HTTP/1.1 500 smuggled\r\nContent-Length: 0\r\n\r\n"
				switch {
				case n > 1:
					io.WriteString(c, okay)
				case late:
					io.WriteString(c, okay)
					<-said // our answer was taken
					io.WriteString(c, smuggled)
					said <- struct{}{}
				default:
					io.WriteString(c, okay+smuggled)
				}
				waitClosed(c)
			})
			s := newTestSender(t)
			want(t, s.Send(t.Context(), request(e.url)), Delivered, 200, "")
			if late {
				said <- struct{}{}
				<-said
			}
			want(t, s.Send(t.Context(), request(e.url)), Delivered, 200, "")
			if n := e.accepted.Load(); n != 2 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

func TestSend_ConnectionsThatEndAreNotUsedAgain(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"Connection: close": "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.0":          "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
		"body too large":    "HTTP/1.1 200 OK\r\nContent-Length: 65537\r\n\r\n" + strings.Repeat("x", 65537),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := keeping(t, answer)
			s := newTestSender(t)
			for range 3 {
				want(t, s.Send(t.Context(), request(e.url)), Delivered, 200, "")
			}
			if n := e.accepted.Load(); n != 3 {
				t.Errorf("3 attempts used %d connections", n)
			}
		})
	}
}

// A request that was cancelled must leave no deadline behind for the next one.
func TestSend_CancelledConnectionsAreNotUsedAgain(t *testing.T) {
	t.Parallel()
	e := keeping(t, okay)
	s := newTestSender(t)
	for range 200 {
		ctx, cancel := context.WithCancelCause(t.Context())
		go cancel(errTest) // before, during or after it
		if r := s.Send(ctx, request(e.url)); r.Verdict != Delivered && r.Verdict != Aborted {
			t.Fatalf("got %+v", r)
		}
		want(t, s.Send(t.Context(), request(e.url)), Delivered, 200, "")
	}
}

func TestSender_CloseClosesWhatIsIdle(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{}, 2)
	e := serve(t, func(e *endpoint, c net.Conn, _ int) {
		r := bufio.NewReader(c)
		for e.readFrom(r) != nil {
			io.WriteString(c, okay)
		}
		closed <- struct{}{}
	})
	s := newTestSender(t)
	want(t, s.Send(t.Context(), request(e.url)), Delivered, 200, "")
	s.Close()
	<-closed // or the test hangs
	want(t, s.Send(t.Context(), request(e.url)), Delivered, 200, "")
	<-closed
}

// pipe is a connection that notes when it was closed.
type pipe struct {
	net.Conn
	closed time.Time
}

func (p *pipe) Close() error {
	p.closed = time.Now()
	return nil
}

func TestPool_ClosesWhatIsIdleForTooLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(2)
		defer p.close()
		began := time.Now()
		pipes := make([]*pipe, 3)
		for i := range pipes {
			pipes[i] = &pipe{}
			p.put(poolKey{origin: "a"}, newConn(pipes[i]))
			<-time.After(10 * time.Second) // a bubble's clock jumps
		}
		if pipes[0].closed != (time.Time{}) || pipes[2].closed.IsZero() {
			t.Error("want two kept, and the third closed")
		}
		if c := p.get(poolKey{origin: "a"}); c == nil || c.Conn != net.Conn(pipes[1]) {
			t.Error("want the one that was used last")
		}
		p.put(poolKey{origin: "b"}, newConn(pipes[1]))
		<-time.After(time.Minute)
		synctest.Wait()
		for i, since := range []time.Duration{0, 30 * time.Second} {
			if got := pipes[i].closed.Sub(began); got != since+idleTime {
				t.Errorf("connection %d was closed after %v, want %v", i, got, since+idleTime)
			}
		}
		if len(p.idle) != 0 || p.tidy != nil || p.get(poolKey{origin: "a"}) != nil {
			t.Errorf("%d hosts are left", len(p.idle))
		}
	})
}
