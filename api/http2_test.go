package api_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/queue"
)

// secure serves with TLS, and so with HTTP/2, until the test ends.
func secure(t *testing.T, e *env) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.Config = api.NewHTTPServer(e.server, slog.New(slog.DiscardHandler))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// In HTTP/2 the connection carries the calls of others as well.
func TestI01_ABodyEndsNoConnectionThatOthersShare(t *testing.T) {
	t.Parallel()
	e := setup(t, func(o *api.Options) { o.Limits.Call = 100 })
	s := secure(t, e)
	client := s.Client()
	for i, body := range []io.Reader{
		struct{ io.Reader }{strings.NewReader(`{"queue_name":"q"}`)}, // of unknown length
		strings.NewReader(strings.Repeat(" ", 1000)),                 // too large
		strings.NewReader(`{"queue_name":"q"}`),
	} {
		reused := false
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused },
		})
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/queues.info", body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.ProtoMajor != 2 || reused != (i > 0) {
			t.Errorf("call %d: over HTTP/%d, connection reused: %t", i, resp.ProtoMajor, reused)
		}
	}
}

// frames is a connection whose client writes what it likes.
type frames struct {
	*http2.Framer
	t     *testing.T
	block bytes.Buffer
	enc   *hpack.Encoder
}

func dialFrames(t *testing.T, s *httptest.Server) *frames {
	t.Helper()
	conn, err := tls.Dial("tcp", s.Listener.Addr().String(), &tls.Config{
		RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "example.com",
		NextProtos: []string{"h2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if got := conn.ConnectionState().NegotiatedProtocol; got != "h2" {
		t.Fatalf("speaks %q, want h2", got)
	}
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	f := &frames{Framer: http2.NewFramer(conn, conn), t: t}
	f.enc = hpack.NewEncoder(&f.block)
	if err := f.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return f
}

// headers is the block of a produce.
func (f *frames) headers() []byte {
	f.t.Helper()
	f.block.Reset()
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":authority", "a"}, {":path", "/v1/produce/q"}} {
		if err := f.enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
			f.t.Fatal(err)
		}
	}
	return f.block.Bytes()
}

// end reads what the server sends until it ends the connection, and returns why.
func (f *frames) end() (code http2.ErrCode, told bool) {
	f.t.Helper()
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			if errors.Is(err, io.EOF) || !isTimeout(err) {
				return code, told
			}
			f.t.Fatalf("the connection was not ended: %v", err)
		}
		if away, ok := frame.(*http2.GoAwayFrame); ok {
			code, told = away.ErrCode, true
		}
	}
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && timeout.Timeout()
}

// wantOthersServed makes a call on another connection.
func wantOthersServed(t *testing.T, s *httptest.Server) {
	t.Helper()
	resp, err := s.Client().Get(s.URL + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 || resp.ProtoMajor != 2 {
		t.Errorf("another client: got %s %s, want 200", resp.Proto, resp.Status)
	}
}

// A stream that is reset is not counted by its client, but what it began goes on.
func TestI04_RapidResetIsEnded(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var running, most atomic.Int64
	open := make(chan struct{})
	e.broker.produce = func(call queue.ProduceCall) ([]queue.Produced, error) {
		n := running.Add(1)
		defer running.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		<-open
		return accept(call)
	}
	s := secure(t, e)
	f := dialFrames(t, s)
	var err error
	for id := uint32(1); id < 20_000 && err == nil; id += 2 {
		if err = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: f.headers(), EndStream: true, EndHeaders: true}); err == nil {
			err = f.WriteRSTStream(id, http2.ErrCodeCancel)
		}
	}
	if code, told := f.end(); told && code != http2.ErrCodeEnhanceYourCalm {
		t.Errorf("ended with %v, want ENHANCE_YOUR_CALM", code)
	}
	wantOthersServed(t, s)
	close(open)
	if n := most.Load(); n == 0 || n > 100 {
		t.Errorf("%d calls of one connection at a time, want 1 to 100", n)
	}
}

func TestI04_EndlessContinuationIsEnded(t *testing.T) {
	t.Parallel()
	e := setup(t)
	s := secure(t, e)
	f := dialFrames(t, s)
	if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.headers(), EndStream: true}); err != nil {
		t.Fatal(err)
	}
	f.block.Reset()
	if err := f.enc.WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("!", 8<<10), Sensitive: true}); err != nil {
		t.Fatal(err)
	}
	sent := 0
	for f.WriteContinuation(1, false, f.block.Bytes()) == nil {
		if sent += f.block.Len(); sent > 64<<20 {
			t.Fatal("64 MiB of headers were taken")
		}
	}
	f.end()
	wantOthersServed(t, s)
	if strings.Contains(e.log.String(), "produce") {
		t.Error("the request was answered, though its headers have no end")
	}
}

func TestI04_LongHeadersAreRefusedOnHTTP2(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.broker.produce = func(queue.ProduceCall) ([]queue.Produced, error) {
		t.Error("produced all the same")
		return nil, queue.ErrNotFound
	}
	s := secure(t, e)
	for _, headers := range []int{1, 2000} { // one of 40 kB, and many that are as much
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/produce/q", nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range headers {
			r.Header.Set("X-"+strings.Repeat("y", i%7)+string(rune('a'+i%26))+strings.Repeat("z", i/182), strings.Repeat("v", 40_000/headers))
		}
		resp, err := s.Client().Do(r)
		if err != nil {
			continue // the connection was ended before all was sent, which is as good
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%d headers: got %s, want 431", headers, resp.Status)
		}
	}
}
