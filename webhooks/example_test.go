package webhooks_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/webhooks"
)

// secret is what subscriptions.create answered.
const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// push makes a request as a posthaste server does.
func push(id, body, signedWith string) *http.Request {
	now := time.Now()
	signature, err := webhooks.Sign(id, now, []byte(body), signedWith)
	if err != nil {
		panic(err) // the secrets of these examples are good
	}
	r := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader(body))
	r.Header.Set(webhooks.HeaderID, id)
	r.Header.Set(webhooks.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	r.Header.Set(webhooks.HeaderSignature, signature)
	r.Header.Set("posthaste-kind", "order.paid")
	r.Header.Set("posthaste-attempt", "1")
	return r
}

func ExampleReceiver() {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // it is in memory, and verified
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		d := webhooks.DeliveryFrom(r.Context())
		fmt.Printf("%s, attempt %d: %s\n", d.Kind, d.Attempt, body)
	})
	receiver, err := webhooks.NewReceiver(handler, webhooks.ReceiverOptions{
		Secrets: []string{secret},
		History: webhooks.NewMemoryHistory(0),
		Logger:  slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	for _, r := range []*http.Request{
		push("item_1", `{"order": 17}`, secret),
		push("item_1", `{"order": 17}`, secret), // its answer was lost
		push("item_2", `{"order": 18}`, webhooks.NewSecret()),
	} {
		w := httptest.NewRecorder()
		receiver.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// order.paid, attempt 1: {"order": 17}
	// 200
	// 200
	// 401
}

func ExampleVerify() {
	body := `{"order": 17}`
	r := push("item_1", body, secret)

	// While a secret is changed, both are good.
	fmt.Println(webhooks.Verify(r.Header, []byte(body), webhooks.NewSecret(), secret))

	err := webhooks.Verify(r.Header, []byte(`{"order": 99}`), secret)
	fmt.Println(errors.Is(err, webhooks.ErrSignature))
	// Output:
	// <nil>
	// true
}

func ExampleVerifier_Read() {
	verifier, err := webhooks.NewVerifier(secret)
	if err != nil {
		fmt.Println(err)
		return
	}
	r := push("item_1", "hello", secret)
	body, err := verifier.Read(r, 1<<20, time.Now())
	fmt.Println(string(body), err, webhooks.ReadDelivery(r.Header).Kind)
	// Output: hello <nil> order.paid
}
