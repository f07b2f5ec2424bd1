package queue

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// maxAhead is how far ahead a due time may be.
const maxAhead = 10 * 365 * 24 * time.Hour

// checkDue judges when something is to be available: at a time, or after a delay.
// Here clocks need not agree to the second.
func checkDue(atField, delayField string, at time.Time, delay time.Duration) error {
	switch {
	case !at.IsZero() && delay != 0:
		return Invalid(delayField, "goes without a time; give one of them")
	case delay < 0:
		return Invalid(delayField, "is negative")
	case delay > maxAhead:
		return Invalid(delayField, "is more than 10 years")
	case at.IsZero():
		return nil
	case at.Before(time.Unix(0, 0)):
		return Invalid(atField, "is before the year 1970")
	case time.Until(at) > maxAhead:
		return Invalid(atField, "is more than 10 years ahead")
	default:
		return nil
	}
}

// atEntry puts the place of an entry before the field of an error. Most entries are
// good, and cost no path.
func atEntry(list string, i int, err error) error {
	place := func(field string) string {
		if field == "" {
			return fmt.Sprintf("%s[%d]", list, i)
		}
		return fmt.Sprintf("%s[%d].%s", list, i, field)
	}
	switch e := err.(type) {
	case *InvalidError:
		e.Field = place(e.Field)
	case *TooLargeError:
		e.Field = place(e.Field)
	case *UnsupportedError:
		e.Field = place(e.Field)
		e.What = "field " + e.Field
	}
	return err
}

// checkLabel judges a text that may end up in a header of a push.
func checkLabel(field, s string) error {
	if len(s) > MaxLabel {
		return Invalid(field, "is longer than %d bytes", MaxLabel)
	}
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] == 0x7f {
			return Invalid(field, "has the control character 0x%02x at %d", s[i], i)
		}
	}
	if !utf8.ValidString(s) {
		return Invalid(field, "is not UTF-8")
	}
	return nil
}

// isStorable says that every store keeps a text as it is.
func isStorable(s string) bool {
	return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0
}

// cleanText makes a text of a stranger storable: a record that cannot be written
// would keep its item from ever being settled.
func cleanText(s string, limit int) string {
	if !isStorable(s) {
		s = strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
	}
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") // without the rune that the cut has split
	}
	return s
}

func cleanLast(l Last) Last {
	l.Error = cleanText(l.Error, MaxLastError)
	return l
}

func cleanRecord(r *Record) *Record {
	if r == nil {
		return nil
	}
	clean := *r
	clean.Error = cleanText(r.Error, MaxLastError)
	clean.Response = r.Response[:min(len(r.Response), MaxResponse)]
	return &clean
}
