package webhooks

import (
	"net/http"
	"strings"
	"time"
)

// Headers by which an endpoint says more than its status can.
const (
	// HeaderRetry with the value never: do not send this item again.
	HeaderRetry = "posthaste-retry"
	// HeaderLease with the value keep, on a 202: the endpoint settles the item itself.
	HeaderLease = "posthaste-lease"
)

// Outcome is what an answer means, before the policy of a subscription is asked.
type Outcome struct {
	Verdict Verdict
	// RetryAfter is 0, or from 1 second to 24 hours; never set on 2xx.
	RetryAfter time.Duration
	// Never: the endpoint asked not to see the item again; never set on 2xx.
	Never bool
}

// Classify judges an answer by its status and headers; any status may come.
// mayDefer says whether the endpoint was given a receipt, without which it cannot
// keep the lease. now is for a Retry-After that is a date.
func Classify(status int, header http.Header, mayDefer bool, now time.Time) Outcome {
	if status >= 200 && status <= 299 {
		if status == http.StatusAccepted && mayDefer && says(header, HeaderLease, "keep") {
			return Outcome{Verdict: Deferred}
		}
		return Outcome{Verdict: Delivered}
	}
	retryAfter := ParseRetryAfter(header.Get("Retry-After"), now)
	return Outcome{
		Verdict:    classifyFailure(status, retryAfter > 0),
		RetryAfter: retryAfter,
		Never:      says(header, HeaderRetry, "never"),
	}
}

func classifyFailure(status int, askedToWait bool) Verdict {
	switch {
	case status == http.StatusGone:
		return Gone
	case status == http.StatusTooManyRequests:
		return Throttled
	case status == http.StatusServiceUnavailable && askedToWait:
		return Throttled
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly:
		return Retryable
	case status >= 300 && status <= 499:
		return Rejected
	default:
		// 5xx; and 1xx as a final answer, 101 too, or a number that HTTP does not
		// know: a broken answer, which says nothing about the item.
		return Retryable
	}
}

func says(header http.Header, name, value string) bool {
	return strings.EqualFold(strings.TrimSpace(header.Get(name)), value)
}
