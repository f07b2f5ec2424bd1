package e2e_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/test/harness"
)

// pair is a certificate that a server reads from files, and those who trust it.
type pair struct {
	t         *testing.T
	cert, key string
	roots     *x509.CertPool
}

func newPair(t *testing.T) *pair {
	dir := t.TempDir()
	return &pair{t, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), x509.NewCertPool()}
}

// renew writes a new certificate over the old one.
func (p *pair) renew(serial int64) {
	p.t.Helper()
	c := harness.NewCertificate(p.t, serial, time.Hour)
	p.roots.AppendCertsFromPEM(c.Cert)
	for path, text := range map[string][]byte{p.cert: c.Cert, p.key: c.Key} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
}

// serve starts a server with the certificate, and a client that trusts it alone.
func (p *pair) serve(args ...string) (*harness.Server, *client) {
	p.t.Helper()
	server := harness.Start(p.t, harness.Options{
		Store: "memory:", Args: slices.Concat([]string{"--tls-cert", p.cert, "--tls-key", p.key}, args),
	})
	c := newClient(p.t, server.URL)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: p.roots}, ForceAttemptHTTP2: true}
	p.t.Cleanup(transport.CloseIdleConnections)
	c.http.Transport = transport
	return server, c
}

// serial is what a new connection is shown.
func (p *pair) serial(server *harness.Server) int64 {
	p.t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(server.URL, "https://"), &tls.Config{RootCAs: p.roots})
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

func TestTLS_ARenewedCertificateIsShownWithoutARestart(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.renew(1)
	server, c := p.serve()
	c.call("queues.create", object{"queue_name": "work"}, nil)
	if got := p.serial(server); got != 1 {
		t.Errorf("shows certificate %d, want 1", got)
	}
	if err := os.WriteFile(p.key, []byte("half of it"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "told that the pair is broken", func() bool { return strings.Contains(server.Log(), "certificate not read") })
	if got := p.serial(server); got != 1 {
		t.Errorf("with a broken pair it shows certificate %d, want 1", got)
	}
	p.renew(2)
	eventually(t, "the new certificate", func() bool { return p.serial(server) == 2 })
	c.call("queues.info", object{"queue_name": "work"}, nil)
}

func TestTLS_SpeaksHTTP2AndNothingOlderThanTLS12(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.renew(1)
	server, c := p.serve()
	address := strings.TrimPrefix(server.URL, "https://")
	for version, want := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: p.roots, MinVersion: tls.VersionTLS10, MaxVersion: version})
		if (err == nil) != want {
			t.Errorf("%s: got %v, want it taken: %v", tls.VersionName(version), err, want)
		}
		if err == nil {
			conn.Close()
		}
	}
	resp, err := c.http.Get(server.URL + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.ProtoMajor != 2 || resp.StatusCode != http.StatusOK {
		t.Errorf("got %s, %d; want HTTP/2.0, 200", resp.Proto, resp.StatusCode)
	}
	if resp, err = http.Get("http://" + address + "/livez"); err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Fatalf("plain HTTP: got %v, %v; want 400", resp, err)
	}
	resp.Body.Close()

	// One connection has them all: a body that is refused disturbs no call beside it.
	c.call("queues.create", object{"queue_name": "work"}, nil)
	waiting := make(chan answer, 1)
	go func() {
		a, err := c.post("/v1/queue.lease", "application/json", nil, []byte(`{"queue_name":"work","request_timeout":"5m"}`))
		if err != nil {
			a.raw = []byte(err.Error())
		}
		waiting <- a
	}()
	eventually(t, "one waiting lease", func() bool { return c.stats("work").LeaseWaiting == 1 })
	large, err := c.post("/v1/produce/work", "text/plain", nil, bytes.Repeat([]byte("x"), 6_000_000))
	if err != nil || large.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a body of 6 MB: got %d %s, %v; want 413", large.status, large.raw, err)
	}
	c.produce("work", object{"utf8": "x"})
	if a := <-waiting; a.status != http.StatusOK || !strings.Contains(string(a.raw), "receipt") {
		t.Errorf("the waiting lease got %d: %s", a.status, a.raw)
	}
}

// Many clients look for the answer only once they have sent all, and curl takes a
// stream that is reset under it for a fault.
func TestTLS_I01_ARefusalReachesWhoSendsAllFirst(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skipf("needs curl: %v", err)
	}
	p := newPair(t)
	p.renew(1)
	server, _ := p.serve()
	for key, want := range map[string]string{harness.Key: "too_large", "nonsense": "unauthenticated"} {
		cmd := exec.CommandContext(t.Context(), "curl", "-sS", "--http2", "--cacert", p.cert, "-H", "Authorization: Bearer "+key,
			"-H", "Content-Type: text/plain", "--data-binary", "@-", server.URL+"/v1/produce/work")
		cmd.Stdin = bytes.NewReader(make([]byte, 6_000_000))
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("got %s, %v; want %s", out, err, want)
		}
	}
}

func TestTLS_C17_StopAnswersWhatWaitsOverHTTP2(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.renew(1)
	server, c := p.serve()
	c.call("queues.create", object{"queue_name": "idle"}, nil)
	waiting := make(chan answer, 1)
	go func() {
		a, err := c.post("/v1/queue.lease", "application/json", nil, []byte(`{"queue_name":"idle","request_timeout":"5m"}`))
		if err != nil {
			a.raw = []byte(err.Error())
		}
		waiting <- a
	}()
	eventually(t, "one waiting lease", func() bool { return c.stats("idle").LeaseWaiting == 1 })
	server.Stop()
	if a := <-waiting; a.status != http.StatusServiceUnavailable || a.CodeText != "shutting_down" {
		t.Errorf("the waiting lease got %d: %s, want 503 shutting_down", a.status, a.raw)
	}
}

func TestA04_OffLoopbackTLSAndTheKeyAreWanted(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.renew(1)
	server, c := p.serve("--listen", "0.0.0.0:0")
	c.url = "https://127.0.0.1" + server.URL[strings.LastIndex(server.URL, ":"):]
	c.call("queues.list", object{}, nil)
	c.key = ""
	c.refused(http.StatusUnauthorized, "unauthenticated", "queues.list", object{})
}
