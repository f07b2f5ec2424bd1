package push_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/seal"
	"github.com/posthaste-io/posthaste/test/harness"
	"github.com/posthaste-io/posthaste/webhooks"
)

func TestH10_SecretsAreNowhereInClear(t *testing.T) {
	t.Parallel()
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			w := newWatched(t, store.url(t))
			w.useAll(t)
			w.look(t)
		})
	}
}

// watched is a server of which everything is kept that comes out of it.
type watched struct {
	*client
	server   *harness.Server
	store    string
	dir      string
	canaries []canary
	// shown are secrets that a database has to know, since they are made of what it holds:
	// receipts. Nobody else is told.
	shown []canary
	// marker is in a payload that stays, so it must be where we look.
	marker string
	// names of subscriptions that were made.
	names []string

	mu      sync.Mutex
	traces  bytes.Buffer
	answers bytes.Buffer
}

func newWatched(t *testing.T, store string) *watched {
	w := &watched{store: store, dir: t.TempDir(), marker: rand.Text()}
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		_, _ = w.traces.ReadFrom(r.Body)
	}))
	t.Cleanup(collector.Close)
	key := seal.NewKey()
	w.server = harness.Start(t, harness.Options{
		Store: store, Dir: w.dir, Args: slices.Concat(loopback, []string{"--log-level", "debug"}),
		Env: []string{
			"POSTHASTE_ENCRYPTION_KEY=" + key,
			"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + collector.URL + "/v1/traces", "OTEL_BSP_SCHEDULE_DELAY=100",
		},
	})
	w.client = newClient(t, w.server.URL, harness.Key)
	w.canaries = append(w.canaries,
		newCanary("the root key", []byte(harness.Key)),
		newCanary("the encryption key", []byte(key[strings.IndexByte(key, ':')+1:])))
	return w
}

// secret makes one and watches for it.
func (w *watched) secret(name string) string {
	text, c := secretText(name)
	w.canaries = append(w.canaries, c)
	return text
}

// subscribe makes a subscription with a secret of its own in the URL's query, in a header
// and to sign with.
func (w *watched) subscribe(t *testing.T, name, endpoint string, more object) subscription {
	t.Helper()
	w.names = append(w.names, name)
	query, header := w.secret(name+": query"), w.secret(name+": header")
	request := object{"headers": object{"X-Api-Key": header}, "retry": object{"max_attempts": 2, "schedule": []string{"100ms"}}}
	for field, value := range more {
		request[field] = value
	}
	sub := w.client.subscribe(name, endpoint+"?token="+url.QueryEscape(query), request)
	w.canaries = append(w.canaries, signingSecret(t, name+": signing secret", sub.Secret)...)
	return sub
}

// useAll makes subscriptions with every kind of credential, and has pushes succeed and fail
// with them.
func (w *watched) useAll(t *testing.T) {
	password, bearer := w.secret("basic password"), w.secret("bearer")
	clientSecret, token := w.secret("OAuth2 client secret"), w.secret("OAuth2 access token")
	issuer := newReceiver(t, func(rw http.ResponseWriter, a arrival) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write([]byte(`{"access_token":"` + token + `","token_type":"Bearer","expires_in":3600}`))
	})
	// One that is hostile or careless answers with what it was sent.
	echo := newReceiver(t, func(rw http.ResponseWriter, a arrival) {
		rw.WriteHeader(http.StatusUnauthorized)
		_, _ = rw.Write([]byte(a.header.Get("Authorization") + "\n" + string(a.body)))
	})
	well := newReceiver(t, nil)
	ill := newReceiver(t, answers(http.StatusInternalServerError))
	oauth := func(tokens string) object {
		return object{"auth": object{"oauth2": object{"token_url": tokens, "client_id": "we", "client_secret": clientSecret}}}
	}
	basic := object{"auth": object{"basic": object{"username": "we", "password": password}}}
	given := webhooks.NewSecret()
	w.canaries = append(w.canaries, signingSecret(t, "signing secret that was given", given)...)

	w.subscribe(t, "basic", well.URL, object{"auth": basic["auth"], "secret": given})
	w.subscribe(t, "bearer", well.URL, object{"auth": object{"bearer": bearer}})
	w.subscribe(t, "oauth", well.URL, oauth(issuer.URL))
	w.rotateTwice(t, "bearer")
	for name, want := range map[string]string{
		"basic": "Basic " + base64.StdEncoding.EncodeToString([]byte("we:"+password)), "bearer": "Bearer " + bearer, "oauth": "Bearer " + token,
	} {
		w.produce(name, object{"utf8": "x"})
		a := well.next()
		if a.header.Get("Authorization") != want || a.header.Get("X-Api-Key") == "" {
			t.Errorf("%s: the endpoint got %q, want %q", name, a.header.Get("Authorization"), want)
		}
	}
	w.mutualTLS(t)

	w.subscribe(t, "fails", ill.URL, basic)
	w.subscribe(t, "refused", refusing(t), basic)
	w.subscribe(t, "no-tls", strings.Replace(ill.URL, "http:", "https:", 1), basic)
	w.subscribe(t, "no-name", "http://does-not-exist.invalid/", basic)
	w.subscribe(t, "no-token", well.URL, oauth(echo.URL))
	w.subscribe(t, "no-issuer", well.URL, oauth(refusing(t)+"/token"))
	for _, name := range []string{"fails", "refused", "no-tls", "no-name", "no-token", "no-issuer"} {
		id := w.produce(name, object{"utf8": w.marker})[0]
		if it := w.buried(name+"~dead", 1)[0]; it.ID != id {
			t.Errorf("%s: got %+v, want item %s buried", name, it, id)
		}
	}
	w.finishLater(t)
	w.wrongKey(t)
}

func (w *watched) rotateTwice(t *testing.T, name string) {
	t.Helper()
	given := "whsk_" + base64.StdEncoding.EncodeToString(newPrivateKey(t))
	w.canaries = append(w.canaries, signingSecret(t, "ed25519 key", given)...)
	w.call("subscriptions.rotate_secret", object{"name": name, "secret": given}, nil)
	var made subscription
	w.call("subscriptions.rotate_secret", object{"name": name}, &made)
	w.canaries = append(w.canaries, signingSecret(t, "signing secret that was made", made.Secret)...)
}

// mutualTLS pushes to an endpoint that asks who we are.
func (w *watched) mutualTLS(t *testing.T) {
	t.Helper()
	ours := harness.NewCertificate(t, 7, time.Hour)
	block, _ := pem.Decode(ours.Key)
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	scalar, err := private.(*ecdsa.PrivateKey).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	w.canaries = append(w.canaries,
		newCanary("client key", scalar),
		newCanary("client key, a line of its PEM", bytes.Split(ours.Key, []byte("\n"))[2]))

	theirs := make(chan int, 10)
	endpoint := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		theirs <- len(r.TLS.PeerCertificates)
	}))
	endpoint.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	endpoint.StartTLS()
	t.Cleanup(endpoint.Close)
	roots := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: endpoint.Certificate().Raw})
	w.subscribe(t, "mtls", endpoint.URL, object{"auth": object{
		"client_certificate": string(ours.Cert), "client_key": string(ours.Key), "root_cas": string(roots),
	}})
	w.produce("mtls", object{"utf8": "x"})
	select {
	case n := <-theirs:
		if n == 0 {
			t.Error("the endpoint got no client certificate")
		}
	case <-time.After(patience):
		t.Fatalf("no push came over TLS in %s", patience)
	}
}

// finishLater uses a receipt, well and badly.
func (w *watched) finishLater(t *testing.T) {
	t.Helper()
	r := newReceiver(t, keeping)
	w.subscribe(t, "later", r.URL, object{"defer": true})
	w.produce("later", object{"utf8": "x"})
	receipt := r.next().receipt(t)
	w.shown = append(w.shown, newCanary("receipt", []byte(receipt)))
	for range 2 {
		w.stranger().try("queue.complete", object{"receipts": []string{receipt}})
	}
}

// wrongKey calls with keys that open nothing, also in the wrong places.
func (w *watched) wrongKey(t *testing.T) {
	t.Helper()
	wrong := w.secret("a key that is wrong")
	c := newClient(t, w.url, wrong)
	c.refused(http.StatusUnauthorized, "unauthenticated", "subscriptions.list", object{})
	w.keep(c.try("queue.complete", object{"receipts": []string{wrong}}).raw)
}

// keep puts an answer to what is looked through.
func (w *watched) keep(raw []byte) { w.answers.Write(raw) }

// look asks for all that can be asked, and looks for the secrets in it, in what was logged
// and traced, and in what is stored.
func (w *watched) look(t *testing.T) {
	w.keep(w.call("subscriptions.list", object{}, nil).raw)
	w.keep(w.call("attempts.list", object{}, nil).raw)
	w.keep(w.call("queues.list", object{}, nil).raw)
	for _, name := range w.names {
		a := w.call("subscriptions.info", object{"name": name}, nil)
		w.keep(a.raw)
		w.keep(w.call("subscriptions.update", object{"name": name, "timeout": "7s"}, nil).raw)
		w.keep(w.call("subscriptions.pause", object{"name": name}, nil).raw)
		w.keep(w.call("subscriptions.resume", object{"name": name}, nil).raw)
		w.keep(w.call("subscriptions.test", object{"name": name}, nil).raw)
		w.keep(w.call("storage/items.list", object{"queue_name": name}, nil).raw)
	}
	resp, err := http.Get(w.server.AdminURL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	metrics := readAll(t, resp.Body)
	eventually(t, "the traces of all pushes", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return bytes.Contains(w.traces.Bytes(), []byte("push later")) && bytes.Contains(w.traces.Bytes(), []byte("push no-issuer"))
	})
	var stored []place
	if w.store == "badger:data" {
		stored = append(stored, place{"the files of the store in use", files(t, w.dir), w.marker})
	}
	w.server.Stop()
	switch {
	case w.store == "badger:data":
		stored = append(stored, place{"the files of the store", files(t, w.dir), w.marker})
	case strings.HasPrefix(w.store, "postgres"):
		stored = append(stored, place{"the tables of the store", tables(t, w.store), w.marker})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	told := []place{
		{"the log", []byte(w.server.Log()), "no-issuer"},
		{"what was printed", []byte(w.server.Stdout()), ""},
		{"the answers", w.answers.Bytes(), "no-issuer"},
		{"the metrics", metrics, "no-issuer"},
		{"the traces", w.traces.Bytes(), "push no-issuer"},
	}
	find(t, slices.Concat(w.canaries, w.shown), told)
	find(t, w.canaries, stored)
}
