package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/posthaste-io/posthaste/api/client"
)

// line is one item of JSON lines.
type line struct {
	// number counts from 1.
	number int
	// size is its bytes, with the line feed.
	size int
	item client.Item
	// err says why it is no item.
	err error
}

// lineItem are the fields of a line: those of an item of queue.produce, and json.
type lineItem struct {
	Kind           string            `json:"kind"`
	Encoding       string            `json:"encoding"`
	Reference      string            `json:"reference"`
	EnqueueAt      time.Time         `json:"enqueue_at"`
	Bytes          []byte            `json:"bytes"`
	UTF8           *string           `json:"utf8"`
	JSON           json.RawMessage   `json:"json"`
	Delay          wireSpan          `json:"delay"`
	IdempotencyKey string            `json:"idempotency_key"`
	Headers        map[string]string `json:"headers"`
	MaxAttempts    int               `json:"max_attempts"`
	ExpireTimeout  wireSpan          `json:"expire_timeout"`
	Target         *lineTarget       `json:"target"`
	OnDone         string            `json:"on_done"`
}

type lineTarget struct {
	URL     string   `json:"url"`
	Method  string   `json:"method"`
	Timeout wireSpan `json:"timeout"`
}

// wireSpan is a duration written as Go does: 1m30s.
type wireSpan time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *wireSpan) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is no duration such as 1m30s", text)
	}
	*s = wireSpan(d)
	return nil
}

// parseLine reads an item, strictly: a misspelt field would be an item without it.
func parseLine(text []byte) (client.Item, error) {
	// The decoder would put a replacement in its place.
	if !utf8.Valid(text) {
		return client.Item{}, errors.New("not UTF-8; want bytes, in base64, for a payload that is no text")
	}
	// The decoder takes null for an object without fields.
	if string(text) == "null" {
		return client.Item{}, errors.New("want a JSON object")
	}
	var l lineItem
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the JSON ends early")
		}
		return client.Item{}, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return client.Item{}, errors.New("more than one JSON value")
	}
	payloads := 0
	it := client.Item{
		Kind: l.Kind, Encoding: l.Encoding, Reference: l.Reference, EnqueueAt: l.EnqueueAt, Delay: time.Duration(l.Delay),
		IdempotencyKey: l.IdempotencyKey, Headers: l.Headers, MaxAttempts: l.MaxAttempts, ExpireTimeout: time.Duration(l.ExpireTimeout),
		OnDone: l.OnDone,
	}
	if t := l.Target; t != nil {
		it.Target = &client.Target{URL: t.URL, Method: t.Method, Timeout: time.Duration(t.Timeout)}
	}
	if l.Bytes != nil {
		it.Payload = l.Bytes
		payloads++
	}
	if l.UTF8 != nil {
		it.Payload = []byte(*l.UTF8)
		payloads++
	}
	if l.JSON != nil {
		it.Payload = l.JSON
		if it.Encoding == "" {
			it.Encoding = "application/json"
		}
		payloads++
	}
	if payloads > 1 {
		return client.Item{}, errors.New("bytes, utf8 and json: want one of them")
	}
	return it, nil
}

// maxLine bounds a line, in bytes: the largest payload of the largest item, each byte of
// it escaped.
const maxLine = 8 << 20

// readLines calls give with each line that is not empty, until it refuses.
func readLines(r io.Reader, give func(line) bool) error {
	scan := bufio.NewScanner(r)
	scan.Buffer(make([]byte, 0, 64<<10), maxLine)
	number := 0
	for scan.Scan() {
		number++
		text := bytes.TrimSpace(scan.Bytes())
		if number == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff"))
		}
		if len(text) == 0 {
			continue
		}
		l := line{number: number, size: len(scan.Bytes()) + 1}
		l.item, l.err = parseLine(text)
		if !give(l) {
			return nil
		}
	}
	switch err := scan.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("line %d is longer than %d bytes, which no item is", number+1, maxLine)
	case err != nil:
		return fmt.Errorf("after line %d: %w", number, err)
	default:
		return nil
	}
}
