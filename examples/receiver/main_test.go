package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-io/posthaste/webhooks"
)

func TestReceiver_WorksOnceForEachIDThatIsSigned(t *testing.T) {
	t.Parallel()
	secret := webhooks.NewSecret()
	worked := map[string]int{}
	broken := true
	h, err := newHandler(secret, func(body []byte) error {
		if broken {
			return errors.New("database is away")
		}
		worked[string(body)]++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	send := func(id, body, signedWith string) int {
		now := time.Now()
		signature, err := webhooks.Sign(id, now, []byte(body), signedWith)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set(webhooks.HeaderID, id)
		r.Header.Set(webhooks.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
		r.Header.Set(webhooks.HeaderSignature, signature)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	if got := send("1", "a", webhooks.NewSecret()); got != http.StatusUnauthorized {
		t.Errorf("signed with another secret: got %d, want 401", got)
	}
	if got := send("1", "a", secret); got != http.StatusServiceUnavailable {
		t.Errorf("work that failed: got %d, want 503", got)
	}
	broken = false
	for range 2 {
		if got := send("1", "a", secret); got != http.StatusOK {
			t.Errorf("got %d, want 200", got)
		}
	}
	if worked["a"] != 1 {
		t.Errorf("worked %d times, want once", worked["a"])
	}
}
