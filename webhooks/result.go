package webhooks

import "time"

// Verdict is what an attempt's outcome means for its item.
type Verdict int

// The verdicts.
const (
	// Delivered: the endpoint said 2xx. The item is done.
	Delivered Verdict = iota + 1
	// Deferred: the endpoint took the item and will settle it with the receipt.
	Deferred
	// Retryable: it may work later. Also every outcome that is not known.
	Retryable
	// Throttled: the endpoint asked for fewer requests.
	Throttled
	// Rejected: the endpoint, or the request's own configuration, refuses the item.
	Rejected
	// Gone: the endpoint wants nothing any more.
	Gone
	// Blocked: the guard does not let us go there. Nothing was sent.
	Blocked
	// Aborted: we stopped it ourselves. It says nothing about the endpoint, which
	// may or may not have seen the request.
	Aborted
)

// String returns the word that the wire uses.
func (v Verdict) String() string {
	switch v {
	case Delivered:
		return "delivered"
	case Deferred:
		return "deferred"
	case Retryable:
		return "retryable"
	case Throttled:
		return "throttled"
	case Rejected:
		return "rejected"
	case Gone:
		return "gone"
	case Blocked:
		return "blocked"
	case Aborted:
		return "aborted"
	default:
		return "invalid"
	}
}

// Classes of failure: stable words, fit for metric labels and for programs. They
// also open [Result.Error].
const (
	// ClassStatus: a whole answer came, and its status was not 2xx.
	ClassStatus = "status"
	// ClassTimeout: the deadline passed. Whether the endpoint acted is not known,
	// unless the text says that there was no connection.
	ClassTimeout = "timeout"
	// ClassTLSTimeout: the endpoint took the connection and did not finish the handshake.
	ClassTLSTimeout = "tls_timeout"
	// ClassTLS: the handshake failed, most often over a certificate: the endpoint's, or
	// ours, which it may also refuse a moment after.
	ClassTLS = "tls_error"
	// ClassDNS: the name did not resolve.
	ClassDNS = "dns_error"
	// ClassRefused: nobody listens there.
	ClassRefused = "connection_refused"
	// ClassReset: the connection was reset while it was being made.
	ClassReset = "connection_reset"
	// ClassUnreachable: no way to the address.
	ClassUnreachable = "unreachable"
	// ClassResetAfterWrite: the connection ended without an answer after some of the
	// request was written. The endpoint may have acted.
	ClassResetAfterWrite = "reset_after_write"
	// ClassClosedBeforeWrite: the connection ended before a byte was written.
	ClassClosedBeforeWrite = "closed_before_write"
	// ClassBadResponse: what came is not HTTP, or not a final status from 200 to 599.
	ClassBadResponse = "bad_response"
	// ClassTooLargeHeaders: the headers, those of 1xx answers included, were over 64 KiB.
	ClassTooLargeHeaders = "too_large_headers"
	// ClassBlocked: the guard refused the address. The same for every such address.
	ClassBlocked = "blocked_address"
	// ClassInvalidRequest: URL, headers, secrets or id cannot be used. Nothing was sent.
	ClassInvalidRequest = "invalid_request"
	// ClassAuth: the token that the endpoint wants to see could not be had from its token
	// endpoint. Nothing was sent to the endpoint itself.
	ClassAuth = "auth_error"
	// ClassCanceled: the caller's context ended.
	ClassCanceled = "canceled"
)

// MaxResponse bounds [Result.Response], in bytes.
const MaxResponse = 4096

// Result is what became of one attempt.
type Result struct {
	Verdict Verdict
	// Status is the HTTP status, or 0 if no status line came.
	Status int
	// Class is one of the Class constants, and empty for delivered and deferred.
	Class string
	// Error is for people: the class and what happened, valid UTF-8 without control
	// characters, at most 400 bytes, free of secrets, of the URL and of header values.
	Error string
	// RetryAfter is what a failing endpoint asked for, from 1 second to 24 hours. It
	// is 0 if it did not ask, or asked for something that makes no sense.
	RetryAfter time.Duration
	// Never says that the endpoint does not want to see this item again
	// (posthaste-retry: never). Not set on 2xx.
	Never bool
	// Response is the head of the body, raw: any bytes, at most [MaxResponse].
	Response []byte
	// Body is the body up to 64 KiB, if [Request.KeepBody] asked for it; BodyCut says that
	// there was more, or that it broke off. Response is its head.
	Body    []byte
	BodyCut bool

	StartedAt time.Time
	// Duration runs until the verdict was known; reading the rest of the body may
	// have kept Send for up to two seconds more.
	Duration time.Duration
}
