package webhooks

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What a sender writes is what a receiver reads.
func TestReadDelivery_ReadsWhatASenderWrites(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)
	want := Delivery{
		Queue: "orders", Subscription: "shop", Kind: " order 50% päid\n", Reference: "a b+c", Attempt: 3, MaxAttempts: 12,
		EnqueuedAt: at, RetryReason: "status", PreviousStatus: 503, Receipt: "r.1", LeaseDeadline: at.Add(time.Minute),
	}
	info := Info{
		Queue: want.Queue, Subscription: want.Subscription, Kind: want.Kind, Reference: want.Reference, Attempt: 3, MaxAttempts: 12,
		EnqueuedAt: at, RetryReason: want.RetryReason, PreviousStatus: 503, Receipt: want.Receipt, LeaseDeadline: want.LeaseDeadline,
	}
	h := header("POST / HTTP/1.1\r\nHost: x\r\n")
	info.write(&h)
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(string(h) + "\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	if got := ReadDelivery(r.Header); got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestReadDelivery_TakesNonsenseForNothing(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	for name, value := range map[string]string{
		HeaderTimestamp: "soon", "posthaste-attempt": "-1", "posthaste-max-attempts": "99999999999", "posthaste-enqueued-at": "yesterday",
		"posthaste-kind": "100%", "posthaste-previous-status": "",
	} {
		h.Set(name, value)
	}
	if got, want := ReadDelivery(h), (Delivery{Kind: "100%"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestDeliveryFrom_IsZeroElsewhere(t *testing.T) {
	t.Parallel()
	if got := DeliveryFrom(t.Context()); got != (Delivery{}) {
		t.Errorf("got %+v", got)
	}
}
