package push_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/webhooks"
)

// signedBy produces an item and says with which of the secrets its push verifies.
func (e *env) signedBy(t *testing.T, r *receiver, secrets ...string) (verified []bool, a arrival) {
	t.Helper()
	id := e.produce(e.queue, object{"utf8": `{"n":1}`})[0]
	if a = r.next(); a.id() != id {
		t.Fatalf("item %s came, want %s", a.id(), id)
	}
	for _, secret := range secrets {
		verified = append(verified, a.verifies(t, secret))
	}
	return verified, a
}

func (e *env) rotate(secret, overlap string) subscription {
	request := object{"name": e.queue, "overlap": overlap}
	if secret != "" {
		request["secret"] = secret
	}
	var reply subscription
	e.call("subscriptions.rotate_secret", request, &reply)
	return reply
}

func rotationOverlap(t *testing.T, e *env) {
	r := newReceiver(t, nil)
	old := webhooks.NewSecret()
	if shown := e.subscribe(e.queue, r.URL, object{"secret": old}).Secret; shown != old {
		t.Errorf("created with %q, want the secret that was given", shown)
	}
	if by, _ := e.signedBy(t, r, old); !by[0] {
		t.Fatal("before the rotation: not signed with the secret that was given")
	}

	var rotated subscription
	var by []bool
	var a arrival
	for overlap := 4 * time.Second; ; overlap *= 2 {
		rotated = e.rotate("", overlap.String())
		if rotated.Secret == "" || rotated.Secret == old || len(rotated.OldSecretsUntil) != 1 {
			t.Fatalf("rotated to %+v, want a new secret and an old one", rotated)
		}
		if by, a = e.signedBy(t, r, old, rotated.Secret); a.at.Before(rotated.OldSecretsUntil[0]) {
			break
		}
		if overlap > time.Minute {
			t.Fatalf("a push takes longer than an overlap of %s", overlap)
		}
		old = rotated.Secret // a slow machine: the overlap was over before the item came
	}
	if !by[0] || !by[1] {
		t.Errorf("in the overlap: verifies with the old secret %v, the new %v; want both", by[0], by[1])
	}
	if v, err := webhooks.NewVerifier(old, rotated.Secret); err != nil || v.Verify(a.header, a.body, time.Now()) != nil {
		t.Errorf("a receiver with both secrets refuses it (%v)", err)
	}
	signatures := strings.Fields(a.header.Get("webhook-signature"))
	newest := a
	newest.header = a.header.Clone()
	newest.header.Set("webhook-signature", signatures[0])
	if len(signatures) != 2 || !newest.verifies(t, rotated.Secret) {
		t.Errorf("%d signatures, want two and the newest first", len(signatures))
	}

	until(t, rotated.OldSecretsUntil[0].Add(100*time.Millisecond))
	if by, _ := e.signedBy(t, r, old, rotated.Secret); by[0] || !by[1] {
		t.Errorf("after the overlap: verifies with the old secret %v, the new %v; want the new alone", by[0], by[1])
	}
	var info subscription
	if e.call("subscriptions.info", object{"name": e.queue}, &info); info.Secret != "" || len(info.OldSecretsUntil) != 0 {
		t.Errorf("after the overlap: got %+v, want neither a secret nor old ones", info)
	}
}

func rotationAtMostTwo(t *testing.T, e *env) {
	r := newReceiver(t, nil)
	secrets := []string{e.subscribe(e.queue, r.URL, nil).Secret}
	for range 3 {
		secrets = append(secrets, e.rotate("", "").Secret)
	}
	by, a := e.signedBy(t, r, secrets...)
	if by[0] || !by[1] || !by[2] || !by[3] {
		t.Errorf("of four secrets, the oldest first, those verify: %v; want the newest three", by)
	}
	if n := len(strings.Fields(a.header.Get("webhook-signature"))); n != 3 {
		t.Errorf("%d signatures, want 3", n)
	}
	// Without an overlap the one before is gone at once.
	newest := e.rotate("", "0s").Secret
	if by, _ := e.signedBy(t, r, secrets[3], newest); by[0] || !by[1] {
		t.Errorf("after a rotation with no overlap: the one before verifies %v, the new %v", by[0], by[1])
	}
}

func rotationEd25519(t *testing.T, e *env) {
	r := newReceiver(t, nil)
	old := e.subscribe(e.queue, r.URL, nil).Secret
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	e.rotate("whsk_"+base64.StdEncoding.EncodeToString(private), "")
	by, a := e.signedBy(t, r, old)
	if !by[0] {
		t.Error("in the overlap: does not verify with the old secret")
	}
	v, err := webhooks.NewVerifier("whpk_" + base64.StdEncoding.EncodeToString(public))
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Verify(a.header, a.body, time.Now()); err != nil {
		t.Errorf("with the public key: %v in %v", err, a.header)
	}
	signatures := strings.Fields(a.header.Get("webhook-signature"))
	if len(signatures) != 2 || !strings.HasPrefix(signatures[0], "v1a,") || !strings.HasPrefix(signatures[1], "v1,") {
		t.Errorf("signatures: got %q, want v1a, then v1", signatures)
	}
	// What is signed is the standard's: checked by hand, without our own code.
	text := a.id() + "." + a.header.Get("webhook-timestamp") + "." + string(a.body)
	signature, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(signatures[0], "v1a,"))
	if err != nil || !ed25519.Verify(public, []byte(text), signature) {
		t.Errorf("ed25519: %v; the signature is not of id.timestamp.body", err)
	}
}

func newPrivateKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return private
}
