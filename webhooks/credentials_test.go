package webhooks

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// credentials makes ones that are right.
func credentials(t *testing.T, c CredentialsConfig) *Credentials {
	t.Helper()
	made, err := NewCredentials(c)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestCredentials_AuthorizationWinsOverTheCustomHeader(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		config CredentialsConfig
		want   string
	}{
		"basic":            {CredentialsConfig{Username: "Aladdin", Password: "open sesame"}, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="},
		"password alone":   {CredentialsConfig{Password: "p:ä"}, "Basic OnA6w6Q="},
		"user name alone":  {CredentialsConfig{Username: "key"}, "Basic a2V5Og=="},
		"bearer":           {CredentialsConfig{Bearer: "abc.def-_~+/="}, "Bearer abc.def-_~+/="},
		"only authorities": {CredentialsConfig{RootCAs: newAuthority(t, nowadays).pem}, "custom"},
		"nothing":          {CredentialsConfig{}, "custom"},
	} {
		url, got := capture(t)
		r := request(url)
		r.Headers = map[string]string{"authorization": "custom"}
		r.Credentials = credentials(t, tt.config)
		want(t, newTestSender(t).Send(t.Context(), r), Delivered, 200, "")
		if values := (<-got).Header.Values("Authorization"); len(values) != 1 || values[0] != tt.want {
			t.Errorf("%s: got %q, want %q", name, values, tt.want)
		}
	}
}

func TestCheckCredentials_NamesTheFieldAndHidesItsValue(t *testing.T) {
	t.Parallel()
	const canary = "c4n4ry"
	ca := newAuthority(t, nowadays)
	certificate, key := ca.issue(t, nowadays)
	_, otherKey := ca.issue(t, nowadays)
	expired, expiredKey := ca.issue(t, period{-2 * time.Hour, -time.Hour})
	early, earlyKey := ca.issue(t, period{time.Hour, 2 * time.Hour})
	oauth := func(change func(*OAuth2Config)) CredentialsConfig {
		c := OAuth2Config{TokenURL: "https://auth.example.com/token", ClientID: "id", ClientSecret: canary}
		change(&c)
		return CredentialsConfig{OAuth2: &c}
	}
	none := func(*OAuth2Config) {}
	with := func(c CredentialsConfig, change func(*CredentialsConfig)) CredentialsConfig {
		change(&c)
		return c
	}
	for name, tt := range map[string]struct {
		config CredentialsConfig
		field  string
		words  string
	}{
		"nothing":                    {CredentialsConfig{}, "", ""},
		"basic with a certificate":   {CredentialsConfig{Username: "u", Password: canary, ClientCertificate: certificate, ClientKey: key, RootCAs: ca.pem}, "", ""},
		"OAuth2":                     {oauth(func(c *OAuth2Config) { c.Scopes, c.Audience = []string{"push:all"}, "https://api" }), "", ""},
		"colon in the user name":     {CredentialsConfig{Username: canary + ":"}, "username", "colon"},
		"long user name":             {CredentialsConfig{Username: canary + strings.Repeat("x", maxUser)}, "username", "longer"},
		"control in the password":    {CredentialsConfig{Password: canary + "\n"}, "password", "control"},
		"space in the bearer":        {CredentialsConfig{Bearer: canary + " x"}, "bearer", "space"},
		"line break in the bearer":   {CredentialsConfig{Bearer: canary + "\r\nX: y"}, "bearer", "space"},
		"long bearer":                {CredentialsConfig{Bearer: strings.Repeat(canary, maxBearer)}, "bearer", "longer"},
		"basic and bearer":           {CredentialsConfig{Username: "u", Bearer: canary}, "bearer", "cannot go with"},
		"bearer and OAuth2":          {with(oauth(none), func(c *CredentialsConfig) { c.Bearer = canary }), "oauth2", "cannot go with"},
		"basic and OAuth2":           {with(oauth(none), func(c *CredentialsConfig) { c.Password = canary }), "oauth2", "cannot go with"},
		"no token URL":               {oauth(func(c *OAuth2Config) { c.TokenURL = "" }), "oauth2.token_url", "missing"},
		"user in the token URL":      {oauth(func(c *OAuth2Config) { c.TokenURL = "https://" + canary + "@h/" }), "oauth2.token_url", "user name"},
		"private token URL":          {oauth(func(c *OAuth2Config) { c.TokenURL = "https://169.254.169.254/" + canary }), "oauth2.token_url", "private"},
		"no client":                  {oauth(func(c *OAuth2Config) { c.ClientID = "" }), "oauth2.client_id", "missing"},
		"no client secret":           {oauth(func(c *OAuth2Config) { c.ClientSecret = "" }), "oauth2.client_secret", "missing"},
		"scope with a space":         {oauth(func(c *OAuth2Config) { c.Scopes = []string{"a", canary + " b"} }), "oauth2.scopes", "space"},
		"empty scope":                {oauth(func(c *OAuth2Config) { c.Scopes = []string{""} }), "oauth2.scopes", "empty"},
		"control in the audience":    {oauth(func(c *OAuth2Config) { c.Audience = canary + "\x00" }), "oauth2.audience", "control"},
		"certificate without a key":  {CredentialsConfig{ClientCertificate: certificate}, "client_key", "missing"},
		"key without a certificate":  {CredentialsConfig{ClientKey: key}, "client_certificate", "missing"},
		"another's key":              {CredentialsConfig{ClientCertificate: certificate, ClientKey: otherKey}, "client_key", "fits"},
		"text as a key":              {CredentialsConfig{ClientCertificate: certificate, ClientKey: canary}, "client_key", "no private key"},
		"broken key":                 {CredentialsConfig{ClientCertificate: certificate, ClientKey: pemOf("PRIVATE KEY", []byte(canary))}, "client_key", "fits"},
		"encrypted key":              {CredentialsConfig{ClientCertificate: certificate, ClientKey: pemOf("ENCRYPTED PRIVATE KEY", []byte(canary))}, "client_key", "encrypted"},
		"old encrypted key":          {CredentialsConfig{ClientCertificate: certificate, ClientKey: encryptedPEM(canary)}, "client_key", "encrypted"},
		"key as a certificate":       {CredentialsConfig{ClientCertificate: key, ClientKey: key}, "client_certificate", "PRIVATE KEY"},
		"text as a certificate":      {CredentialsConfig{ClientCertificate: canary, ClientKey: key}, "client_certificate", "no certificate"},
		"expired certificate":        {CredentialsConfig{ClientCertificate: expired, ClientKey: expiredKey}, "client_certificate", "expired at 20"},
		"certificate that is to be":  {CredentialsConfig{ClientCertificate: early, ClientKey: earlyKey}, "client_certificate", "not valid before 20"},
		"text as authorities":        {CredentialsConfig{RootCAs: canary}, "root_cas", "no certificate"},
		"broken authority":           {CredentialsConfig{RootCAs: ca.pem + pemOf("CERTIFICATE", []byte(canary))}, "root_cas", "number 2"},
		"expired authority of two":   {CredentialsConfig{RootCAs: ca.pem + newAuthority(t, period{-2 * time.Hour, -time.Hour}).pem}, "root_cas", "number 2, that expired"},
		"more than anybody may need": {CredentialsConfig{RootCAs: strings.Repeat(ca.pem, 1000)}, "root_cas", "longer"},
	} {
		err := CheckCredentials(tt.config, nil)
		if tt.field == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var got *CredentialsError
		if !errors.As(err, &got) || got.Field != tt.field || !strings.Contains(got.Reason, tt.words) || !strings.HasPrefix(err.Error(), tt.field+": ") {
			t.Errorf("%s: got %v; want %s and %q", name, err, tt.field, tt.words)
		}
		if err != nil && strings.Contains(err.Error(), canary) {
			t.Errorf("%s: the error tells: %v", name, err)
		}
	}
}

func encryptedPEM(text string) string {
	return string(pem.EncodeToMemory(&pem.Block{
		Type: "EC PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-256-CBC,00"}, Bytes: []byte(text),
	}))
}

// A certificate that expires is no reason to lose what was configured: the endpoint says so.
func TestNewCredentials_TakesAnExpiredCertificate(t *testing.T) {
	t.Parallel()
	certificate, key := newAuthority(t, nowadays).issue(t, period{-2 * time.Hour, -time.Hour})
	credentials(t, CredentialsConfig{ClientCertificate: certificate, ClientKey: key})
}

func TestH10_PrintedCredentialsShowNothing(t *testing.T) {
	t.Parallel()
	const canary = "c4n4ry"
	c := CredentialsConfig{OAuth2: &OAuth2Config{TokenURL: "https://h/" + canary, ClientID: canary, ClientSecret: canary}}
	for _, config := range []CredentialsConfig{c, {Username: canary, Password: canary}, {Bearer: canary}} {
		r := Request{Credentials: credentials(t, config)}
		var log bytes.Buffer
		for _, h := range []slog.Handler{slog.NewJSONHandler(&log, nil), slog.NewTextHandler(&log, nil)} {
			slog.New(h).Info("x", "config", config, "credentials", r.Credentials, "oauth2", config.OAuth2)
		}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			fmt.Fprintf(&log, verb+verb+verb+verb, config, &config, r, r.Credentials)
			if config.OAuth2 != nil {
				fmt.Fprintf(&log, verb+verb, config.OAuth2, *config.OAuth2)
			}
		}
		if hex := fmt.Sprintf("%x", canary); strings.Contains(log.String(), canary) || strings.Contains(log.String(), hex) {
			t.Errorf("printed: %s", log.String())
		}
	}
}

func TestN11_AClientCertificateIsShownAndAPrivateCAReplacesTheSystems(t *testing.T) {
	t.Parallel()
	servers, clients := newAuthority(t, nowadays), newAuthority(t, nowadays)
	config := servers.server(t)
	config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, clients.pool()
	e := newTLSServer(t, config)
	certificate, key := clients.issue(t, nowadays)
	strange, strangeKey := newAuthority(t, nowadays).issue(t, nowadays)
	for name, tt := range map[string]struct {
		config  CredentialsConfig
		verdict Verdict
		status  int
		class   string
	}{
		"both":                  {CredentialsConfig{ClientCertificate: certificate, ClientKey: key, RootCAs: servers.pem}, Delivered, 200, ""},
		"no certificate":        {CredentialsConfig{RootCAs: servers.pem}, Retryable, 0, ClassTLS},
		"another's certificate": {CredentialsConfig{ClientCertificate: strange, ClientKey: strangeKey, RootCAs: servers.pem}, Retryable, 0, ClassTLS},
		"the system's CAs":      {CredentialsConfig{ClientCertificate: certificate, ClientKey: key}, Retryable, 0, ClassTLS},
		"another CA":            {CredentialsConfig{ClientCertificate: certificate, ClientKey: key, RootCAs: clients.pem}, Retryable, 0, ClassTLS},
	} {
		for _, http2 := range []bool{false, true} {
			for _, most := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
				e.TLS.MaxVersion = most
				r := request(e.URL)
				r.Credentials, r.HTTP2 = credentials(t, tt.config), http2
				got := newTestSender(t).Send(t.Context(), r)
				if http2 && most == tls.VersionTLS13 && tt.class == ClassTLS && got.Status == 0 {
					// The refusal comes when the request is on its way, and net/http may
					// meet the end of the connection before it.
					want(t, got, Retryable, 0, got.Class)
					continue
				}
				if got.Verdict != tt.verdict || got.Status != tt.status || got.Class != tt.class {
					t.Errorf("%s, HTTP/2 %v, %s: got %v, %d, %s", name, http2, tls.VersionName(most), got.Verdict, got.Status, got.Error)
				}
			}
		}
	}
}

func TestN12_ConnectionsAreSharedWithinOneKeyOnly(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, nowadays)
	config := ca.server(t)
	config.ClientAuth = tls.RequestClientCert
	e := newTLSServer(t, config)
	addresses := make(chan string, 1)
	e.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { addresses <- r.RemoteAddr })

	certificate, key := ca.issue(t, nowadays)
	other, otherKey := ca.issue(t, nowadays)
	roots := CredentialsConfig{RootCAs: ca.pem}
	own := CredentialsConfig{RootCAs: ca.pem, ClientCertificate: certificate, ClientKey: key}
	owners := CredentialsConfig{RootCAs: ca.pem, ClientCertificate: other, ClientKey: otherKey}
	named := CredentialsConfig{RootCAs: ca.pem, Bearer: "x"}
	s := newTestSender(t)
	send := func(tenant string, http2 bool, c CredentialsConfig) string {
		t.Helper()
		r := request(e.URL)
		r.Tenant, r.HTTP2, r.Credentials = tenant, http2, credentials(t, c)
		want(t, s.Send(t.Context(), r), Delivered, 200, "")
		return <-addresses
	}
	for _, http2 := range []bool{false, true} {
		seen := map[string]string{}
		for name, from := range map[string]func() string{
			"no tenant":           func() string { return send("", http2, roots) },
			"a tenant":            func() string { return send("a", http2, roots) },
			"its certificate":     func() string { return send("a", http2, own) },
			"another certificate": func() string { return send("a", http2, owners) },
			"another tenant":      func() string { return send("b", http2, own) },
		} {
			first := from()
			if owner, taken := seen[first]; taken {
				t.Errorf("HTTP/2 %v: %s goes over the connection of %s", http2, name, owner)
			}
			seen[first] = name
			// Made again of the same texts, they are the same.
			if again := from(); again != first {
				t.Errorf("HTTP/2 %v: %s does not go over its own connection", http2, name)
			}
		}
		// What only the request says does not matter to the connection.
		if from := send("a", http2, named); seen[from] != "a tenant" {
			t.Errorf("HTTP/2 %v: with a bearer token over the connection of %q, want that of the tenant", http2, seen[from])
		}
	}
}

// echoHead answers with what it is sent, where no answer may have it: as a status, as a
// header without a name, or as an encoding, in turns.
func echoHead(c net.Conn, n int) {
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	var head bytes.Buffer
	req.Header.Write(&head)
	body, _ := io.ReadAll(req.Body)
	all := strings.NewReplacer("\r\n", " ", ":", "=").Replace(head.String() + req.RequestURI + string(body))
	io.WriteString(c, [...]string{"HTTP/1.1 ", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: "}[n%3]+all+"\r\n\r\n")
}

func TestH10_CredentialsAreInNothingThatAnAttemptTells(t *testing.T) {
	t.Parallel()
	const canary = "c4n4ryc4n4ry"
	certificate, key := newAuthority(t, nowadays).issue(t, nowadays)
	echo := serve(t, func(_ *endpoint, c net.Conn, n int) { echoHead(c, n) })
	ends := map[string]string{
		"refused": "http://127.0.0.1:1", "blocked": "http://10.0.0.1", "echo": "http://" + echo.addr,
		"no TLS": "https://" + echo.addr, "hung up": "http://" + answering(t, "").addr,
	}
	kinds := map[string]func(end string) CredentialsConfig{
		"basic":  func(string) CredentialsConfig { return CredentialsConfig{Username: canary, Password: canary} },
		"bearer": func(string) CredentialsConfig { return CredentialsConfig{Bearer: canary} },
		"certificate": func(string) CredentialsConfig {
			return CredentialsConfig{ClientCertificate: certificate, ClientKey: key}
		},
		"OAuth2": func(end string) CredentialsConfig {
			return CredentialsConfig{OAuth2: &OAuth2Config{
				TokenURL: end + "/" + canary, ClientID: canary, ClientSecret: canary, Scopes: []string{canary}, Audience: canary,
			}}
		},
	}
	for name, end := range ends {
		for kind, config := range kinds {
			for range 3 { // the ways of the echo
				r := request(end + "/" + canary)
				r.Credentials = credentials(t, config(end))
				r.Headers = map[string]string{"X-Secret": canary}
				got := newTestSender(t).Send(t.Context(), r)
				if got.Verdict == Delivered || got.Error == "" {
					t.Errorf("%s, %s: got %+v", name, kind, got)
				}
				for _, secret := range []string{canary, "QzRuNHJ5", "YzRuNHJ5", key[100:120]} {
					if strings.Contains(got.Error+got.Class+string(got.Response), secret) {
						t.Errorf("%s, %s: the result tells: %q", name, kind, got.Error)
					}
				}
			}
		}
	}
}
