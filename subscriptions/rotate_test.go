package subscriptions

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// clock is a time that a test moves.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

// setupRotation returns a service at a time, with the subscription billing, whose secret
// is whsec_1.
func setupRotation(t *testing.T) (*Service, *clock) {
	t.Helper()
	_, kit := setup(t)
	c := &clock{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	o := kit.options()
	o.Now = c.Now
	s := New(o)
	p := params("billing", "orders")
	p.Secret = "whsec_1"
	if _, err := s.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return s, c
}

func signing(s *Subscription, now time.Time) string {
	var all []string
	for _, secret := range s.SigningSecrets(now) {
		all = append(all, secret.Reveal())
	}
	return strings.Join(all, " ")
}

func TestG05_RotationSignsWithNewAndOldForTheOverlap(t *testing.T) {
	t.Parallel()
	s, c := setupRotation(t)
	rotate := func(secret Secret, overlap *time.Duration) Subscription {
		t.Helper()
		sub, err := s.RotateSecret(t.Context(), queue.DefaultNamespace, "billing", RotateParams{Secret: secret, Overlap: overlap})
		if err != nil {
			t.Fatal(err)
		}
		return sub
	}
	want := func(after time.Duration, want string) {
		t.Helper()
		sub, err := s.Get(t.Context(), queue.DefaultNamespace, "billing")
		if got := signing(&sub, c.now.Add(after)); err != nil || got != want {
			t.Errorf("after %s: got %q, %v, want %q", after, got, err, want)
		}
	}
	if sub := rotate("", nil); sub.Secrets[0].Secret.Reveal() != madeSecret {
		t.Error("the answer has not the secret that was made")
	}
	want(0, "whsec_made whsec_1")
	want(24*time.Hour-1, "whsec_made whsec_1")
	want(24*time.Hour, "whsec_made")

	c.now = c.now.Add(time.Hour)
	rotate("whsk_3", new(48*time.Hour))
	want(0, "whsk_3 whsec_made whsec_1")
	want(23*time.Hour, "whsk_3 whsec_made")
	want(48*time.Hour, "whsk_3")

	// Two old ones at most: the oldest goes.
	rotate("whsec_4", new(48*time.Hour))
	want(0, "whsec_4 whsk_3 whsec_made")

	// An old secret does not outlive one that is newer.
	rotate("whsec_5", new(time.Minute))
	want(time.Minute-1, "whsec_5 whsec_4 whsk_3")
	want(time.Minute, "whsec_5")

	// One that leaked is out at once, and may come back.
	rotate("whsec_6", new(time.Duration(0)))
	want(0, "whsec_6")
	rotate("whsec_7", nil)
	rotate("whsec_6", nil)
	want(0, "whsec_6 whsec_7")
}

func TestG05_ExpiredSecretsAreForgottenAtTheNextWrite(t *testing.T) {
	t.Parallel()
	s, c := setupRotation(t)
	if _, err := s.RotateSecret(t.Context(), queue.DefaultNamespace, "billing", RotateParams{Secret: "whsec_2"}); err != nil {
		t.Fatal(err)
	}
	c.now = c.now.Add(25 * time.Hour)
	if sub, err := s.Get(t.Context(), queue.DefaultNamespace, "billing"); err != nil || len(sub.Secrets) != 2 {
		t.Errorf("reading changed something: %d secrets, %v", len(sub.Secrets), err)
	}
	if sub, err := s.Pause(t.Context(), queue.DefaultNamespace, "billing"); err != nil || len(sub.Secrets) != 1 {
		t.Errorf("got %d secrets, %v, want the old one gone", len(sub.Secrets), err)
	}
}

func TestService_RotateSecretRefuses(t *testing.T) {
	t.Parallel()
	s, _ := setupRotation(t)
	for _, tt := range []struct {
		field  string
		params RotateParams
	}{
		{"secret", RotateParams{Secret: "bad canary"}},
		{"secret", RotateParams{Secret: "whsec_1"}},
		{"overlap", RotateParams{Overlap: new(-time.Second)}},
		{"overlap", RotateParams{Overlap: new(7*24*time.Hour + 1)}},
	} {
		_, err := s.RotateSecret(t.Context(), queue.DefaultNamespace, "billing", tt.params)
		invalid, ok := errors.AsType[*queue.InvalidError](err)
		if !ok || invalid.Field != tt.field || strings.Contains(err.Error(), "canary") {
			t.Errorf("got %v, want a complaint about %s", err, tt.field)
		}
	}
	if _, err := s.RotateSecret(t.Context(), queue.DefaultNamespace, "billing", RotateParams{Revision: 99}); !errors.Is(err, queue.ErrRevision) {
		t.Errorf("another revision: %v", err)
	}
	if _, err := s.RotateSecret(t.Context(), queue.DefaultNamespace, "mail", RotateParams{}); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("no subscription: %v", err)
	}
}
