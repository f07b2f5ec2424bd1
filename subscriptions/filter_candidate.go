package subscriptions

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"sync"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"github.com/posthaste-io/posthaste/queue"
)

// Bounds of the payloads that expressions read. What JSON becomes in memory is many
// times as large where its values are small.
const (
	maxValues = 100_000
	maxDepth  = 100
)

// Candidate is an item that matchers are asked about. What several of them read is made
// once: the payload is parsed when the first expression comes to it, and never if none
// does. Safe for concurrent use, for as long as nobody changes the content.
type Candidate struct {
	content *queue.Content

	onceHeaders sync.Once
	headers     map[string]string

	oncePayload sync.Once
	payload     any
}

// NewCandidate returns a candidate that reads c, and keeps it.
func NewCandidate(c *queue.Content) *Candidate { return &Candidate{content: c} }

// variables is a candidate as expressions see it.
type variables Candidate

var _ interpreter.Activation = (*variables)(nil)

// ResolveName implements interpreter.Activation.
func (v *variables) ResolveName(name string) (any, bool) {
	switch c := (*Candidate)(v); name {
	case "kind":
		return c.content.Kind, true
	case "reference":
		return c.content.Reference, true
	case "encoding":
		return c.content.Encoding, true
	case "headers":
		c.onceHeaders.Do(func() { c.headers = lowerNames(c.content.Headers) })
		return c.headers, true
	case "payload":
		c.oncePayload.Do(func() { c.payload = readPayload(c.content.Payload) })
		if c.payload == tooMuch {
			return types.WrapErr(errPayload), true // a fresh one: evaluations write into it where they met it
		}
		return c.payload, true
	default:
		return nil, false
	}
}

// Parent implements interpreter.Activation.
func (v *variables) Parent() interpreter.Activation { return nil }

// lowerNames returns headers by names in lower case, as HTTP/2 sends them. Of those that
// differ in their case alone, which the API refuses, it keeps the one whose name is first.
func lowerNames(headers map[string]string) map[string]string {
	lower := make(map[string]string, len(headers))
	from := make(map[string]string, len(headers))
	for name, value := range headers {
		l := strings.ToLower(name)
		if was, twice := from[l]; !twice || name < was {
			lower[l], from[l] = value, name
		}
	}
	return lower
}

// tooMuch stands for a payload that is too much to be read.
const tooMuch = excess(true)

type excess bool

// readPayload returns the value of a payload that is JSON, null for one that is not, and
// tooMuch.
func readPayload(payload []byte) any {
	within, maybe := scanJSON(payload)
	if !maybe {
		return types.NullValue
	}
	if !within {
		// It is an error even if it is no JSON: to find out would cost what is not allowed.
		return tooMuch
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return types.NullValue
	}
	if _, err := d.Token(); err != io.EOF { //nolint:errorlint // the decoder returns it as it is
		return types.NullValue // something stands behind it
	}
	if value = withNumbers(value); value == nil {
		return types.NullValue
	}
	return value
}

// scanJSON says whether a payload may be JSON, and if it is, whether its values are no
// more and no deeper than allowed. It allocates nothing.
func scanJSON(payload []byte) (within, maybe bool) {
	text := bytes.TrimLeft(payload, " \t\r\n")
	if len(text) == 0 || bytes.IndexByte([]byte(`{["-0123456789tfn`), text[0]) < 0 {
		return true, false
	}
	values, depth := 1, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			values++
			depth++
			if depth > maxDepth {
				return false, true
			}
		case '}', ']':
			depth--
		case ',':
			values++
		}
	}
	return values <= maxValues, true
}

// withNumbers puts numbers in the place of their texts, within the maps and slices that
// it is given.
func withNumbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		return number(string(v))
	case map[string]any:
		for key, each := range v {
			v[key] = withNumbers(each)
		}
	case []any:
		for i, each := range v {
			v[i] = withNumbers(each)
		}
	}
	return value
}

// number is an int where the text is one of 64 bits, a uint where it is one of those,
// and the nearest double otherwise, which is infinite beyond the largest.
func number(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n
	}
	f, _ := strconv.ParseFloat(text, 64) // what is out of range is infinite or 0
	return f
}
