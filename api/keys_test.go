package api_test

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/apikeys"
	"github.com/posthaste-io/posthaste/queue"
)

func newKey(t *testing.T) apikeys.Key {
	t.Helper()
	key, err := apikeys.New("test")
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// keyed is a server that wants a key, and the key.
func keyed(t *testing.T, change ...func(*api.Options)) (*env, apikeys.Key) {
	t.Helper()
	key := newKey(t)
	e := setup(t, append(change, func(o *api.Options) { o.Access = api.NewKeyAccess(key.Record()) })...)
	e.broker.produce = accept
	return e, key
}

// withKey produces with these Authorization headers.
func (e *env) withKey(headers ...string) answer {
	e.Helper()
	r := request("/v1/produce/q", strings.NewReader("x"))
	for _, h := range headers {
		r.Header.Add("Authorization", h)
	}
	return e.do(r)
}

func TestA01_OnlyAKeyOpens(t *testing.T) {
	t.Parallel()
	e, key := keyed(t)
	text := key.Reveal()
	for _, header := range []string{"Bearer " + text, "bearer " + text, "BEARER  " + text + " "} {
		e.withKey(header).want(201, "ok")
	}
	const known, invalid = `Bearer realm="posthaste"`, `Bearer realm="posthaste", error="invalid_token"`
	for name, tt := range map[string]struct {
		headers         []string
		says, challenge string
	}{
		"no header":            {nil, "Authorization: Bearer <key>", known},
		"the key alone":        {[]string{text}, "Bearer <key>", invalid},
		"another scheme":       {[]string{"Basic " + text}, "Bearer <key>", invalid},
		"empty":                {[]string{""}, "Bearer <key>", invalid},
		"no key behind it":     {[]string{"Bearer"}, "no key of posthaste", invalid},
		"two headers":          {[]string{"Bearer " + text, "Bearer " + text}, "twice", invalid},
		"two keys":             {[]string{"Bearer " + text + " " + text}, "no key of posthaste", invalid},
		"a typing error":       {[]string{"Bearer " + flipped(text)}, "the key has a typing error: its checksum does not fit", invalid},
		"the key of elsewhere": {[]string{"Bearer " + newKey(t).Reveal()}, "does not know the key", invalid},
	} {
		a := e.withKey(tt.headers...).want(401, "unauthenticated")
		if message, _ := a.body["message"].(string); !strings.Contains(message, tt.says) {
			t.Errorf("%s: got message %q, want …%s…", name, message, tt.says)
		}
		if got := a.header.Get("WWW-Authenticate"); got != tt.challenge {
			t.Errorf("%s: got challenge %q, want %q", name, got, tt.challenge)
		}
		if strings.Contains(a.raw+e.log.String(), secretOf(key)) {
			t.Errorf("%s: the secret is in the answer or the log", name)
		}
	}
	if log := e.log.String(); !strings.Contains(log, `"key_id":"`+key.ID()+`"`) {
		t.Errorf("the log does not say whose calls these were: %s", log)
	}
}

func secretOf(key apikeys.Key) string { return strings.Split(key.Reveal(), "_")[3] }

// flipped changes one character of the secret.
func flipped(text string) string {
	b := []byte(text)
	if i := len(b) - 20; b[i] == 'x' {
		b[i] = 'y'
	} else {
		b[i] = 'x'
	}
	return string(b)
}

// forged is a well-formed key with the id of one and the secret of another.
func forged(t *testing.T, id, secret apikeys.Key) string {
	t.Helper()
	parts := strings.Split(secret.Reveal(), "_")
	parts[2] = id.ID()
	head := strings.Join(parts[:4], "_")
	sum := make([]byte, 6)
	for i, n := len(sum)-1, crc32.ChecksumIEEE([]byte(head)); i >= 0; i, n = i-1, n/62 {
		sum[i] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[n%62]
	}
	return head + "_" + string(sum)
}

func TestA01_UnknownIDAndWrongSecretAreToldTheSame(t *testing.T) {
	t.Parallel()
	e, key := keyed(t)
	other := newKey(t)
	unknown := e.withKey("Bearer "+other.Reveal()).want(401, "unauthenticated")
	wrong := e.withKey("Bearer "+forged(t, key, other)).want(401, "unauthenticated")
	if unknown.raw != wrong.raw || unknown.header.Get("WWW-Authenticate") != wrong.header.Get("WWW-Authenticate") {
		t.Errorf("got %s and %s", unknown.raw, wrong.raw)
	}
}

// Paths that need no key are named here; what else is added has to ask for one.
func TestA04_NothingIsOpenWithoutAKey(t *testing.T) {
	t.Parallel()
	e, key := keyed(t)
	open := map[string]bool{"/livez": true, "/readyz": true, "/health": true, "/openapi.yaml": true}
	tried := 0
	err := e.server.Routes(func(verb, path string) {
		if open[path] {
			return
		}
		tried++
		path = strings.ReplaceAll(path, "{queue}", "q")
		bodies := []string{"{}"}
		if settlingCalls[strings.TrimPrefix(path, "/v1/")] == "" {
			// Receipts open what settles them, and nothing else.
			bodies = append(bodies, fmt.Sprintf(`{"receipts":["%s"]}`, receipt(1)), fmt.Sprintf(`{"items":[{"id":"%s"}]}`, receipt(1)))
		}
		for _, header := range []string{"", "Bearer " + newKey(t).Reveal()} {
			for _, body := range bodies {
				r := httptest.NewRequest(verb, path, strings.NewReader(body))
				r.RemoteAddr = fmt.Sprintf("192.0.%d.%d:1", tried/200, tried%200)
				if header != "" {
					r.Header.Set("Authorization", header)
				}
				e.do(r).want(401, "unauthenticated")
			}
		}
		r := httptest.NewRequest(verb, path, strings.NewReader("{}"))
		r.Header.Set("Authorization", "Bearer "+key.Reveal())
		if a := e.do(r); a.status == http.StatusUnauthorized || a.status == http.StatusForbidden {
			t.Errorf("%s %s with the key: %s", verb, path, a.raw)
		}
	})
	if err != nil || tried < 30 {
		t.Errorf("tried %d routes, %v", tried, err)
	}
}

func TestKeyAccess_AllowsNobodyWhomItDoesNotKnow(t *testing.T) {
	t.Parallel()
	access := api.NewKeyAccess(newKey(t).Record())
	if err := access.Allow(api.Principal{Namespace: queue.DefaultNamespace}, "queue.produce", "q"); !errors.Is(err, api.ErrForbidden) {
		t.Errorf("got %v, want that it is forbidden", err)
	}
}

// Many callers may share the address of a proxy: whoever guesses there keeps nobody
// out who has a key.
func TestI04_WrongKeysAreBoundedByAddressAndRightOnesAreNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, key := keyed(t)
		from := func(addr, text string) answer {
			r := request("/v1/produce/q", strings.NewReader("x"), "Authorization", "Bearer "+text)
			r.RemoteAddr = addr
			return e.do(r)
		}
		wrong := newKey(t).Reveal()
		for range api.GuessBurst {
			from("[2001:db8::1]:1", wrong).want(401, "unauthenticated")
		}
		a := from("[2001:db8::2]:2", wrong).want(429, "rate_limited") // of the same network
		if a.header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After: got %q, want 1", a.header.Get("Retry-After"))
		}
		from("[2001:db8::1]:1", key.Reveal()).want(201, "ok")
		from("[2001:db8::1]:1", flipped(wrong)).want(401, "unauthenticated") // needs no look-up
		// One other address of thousands may share its slot.
		if from("192.0.2.1:1", wrong).status != 401 && from("192.0.2.2:1", wrong).status != 401 {
			t.Error("an address is refused for what another one sent")
		}
		time.Sleep(api.GuessInterval)
		from("[2001:db8::1]:1", wrong).want(401, "unauthenticated")
		from("[2001:db8::1]:1", wrong).want(429, "rate_limited")
		time.Sleep(time.Hour)
		for range api.GuessBurst {
			from("[2001:db8::1]:1", wrong).want(401, "unauthenticated")
		}
		from("[2001:db8::1]:1", wrong).want(429, "rate_limited")
	})
}

func TestHealth_TellsDetailsToThoseWithAKeyAlone(t *testing.T) {
	t.Parallel()
	e, key := keyed(t, func(o *api.Options) {
		o.Version = "v9"
		o.Ready = func() []api.Check { return []api.Check{{Name: "store", Err: errors.New("canary")}} }
	})
	get := func(h http.Handler, path, text string) string {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host = "127.0.0.1"
		if text != "" {
			r.Header.Set("Authorization", "Bearer "+text)
		}
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		body, err := io.ReadAll(rec.Body)
		if err != nil || rec.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: got %d, %v; want 503", path, rec.Code, err)
		}
		return string(body)
	}
	for _, text := range []string{"", "nonsense", newKey(t).Reveal()} {
		if got := get(e.server, "/health", text); strings.Contains(got, "canary") || strings.Contains(got, "v9") || strings.Contains(got, "durable") || !strings.Contains(got, `"status":"failing"`) {
			t.Errorf("with key %q: got %s, want the status without details", text, got)
		}
	}
	for name, got := range map[string]string{
		"with the key": get(e.server, "/health", key.Reveal()), "for operators": get(e.server.Admin(), "/health", ""),
	} {
		if !strings.Contains(got, "canary") || !strings.Contains(got, "v9") {
			t.Errorf("%s: got %s, want version and reason", name, got)
		}
	}
}

// A browser adds no key by itself, so no page can make it send one that it does not have.
func TestCall_PagesMayCallWithAKey(t *testing.T) {
	t.Parallel()
	e, key := keyed(t)
	e.do(request("/v1/produce/q", nil, "Origin", "https://ui.example", "Sec-Fetch-Site", "cross-site",
		"Authorization", "Bearer "+key.Reveal())).want(201, "ok")
	e.do(request("/v1/produce/q", nil, "Origin", "https://evil.example")).want(401, "unauthenticated")
}

// A key in the wrong place is not written down either.
func TestA11_AStrangersPathIsNotInTheLog(t *testing.T) {
	t.Parallel()
	e, key := keyed(t)
	e.do(request("/v1/produce/"+key.Reveal(), strings.NewReader("x"))).want(401, "unauthenticated")
	if log := e.log.String(); log == "" || strings.Contains(log, key.Reveal()) {
		t.Errorf("the log holds the path, or nothing: %s", log)
	}
}
