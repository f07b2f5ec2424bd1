package webhooks

import (
	"errors"
	"fmt"
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
	// ContentType is the item's encoding, any text; empty is application/octet-stream, but
	// for an event that came without.
	// A Content-Type in Headers wins.
	ContentType string
	// Secrets sign in this order, newest first: whsec_… as [NewSecret] makes them, or
	// whsk_… as [NewAsymmetricSecret] does. At least one.
	Secrets []string
	// Credentials are what the endpoint wants to see beside the signature; nil is nothing.
	// Their Authorization wins over one in Headers.
	Credentials *Credentials
	// CloudEvent, if set, is sent as ce- headers: binary mode. It must pass [CheckCloudEvent].
	CloudEvent *CloudEvent
	// HTTP2 offers HTTP/2 to an endpoint that is asked over TLS. One that does not take it
	// is asked in HTTP/1.1, and so is every http:// URL.
	HTTP2 bool
	// Tenant is whose request this is, as a label that only has to differ. Idle connections
	// are shared within one tenant alone; empty is a tenant as well.
	Tenant string
	// Timeout covers the whole attempt, from name resolution to the end of the
	// answer; 0 is [DefaultTimeout].
	Timeout time.Duration
	Info    Info
	// KeepBody keeps more of the answer's body: [Result.Body].
	KeepBody bool
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
	// Span, if set, is the traceparent of the request itself. It is sent as it is, and
	// Traceparent is not looked at.
	Span string
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

// check judges a request before anything of it is sent, and returns where it goes. Its
// errors tell what is wrong with the configuration, without any value of it.
func (s *Sender) check(r *Request) (*target, error) {
	t, err := s.targets.of(r.URL)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	if err := s.guard.checkScheme(t.url); err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	if err := CheckMethod(r.Method); err != nil {
		return nil, fmt.Errorf("method: %w", err)
	}
	if err := CheckHeaders(r.Headers); err != nil {
		return nil, fmt.Errorf("headers: %w", err)
	}
	if r.CloudEvent != nil {
		if err := CheckCloudEvent(r.CloudEvent); err != nil {
			return nil, fmt.Errorf("cloud_event: %w", err)
		}
	}
	return t.over(r.Credentials.tls(), r.HTTP2), nil
}

// build appends the head of a request that was checked to b. authorization is empty where
// there is none but what the headers say.
func (s *Sender) build(b []byte, t *target, r *Request, authorization string, now time.Time) ([]byte, error) {
	timestamp := strconv.FormatInt(now.Unix(), 10)
	signature, err := s.sign(r, timestamp)
	if err != nil {
		return nil, err
	}

	method := orElse(r.Method, http.MethodPost)
	h := header(append(b, method...))
	h = append(h, ' ')
	h = append(h, t.uri...)
	h = append(h, " HTTP/1.1\r\n"...)
	h.set("Host", t.host)
	contentType, userAgent := mediaType(orElse(r.ContentType, "application/octet-stream")), s.userAgent
	if r.ContentType == "" && r.CloudEvent != nil && r.CloudEvent.ID != "" {
		contentType = "" // one would be an attribute that the event does not have
	}
	for name, value := range r.Headers {
		switch name = http.CanonicalHeaderKey(name); name {
		case "Content-Type":
			contentType = value
		case "User-Agent":
			userAgent = value
		case "Authorization":
			if authorization == "" {
				h.set(name, value)
			}
		default:
			h.set(name, value)
		}
	}
	if authorization != "" {
		h.set("Authorization", authorization)
	}
	h.set("User-Agent", userAgent)
	if contentType != "" {
		h.set("Content-Type", contentType)
	}
	if len(r.Body) > 0 || method != http.MethodGet {
		h.number("Content-Length", int64(len(r.Body)))
	}
	// Said outright, since an endpoint may compress if nothing forbids it.
	h.set("Accept-Encoding", "identity")
	h.set(HeaderID, r.ID)
	h.set(HeaderTimestamp, timestamp)
	h.set(HeaderSignature, signature)
	r.Info.write(&h)
	if r.CloudEvent != nil {
		r.CloudEvent.write(&h, r.ID)
	}
	return append(h, "\r\n"...), nil
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

// header is the head of a request. Names are written as they are: ours are in lower
// case on the wire. Values must be fit for it: see [CheckHeaders] and encodeValue.
type header []byte

func (h *header) set(name, value string) {
	*h = append(h.name(name), value...)
	*h = append(*h, "\r\n"...)
}

func (h *header) number(name string, n int64) {
	*h = strconv.AppendInt(h.name(name), n, 10)
	*h = append(*h, "\r\n"...)
}

func (h *header) name(name string) header {
	return append(append(*h, name...), ": "...)
}

func (i *Info) write(h *header) {
	text := func(name, value string) {
		if value != "" {
			h.set(name, encodeValue(value))
		}
	}
	count := func(name string, n int32) {
		if n > 0 {
			h.number(name, int64(n))
		}
	}
	instant := func(name string, t time.Time) {
		if !t.IsZero() {
			*h = t.UTC().AppendFormat(h.name(name), time.RFC3339Nano)
			*h = append(*h, "\r\n"...)
		}
	}
	text("posthaste-queue", i.Queue)
	text("posthaste-subscription", i.Subscription)
	text("posthaste-kind", i.Kind)
	text("posthaste-reference", i.Reference)
	count("posthaste-attempt", i.Attempt)
	count("posthaste-max-attempts", i.MaxAttempts)
	instant("posthaste-enqueued-at", i.EnqueuedAt)
	text("posthaste-retry-reason", i.RetryReason)
	count("posthaste-previous-status", i.PreviousStatus)
	text("posthaste-receipt", i.Receipt)
	instant("posthaste-lease-deadline", i.LeaseDeadline)
	count("webhook-hop", i.Hop+1)
	if own := orElse(i.Span, childTraceparent(i.Traceparent)); own != "" {
		h.set("traceparent", own)
	}
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
