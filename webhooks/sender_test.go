package webhooks

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// capture is an endpoint that hands out each request as it came.
func capture(t *testing.T) (url string, got <-chan *http.Request) {
	t.Helper()
	requests := make(chan *http.Request, 16) // as many as a test sends before it looks
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		requests <- r
	}))
	t.Cleanup(server.Close)
	return server.URL + "/hook?a=b", requests
}

func TestSend_Request(t *testing.T) {
	t.Parallel()
	url, got := capture(t)
	r := request(url)
	r.ContentType = "application/json"
	r.Headers = map[string]string{"X-Team": "blue", "authorization": "Bearer x"}
	r.Info = Info{
		Queue: "orders", Subscription: "billing", Kind: "order.created\r\nX-Evil: 1", Reference: "Grüße",
		Attempt: 2, MaxAttempts: 12, EnqueuedAt: time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.FixedZone("", 3600)),
		RetryReason: ClassStatus, PreviousStatus: 503, Hop: 3,
		Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	}
	want(t, newTestSender(t).Send(t.Context(), r), Delivered, 200, "")

	req := <-got
	wanted := map[string]string{
		"Content-Type": "application/json", "User-Agent": "posthaste/test", "Accept-Encoding": "identity",
		"Webhook-Id": r.ID, "Webhook-Hop": "4", "X-Team": "blue", "Authorization": "Bearer x",
		"Posthaste-Queue": "orders", "Posthaste-Subscription": "billing", "Posthaste-Attempt": "2", "Posthaste-Max-Attempts": "12",
		"Posthaste-Kind": "order.created%0D%0AX-Evil: 1", "Posthaste-Reference": "Gr%C3%BC%C3%9Fe",
		"Posthaste-Enqueued-At": "2026-03-01T11:00:00.123456Z", "Posthaste-Retry-Reason": "status", "Posthaste-Previous-Status": "503",
	}
	for name, value := range wanted {
		if v := req.Header.Values(name); len(v) != 1 || v[0] != value {
			t.Errorf("%s: got %q, want %q", name, v, value)
		}
	}
	if tp := req.Header.Get("Traceparent"); !strings.HasPrefix(tp, r.Info.Traceparent[:36]) || tp == r.Info.Traceparent {
		t.Errorf("traceparent: got %q", tp)
	}
	for name := range req.Header {
		_, known := wanted[name]
		if known || name == "Traceparent" || name == "Content-Length" || name == "Webhook-Timestamp" || name == "Webhook-Signature" {
			continue
		}
		t.Errorf("header %s that nobody asked for: %q", name, req.Header.Get(name))
	}
	if req.Method != "POST" || req.RequestURI != "/hook?a=b" || req.Proto != "HTTP/1.1" {
		t.Errorf("request line: %s %s %s", req.Method, req.RequestURI, req.Proto)
	}
	body, _ := io.ReadAll(req.Body)
	if string(body) != goldenBody {
		t.Errorf("body: got %q", body)
	}
}

func TestSend_LeavesOutWhatIsNotSet(t *testing.T) {
	t.Parallel()
	url, got := capture(t)
	r := request(url)
	r.Info.MaxAttempts = -1
	want(t, newTestSender(t).Send(t.Context(), r), Delivered, 200, "")
	req := <-got
	for name := range req.Header {
		if strings.HasPrefix(name, "Posthaste-") || name == "Traceparent" {
			t.Errorf("%s: %q", name, req.Header.Get(name))
		}
	}
	if got := req.Header.Get("Content-Type"); got != "application/octet-stream" {
		t.Errorf("Content-Type: got %q", got)
	}
}

// TestG01_HeaderNamesOnTheWire reads the bytes, since every HTTP library changes
// the case of names.
func TestG01_HeaderNamesOnTheWire(t *testing.T) {
	t.Parallel()
	wire := make(chan string, 1)
	e := serve(t, func(_ *endpoint, c net.Conn, _ int) {
		var head strings.Builder
		for lines := bufio.NewScanner(c); lines.Scan() && lines.Text() != ""; {
			head.WriteString(lines.Text() + "\n")
		}
		wire <- head.String()
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	})
	want(t, newTestSender(t).Send(t.Context(), request(e.url)), Delivered, 200, "")
	head := <-wire
	for _, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature", "webhook-hop"} {
		if strings.Count(head, "\n"+name+": ") != 1 {
			t.Errorf("%s is not there once:\n%s", name, head)
		}
	}
}

func TestG02_AnyBodyArrivesAsGivenAndVerifies(t *testing.T) {
	t.Parallel()
	url, got := capture(t)
	s := newTestSender(t)
	secret := NewSecret()
	reference, err := standard.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"", "PUT", "PATCH", "DELETE", "GET"} {
		for _, body := range []string{"", "\x00\xff\xfe", "{ \"a\" :1}\r\n", strings.Repeat("é\x00", 500_000)} {
			r := request(url)
			r.Method, r.Body, r.Secrets = method, []byte(body), []string{secret, NewSecret()}
			want(t, s.Send(t.Context(), r), Delivered, 200, "")
			req := <-got
			arrived, _ := io.ReadAll(req.Body)
			if string(arrived) != body || req.ContentLength != int64(len(body)) || len(req.TransferEncoding) != 0 {
				t.Errorf("%s of %d bytes: %d arrived, Content-Length %d, Transfer-Encoding %q",
					req.Method, len(body), len(arrived), req.ContentLength, req.TransferEncoding)
			}
			if err := reference.Verify(arrived, req.Header); err != nil {
				t.Errorf("%s of %d bytes: %v", req.Method, len(body), err)
			}
			if req.Method != orElse(method, "POST") {
				t.Errorf("method: got %s", req.Method)
			}
		}
	}
}

func TestG06_IDStaysAndTimestampIsFresh(t *testing.T) {
	t.Parallel()
	url, got := capture(t)
	s := newTestSender(t)
	r := request(url)
	var last *http.Request
	for range 2 {
		before := time.Now().Unix()
		want(t, s.Send(t.Context(), r), Delivered, 200, "")
		req := <-got
		at, err := parseTimestamp(req.Header.Get(HeaderTimestamp))
		if err != nil || at.Unix() < before || at.Unix() > time.Now().Unix() {
			t.Errorf("timestamp: got %v, %v", at, err)
		}
		if last != nil && req.Header.Get(HeaderID) != last.Header.Get(HeaderID) {
			t.Error("the id changed")
		}
		last = req
	}
}

func TestH12_HopIsOneMoreThanTheItems(t *testing.T) {
	t.Parallel()
	url, got := capture(t)
	s := newTestSender(t)
	for hop, wanted := range map[int32]string{0: "1", 4: "5"} {
		r := request(url)
		r.Info.Hop = hop
		want(t, s.Send(t.Context(), r), Delivered, 200, "")
		if v := (<-got).Header.Get("Webhook-Hop"); v != wanted {
			t.Errorf("hop %d: sent %q", hop, v)
		}
	}
}

func TestSend_DefersOnlyWithAReceipt(t *testing.T) {
	t.Parallel()
	e := keeping(t, "HTTP/1.1 202 Accepted\r\nposthaste-lease: keep\r\nContent-Length: 0\r\n\r\n")
	s := newTestSender(t)
	r := request(e.url)
	want(t, s.Send(t.Context(), r), Delivered, 202, "")
	r.Info.Receipt, r.Info.LeaseDeadline = "AQ", time.Now()
	want(t, s.Send(t.Context(), r), Deferred, 202, "")
}

func TestSend_FailureCarriesWhatTheEndpointAsked(t *testing.T) {
	t.Parallel()
	e := answering(t, "HTTP/1.1 503 Busy\r\nRetry-After: 1.5\r\nposthaste-retry: never\r\nContent-Length: 9\r\n\r\ncome\x00back")
	r := newTestSender(t).Send(t.Context(), request(e.url))
	want(t, r, Throttled, 503, ClassStatus)
	if r.RetryAfter != 1500*time.Millisecond || !r.Never || string(r.Response) != "come\x00back" {
		t.Errorf("got %+v", r)
	}
}

func TestSend_WhatCannotBeSentIsRejectedUnsent(t *testing.T) {
	t.Parallel()
	e := answering(t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	s := newTestSender(t)
	changes := map[string]func(*Request){
		"no id":            func(r *Request) { r.ID = "" },
		"dotted id":        func(r *Request) { r.ID = "a.b" },
		"no secret":        func(r *Request) { r.Secrets = nil },
		"bad secret":       func(r *Request) { r.Secrets = []string{"whsec_canary"} },
		"bad URL":          func(r *Request) { r.URL = "https://user:canary@127.0.0.1/" },
		"bad method":       func(r *Request) { r.Method = "TRACE" },
		"reserved header":  func(r *Request) { r.Headers = map[string]string{"Idempotency-Key": "canary"} },
		"header injection": func(r *Request) { r.Headers = map[string]string{"X": "canary\r\nHost: evil"} },
	}
	for name, change := range changes {
		r := request(e.url)
		change(&r)
		got := s.Send(t.Context(), r)
		want(t, got, Rejected, 0, ClassInvalidRequest)
		if strings.Contains(got.Error, "canary") {
			t.Errorf("%s: the error tells: %s", name, got.Error)
		}
	}
	if n := e.accepted.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

func TestSend_CallersAbortIsNotTheEndpointsFault(t *testing.T) {
	t.Parallel()
	s := newTestSender(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	e := serve(t, func(e *endpoint, c net.Conn, _ int) {
		e.read(c)
		cancel(errTest) // in the middle of the attempt
		waitClosed(c)
	})
	r := s.Send(ctx, request(e.url))
	want(t, r, Aborted, 0, ClassCanceled)
	if !strings.Contains(r.Error, errTest.Error()) {
		t.Errorf("the cause is not in %q", r.Error)
	}
	// A caller's own deadline is the caller's affair as well.
	expired, cancelExpired := context.WithTimeout(t.Context(), 0)
	defer cancelExpired()
	want(t, s.Send(expired, request(e.url)), Aborted, 0, ClassCanceled)
}

func TestSend_AbortAfterTheAnswerChangesNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	e := serve(t, func(e *endpoint, c net.Conn, _ int) {
		e.read(c)
		// Enough for Send to decide, and then a body that never ends.
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
		waitClosed(c)
	})
	timer := time.AfterFunc(500*time.Millisecond, func() { cancel(errTest) })
	defer timer.Stop()
	r := newTestSender(t).Send(ctx, request(e.url))
	want(t, r, Delivered, 200, "")
	if string(r.Response) != "half" {
		t.Errorf("response: %q", r.Response)
	}
}

func TestSend_ConnectionsAreUsedAgain(t *testing.T) {
	t.Parallel()
	bodies := map[string]string{
		"no body": "Content-Length: 0\r\n\r\n", "204-like": "Content-Length: 2\r\n\r\nok",
		"snippet exactly": "Content-Length: 4096\r\n\r\n" + strings.Repeat("x", 4096),
		"64 KiB":          "Content-Length: 65536\r\n\r\n" + strings.Repeat("x", 65536),
		"chunked":         "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"chunked 4096":    "Transfer-Encoding: chunked\r\n\r\n1000\r\n" + strings.Repeat("x", 4096) + "\r\n0\r\n\r\n",
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := keeping(t, "HTTP/1.1 500 x\r\n"+body)
			s := newTestSender(t)
			for range 5 {
				want(t, s.Send(t.Context(), request(e.url)), Retryable, 500, ClassStatus)
			}
			if n := e.accepted.Load(); n != 1 {
				t.Errorf("5 attempts used %d connections", n)
			}
		})
	}
}
