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

func TestH02_SlowHeadersRunIntoTheDeadline(t *testing.T) {
	t.Parallel()
	e := serve(t, func(e *endpoint, c net.Conn, _ int) {
		e.read(c)
		drip(c, "HTTP/1.1 200 OK\r\nX-Slow: "+strings.Repeat("x", 1<<20))
	})
	r := request(e.url)
	r.Timeout = quick
	started := time.Now()
	want(t, newTestSender(t).Send(t.Context(), r), Retryable, 0, ClassTimeout)
	within(t, started, quick)
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

func TestH02_AnEndpointThatDoesNotReadRunsIntoTheDeadline(t *testing.T) {
	t.Parallel()
	e := serve(t, func(_ *endpoint, c net.Conn, _ int) {
		c.(*net.TCPConn).SetReadBuffer(4096)
		<-t.Context().Done()
	})
	r := request(e.url)
	r.Timeout, r.Body = quick, make([]byte, 32<<20) // more than socket buffers take
	started := time.Now()
	want(t, newTestSender(t).Send(t.Context(), r), Retryable, 0, ClassTimeout)
	within(t, started, quick)
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

func TestH04_EndlessHeaders(t *testing.T) {
	t.Parallel()
	for name, flood := range map[string]func(c net.Conn){
		"many": func(c net.Conn) { repeat(c, "HTTP/1.1 200 OK\r\n", "X-Flood: xxxxxxxxxxxxxxxx\r\n") },
		"long": func(c net.Conn) { repeat(c, "HTTP/1.1 200 OK\r\nX-Flood: ", "xxxxxxxxxxxxxxxx") },
		// H-05: they count towards the same limit.
		"1xx":         func(c net.Conn) { repeat(c, "", "HTTP/1.1 103 Early Hints\r\n\r\n") },
		"status line": func(c net.Conn) { repeat(c, "HTTP/1.1 200 ", "OK") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := serve(t, func(e *endpoint, c net.Conn, _ int) {
				e.read(c)
				flood(c)
			})
			r := newTestSender(t).Send(t.Context(), request(e.url))
			want(t, r, Retryable, 0, ClassTooLargeHeaders)
		})
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

func TestH05_SwitchingProtocolsIsAFailure(t *testing.T) {
	t.Parallel()
	for _, headers := range []string{"Upgrade: websocket\r\nConnection: Upgrade\r\n", ""} {
		e := serve(t, func(e *endpoint, c net.Conn, _ int) {
			e.read(c)
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\n"+headers+"\r\n")
			waitClosed(c) // or the test hangs: the connection must not stay open
		})
		want(t, newTestSender(t).Send(t.Context(), request(e.url)), Retryable, 101, ClassBadResponse)
	}
}

func TestH07_SilenceAndBrokenConnections(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		handle func(e *endpoint, c net.Conn, n int)
		class  string
	}{
		"silence":      {func(_ *endpoint, c net.Conn, _ int) { waitClosed(c) }, ClassTimeout},
		"no answer":    {func(e *endpoint, c net.Conn, _ int) { e.read(c) }, ClassResetAfterWrite},
		"reset":        {func(e *endpoint, c net.Conn, _ int) { e.read(c); reset(c) }, ClassResetAfterWrite},
		"reset midway": {func(_ *endpoint, c net.Conn, _ int) { c.Read(make([]byte, 10)); reset(c) }, ClassResetAfterWrite},
		"half close": {func(e *endpoint, c net.Conn, _ int) {
			e.read(c)
			c.(*net.TCPConn).CloseWrite()
			waitClosed(c)
		}, ClassResetAfterWrite},
		"cut in the status line": {func(e *endpoint, c net.Conn, _ int) { e.read(c); io.WriteString(c, "HTTP/1.1 2") }, ClassBadResponse},
		"cut in the headers": {func(e *endpoint, c net.Conn, _ int) {
			e.read(c)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nX: ")
		}, ClassBadResponse},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := serve(t, tt.handle)
			r := request(e.url)
			if tt.class == ClassTimeout {
				r.Timeout = quick
			}
			want(t, newTestSender(t).Send(t.Context(), r), Retryable, 0, tt.class)
			if n := e.accepted.Load(); n != 1 {
				t.Errorf("%d connections for one attempt", n)
			}
		})
	}
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

func TestH08_AnswersThatAreNotHTTP(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"HTTP/0.9":            "<html>hello</html>",
		"garbage":             "\x00\xff\x1b[31m\r\n\r\n",
		"SSH":                 "SSH-2.0-OpenSSH_9.6\r\n",
		"HTTP/2 preface":      "\x00\x00\x12\x04\x00\x00\x00\x00\x00",
		"two digits":          "HTTP/1.1 20 OK\r\n\r\n",
		"four digits":         "HTTP/1.1 2000 OK\r\n\r\n",
		"letters":             "HTTP/1.1 abc OK\r\n\r\n",
		"negative":            "HTTP/1.1 -20 OK\r\n\r\n",
		"no version":          "HTTP 200 OK\r\n\r\n",
		"duplicate length":    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"negative length":     "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"unknown encoding":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
		"header without name": "HTTP/1.1 200 OK\r\n: x\r\n\r\n",
		"header with NUL":     "HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := answering(t, answer)
			r := newTestSender(t).Send(t.Context(), request(e.url))
			want(t, r, Retryable, 0, ClassBadResponse)
			if strings.ContainsAny(r.Error, "\x00\x1b\r\n") {
				t.Errorf("the text is not clean: %q", r.Error)
			}
		})
	}
}

func TestH08_OddAnswersThatHaveAStatus(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answer  string
		verdict Verdict
		status  int
		class   string
	}{
		"no reason":          {"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", Delivered, 200, ""},
		"HTTP/1.0":           {"HTTP/1.0 200 OK\r\n\r\n", Delivered, 200, ""},
		"length and chunked": {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Delivered, 200, ""},
		"folded header":      {"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n", Delivered, 200, ""},
		"000":                {"HTTP/1.1 000 x\r\nContent-Length: 0\r\n\r\n", Retryable, 0, ClassBadResponse},
		"999":                {"HTTP/1.1 999 x\r\nContent-Length: 0\r\n\r\n", Retryable, 999, ClassBadResponse},
		"600":                {"HTTP/1.1 600 x\r\nContent-Length: 0\r\n\r\n", Retryable, 600, ClassBadResponse},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := answering(t, tt.answer)
			want(t, newTestSender(t).Send(t.Context(), request(e.url)), tt.verdict, tt.status, tt.class)
		})
	}
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func repeat(w io.Writer, first, then string) {
	if _, err := io.WriteString(w, first); err != nil {
		return
	}
	block := strings.Repeat(then, 1024)
	for {
		if _, err := io.WriteString(w, block); err != nil {
			return
		}
	}
}

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
