package webhooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// DefaultTimeout is the deadline of a [Request] that does not say.
const DefaultTimeout = 30 * time.Second

// Request is one attempt.
type Request struct {
	// ID is sent as webhook-id, the same in all attempts of an item: 1 to 255
	// characters of A-Z a-z 0-9 _ -.
	ID string
	// URL must pass [ParseURL], and [Guard.CheckURL] where it is configured.
	URL string
	// Method must pass [CheckMethod]; empty is POST.
	Method string
	// Headers are the user's, the item's already laid over the subscription's. They
	// must pass [CheckHeaders].
	Headers map[string]string
	// ContentType is the item's encoding, any text; empty is application/octet-stream.
	// A Content-Type in Headers wins.
	ContentType string
	// Secrets sign, newest first: whsec_… as [NewSecret] makes them. At least one.
	Secrets []string
	// Timeout covers the whole attempt, from name resolution to the end of the
	// answer; 0 is [DefaultTimeout].
	Timeout time.Duration
	Info    Info
	// Body is sent as it is. Send does not change it, and may still read it for a
	// moment after an attempt that failed, so it must not be reused as a buffer.
	Body []byte
}

// Info is what the endpoint is told beside the body. Fields that are empty or
// zero are left out. Texts may hold anything: what is not visible ASCII or a
// space between is percent-encoded, and so is the percent sign.
type Info struct {
	Queue        string
	Subscription string
	Kind         string
	Reference    string
	// Attempt counts deliveries from 1.
	Attempt int32
	// MaxAttempts is left out if it is not positive: no limit.
	MaxAttempts int32
	EnqueuedAt  time.Time
	// RetryReason is the class of the attempt before, PreviousStatus its status.
	RetryReason    string
	PreviousStatus int32
	// Receipt, if set, lets the endpoint answer 202 with posthaste-lease: keep and
	// settle the item later, until LeaseDeadline.
	Receipt       string
	LeaseDeadline time.Time
	// Hop counts the pushes that led to this item; webhook-hop is one more.
	Hop int32
	// Traceparent is the producer's. The request continues its trace under a new
	// span id; a value that is not a W3C traceparent is left out.
	Traceparent string
}

// CheckMethod judges the method of a subscription or an item; empty is POST.
func CheckMethod(method string) error {
	switch method {
	case "", http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodGet:
		return nil
	default:
		return fmt.Errorf("%.20q is not one of POST, PUT, PATCH, DELETE, GET", method)
	}
}

// build makes the HTTP request. Its errors tell what is wrong with the
// configuration, without any value of it.
func (s *Sender) build(ctx context.Context, r *Request, now time.Time) (*http.Request, error) {
	u, err := s.urls.of(r.URL)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	if err := s.guard.checkScheme(u); err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	if err := CheckMethod(r.Method); err != nil {
		return nil, fmt.Errorf("method: %w", err)
	}
	if err := CheckHeaders(r.Headers); err != nil {
		return nil, fmt.Errorf("headers: %w", err)
	}
	timestamp := strconv.FormatInt(now.Unix(), 10)
	signature, err := s.sign(r, timestamp)
	if err != nil {
		return nil, err
	}

	h := newHeader(usualHeaders + len(r.Headers))
	h.set("Content-Type", encodeValue(orElse(r.ContentType, "application/octet-stream")))
	h.set("User-Agent", s.userAgent)
	for name, value := range r.Headers {
		h.set(http.CanonicalHeaderKey(name), value)
	}
	// Said outright, since an endpoint may compress if nothing forbids it.
	h.set("Accept-Encoding", "identity")
	h.set(HeaderID, r.ID)
	h.set(HeaderTimestamp, timestamp)
	h.set(HeaderSignature, signature)
	r.Info.write(&h)

	method := orElse(r.Method, http.MethodPost)
	req := &http.Request{
		Method: method, URL: u, Host: u.Host, Header: h.fields,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		ContentLength: int64(len(r.Body)),
		Body:          newBody(method, r.Body),
	}
	return req.WithContext(ctx), nil
}

func (s *Sender) sign(r *Request, timestamp string) (string, error) {
	if len(r.Secrets) == 0 {
		return "", errors.New("no secret to sign with")
	}
	keys := make([]*key, len(r.Secrets))
	for i, secret := range r.Secrets {
		k, err := s.keys.of(secret)
		if err != nil {
			return "", err
		}
		keys[i] = k
	}
	return sign(r.ID, timestamp, r.Body, keys)
}

// usualHeaders is how many headers of ours most requests have.
const usualHeaders = 14

// header is a [net/http.Header] whose values lie in one array. Names are written as they
// are: ours are in lower case on the wire.
type header struct {
	fields http.Header
	values []string
}

func newHeader(n int) header {
	return header{fields: make(http.Header, n), values: make([]string, 0, n)}
}

func (h *header) set(name, value string) {
	h.values = append(h.values, value)
	n := len(h.values)
	h.fields[name] = h.values[n-1 : n : n]
}

// newBody hides the bytes from net/http's GetBody, so that it can never replay
// them. A GET without a body would be replayed nevertheless, as being idempotent;
// a reader that only turns out to be empty when it is read prevents that.
func newBody(method string, body []byte) io.ReadCloser {
	if len(body) == 0 && method != http.MethodGet {
		return http.NoBody
	}
	return io.NopCloser(bytes.NewReader(body))
}

func (i *Info) write(h *header) {
	text := func(name, value string) {
		if value != "" {
			h.set(name, encodeValue(value))
		}
	}
	number := func(name string, n int32) {
		if n > 0 {
			h.set(name, strconv.FormatInt(int64(n), 10))
		}
	}
	instant := func(name string, t time.Time) {
		if !t.IsZero() {
			h.set(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	text("posthaste-queue", i.Queue)
	text("posthaste-subscription", i.Subscription)
	text("posthaste-kind", i.Kind)
	text("posthaste-reference", i.Reference)
	number("posthaste-attempt", i.Attempt)
	number("posthaste-max-attempts", i.MaxAttempts)
	instant("posthaste-enqueued-at", i.EnqueuedAt)
	text("posthaste-retry-reason", i.RetryReason)
	number("posthaste-previous-status", i.PreviousStatus)
	text("posthaste-receipt", i.Receipt)
	instant("posthaste-lease-deadline", i.LeaseDeadline)
	number("webhook-hop", i.Hop+1)
	if parent := childTraceparent(i.Traceparent); parent != "" {
		h.set("traceparent", parent)
	}
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
