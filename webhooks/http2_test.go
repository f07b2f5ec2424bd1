package webhooks

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// newHTTP2Server runs a handler over TLS, in HTTP/2 for who wants it.
func newHTTP2Server(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := newTLSServer(t, nil)
	server.Config.Handler = handler
	return server
}

func http2Request(url string) Request {
	r := request(url)
	r.HTTP2 = true
	return r
}

func TestHTTP2_TheRequestIsTheSame(t *testing.T) {
	t.Parallel()
	var protos []string
	receiver, err := NewReceiver(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		protos = append(protos, r.Proto)
		for name, value := range map[string]string{
			"X-Team": "blue", "Content-Type": "text/plain", "User-Agent": "posthaste", "Accept-Encoding": "identity",
			"Posthaste-Queue": "orders", "Authorization": "Bearer b", "Ce-Type": "t%20x",
		} {
			if got := r.Header.Values(name); len(got) != 1 || got[0] != value {
				t.Errorf("%s: got %q, want %q", name, got, value)
			}
		}
		body, _ := io.ReadAll(r.Body)
		if r.Method != "PUT" || r.RequestURI != "/hook?a=b%20c" || r.ContentLength != int64(len(body)) {
			t.Errorf("%s %s, %d of %d bytes", r.Method, r.RequestURI, len(body), r.ContentLength)
		}
	}), ReceiverOptions{Secrets: []string{goldenSecret}})
	if err != nil {
		t.Fatal(err)
	}
	server := newHTTP2Server(t, receiver.ServeHTTP)
	s := newTrustingSender(t, server)
	for _, size := range []int{0, 10, 900_000} {
		r := http2Request(server.URL + "/hook?a=b%20c")
		r.Method, r.Headers, r.ContentType = "PUT", map[string]string{"X-Team": "blue"}, "text/plain"
		r.Info.Queue, r.Body = "orders", []byte(strings.Repeat("x", size))
		r.Credentials, r.CloudEvent = credentials(t, CredentialsConfig{Bearer: "b"}), &CloudEvent{Source: "s", Type: "t x"}
		want(t, s.Send(t.Context(), r), Delivered, 200, "")
	}
	if got := strings.Join(protos, " "); got != "HTTP/2.0 HTTP/2.0 HTTP/2.0" {
		t.Errorf("asked in %s", got)
	}
}

func TestHTTP2_EndpointsThatDoNotTakeItAreAskedInHTTP1(t *testing.T) {
	t.Parallel()
	for _, protos := range [][]string{{"http/1.1"}, {"other"}} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, r.Proto+" "+r.RemoteAddr)
		}))
		server.TLS = &tls.Config{NextProtos: protos}
		server.StartTLS()
		t.Cleanup(server.Close)
		s := newTrustingSender(t, server)
		if protos[0] == "other" {
			// TLS itself does not go on without one in common.
			want(t, s.Send(t.Context(), http2Request(server.URL)), Retryable, 0, ClassTLS)
			continue
		}
		first := s.Send(t.Context(), http2Request(server.URL))
		again := s.Send(t.Context(), http2Request(server.URL))
		want(t, first, Delivered, 200, "")
		want(t, again, Delivered, 200, "")
		if !strings.HasPrefix(string(first.Response), "HTTP/1.1 ") || string(first.Response) != string(again.Response) {
			t.Errorf("got %q, then %q; want one connection", first.Response, again.Response)
		}
	}

	url, got := capture(t) // http://
	want(t, newTestSender(t).Send(t.Context(), http2Request(url)), Delivered, 200, "")
	if proto := (<-got).Proto; proto != "HTTP/1.1" {
		t.Errorf("asked in %s", proto)
	}
}

func TestH06_RequestsShareOneConnection(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]int{}
	server := newHTTP2Server(t, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.RemoteAddr]++
	})
	s := newTrustingSender(t, server)
	want(t, s.Send(t.Context(), http2Request(server.URL)), Delivered, 200, "")
	var running sync.WaitGroup
	for range 50 {
		running.Go(func() {
			if got := s.Send(t.Context(), http2Request(server.URL)); got.Verdict != Delivered {
				t.Errorf("got %+v", got)
			}
		})
	}
	running.Wait()
	if len(seen) != 1 {
		t.Errorf("51 requests went over %v", seen)
	}
}

func TestH06_FirstRequestsThatComeTogetherLeaveOneConnection(t *testing.T) {
	t.Parallel()
	server := newHTTP2Server(t, func(http.ResponseWriter, *http.Request) {})
	s := newTrustingSender(t, server)
	var running sync.WaitGroup
	for range 20 {
		running.Go(func() {
			if got := s.Send(t.Context(), http2Request(server.URL)); got.Verdict != Delivered {
				t.Errorf("got %+v", got)
			}
		})
	}
	running.Wait()
	if open := openLinks(s); len(open) != 1 {
		t.Errorf("%d connections take requests", len(open))
	}
}

func TestHTTP2_AnEndpointThatWantsOneRequestAtATimeGetsMoreConnections(t *testing.T) {
	t.Parallel()
	arrived, answer := make(chan struct{}, 3), make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-answer
	}))
	server.EnableHTTP2 = true
	server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 1}
	server.StartTLS()
	t.Cleanup(server.Close)
	s := newTrustingSender(t, server)
	close2 := sync.OnceFunc(func() { close(answer) })
	defer close2()
	var running sync.WaitGroup
	for range 3 {
		running.Go(func() {
			if got := s.Send(t.Context(), http2Request(server.URL)); got.Verdict != Delivered {
				t.Errorf("got %+v", got)
			}
		})
		select {
		case <-arrived:
		case <-time.After(10 * time.Second):
			t.Fatal("a request waits for another to be answered")
		}
	}
	close2()
	running.Wait()
}

func TestHTTP2_CloseEndsWhatIsIdleAndLeavesWhatRuns(t *testing.T) {
	t.Parallel()
	arrived, answer := make(chan struct{}), make(chan struct{})
	server := newHTTP2Server(t, func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-answer
	})
	s := newTrustingSender(t, server)
	send := func() <-chan Result {
		got := make(chan Result, 1)
		go func() { got <- s.Send(t.Context(), http2Request(server.URL)) }()
		<-arrived
		return got
	}
	first := send()
	answer <- struct{}{}
	want(t, <-first, Delivered, 200, "")
	l := openLinks(s)[0]
	second := send()
	s.Close()
	if l.Err() != nil {
		t.Error("closed under a request")
	}
	answer <- struct{}{}
	want(t, <-second, Delivered, 200, "")
	closed := func() bool { return l.Err() != nil }
	waitFor(t, "the connection to be closed after its last request", closed)
	if n := len(openLinks(s)); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}

func TestD11_HTTP2OpensAnotherConnectionIfTheFirstWasClosedWhileIdle(t *testing.T) {
	t.Parallel()
	server := newHTTP2Server(t, func(http.ResponseWriter, *http.Request) {})
	s := newTrustingSender(t, server)
	for range 3 {
		want(t, s.Send(t.Context(), http2Request(server.URL)), Delivered, 200, "")
		server.CloseClientConnections()
		waitFor(t, "the closed connection to be forgotten", func() bool { return len(openLinks(s)) == 0 })
	}
}

// openLinks returns the connections of HTTP/2 that take requests.
func openLinks(s *Sender) (open []*link) {
	s.links.mu.Lock()
	defer s.links.mu.Unlock()
	for _, ready := range s.links.byKey {
		open = append(open, ready...)
	}
	return open
}

// waitFor returns when something is so.
func waitFor(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !so(); {
		if time.Now().After(deadline) {
			t.Fatalf("still waiting for %s", what)
		}
		<-time.After(time.Millisecond)
	}
}
