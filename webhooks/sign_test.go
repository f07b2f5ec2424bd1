package webhooks

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// The reference libraries' own vector, and what they sign it to.
const (
	goldenID     = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	goldenSecret = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	goldenBody   = `{"test": 2432232314}`
	goldenAt     = 1614265330
	goldenSigned = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

func TestG08_SignsTheGoldenVector(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{goldenSecret, "whsec_" + goldenSecret} {
		got, err := Sign(goldenID, time.Unix(goldenAt, 0), []byte(goldenBody), secret)
		if err != nil || got != goldenSigned {
			t.Errorf("Sign: got %q, %v; want %q", got, err, goldenSigned)
		}
	}
}

func TestKey_SignsTheSameEachTimeItIsUsed(t *testing.T) {
	t.Parallel()
	k, err := newKey(goldenSecret)
	if err != nil {
		t.Fatal(err)
	}
	var signers sync.WaitGroup
	for range 8 {
		signers.Go(func() {
			for range 100 {
				k.mac("another", "1", []byte("what came before must leave no trace"))
				got, err := sign(goldenID, strconv.Itoa(goldenAt), []byte(goldenBody), []*key{k})
				if err != nil || got != goldenSigned {
					t.Errorf("got %q, %v; want %q", got, err, goldenSigned)
				}
			}
		})
	}
	signers.Wait()
}

func TestG08_ReferenceLibraryVerifiesOurSignatures(t *testing.T) {
	t.Parallel()
	bodies := []string{goldenBody, "", "\x00\xff\n.", strings.Repeat("x", 1<<16)}
	for _, body := range bodies {
		secret, now := NewSecret(), time.Now()
		signature, err := Sign(goldenID, now, []byte(body), secret)
		if err != nil {
			t.Fatal(err)
		}
		reference, err := standard.NewWebhook(secret)
		if err != nil {
			t.Fatalf("reference library refuses a secret of ours: %v", err)
		}
		if err := reference.Verify([]byte(body), signed(goldenID, now, signature)); err != nil {
			t.Errorf("body %.20q: %v", body, err)
		}
	}
}

func TestG08_WeVerifyTheReferenceLibrarysSignatures(t *testing.T) {
	t.Parallel()
	reference, err := standard.NewWebhook(goldenSecret)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(goldenAt, 0)
	signature, err := reference.Sign(goldenID, now, []byte(goldenBody))
	if err != nil {
		t.Fatal(err)
	}
	if err := verifyAt(goldenSecret, signed(goldenID, now, signature), []byte(goldenBody), now); err != nil {
		t.Error(err)
	}
}

func TestG05_OneSignatureForEachSecretInOrder(t *testing.T) {
	t.Parallel()
	secrets := []string{NewSecret(), NewSecret(), NewSecret()}
	at := time.Unix(goldenAt, 999_999_999)
	got, err := Sign(goldenID, at, []byte(goldenBody), secrets...)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, s := range secrets {
		one, err := Sign(goldenID, at, []byte(goldenBody), s)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, one)
	}
	if got != strings.Join(want, " ") {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestG06_IDWithADotIsNotSigned(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "a.b", "a b", "ä", "a\n", strings.Repeat("a", 256)} {
		if got, err := Sign(id, time.Now(), nil, NewSecret()); err == nil {
			t.Errorf("id %.10q: signed as %q", id, got)
		}
	}
	if _, err := Sign("0190163d-8694-739b-aea5-966c26f8ad91", time.Now(), nil, NewSecret()); err != nil {
		t.Errorf("an item's id: %v", err)
	}
}

func TestG04_Secrets(t *testing.T) {
	t.Parallel()
	encode := func(n int) string { return base64.StdEncoding.EncodeToString(make([]byte, n)) }
	good := []string{NewSecret(), "whsec_" + encode(24), encode(24), encode(64)}
	for _, secret := range good {
		if _, err := ParseSecret(secret); err != nil {
			t.Errorf("%q: %v", secret, err)
		}
	}
	bad := []string{
		"", "whsec_", encode(23), encode(65), "whsk_" + encode(32), "whsec_whsec_" + encode(32),
		encode(32) + "\n", strings.TrimRight(encode(32), "="), " " + encode(32),
		base64.URLEncoding.EncodeToString([]byte(strings.Repeat("\xff", 32))),
		// The last character's unused bits are set: another text for the same key.
		strings.Repeat("A", 42) + "B=",
	}
	for _, secret := range bad {
		if _, err := ParseSecret(secret); err == nil {
			t.Errorf("%q: no error", secret)
		}
	}
	first, second := NewSecret(), NewSecret()
	if key, _ := ParseSecret(first); first == second || !strings.HasPrefix(first, "whsec_") || len(key) != 32 {
		t.Errorf("NewSecret: got %q, then %q", first, second)
	}
}

func TestH10_ErrorsOfSecretsHoldNothingOfThem(t *testing.T) {
	t.Parallel()
	const canary = "Q0FOQVJZ"
	for _, secret := range []string{"whsec_" + canary, canary + "!", canary + "\n" + canary} {
		_, err := ParseSecret(secret)
		if err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%q: got %v", secret, err)
		}
		if _, err := NewVerifier(secret); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("NewVerifier(%q): got %v", secret, err)
		}
	}
}

func signed(id string, at time.Time, signature string) http.Header {
	h := http.Header{}
	h.Set(HeaderID, id)
	h.Set(HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	h.Set(HeaderSignature, signature)
	return h
}
