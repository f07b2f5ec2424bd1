package webhooks

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Delivery is what a request says of itself beside its body.
//
// Only ID, SentAt and the body are signed. The rest is as good as the connection that
// it came over: fit to choose a handler and to log, and not to decide what somebody may
// do. What has to be sure belongs into the body.
type Delivery struct {
	// ID is the item's, the same each time that it is sent.
	ID string
	// SentAt is when this attempt was signed, to the second.
	SentAt time.Time

	Queue        string
	Subscription string
	// Kind and Reference are the producer's. Texts of more than 255 bytes come cut.
	Kind      string
	Reference string
	// Attempt counts from 1, with gaps. MaxAttempts is 0 where there is no limit.
	Attempt     int
	MaxAttempts int
	EnqueuedAt  time.Time
	// RetryReason says why the attempt before failed, such as status or timeout, and
	// PreviousStatus what it was answered, if it was.
	RetryReason    string
	PreviousStatus int
	// Receipt, if there is one, lets the endpoint answer 202 with posthaste-lease: keep
	// and settle the item itself until LeaseDeadline.
	Receipt       string
	LeaseDeadline time.Time
}

// ReadDelivery reads the headers of a request. It verifies nothing: [Verifier.Read]
// does. What is missing or makes no sense is zero.
func ReadDelivery(h http.Header) Delivery {
	return Delivery{
		ID: h.Get(HeaderID), SentAt: sentAt(h),
		Queue: infoText(h, "posthaste-queue"), Subscription: infoText(h, "posthaste-subscription"),
		Kind: infoText(h, "posthaste-kind"), Reference: infoText(h, "posthaste-reference"),
		Attempt: infoCount(h, "posthaste-attempt"), MaxAttempts: infoCount(h, "posthaste-max-attempts"),
		EnqueuedAt:  infoInstant(h, "posthaste-enqueued-at"),
		RetryReason: infoText(h, "posthaste-retry-reason"), PreviousStatus: infoCount(h, "posthaste-previous-status"),
		Receipt: infoText(h, "posthaste-receipt"), LeaseDeadline: infoInstant(h, "posthaste-lease-deadline"),
	}
}

type deliveryKey struct{}

// DeliveryFrom returns what a [Receiver] read of the request whose context this is; the
// zero Delivery for any other context.
func DeliveryFrom(ctx context.Context) Delivery {
	d, _ := ctx.Value(deliveryKey{}).(Delivery)
	return d
}

func sentAt(h http.Header) time.Time {
	at, err := parseTimestamp(h.Get(HeaderTimestamp))
	if err != nil {
		return time.Time{}
	}
	return at
}

// infoText undoes encodeValue; what it cannot have made stays as it is.
func infoText(h http.Header, name string) string {
	text, err := url.PathUnescape(h.Get(name))
	if err != nil {
		return h.Get(name)
	}
	return text
}

func infoCount(h http.Header, name string) int {
	n, err := strconv.ParseUint(h.Get(name), 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

func infoInstant(h http.Header, name string) time.Time {
	at, err := time.Parse(time.RFC3339Nano, h.Get(name))
	if err != nil {
		return time.Time{}
	}
	return at
}
