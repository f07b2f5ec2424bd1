package client

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The words of [Error.CodeText] that programs branch on; see the reference of errors
// for all of them.
const (
	CodeInvalid              = "invalid"
	CodeUnauthenticated      = "unauthenticated"
	CodeForbidden            = "forbidden"
	CodeNotFound             = "not_found"
	CodeNoSuchMethod         = "no_such_method"
	CodeNotBlocking          = "not_blocking"
	CodeNotSupported         = "not_supported"
	CodeStaleLease           = "stale_lease"
	CodeAlreadyDead          = "already_dead"
	CodeAlreadyExists        = "already_exists"
	CodeIdempotencyMismatch  = "idempotency_mismatch"
	CodeRevisionMismatch     = "revision_mismatch"
	CodeQueuePaused          = "queue_paused"
	CodeNotEmpty             = "not_empty"
	CodeClientWaiting        = "client_waiting"
	CodeTooLarge             = "too_large"
	CodeFanOutTooLarge       = "fan_out_too_large"
	CodeIsTopic              = "is_topic"
	CodeOverloaded           = "overloaded"
	CodeRateLimited          = "rate_limited"
	CodeRequestTimeout       = "request_timeout"
	CodeUnknownOutcome       = "unknown_outcome"
	CodeShuttingDown         = "shutting_down"
	CodeStoreUnavailable     = "store_unavailable"
	CodeDiskFull             = "disk_full"
	CodeEncryptionKeyMissing = "encryption_key_missing"
	CodeInternal             = "internal"
)

// Error is a call that was refused, or had no answer. Take it from an error with
// errors.As, or ask [Is].
type Error struct {
	// Method is the call, such as queue.produce.
	Method string
	// Status is the HTTP status, 0 without an answer.
	Status int
	// CodeText is the stable word for programs, empty without an answer of the server. It
	// is also invalid, with Status 0, for a call with text that is not UTF-8.
	CodeText string
	// Message says for people what is wrong and what to do.
	Message string
	// Details has more for programs, such as field.
	Details map[string]string
	// Results are, for calls that settle, what became of each receipt, in order.
	Results []SettleResult
	// RetryAfter is how long the server asks to wait, or 0.
	RetryAfter time.Duration
	// RequestID is what the server's log has the request under.
	RequestID string
	// Tries counts how often the call was sent.
	Tries int
	// Uncertain says that a try had no answer that tells what was done: the call may have
	// been done. Then a refusal such as already_exists or stale_lease may be about what
	// an earlier try did.
	Uncertain bool
	// Err is why there was no answer, or, with one, why the call was not repeated; else nil.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("posthaste: ")
	b.WriteString(e.Method)
	for _, part := range []string{e.CodeText, e.Message} {
		if part != "" {
			b.WriteString(": ")
			b.WriteString(part)
		}
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.Tries > 1 {
		fmt.Fprintf(&b, " (tried %d times)", e.Tries)
	}
	return b.String()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Is says whether err is a refusal with this word: client.Is(err, client.CodeNotFound).
func Is(err error, codeText string) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.CodeText == codeText
}

// retryAfter reads the header, in seconds or as a date; 0 without one.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}
