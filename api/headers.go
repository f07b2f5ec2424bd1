package api

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/api/wirejson"
	"github.com/posthaste-io/posthaste/queue"
)

// The headers of our own that a request can have, in canonical spelling.
const (
	headerKind        = "Posthaste-Kind"
	headerReference   = "Posthaste-Reference"
	headerDelay       = "Posthaste-Delay"
	headerEnqueueAt   = "Posthaste-Enqueue-At"
	headerForward     = "Posthaste-Forward-"
	headerIdempotency = "Idempotency-Key"
	headerHop         = "Webhook-Hop"
	headerTrace       = "Traceparent"
	headerPushID      = "Webhook-Id"
	headerPrefix      = "Posthaste-"
	headerOrdering    = "Posthaste-Ordering-Key"
	headerLaterSpace  = "Posthaste-Namespace"
)

// ofPush are the headers that a push of ours carries. A call may be such a push,
// whose endpoint is this server or another one. Then they say nothing about the call,
// but that an item keeps the kind and the reference that it was pushed with.
var ofPush = map[string]bool{
	"Posthaste-Queue": true, "Posthaste-Subscription": true, headerKind: true,
	"Posthaste-Attempt": true, "Posthaste-Max-Attempts": true, "Posthaste-Enqueued-At": true,
	headerReference: true, "Posthaste-Retry-Reason": true, "Posthaste-Previous-Status": true,
	"Posthaste-Receipt": true, "Posthaste-Lease-Deadline": true,
}

// headerInfo is what the headers of a request say of its items.
type headerInfo struct {
	trace string
	hop   int32
	// key is the idempotency key: a raw item's, or that of a whole call.
	key string
	// The rest is read for raw items only.
	kind      string
	reference string
	ordering  string
	delay     time.Duration
	enqueueAt time.Time
	forward   map[string]string
}

// readHeaders judges the headers of a call. Raw items have their attributes there;
// a message has them within, so they are refused rather than ignored.
func readHeaders(h http.Header, raw bool) (headerInfo, error) {
	info := headerInfo{trace: traceparent(h.Get(headerTrace))}
	var err error
	if info.hop, err = readHop(h); err != nil {
		return info, err
	}
	pushed := len(h[headerPushID]) > 0
	for name, values := range h {
		ours := strings.HasPrefix(name, headerPrefix)
		if !ours && name != headerIdempotency {
			continue
		}
		switch {
		case name == headerLaterSpace:
			return info, &queue.UnsupportedError{What: "header " + name, Field: name}
		case pushed && ofPush[name]:
			if raw {
				info.readPushed(name, values[0])
			}
		case !raw && ours:
			return info, queue.Invalid(clip(name), "is not read with a message; put it into the item")
		default:
			if err := info.readAttribute(name, values); err != nil {
				return info, err
			}
		}
	}
	return info, nil
}

// readPushed takes what an item keeps when it is pushed on.
func (info *headerInfo) readPushed(name, value string) {
	// Pushes encode what is not visible ASCII, and would do so again.
	if text, err := url.PathUnescape(value); err == nil {
		value = text
	}
	switch name {
	case headerKind:
		info.kind = value
	case headerReference:
		info.reference = value
	}
}

// readAttribute reads a header that is an attribute of a raw item.
func (info *headerInfo) readAttribute(name string, values []string) (err error) {
	if len(values) > 1 {
		return queue.Invalid(clip(name), "is given twice")
	}
	value := values[0]
	switch name {
	case headerKind:
		info.kind = value
	case headerReference:
		info.reference = value
	case headerOrdering:
		info.ordering = value
	case headerDelay:
		info.delay, err = parseDuration(name, value, 0, maxDelay)
	case headerEnqueueAt:
		if info.enqueueAt, err = wirejson.ParseInstant(value); err != nil {
			return queue.Invalid(name, "%q is %v", clip(value), err)
		}
	case headerIdempotency:
		if value == "" {
			return queue.Invalid(name, "is empty")
		}
		info.key = value
	default:
		forward, ok := strings.CutPrefix(name, headerForward)
		switch {
		case ok && forward != "":
			if info.forward == nil {
				info.forward = make(map[string]string)
			}
			info.forward[forward] = value
		case ofPush[name]:
			return queue.Invalid(name, "is what a push says of itself, and is not taken here; queue.produce has all fields of an item")
		default:
			return queue.Invalid(clip(name), "is no header that this server knows")
		}
	}
	return err
}

func readHop(h http.Header) (int32, error) {
	values := h.Values(headerHop)
	if len(values) == 0 {
		return 0, nil
	}
	hop, err := strconv.ParseUint(values[0], 10, 31)
	if err != nil || len(values) > 1 {
		return 0, queue.Invalid("webhook-hop", "wants one whole number")
	}
	if hop >= queue.MaxHop {
		return 0, queue.Invalid("webhook-hop", "%d pushes led to this call, which looks like a loop; want less than %d", hop, queue.MaxHop)
	}
	return int32(hop), nil
}

// traceparent returns a W3C trace context that can be continued, or nothing: the
// recommendation has a broken one ignored.
func traceparent(s string) string {
	const length = len("00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
	if len(s) != length || s[2] != '-' || s[35] != '-' || s[52] != '-' || s[:2] == "ff" {
		return ""
	}
	for i := range len(s) {
		c := s[i]
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return ""
		}
	}
	const zeros = "00000000000000000000000000000000"
	if strings.ContainsRune(s[3:35], '-') || strings.ContainsRune(s[36:52], '-') || s[3:35] == zeros || s[36:52] == zeros[:16] {
		return ""
	}
	return s
}
