package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
)

// Errors of the interface itself.
var (
	// ErrForbidden: the principal may not do this.
	ErrForbidden = errors.New("forbidden")

	errNoSuchMethod = errors.New("no such method")
	errSlowBody     = errors.New("the body did not arrive in time")
)

// mediaTypeError is a body that is not read, or an answer that is not written.
type mediaTypeError struct{ reason string }

func (e *mediaTypeError) Error() string { return e.reason }

// verbError is a path that exists, asked for in another way.
type verbError struct{ allow string }

func (e *verbError) Error() string { return "this path takes " + e.allow }

// refusedError is a settling call that was refused, with what to say of each of
// its receipts.
type refusedError struct {
	stale *queue.StaleError
	// paths are where the caller wrote the receipts: ids[3].
	paths   []string
	results []*v1.Settled
}

func (e *refusedError) Error() string { return e.stale.Error() }
func (e *refusedError) Unwrap() error { return e.stale }

// placedError is an error with the place where the caller wrote what it is about.
type placedError struct {
	error
	field string
}

func (e *placedError) Unwrap() error { return e.error }

// advisedError is an error of which the answer says, in place of what it says of others of
// its kind, which field it is about and what to do.
type advisedError struct {
	error
	field  string
	advice string
}

func (e *advisedError) Unwrap() error { return e.error }

// browserError is a request that a web page made, or may have made.
type browserError struct{ reason string }

func (e *browserError) Error() string        { return e.reason }
func (e *browserError) Is(target error) bool { return target == ErrForbidden }

// failure is the answer to an error.
type failure struct {
	status int
	// word is code_text.
	word    string
	message string
	details map[string]string
	// retryAfter, if not 0, goes into Retry-After, in whole seconds.
	retryAfter time.Duration
	// allow goes into Allow, challenge into WWW-Authenticate.
	allow     string
	challenge string
	// results are those of a settling call.
	results []*v1.Settled
}

// sentinel is an error that is told by errors.Is, and its answer.
type sentinel struct {
	err    error
	status int
	word   string
	// message says what is, and advice what to do.
	message string
	advice  string
	// ofItem is both of an item, whose id nobody can choose.
	ofItem string
	// cause tells of the error itself as well: for those that callers made and that
	// name only what they named. What went wrong within is logged, not told.
	cause      bool
	retryAfter time.Duration
}

// sentinels is searched from the top; failureOf knows the errors that carry more.
var sentinels = []sentinel{
	{err: errNoSuchMethod, status: http.StatusNotFound, word: "no_such_method", message: "there is no such method", advice: "calls are POST /v1/<method>, such as /v1/queue.produce"},
	{err: errSlowBody, status: http.StatusRequestTimeout, word: "request_timeout", message: "the body did not arrive in time", advice: "nothing was done, send it again"},
	{err: ErrForbidden, status: http.StatusForbidden, word: "forbidden", message: "the caller may not do this", cause: true},

	{err: queue.ErrAlreadyDead, status: http.StatusConflict, word: "already_dead", message: "the item is in a dead-letter queue, where nothing is buried", advice: "complete, retry or release it"},
	{err: queue.ErrStale, status: http.StatusConflict, word: "stale_lease", message: "the lease was settled, or the item was leased again", advice: "nothing was done"},
	{err: queue.ErrClientWaiting, status: http.StatusConflict, word: "client_waiting", message: "a request of this client_id waits on this queue already", advice: "let it end, or use another client_id"},
	{err: queue.ErrNotBlocking, status: http.StatusConflict, word: "not_blocking", message: "it blocks no ordering key", advice: "nothing was done", cause: true},
	{err: queue.ErrExists, status: http.StatusConflict, word: "already_exists", message: "the name is taken", cause: true},
	{err: queue.ErrRevision, status: http.StatusConflict, word: "revision_mismatch", message: "it was changed in between", advice: "read it again and repeat", cause: true},
	{err: queue.ErrMismatch, status: http.StatusConflict, word: "idempotency_mismatch", message: "the idempotency key was used with another item", advice: "use a new key for a new item"},
	{err: queue.ErrPaused, status: http.StatusConflict, word: "queue_paused", message: "it is paused and takes no items", advice: "nothing was done; send it again when queues.resume was called", cause: true},
	{err: queue.ErrNotEmpty, status: http.StatusConflict, word: "not_empty", message: "it is in use", advice: "empty it, delete its subscription, or use force", cause: true},
	{
		err: queue.ErrNotFound, status: http.StatusNotFound, word: "not_found", message: "there is none of that name", advice: "create it first, or check the spelling", cause: true,
		ofItem: "it is not there; it has ended, or is in another queue, as items.info tells",
	},
	{err: queue.ErrNotSupported, status: http.StatusBadRequest, word: "not_supported", message: "is not supported by this release", cause: true},

	{err: subscriptions.ErrNoKey, status: http.StatusBadRequest, word: "encryption_key_missing", message: "the server has no encryption key, and keeps no secrets without one", advice: "nothing was done; start it with --encryption-key-file or $POSTHASTE_ENCRYPTION_KEY, for which posthaste key encryption prints a key"},

	{err: queue.ErrDiskFull, status: http.StatusInsufficientStorage, word: "disk_full", message: "the disk is nearly full, so no new items are taken", advice: "leasing and settling work", retryAfter: 10 * time.Second},
	{err: queue.ErrUnknownOutcome, status: http.StatusServiceUnavailable, word: "unknown_outcome", message: "whether it was done is not known", advice: "repeat it, with the same idempotency keys if it has some", retryAfter: time.Second},
	{err: queue.ErrShuttingDown, status: http.StatusServiceUnavailable, word: "shutting_down", message: "this server is stopping", advice: "nothing was done, repeat it", retryAfter: time.Second},
	{err: queue.ErrUnavailable, status: http.StatusServiceUnavailable, word: "store_unavailable", message: "the store cannot answer now", advice: "nothing was done, repeat it later", retryAfter: 2 * time.Second},
	// A context can end while a batch is on its way, so nothing better can be said.
	{err: context.DeadlineExceeded, status: http.StatusServiceUnavailable, word: "unknown_outcome", message: "the time was up before the answer came, and whether it was done is not known", advice: "repeat it, with the same idempotency keys if it has some", retryAfter: time.Second},
	{err: context.Canceled, status: http.StatusServiceUnavailable, word: "unknown_outcome", message: "the request was given up before the answer came, and whether it was done is not known", retryAfter: time.Second},
}

// text is what the answer says of err.
func (s *sentinel) text(err error) string {
	text := s.message
	if own := err.Error(); s.cause {
		head, plain := strings.CutSuffix(own, s.err.Error())
		switch {
		case plain && s.ofItem != "" && strings.HasPrefix(head, "item "):
			return head + s.ofItem
		case plain:
			text = head + s.message
		case !strings.Contains(own, s.err.Error()):
			return own // it says itself what to do
		default:
			text = own
		}
	}
	if s.advice != "" {
		text += "; " + s.advice
	}
	return text
}

// failureOf is the one place that turns errors into answers.
func failureOf(err error) failure {
	if e, ok := errors.AsType[*advisedError](err); ok {
		f := failureOf(e.error)
		f.message, f.details = e.advice, map[string]string{"field": e.field}
		return f
	}
	if e, ok := errors.AsType[*queue.InvalidError](err); ok {
		return failure{
			status: http.StatusBadRequest, word: "invalid", message: e.Error(),
			details: map[string]string{"field": e.Field, "reason": e.Reason},
		}
	}
	if e, ok := errors.AsType[*queue.TooLargeError](err); ok {
		return failure{
			status: http.StatusRequestEntityTooLarge, word: "too_large", message: e.Error() + "; nothing of the call was kept",
			details: map[string]string{"field": e.Field, "limit": strconv.Itoa(e.Limit), "unit": e.Unit},
		}
	}
	if e, ok := errors.AsType[*queue.FanOutError](err); ok {
		return failure{
			status: http.StatusRequestEntityTooLarge, word: "fan_out_too_large", message: e.Error() + "; nothing of the call was kept",
			details: map[string]string{"field": e.Field, "limit": strconv.Itoa(e.Limit), "unit": e.Unit, "copies": strconv.Itoa(e.Copies)},
		}
	}
	if e, ok := errors.AsType[*queue.TopicError](err); ok {
		return failure{status: http.StatusBadRequest, word: "is_topic", message: e.Error(), details: placeOf(err)}
	}
	if e, ok := errors.AsType[*queue.OverloadedError](err); ok {
		return failure{
			status: http.StatusTooManyRequests, word: "overloaded",
			message:    "too much waits already (" + e.What + "); nothing was done, repeat it later",
			retryAfter: max(e.RetryAfter, time.Second),
		}
	}
	if e, ok := errors.AsType[*refusedError](err); ok {
		return failureOfRefused(e)
	}
	if e, ok := errors.AsType[*mediaTypeError](err); ok {
		return failure{status: http.StatusUnsupportedMediaType, word: "unsupported_media_type", message: e.reason}
	}
	if e, ok := errors.AsType[*verbError](err); ok {
		return failure{status: http.StatusMethodNotAllowed, word: "method_not_allowed", message: e.Error(), allow: e.allow}
	}
	if e, ok := errors.AsType[*keyError](err); ok {
		return failure{status: http.StatusUnauthorized, word: "unauthenticated", message: e.reason, challenge: e.challenge()}
	}
	if e, ok := errors.AsType[*guessError](err); ok {
		return failure{status: http.StatusTooManyRequests, word: "rate_limited", message: e.Error(), retryAfter: e.wait}
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return failure{
				status: s.status, word: s.word, message: s.text(err), retryAfter: s.retryAfter,
				details: placeOf(err),
			}
		}
	}
	return failure{
		status: http.StatusInternalServerError, word: "internal",
		message: "something went wrong that nobody foresaw; the log has it under the request id",
	}
}

// placeOf returns the details of an error that is about one field or header.
func placeOf(err error) map[string]string {
	field := ""
	if e, ok := errors.AsType[*placedError](err); ok {
		field = e.field
	} else if e, ok := errors.AsType[*queue.MismatchError](err); ok {
		field = entry("items", e.Index, "idempotency_key")
	} else if e, ok := errors.AsType[*queue.UnsupportedError](err); ok {
		field = e.Field
	}
	if field == "" {
		return nil
	}
	return map[string]string{"field": field}
}

// failureOfRefused names every receipt that was refused, and why.
func failureOfRefused(e *refusedError) failure {
	f := failure{status: http.StatusConflict, word: wordOf(queue.ErrAlreadyDead), results: e.results}
	f.details = make(map[string]string, len(e.stale.Entries))
	for i, reason := range e.stale.Entries {
		word := wordOf(reason)
		if word != f.word {
			f.word = wordOf(queue.ErrStale)
		}
		if i < len(e.paths) {
			f.details[e.paths[i]] = word
		}
	}
	f.message = e.Error() + "; repeat it without them, details and results name them"
	return f
}

// wordOf returns the code_text of an error of the table.
func wordOf(err error) string {
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return s.word
		}
	}
	return "internal"
}

// tell adds what went wrong within, for developers: others get it from the log.
func (f *failure) tell(err error) {
	if f.status < http.StatusInternalServerError {
		return
	}
	if f.details == nil {
		f.details = make(map[string]string)
	}
	f.details["cause"] = err.Error()
}

// header writes what the failure has for headers.
func (f *failure) header(h http.Header) {
	if f.retryAfter > 0 {
		seconds := (f.retryAfter + time.Second - 1) / time.Second
		h.Set("Retry-After", strconv.Itoa(int(seconds)))
	}
	if f.allow != "" {
		h.Set("Allow", f.allow)
	}
	if f.challenge != "" {
		h.Set("WWW-Authenticate", f.challenge)
	}
}

// body returns the failure as a message.
func (f *failure) body() proto.Message {
	if f.results != nil {
		return &v1.SettleReply{
			Code: int32(f.status), CodeText: f.word, Message: f.message, Details: f.details, Results: f.results,
		}
	}
	return &v1.Reply{Code: int32(f.status), CodeText: f.word, Message: f.message, Details: f.details}
}
