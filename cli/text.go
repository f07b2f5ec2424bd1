package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// escaped writes what no terminal shows, beyond ASCII's controls, as JSON escapes it.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r < 0x7f || unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		}
	}
	return b.String()
}

// printable makes text fit for one line of a terminal: what is not printable is
// escaped, so that nothing in it moves the cursor or ends a field.
func printable(text string) string {
	clean := true
	for _, r := range text {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			clean = false
			break
		}
	}
	if clean {
		return text
	}
	var b strings.Builder
	for rest := text; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, rest[0])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r > 0xffff && !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\U%08x`, r)
		case !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(rest[:size])
		}
		rest = rest[size:]
	}
	return b.String()
}

// excerpt is at most so many bytes of a payload, printable.
func excerpt(payload []byte, most int) string {
	if len(payload) <= most {
		return printable(string(payload))
	}
	head := payload[:most]
	for len(head) > 0 && !utf8.RuneStart(payload[len(head)]) {
		head = head[:len(head)-1]
	}
	return fmt.Sprintf("%s … (%d bytes)", printable(string(head)), len(payload))
}

// shortSpan writes a duration for people, of two units at most: 3d4h, 5m10s, 1.5s.
func shortSpan(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= 10*time.Second {
		d = d.Round(time.Second)
	}
	switch {
	case d < 0:
		return "-" + shortSpan(-d)
	case d >= day:
		return trimZero(fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour), "0h")
	case d >= time.Hour:
		return trimZero(fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute), "0m")
	case d >= time.Minute:
		return trimZero(fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second), "0s")
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(time.Millisecond).String()
	case d == 0:
		return "0s"
	default:
		return "<1ms"
	}
}

// trimZero takes a unit away of which there is none: not the end of 10s.
func trimZero(text, unit string) string {
	if head, ok := strings.CutSuffix(text, unit); ok && !unicode.IsDigit(rune(head[len(head)-1])) {
		return head
	}
	return text
}

// when writes an instant for people, with how far away it is; the zero time is empty.
func when(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	text := at.UTC().Format(time.RFC3339)
	if d := at.Sub(now); d >= 0 {
		return text + " (in " + shortSpan(d) + ")"
	}
	return text + " (" + shortSpan(now.Sub(at)) + " ago)"
}

// ago writes how long ago it was; the zero time is empty.
func ago(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	return shortSpan(max(now.Sub(at), 0)) + " ago"
}

// spanText writes a setting: empty for 0.
func spanText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return shortSpan(d)
}

// count writes a number that is nothing to look at if it is 0.
func count(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// plural writes 1 item, 2 items.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
