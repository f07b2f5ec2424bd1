package api

import (
	"net/http"
	"slices"
	"strings"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
)

// mask stands in answers for what may be a key: custom headers carry tokens, and so
// do the queries of URLs. An update that sends it back keeps what it stands for.
const mask = "[redacted]"

// plainHeaders are shown as they are, by their canonical names.
var plainHeaders = []string{"Accept", "Content-Type", "User-Agent"}

func maskedHeaders(headers map[string]string) map[string]string {
	if headers == nil {
		return nil
	}
	masked := make(map[string]string, len(headers))
	for name, value := range headers {
		if !slices.Contains(plainHeaders, http.CanonicalHeaderKey(name)) {
			value = mask
		}
		masked[name] = value
	}
	return masked
}

// maskedURL hides the values of the query, and fields of it without a value: what
// stands there alone may be the key itself. URLs with a user are not taken at all.
func maskedURL(url string) string {
	rest, query, asked := strings.Cut(url, "?")
	if !asked {
		return url
	}
	fields := strings.Split(query, "&")
	for i, field := range fields {
		if name, _, valued := strings.Cut(field, "="); valued {
			fields[i] = name + "=" + mask
		} else if field != "" {
			fields[i] = mask
		}
	}
	return rest + "?" + strings.Join(fields, "&")
}

// isMasked says whether a subscription has a mask where a value should be.
func isMasked(q *v1.Subscription) bool {
	if strings.Contains(q.GetUrl(), mask) {
		return true
	}
	for _, value := range q.GetHeaders() {
		if value == mask {
			return true
		}
	}
	return false
}

// unmask puts what is kept where an update has masks. A mask that stands for nothing
// is refused, lest it be sent to the endpoint.
func unmask(change *subscriptions.Change, kept *subscriptions.Subscription) error {
	if change.URL != nil && strings.Contains(*change.URL, mask) {
		// No part of the kept one goes to another place than it was given for.
		if *change.URL != maskedURL(kept.URL) {
			return queue.Invalid("url", "has %s and is not the URL that is kept; give all of the new one, or leave it out", mask)
		}
		change.URL = nil
	}
	if change.Headers == nil {
		return nil
	}
	known := make(map[string]string, len(kept.Headers))
	for name, value := range kept.Headers {
		known[http.CanonicalHeaderKey(name)] = value
	}
	headers := make(map[string]string, len(change.Headers))
	for name, value := range change.Headers {
		if value == mask {
			var ok bool
			if value, ok = known[http.CanonicalHeaderKey(name)]; !ok {
				return queue.Invalid("headers", "%s of %s stands for no value that is kept; give the value", mask, clip(name))
			}
		}
		headers[name] = value
	}
	change.Headers = headers
	return nil
}
