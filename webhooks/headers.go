package webhooks

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of custom headers.
const (
	maxHeaders     = 30
	maxHeaderName  = 64
	maxHeaderValue = 4 << 10
	maxHeaderBytes = 16 << 10
	// maxInfoValue bounds a text that we put into a header, before it is encoded.
	maxInfoValue = 255
)

// reserved are the names that users may not set, in lower case: those that frame
// the message or belong to the connection, those that would make HTTP clients and
// proxies repeat a request, and our own.
var reserved = map[string]bool{
	"host": true, "content-length": true, "content-encoding": true,
	"transfer-encoding": true, "te": true, "trailer": true, "connection": true,
	"keep-alive": true, "upgrade": true, "expect": true,
	"idempotency-key": true, "x-idempotency-key": true,
	"accept-encoding": true, "date": true, "forwarded": true, "traceparent": true,
}

var reservedPrefixes = []string{"proxy-", "webhook-", "posthaste-", "ce-", "svix-", "x-forwarded-"}

// CheckHeaders judges the custom headers of a subscription, of an item, or of both
// laid over each other. The error names the header and never shows its value.
func CheckHeaders(headers map[string]string) error {
	if len(headers) > maxHeaders {
		return fmt.Errorf("more than %d headers", maxHeaders)
	}
	// Sorted, so that the same input is refused with the same words.
	names := slices.AppendSeq(make([]string, 0, maxHeaders), maps.Keys(headers))
	slices.Sort(names)
	total := 0
	for i, name := range names {
		value := headers[name]
		if err := checkHeaderName(name); err != nil {
			return err
		}
		same := func(other string) bool { return strings.EqualFold(name, other) }
		if slices.ContainsFunc(names[:i], same) {
			return fmt.Errorf("header %q is given twice, in different spellings", name)
		}
		if err := checkHeaderValue(value); err != nil {
			return fmt.Errorf("header %q: %w", name, err)
		}
		if total += len(name) + len(value); total > maxHeaderBytes {
			return fmt.Errorf("headers of more than %d bytes together", maxHeaderBytes)
		}
	}
	return nil
}

func checkHeaderName(name string) error {
	if name == "" || len(name) > maxHeaderName {
		return fmt.Errorf("header name is not 1 to %d characters long", maxHeaderName)
	}
	for i := 0; i < len(name); i++ {
		if c := name[i]; !isAlnum(c) && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return fmt.Errorf("header name %q has a character that HTTP does not allow", name)
		}
	}
	// CGI and its heirs make one name of those that differ in - and _ only.
	lower := strings.ReplaceAll(strings.ToLower(name), "_", "-")
	if reserved[lower] {
		return fmt.Errorf("header %q is reserved", name)
	}
	for _, prefix := range reservedPrefixes {
		if strings.HasPrefix(lower, prefix) {
			return fmt.Errorf("header %q is reserved: no name may start with %s", name, prefix)
		}
	}
	return nil
}

func checkHeaderValue(value string) error {
	if len(value) > maxHeaderValue {
		return fmt.Errorf("value is longer than %d bytes", maxHeaderValue)
	}
	for i := 0; i < len(value); i++ {
		if c := value[i]; c != '\t' && (c < ' ' || c > '~') {
			return errors.New("value has a character that is not visible ASCII, space or tab")
		}
	}
	return nil
}

// encodeValue makes any text fit for a header, so that decoding percent signs
// gives it back: visible ASCII stays, and so do single words' spaces between them.
// Spaces at the ends would be trimmed on the way, so they are encoded.
func encodeValue(text string) string {
	text = clip(text, maxInfoValue)
	if isPlain(text) {
		return text
	}
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		inner := c == ' ' && i > 0 && i < len(text)-1
		if c > ' ' && c <= '~' && c != '%' || inner {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}

// mediaType makes a media type fit for a header. Nobody decodes one, so that percent signs in
// it stay as they are; what cannot be in a header is encoded all the same.
func mediaType(text string) string {
	for i := 0; i < len(text); i++ {
		if c := text[i]; c > '~' || c < ' ' || c == ' ' && (i == 0 || i == len(text)-1) {
			return encodeValue(text)
		}
	}
	return text
}

// isPlain says that a text has nothing to encode; most have not.
func isPlain(text string) bool {
	for i := 0; i < len(text); i++ {
		if c := text[i]; c <= ' ' || c > '~' || c == '%' {
			return false
		}
	}
	return true
}

// clip cuts a text to at most n bytes, at the start of a character.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
