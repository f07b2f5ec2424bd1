package webhooks

import (
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// An event that somebody else made is kept as it came. Its attributes are maps by name, as
// the standard spells it, with the plain text as value; an item has them among its headers,
// under ce- and the name. Type and datacontenttype are the item's kind and encoding instead.

const specVersion = "1.0"

// AttributeError says what is wrong with an event, and what is wanted.
type AttributeError struct {
	// Attribute is empty where it is no single one.
	Attribute string
	// Reason shows no value but that of specversion.
	Reason string
}

// Error implements error.
func (e *AttributeError) Error() string {
	if e.Attribute == "" {
		return e.Reason
	}
	return fmt.Sprintf("%.100q %s", e.Attribute, e.Reason)
}

func wrongAttribute(name, format string, args ...any) error {
	return &AttributeError{name, fmt.Sprintf(format, args...)}
}

// CheckAttributes judges all attributes of an event, by name, as CloudEvents 1.0 has them;
// its data is no attribute. What passes can be sent: see [CheckCloudEvent]. The error is an
// [AttributeError], the same for the same input.
func CheckAttributes(attributes map[string]string) error {
	version, given := attributes["specversion"]
	switch {
	case !given:
		return wrongAttribute("specversion", "is missing; want %s", specVersion)
	case version != specVersion:
		return wrongAttribute("specversion", "is %.20q; want %s, no other version is taken", version, specVersion)
	}
	for _, name := range []string{"id", "source", "type"} {
		if _, given := attributes[name]; !given {
			return wrongAttribute(name, "is missing; an event has an id, a source and a type")
		}
	}
	extensions, size := 0, 0
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		value := attributes[name]
		if err := checkAttribute(name, value); err != nil {
			return err
		}
		if !notExtensions[name] {
			extensions++
		}
		size += len(cePrefix) + len(name) + len(encodeAttribute(value))
	}
	switch {
	case extensions > maxExtensions:
		return wrongAttribute("", "has more than %d extensions", maxExtensions)
	case size > maxHeaderBytes:
		return wrongAttribute("", "has attributes of more than %d bytes together, as headers", maxHeaderBytes)
	}
	return nil
}

func checkAttribute(name, value string) error {
	switch {
	case !isAttributeName(name):
		return wrongAttribute(name, "is no name of an attribute; want 1 to %d characters of a-z 0-9", maxExtensionName)
	case name == "data":
		return wrongAttribute(name, "is no name of an attribute; the standard has it for the data")
	case value == "" && notExtensions[name]:
		return wrongAttribute(name, "is empty; give it a value or leave it out, if the standard lets you")
	case len(value) > maxAttribute:
		return wrongAttribute(name, "is longer than %d bytes", maxAttribute)
	case !utf8.ValidString(value):
		return wrongAttribute(name, "is not UTF-8")
	}
	for i, r := range value {
		if !isAttributeRune(r) {
			return wrongAttribute(name, "has U+%04X at %d; want no control characters and nothing that Unicode keeps free", r, i)
		}
	}
	switch name {
	case "source":
		if _, err := url.Parse(value); err != nil {
			return wrongAttribute(name, "is neither a URI nor a part of one")
		}
	case "dataschema":
		if u, err := url.Parse(value); err != nil || !u.IsAbs() {
			return wrongAttribute(name, "is no URI with a scheme, such as https://example.com/schema")
		}
	case "time":
		if _, ok := parseTime(value); !ok {
			return wrongAttribute(name, "is not an RFC 3339 time with an offset, such as 2030-01-31T08:00:00Z")
		}
	case "datacontenttype":
		return checkDataContentType(value)
	}
	return nil
}

// parseTime is stricter than the time package, which takes 8:00, a comma and an offset of 99
// hours.
func parseTime(text string) (at time.Time, ok bool) {
	const seconds = len("2006-01-02T15:04:05")
	const offset = len("+01:30")
	if len(text) <= seconds || text[13] != ':' || text[seconds] == ',' {
		return at, false
	}
	if end := text[len(text)-offset:]; !strings.HasSuffix(text, "Z") && (end[1:3] > "23" || end[4:] > "59") {
		return at, false
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	return at, err == nil
}

// checkDataContentType refuses types that a reader of binary mode would take for events:
// it would read another event than the one that the headers tell of.
func checkDataContentType(value string) error {
	const name = "datacontenttype"
	if mediaType(value) != value || strings.Contains(value, "\t") {
		return wrongAttribute(name, "has a character that no Content-Type can have, or a space at an end")
	}
	media, _, err := mime.ParseMediaType(value)
	switch {
	case err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter), !strings.Contains(media, "/"):
		return wrongAttribute(name, "is no media type, such as application/json")
	case strings.HasPrefix(media, EventMediaType):
		return wrongAttribute(name, "is that of an event; an event within an event cannot be told from it")
	}
	return nil
}

// EventMediaType begins the Content-Type of events that are in the body with all that they
// say: structured mode and batches.
const EventMediaType = "application/cloudevents"

func isAttributeName(name string) bool {
	return name != "" && len(name) <= maxExtensionName && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// isAttributeRune says whether the standard lets a text have the character.
func isAttributeRune(r rune) bool {
	control := r < ' ' || r >= 0x7f && r <= 0x9f
	nonCharacter := r >= 0xfdd0 && r <= 0xfdef || r&0xfffe == 0xfffe
	return !control && !nonCharacter
}

// AttributeHeaders makes attributes that were checked into headers of an item. Type and
// datacontenttype are left out.
func AttributeHeaders(attributes map[string]string) map[string]string {
	headers := make(map[string]string, len(attributes))
	for name, value := range attributes {
		if name != "type" && name != "datacontenttype" {
			headers[cePrefix+name] = value
		}
	}
	return headers
}

// SplitHeaders takes the attributes of an event out of an item's headers. They are nil
// where there are none, and rest is then headers itself.
func SplitHeaders(headers map[string]string) (attributes, rest map[string]string) {
	for name, value := range headers {
		if attribute, ok := strings.CutPrefix(name, cePrefix); ok {
			if attributes == nil {
				attributes = make(map[string]string, len(headers))
			}
			attributes[attribute] = value
		}
	}
	if attributes == nil {
		return nil, headers
	}
	if len(attributes) == len(headers) {
		return attributes, nil
	}
	rest = maps.Clone(headers)
	maps.DeleteFunc(rest, func(name, _ string) bool { return strings.HasPrefix(name, cePrefix) })
	return attributes, rest
}

// NewCloudEvent makes attributes into an event that is sent as it came, with the id that it
// has. They are not changed, and need not have been checked; what is no time is left out.
func NewCloudEvent(attributes map[string]string) *CloudEvent {
	e := &CloudEvent{
		ID: attributes["id"], Source: attributes["source"], Type: attributes["type"],
		Subject: attributes["subject"], DataSchema: attributes["dataschema"],
	}
	if at, ok := parseTime(attributes["time"]); ok {
		e.Time, e.timeText = at, attributes["time"]
	}
	for name, value := range attributes {
		if !notExtensions[name] {
			if e.Extensions == nil {
				e.Extensions = make(map[string]string)
			}
			e.Extensions[name] = value
		}
	}
	return e
}
