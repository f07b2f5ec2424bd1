package wirejson

import (
	"errors"
	"time"
)

var errInstant = errors.New("not an RFC 3339 time with an offset, such as 2030-01-31T08:00:00Z")

// ParseInstant reads an RFC 3339 time. It is stricter than the time package, which
// takes 8:00, a decimal comma and an offset of 99 hours: those are refused.
func ParseInstant(text string) (time.Time, error) {
	const seconds = len("2006-01-02T15:04:05")
	if len(text) <= seconds || text[13] != ':' || text[seconds] == ',' || !isOffset(text[seconds:]) {
		return time.Time{}, errInstant
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, errInstant
	}
	at = at.UTC()
	if at.Year() < 1 || at.Year() > 9999 {
		return time.Time{}, errInstant
	}
	return at, nil
}

// isOffset judges the numbers of an offset at the end of text; time.Parse judges
// its form.
func isOffset(text string) bool {
	const length = len("+01:30")
	if text[len(text)-1] == 'Z' {
		return true
	}
	if len(text) < length {
		return false
	}
	offset := text[len(text)-length:]
	return offset[1:3] < "24" && offset[4:6] < "60"
}
