package client

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	v1 "github.com/posthaste-io/posthaste/api/v1"
)

// The words of [Error.CodeText] that programs branch on; see the reference of errors
// for all of them.
const (
	CodeInvalid             = "invalid"
	CodeUnauthenticated     = "unauthenticated"
	CodeForbidden           = "forbidden"
	CodeNotFound            = "not_found"
	CodeNotSupported        = "not_supported"
	CodeStaleLease          = "stale_lease"
	CodeAlreadyDead         = "already_dead"
	CodeAlreadyExists       = "already_exists"
	CodeIdempotencyMismatch = "idempotency_mismatch"
	CodeRevisionMismatch    = "revision_mismatch"
	CodeQueuePaused         = "queue_paused"
	CodeNotEmpty            = "not_empty"
	CodeTooLarge            = "too_large"
	CodeOverloaded          = "overloaded"
	CodeUnknownOutcome      = "unknown_outcome"
	CodeShuttingDown        = "shutting_down"
	CodeStoreUnavailable    = "store_unavailable"
	CodeDiskFull            = "disk_full"
)

// Error is a call that was refused, or had no answer. Take it from an error with
// errors.As, or ask [Is].
type Error struct {
	// Method is the call, such as queue.produce.
	Method string
	// Status is the HTTP status, 0 without an answer.
	Status int
	// CodeText is the stable word for programs, empty without an answer of the server.
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
	// Err is why there was no answer, or nil.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("posthaste: ")
	b.WriteString(e.Method)
	switch {
	case e.Err != nil:
		fmt.Fprintf(&b, ": %v", e.Err)
	case e.CodeText != "":
		fmt.Fprintf(&b, ": %s: %s", e.CodeText, e.Message)
	default:
		fmt.Fprintf(&b, ": %s", e.Message)
	}
	if e.Tries > 1 {
		fmt.Fprintf(&b, " (tried %d times)", e.Tries)
	}
	return b.String()
}

// Unwrap returns why there was no answer.
func (e *Error) Unwrap() error { return e.Err }

// Is says whether err is a refusal with this word: client.Is(err, client.CodeNotFound).
func Is(err error, codeText string) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.CodeText == codeText
}

// refusal reads an answer that is none of success. What no posthaste server wrote,
// such as a proxy's page, has no word.
func refusal(method string, resp *http.Response, body []byte, tries *tries) *Error {
	e := &Error{
		Method: method, Status: resp.StatusCode, RequestID: resp.Header.Get("X-Request-Id"),
		RetryAfter: retryAfter(resp.Header), Tries: tries.n, Uncertain: tries.uncertain,
	}
	reply := new(v1.SettleReply) // its first four fields are those of every refusal
	if readReply(resp.Header.Get("Content-Type"), body, reply) && reply.GetCodeText() != "" {
		e.CodeText, e.Message, e.Details = reply.GetCodeText(), reply.GetMessage(), reply.GetDetails()
		e.Results = settleResults(reply.GetResults())
		e.Uncertain = e.Uncertain || e.CodeText == CodeUnknownOutcome
		return e
	}
	e.Message = fmt.Sprintf("status %d %s, not from a posthaste server", resp.StatusCode, http.StatusText(resp.StatusCode))
	return e
}

// readReply reads either encoding: a server that could not make out what was asked for
// answers JSON.
func readReply(contentType string, body []byte, reply proto.Message) bool {
	media, _, err := mime.ParseMediaType(contentType)
	switch {
	case err != nil:
		return false
	case media == protobuf:
		return proto.Unmarshal(body, reply) == nil
	case media == "application/json":
		return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(body, reply) == nil
	default:
		return false
	}
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
