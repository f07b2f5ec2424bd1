package webhooks

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// newTLSServer answers 200; its certificate is for 127.0.0.1 and example.com.
func newTLSServer(t *testing.T, config *tls.Config) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, r.Proto)
	}))
	server.TLS = config
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes are meant to fail here
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

func newTrustingSender(t *testing.T, server *httptest.Server) *Sender {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	s := NewSender(SenderOptions{
		Guard: NewGuard(GuardOptions{Allow: rules(t, "127.0.0.0/8")}), RootCAs: pool,
	})
	t.Cleanup(s.Close)
	return s
}

func TestH06_TLSEndpointsAreAskedInHTTP1(t *testing.T) {
	t.Parallel()
	server := newTLSServer(t, nil) // would rather speak HTTP/2
	s := newTrustingSender(t, server)
	for range 3 {
		r := s.Send(t.Context(), request(server.URL))
		want(t, r, Delivered, 200, "")
		if string(r.Response) != "HTTP/1.1" {
			t.Errorf("protocol: %q", r.Response)
		}
	}
}

func TestN11_CertificatesAreVerified(t *testing.T) {
	t.Parallel()
	server := newTLSServer(t, nil)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())

	stranger := newTestSender(t).Send(t.Context(), request(server.URL))
	want(t, stranger, Retryable, 0, ClassTLS)

	s := newTrustingSender(t, server)
	d := newDialer(s.guard, server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs)
	d.resolver = names{"example.com": {"127.0.0.1"}, "other.test": {"127.0.0.1"}}
	s.dial = d.connect
	want(t, s.Send(t.Context(), request("https://example.com:"+port+"/")), Delivered, 200, "")
	want(t, s.Send(t.Context(), request("https://other.test:"+port+"/")), Retryable, 0, ClassTLS)
}

func TestN11_TLS12IsTheLeast(t *testing.T) {
	t.Parallel()
	old := newTLSServer(t, &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	want(t, newTrustingSender(t, old).Send(t.Context(), request(old.URL)), Retryable, 0, ClassTLS)

	enough := newTLSServer(t, &tls.Config{MaxVersion: tls.VersionTLS12})
	want(t, newTrustingSender(t, enough).Send(t.Context(), request(enough.URL)), Delivered, 200, "")
}

func TestH07_TLSHandshakes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		handle func(e *endpoint, c net.Conn, n int)
		class  string
	}{
		"stalls":        {func(_ *endpoint, c net.Conn, _ int) { waitClosed(c) }, ClassTLSTimeout},
		"hangs up":      {func(_ *endpoint, c net.Conn, _ int) { c.Read(make([]byte, 1)) }, ClassTLS},
		"answers HTTP":  {func(_ *endpoint, c net.Conn, _ int) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }, ClassTLS},
		"answers noise": {func(_ *endpoint, c net.Conn, _ int) { io.WriteString(c, strings.Repeat("\xff", 100)) }, ClassTLS},
		"drips slowly":  {func(_ *endpoint, c net.Conn, _ int) { drip(c, "\x16\x03\x03\x40\x00"+strings.Repeat("\x02", 1<<14)) }, ClassTLSTimeout},
		"resets":        {func(_ *endpoint, c net.Conn, _ int) { c.Read(make([]byte, 1)); reset(c) }, ClassTLS},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := serve(t, tt.handle)
			r := request("https://" + e.addr + "/")
			if tt.class == ClassTLSTimeout {
				r.Timeout = quick
			}
			started := time.Now()
			want(t, newTestSender(t).Send(t.Context(), r), Retryable, 0, tt.class)
			within(t, started, quick)
		})
	}
}

// TestH10_NoSecretIsInWhatAnAttemptTells lets attempts fail in many ways, with
// canaries wherever a request may hold a secret.
func TestH10_NoSecretIsInWhatAnAttemptTells(t *testing.T) {
	t.Parallel()
	const canary = "Q0FOQVJZQ0FOQVJZQ0FOQVJZQ0FOQVJZ" // a valid secret
	addrs := map[string]string{
		"refused":   "http://127.0.0.1:1",
		"blocked":   "http://10.0.0.1",
		"no TLS":    "https://" + answering(t, okay).addr,
		"garbage":   "http://" + answering(t, "\x00\r\n\r\n").addr,
		"rejected":  "http://" + answering(t, "HTTP/1.1 400 x\r\nContent-Length: 0\r\n\r\n").addr,
		"hung up":   "http://" + answering(t, "").addr,
		"bad URL":   "http://" + canary + ":" + canary + "@127.0.0.1",
		"bad port":  "http://127.0.0.1:" + canary,
		"bad host":  "http://" + canary + "!",
		"duplicate": "http://" + answering(t, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n").addr,
	}
	for name, base := range addrs {
		r := request(base + "/" + canary + "?key=" + canary)
		r.Secrets = []string{"whsec_" + canary}
		r.Headers = map[string]string{"Authorization": "Bearer " + canary}
		r.Info.Receipt = canary
		got := newTestSender(t).Send(t.Context(), r)
		if got.Verdict == Delivered || got.Error == "" {
			t.Errorf("%s: got %+v", name, got)
		}
		if strings.Contains(got.Error+got.Class+string(got.Response), canary) {
			t.Errorf("%s: the result tells: %q", name, got.Error)
		}
	}
}

func TestH11_ErrorsAreCleanAndBounded(t *testing.T) {
	t.Parallel()
	got := cleanError("a\x00b\nc\x1b[31m\xff\u0085é" + strings.Repeat("€", 500))
	if !strings.HasPrefix(got, "a b c [31m\uFFFD é€") || len(got) > maxError || strings.ContainsRune(got[len(got)-3:], '\uFFFD') {
		t.Errorf("got %q, %d bytes", got, len(got))
	}
}
