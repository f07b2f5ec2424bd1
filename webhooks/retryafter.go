package webhooks

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The bounds of a wait that an endpoint may ask for. Without the lower one, an
// endpoint that always asks for a microsecond would be asked for ever, uncounted.
const (
	minRetryAfter = time.Second
	maxRetryAfter = 24 * time.Hour
)

// ParseRetryAfter reads a Retry-After header: seconds, also with a fraction, or an
// HTTP date. The answer is from 1 second to 24 hours, or 0 for what asks for no
// wait: nothing, zero, a negative number, a date that has passed, garbage.
func ParseRetryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if isDecimal(value) {
		// Out of range gives +Inf, which is what it should be.
		seconds, _ := strconv.ParseFloat(value, 64)
		switch {
		case seconds <= 0:
			return 0
		case seconds >= maxRetryAfter.Seconds():
			return maxRetryAfter
		}
		return max(minRetryAfter, time.Duration(seconds*float64(time.Second)))
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	wait := at.Sub(now)
	if wait <= 0 {
		return 0
	}
	return min(max(minRetryAfter, wait), maxRetryAfter)
}

// isDecimal takes 120 and 1.5, and none of what [strconv.ParseFloat] takes beyond:
// signs, exponents, hexadecimals, infinities.
func isDecimal(s string) bool {
	whole, fraction, hasPoint := strings.Cut(s, ".")
	return isDigits(whole) && (!hasPoint || isDigits(fraction))
}

func isDigits(s string) bool {
	for i := 0; i < len(s); i++ {
		if !isDigit(s[i]) {
			return false
		}
	}
	return s != ""
}
