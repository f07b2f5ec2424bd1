package api

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/posthaste-io/posthaste/queue"
)

// maxDelay is as far ahead as the broker takes due times, and as long as it lets
// items live.
const maxDelay = 10 * 365 * 24 * time.Hour

// forever bounds durations that have no bound of their own.
const forever = time.Duration(math.MaxInt64)

// parseDuration reads a text such as 90s or 1m30s.
func parseDuration(field, text string, low, high time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, queue.Invalid(field, "%q is not a duration, such as 90s or 1h30m", clip(text))
	}
	if d < low || d > high {
		if high == forever {
			return 0, queue.Invalid(field, "%s is too short; want at least %s", clip(text), low)
		}
		return 0, queue.Invalid(field, "%s is out of range; want %s to %s", clip(text), low, high)
	}
	return d, nil
}

// optionalDuration is nil for an empty text.
func optionalDuration(field, text string, low, high time.Duration) (*time.Duration, error) {
	if text == "" {
		return nil, nil
	}
	d, err := parseDuration(field, text, low, high)
	return &d, err
}

// leaseTimeout reads how long a lease is to last; nil takes the queue's, or keeps it.
func leaseTimeout(text string) (*time.Duration, error) {
	return optionalDuration("lease_timeout", text, queue.MinLeaseTTL, queue.MaxLeaseTTL)
}

// formatDuration writes seconds, as all answers do: 90s, 1.5s. The duration is not
// negative.
func formatDuration(d time.Duration) string {
	whole := strconv.FormatInt(int64(d/time.Second), 10)
	rest := d % time.Second
	if rest == 0 {
		return whole + "s"
	}
	return whole + "." + strings.TrimRight(fmt.Sprintf("%09d", rest), "0") + "s"
}

// stamp is nil for the zero time, which is then left out of the answer. Instants
// have microseconds, whether a store or this process took them.
func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t.Truncate(time.Microsecond))
}

// Bounds of a page.
const maxLimit = 1_000

func pageLimit(limit int32) (int, error) {
	switch {
	case limit == 0:
		return maxLimit, nil
	case limit < 0 || limit > maxLimit:
		return 0, queue.Invalid("limit", "is %d; want 1 to %d", limit, maxLimit)
	}
	return int(limit), nil
}

// namePage judges what page of a list of names is wanted: how many of them, and from which
// one on. field is where that name was given; an empty one begins with the first.
func namePage(limit int32, field, from string) (int, error) {
	n, err := pageLimit(limit)
	if err == nil && from != "" {
		err = queue.CheckReference(field, from)
	}
	return n, err
}

// revision reads what formatRevision wrote; 0 was not given.
func revision(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	r, err := strconv.ParseUint(text, 10, 64)
	if err != nil || r == 0 || formatRevision(r) != text {
		return 0, queue.Invalid("revision", "%q is not one that this server gave out", clip(text))
	}
	return r, nil
}

func formatRevision(r uint64) string {
	if r == 0 {
		return ""
	}
	return strconv.FormatUint(r, 10)
}

// count bounds a number of things to what the wire can say.
func count(n int) int32 {
	return int32(min(n, math.MaxInt32))
}

// checkCount bounds what one call is about; field is where its list is.
func (s *Server) checkCount(field, unit string, n int) error {
	switch {
	case n == 0:
		return queue.Invalid(field, "none given; want 1 to %d", s.limits.Items)
	case n > s.limits.Items:
		return &queue.TooLargeError{Field: field, Limit: s.limits.Items, Unit: unit}
	}
	return nil
}

// entry is the path of a list's entry, or of a field of it.
func entry(list string, i int, field string) string {
	if field != "" {
		field = "." + field
	}
	return fmt.Sprintf("%s[%d]%s", list, i, field)
}
