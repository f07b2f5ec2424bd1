package webhooks

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of a [CloudEvent]; texts in bytes before they are encoded.
const (
	maxExtensions    = 20
	maxExtensionName = maxHeaderName - len(cePrefix)
	maxAttribute     = 1 << 10
)

const cePrefix = "ce-"

// CloudEvent is what CloudEvents 1.0 calls the attributes of an event, but for the data's
// content type, which is the Content-Type of the request.
// Texts may hold any characters; what is not UTF-8 in them is sent as U+FFFD.
type CloudEvent struct {
	// ID is sent as ce-id. Empty is [Request.ID]: the event is made of the request. One that
	// has an id was there before, and is sent without Content-Type where it has none.
	ID string
	// Source and Type are required, the source is a URI or a part of one.
	Source, Type string
	Subject      string
	// DataSchema is a URI.
	DataSchema string
	// Time is left out if it is zero.
	Time time.Time
	// timeText is how Time was written; it is sent as long as that is the same instant.
	timeText string
	// Extensions are attributes beside those of the standard, by name: a to z and 0 to 9, at
	// most 61 characters. Those that are empty are left out.
	Extensions map[string]string
}

// notExtensions are the names that the standard has given away.
var notExtensions = map[string]bool{
	"id": true, "source": true, "specversion": true, "type": true, "datacontenttype": true,
	"dataschema": true, "subject": true, "time": true, "data": true,
}

// CheckCloudEvent judges what a request says as a CloudEvent. The error shows no value.
func CheckCloudEvent(e *CloudEvent) error {
	switch {
	case e.Source == "":
		return errors.New("source is missing")
	case e.Type == "":
		return errors.New("type is missing")
	case len(e.Extensions) > maxExtensions:
		return fmt.Errorf("more than %d extensions", maxExtensions)
	}
	for _, attribute := range [][2]string{
		{"id", e.ID}, {"source", e.Source}, {"type", e.Type}, {"subject", e.Subject}, {"dataschema", e.DataSchema},
	} {
		if len(attribute[1]) > maxAttribute {
			return fmt.Errorf("%s is longer than %d bytes", attribute[0], maxAttribute)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Extensions)) {
		if err := checkExtension(name, e.Extensions[name]); err != nil {
			return err
		}
	}
	return nil
}

func checkExtension(name, value string) error {
	if !isAttributeName(name) {
		return fmt.Errorf("extension %.30q: the name is not 1 to %d characters of a-z 0-9", name, maxExtensionName)
	}
	if notExtensions[name] {
		return fmt.Errorf("extension %q: the standard has this name for something else", name)
	}
	if len(value) > maxAttribute {
		return fmt.Errorf("extension %q: the value is longer than %d bytes", name, maxAttribute)
	}
	return nil
}

// write appends the headers of binary mode.
func (e *CloudEvent) write(h *header, id string) {
	text := func(name, value string) {
		if value != "" {
			h.set(cePrefix+name, encodeAttribute(value))
		}
	}
	text("specversion", specVersion)
	text("id", orElse(e.ID, id))
	text("source", e.Source)
	text("type", e.Type)
	text("subject", e.Subject)
	text("dataschema", e.DataSchema)
	text("time", e.writtenTime())
	for _, name := range slices.Sorted(maps.Keys(e.Extensions)) {
		text(name, e.Extensions[name])
	}
}

// writtenTime is the time as it came, so that whoever signed over it finds it again.
func (e *CloudEvent) writtenTime() string {
	if e.timeText != "" {
		if at, ok := parseTime(e.timeText); ok && at.Equal(e.Time) {
			return e.timeText
		}
	}
	if e.Time.IsZero() {
		return ""
	}
	return e.Time.UTC().Format(time.RFC3339Nano)
}

// encodeAttribute encodes what the HTTP binding of CloudEvents tells to: the space, the
// quote, the percent sign, and all that is not visible ASCII.
func encodeAttribute(text string) string {
	const hex = "0123456789ABCDEF"
	text = strings.ToValidUTF8(text, "\uFFFD")
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if c := text[i]; c <= ' ' || c > '~' || c == '"' || c == '%' {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

var (
	errCloudEventQuotes  = errors.New("cloud event header: has a quote that does not end it")
	errCloudEventPercent = errors.New("cloud event header: has a percent sign without two hexadecimal digits")
	errCloudEventUTF8    = errors.New("cloud event header: is not UTF-8")
)

// ParseCloudEventHeader decodes the value of a ce- header: quotes around it, as some senders
// write them, and percent signs. What they encode must be UTF-8 in its only form: %C0%A0 is
// refused, lest two programs read another character each.
func ParseCloudEventHeader(value string) (string, error) {
	if rest, quoted := strings.CutPrefix(value, `"`); quoted {
		var ok bool
		if value, ok = unquote(rest); !ok {
			return "", errCloudEventQuotes
		}
	}
	b := make([]byte, 0, len(value))
	for i := 0; i < len(value); i++ {
		if value[i] != '%' {
			b = append(b, value[i])
			continue
		}
		if i+2 >= len(value) {
			return "", errCloudEventPercent
		}
		high, low := unhex(value[i+1]), unhex(value[i+2])
		if high < 0 || low < 0 {
			return "", errCloudEventPercent
		}
		b = append(b, byte(high<<4|low))
		i += 2
	}
	if !utf8.Valid(b) {
		return "", errCloudEventUTF8
	}
	return string(b), nil
}

// unquote reads what is behind an opening quote, up to the closing one, which must end it.
func unquote(rest string) (text string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '"':
			return b.String(), i == len(rest)-1
		case c == '\\' && i+1 < len(rest):
			i++
			b.WriteByte(rest[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

// unhex returns what a digit stands for, -1 if it is none.
func unhex(c byte) int {
	switch {
	case isDigit(c):
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	default:
		return -1
	}
}

// ReadCloudEvent reads the ce- headers of a request, with its id. They are not signed: the
// body is, and webhook-id, which is the same id unless the event was there before the item
// was. An error says that a header is missing or cannot be decoded, or
// that the version is not 1.0.
func ReadCloudEvent(h http.Header) (id string, e CloudEvent, err error) {
	texts := map[string]string{}
	for name, values := range h {
		attribute, ok := strings.CutPrefix(strings.ToLower(name), cePrefix)
		if !ok {
			continue
		}
		if len(values) != 1 {
			return "", CloudEvent{}, fmt.Errorf("ce-%s is there more than once", attribute)
		}
		if texts[attribute], err = ParseCloudEventHeader(values[0]); err != nil {
			return "", CloudEvent{}, fmt.Errorf("ce-%s: %w", attribute, err)
		}
	}
	if version := texts["specversion"]; version != specVersion {
		return "", CloudEvent{}, errors.New("ce-specversion is not 1.0")
	}
	e = *NewCloudEvent(texts)
	if text := texts["time"]; text != "" {
		if e.Time, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return "", CloudEvent{}, errors.New("ce-time is not a time of RFC 3339")
		}
	}
	if e.ID == "" || e.Source == "" || e.Type == "" {
		return "", CloudEvent{}, errors.New("one of ce-id, ce-source and ce-type is missing")
	}
	return e.ID, e, nil
}
