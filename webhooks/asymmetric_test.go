package webhooks

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// The vector of Svix's server, for the same request as the other golden one.
const (
	goldenPrivate   = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
	goldenPublic    = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
	goldenSignedv1a = "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="
)

func TestG03_Ed25519SignsTheGoldenVector(t *testing.T) {
	t.Parallel()
	now := time.Unix(goldenAt, 0)
	got, err := Sign(goldenID, now, []byte(goldenBody), goldenPrivate)
	if err != nil || got != goldenSignedv1a {
		t.Errorf("Sign: got %q, %v; want %q", got, err, goldenSignedv1a)
	}
	if public, err := PublicKey(goldenPrivate); err != nil || public != goldenPublic {
		t.Errorf("PublicKey: got %q, %v; want %q", public, err, goldenPublic)
	}
	for _, secret := range []string{goldenPublic, goldenPrivate} {
		if err := verifyAt(secret, signed(goldenID, now, goldenSignedv1a), []byte(goldenBody), now); err != nil {
			t.Errorf("%.5s: %v", secret, err)
		}
	}
}

func TestG03_MixedSecretsSignInTheOrderGiven(t *testing.T) {
	t.Parallel()
	got, err := Sign(goldenID, time.Unix(goldenAt, 0), []byte(goldenBody), goldenPrivate, goldenSecret, goldenPrivate)
	if want := goldenSignedv1a + " " + goldenSigned + " " + goldenSignedv1a; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestG03_EachKindOfKeyVerifiesItsOwnSignaturesOnly(t *testing.T) {
	t.Parallel()
	now := time.Unix(goldenAt, 0)
	other, err := PublicKey(NewAsymmetricSecret())
	if err != nil {
		t.Fatal(err)
	}
	hmacOf := strings.TrimPrefix(goldenSigned, "v1,")
	edOf := strings.TrimPrefix(goldenSignedv1a, "v1a,")
	for name, tt := range map[string]struct {
		secrets   []string
		signature string
		body      string
		want      error
	}{
		"its own":                  {[]string{goldenPublic}, goldenSignedv1a, goldenBody, nil},
		"beside a newer version":   {[]string{goldenPublic}, "v2,AAAA " + goldenSignedv1a, goldenBody, nil},
		"of a list of both":        {[]string{other, goldenSecret}, goldenSignedv1a + " " + goldenSigned, goldenBody, nil},
		"another key":              {[]string{other}, goldenSignedv1a, goldenBody, ErrSignature},
		"another body":             {[]string{goldenPublic}, goldenSignedv1a, goldenBody + " ", ErrSignature},
		"HMAC for a public key":    {[]string{goldenPublic}, goldenSigned, goldenBody, ErrSignature},
		"ed25519 for a secret":     {[]string{goldenSecret}, goldenSignedv1a, goldenBody, ErrSignature},
		"HMAC under another name":  {[]string{goldenSecret}, "v1a," + hmacOf, goldenBody, ErrSignature},
		"ed25519 under that name":  {[]string{goldenPublic}, "v1," + edOf, goldenBody, ErrSignature},
		"cut short":                {[]string{goldenPublic}, "v1a,AAAA", goldenBody, ErrSignature},
		"empty":                    {[]string{goldenPublic}, "v1a,", goldenBody, ErrSignature},
		"after ten others":         {[]string{goldenPublic}, strings.Repeat("v1a,AAAA ", 10) + goldenSignedv1a, goldenBody, ErrSignature},
		"HMAC keyed by the public": {[]string{goldenPublic}, hmacKeyedByThePublicKey(t), goldenBody, ErrSignature},
	} {
		v, err := NewVerifier(tt.secrets...)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Verify(signed(goldenID, now, tt.signature), []byte(tt.body), now); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
}

// hmacKeyedByThePublicKey is what somebody would send who hopes that the verifier takes the
// public key for a shared secret.
func hmacKeyedByThePublicKey(t *testing.T) string {
	t.Helper()
	signature, err := Sign(goldenID, time.Unix(goldenAt, 0), []byte(goldenBody), strings.TrimPrefix(goldenPublic, "whpk_"))
	if err != nil {
		t.Fatal(err)
	}
	return signature
}

func TestG03_AReceiverWithThePublicKeyTakesWhatTheSenderSigns(t *testing.T) {
	t.Parallel()
	secret := NewAsymmetricSecret()
	public, err := PublicKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	receiver, err := NewReceiver(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, r.Body)
	}), ReceiverOptions{Secrets: []string{public}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(receiver)
	t.Cleanup(server.Close)
	for _, body := range []string{"", goldenBody, strings.Repeat("x", 100_000)} {
		r := request(server.URL)
		r.Secrets, r.Body = []string{secret}, []byte(body)
		want(t, newTestSender(t).Send(t.Context(), r), Delivered, 200, "")
	}
	r := request(server.URL)
	r.Secrets = []string{NewAsymmetricSecret()}
	want(t, newTestSender(t).Send(t.Context(), r), Rejected, 401, ClassStatus)
	r.Secrets = []string{public}
	want(t, newTestSender(t).Send(t.Context(), r), Rejected, 0, ClassInvalidRequest)
}

func TestG04_AsymmetricSecrets(t *testing.T) {
	t.Parallel()
	encode := base64.StdEncoding.EncodeToString
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	mixed := append([]byte{}, private...)
	mixed[40] ^= 1
	for name, secret := range map[string]string{
		"a seed alone":       "whsk_" + encode(private[:32]),
		"another public key": "whsk_" + encode(mixed),
		"not base64":         "whsk_!" + encode(private),
		"a line break":       "whsk_" + encode(private) + "\n",
		"no key":             "whsk_",
		"a public key":       goldenPublic,
	} {
		if _, err := ParseSecret(secret); err == nil || strings.Contains(err.Error(), encode(private)[:8]) {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := PublicKey(secret); err == nil {
			t.Errorf("PublicKey, %s: no error", name)
		}
	}
	for name, public := range map[string]string{
		"a private key": "whpk_" + encode(private), "31 bytes": "whpk_" + encode(private[:31]), "nothing": "whpk_",
	} {
		if _, err := NewVerifier(public); err == nil {
			t.Errorf("NewVerifier, %s: no error", name)
		}
	}
	if _, err := PublicKey(NewSecret()); err == nil {
		t.Error("PublicKey of a shared secret: no error")
	}
	one, two := NewAsymmetricSecret(), NewAsymmetricSecret()
	if key, err := ParseSecret(one); one == two || err != nil || len(key) != ed25519.PrivateKeySize {
		t.Errorf("NewAsymmetricSecret: %d bytes, %v", len(key), err)
	}
}
