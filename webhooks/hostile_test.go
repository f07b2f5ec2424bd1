package webhooks

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// quick is a deadline for attempts that must run into it.
const quick = 300 * time.Millisecond

// within checks that a hostile endpoint did not hold an attempt for longer.
func within(t *testing.T, started time.Time, limit time.Duration) {
	t.Helper()
	const slack = 2 * time.Second // of a busy machine
	if took := time.Since(started); took > limit+slack {
		t.Errorf("took %v, want at most %v", took, limit)
	}
}

func TestH01_EndlessBodyIsStillASuccess(t *testing.T) {
	t.Parallel()
	written := make(chan int64, 1)
	e := serve(t, func(e *endpoint, c net.Conn, _ int) {
		e.read(c)
		io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		n, _ := io.Copy(c, zeros{})
		written <- n
	})
	started := time.Now()
	r := newTestSender(t).Send(t.Context(), request(e.url))
	want(t, r, Delivered, 200, "")
	within(t, started, drainTime)
	if len(r.Response) != MaxResponse {
		t.Errorf("kept %d bytes of the body", len(r.Response))
	}
	// What was written and not read fills socket buffers, some megabytes at most.
	if n := <-written; n > 64<<20 {
		t.Errorf("the endpoint could write %d bytes", n)
	}
}

func TestH01_BrokenBodyIsStillASuccess(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"cut short":       "Content-Length: 100\r\n\r\nhalf",
		"bad chunk":       "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nZZZ\r\n",
		"huge chunk size": "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nffffffffffffffffff\r\n",
		"no end":          "\r\nhalf",
	} {
		e := answering(t, "HTTP/1.1 200 OK\r\n"+body)
		r := newTestSender(t).Send(t.Context(), request(e.url))
		want(t, r, Delivered, 200, "")
		if string(r.Response) != "half" {
			t.Errorf("%s: response %q", name, r.Response)
		}
	}
}

func TestH01_ABodyOverTheLimitClosesTheConnection(t *testing.T) {
	t.Parallel()
	e := keeping(t, "HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n\r\n"+strings.Repeat("x", 70000))
	s := newTestSender(t)
	for range 3 {
		want(t, s.Send(t.Context(), request(e.url)), Delivered, 200, "")
	}
	if n := e.accepted.Load(); n != 3 {
		t.Errorf("3 attempts used %d connections", n)
	}
}

func TestH02_SlowBodyHoldsASuccessForTwoSeconds(t *testing.T) {
	t.Parallel()
	e := serve(t, func(e *endpoint, c net.Conn, _ int) {
		e.read(c)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n")
		drip(c, strings.Repeat("x", 1<<20))
	})
	started := time.Now()
	r := newTestSender(t).Send(t.Context(), request(e.url))
	want(t, r, Delivered, 200, "")
	within(t, started, drainTime)
	if len(r.Response) == 0 || r.Duration > time.Second {
		t.Errorf("response of %d bytes, duration %v", len(r.Response), r.Duration)
	}
}

func TestH02_TheDeadlineCoversTheDrain(t *testing.T) {
	t.Parallel()
	e := serve(t, func(e *endpoint, c net.Conn, _ int) {
		e.read(c)
		io.WriteString(c, "HTTP/1.1 500 Oops\r\nContent-Length: 10\r\n\r\nhalf")
		waitClosed(c)
	})
	r := request(e.url)
	r.Timeout = quick
	started := time.Now()
	got := newTestSender(t).Send(t.Context(), r)
	want(t, got, Retryable, 500, ClassStatus)
	if took := time.Since(started); took > drainTime {
		t.Errorf("took %v", took)
	}
	if string(got.Response) != "half" {
		t.Errorf("response: %q", got.Response)
	}
}

func TestH03_CompressedBodyIsNotUnpacked(t *testing.T) {
	t.Parallel()
	const bomb = "\x1f\x8b not even gzip"
	e := answering(t, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 16\r\n\r\n"+bomb)
	r := newTestSender(t).Send(t.Context(), request(e.url))
	want(t, r, Delivered, 200, "")
	if string(r.Response) != bomb {
		t.Errorf("response: %q", r.Response)
	}
}

func TestH04_HeaderLimitIs64KiB(t *testing.T) {
	t.Parallel()
	const kib = "X-Kib: " + "0123456789abcdef"
	headers := func(n int) string { return strings.Repeat(kib+strings.Repeat("x", 1022-len(kib))+"\r\n", n) }
	tests := map[string]struct {
		answer string
		class  string
	}{
		"60 in one":            {"HTTP/1.1 200 OK\r\n" + headers(60) + "Content-Length: 0\r\n\r\n", ""},
		"65 in one":            {"HTTP/1.1 200 OK\r\n" + headers(65) + "Content-Length: 0\r\n\r\n", ClassTooLargeHeaders},
		"60 with 1xx (H-05)":   {"HTTP/1.1 103 x\r\n" + headers(30) + "\r\nHTTP/1.1 200 OK\r\n" + headers(30) + "Content-Length: 0\r\n\r\n", ""},
		"65 with 1xx (H-05)":   {"HTTP/1.1 103 x\r\n" + headers(33) + "\r\nHTTP/1.1 200 OK\r\n" + headers(32) + "Content-Length: 0\r\n\r\n", ClassTooLargeHeaders},
		"5,000 1xx (H-05)":     {strings.Repeat("HTTP/1.1 103 x\r\n\r\n", 5000) + okay, ClassTooLargeHeaders},
		"a status line of 65":  {"HTTP/1.1 200 " + strings.Repeat("x", 65<<10) + "\r\nContent-Length: 0\r\n\r\n", ClassTooLargeHeaders},
		"a body of 64 is free": {"HTTP/1.1 200 OK\r\n" + headers(60) + "Content-Length: 65536\r\n\r\n" + strings.Repeat("x", 65536), ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTestSender(t).Send(t.Context(), request(keeping(t, tt.answer).url))
			if tt.class == "" {
				want(t, r, Delivered, 200, "")
			} else {
				want(t, r, Retryable, 0, tt.class)
			}
		})
	}
}

func TestH05_InterimAnswersAreNotTheVerdict(t *testing.T) {
	t.Parallel()
	e := answering(t, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n")
	want(t, newTestSender(t).Send(t.Context(), request(e.url)), Delivered, 204, "")
}

func TestH07_NobodyListens(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	want(t, newTestSender(t).Send(t.Context(), request("http://"+l.Addr().String()+"/")), Retryable, 0, ClassRefused)
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// drip writes a byte at a time until the other side has had enough.
func drip(c net.Conn, text string) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := range len(text) {
		<-tick.C
		if _, err := io.WriteString(c, text[i:i+1]); err != nil {
			return
		}
	}
}
