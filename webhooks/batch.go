package webhooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"
)

// BatchItem is one item of a request that brings several. Its id is the item's: it is
// the same in every attempt, while the webhook-id of a batch is new each time, since the
// same items may not meet again. So receivers tell repeats by it.
type BatchItem struct {
	ID        string
	Kind      string
	Encoding  string
	Reference string
	// Attempt counts deliveries from 1, MaxAttempts is 0 for no limit.
	Attempt     int32
	MaxAttempts int32
	EnqueuedAt  time.Time
	// Headers are the item's own. Those that a request could not have are left out.
	Headers map[string]string
	// Traceparent is the producer's.
	Traceparent string
	Payload     []byte
}

// batchObject is an item in a JSON body.
type batchObject struct {
	ID          string            `json:"id"`
	Kind        string            `json:"kind,omitempty"`
	Encoding    string            `json:"encoding,omitempty"`
	Reference   string            `json:"reference,omitempty"`
	Attempt     int32             `json:"attempt"`
	MaxAttempts int32             `json:"max_attempts,omitempty"`
	EnqueuedAt  time.Time         `json:"enqueued_at"`
	Headers     map[string]string `json:"headers,omitempty"`
	Traceparent string            `json:"traceparent,omitempty"`
	// UTF8 is set for a payload that is text, Bytes for any other.
	UTF8  *string `json:"utf8,omitempty"`
	Bytes []byte  `json:"bytes,omitempty"`
}

// The types of a batch's body.
const (
	batchJSON      = "application/json"
	batchMultipart = "multipart/mixed"
)

// EncodeBatchJSON makes items into the body of a request: an array of objects, with the
// payload in utf8 where it is text and else in bytes, as base64.
func EncodeBatchJSON(items []BatchItem) (contentType string, body []byte) {
	objects := make([]batchObject, len(items))
	for i := range items {
		it := &items[i]
		objects[i] = batchObject{
			ID: it.ID, Kind: it.Kind, Encoding: it.Encoding, Reference: it.Reference,
			Attempt: it.Attempt, MaxAttempts: it.MaxAttempts, EnqueuedAt: it.EnqueuedAt.UTC(),
			Headers: it.Headers, Traceparent: it.Traceparent,
		}
		if utf8.Valid(it.Payload) {
			text := string(it.Payload)
			objects[i].UTF8 = &text
		} else {
			objects[i].Bytes = it.Payload
		}
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(objects); err != nil {
		panic(fmt.Sprintf("batch: %v", err)) // texts, numbers and bytes: they can be written
	}
	return batchJSON, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

// EncodeBatchMultipart makes items into the body of a request: a part for each, with its
// bytes as they are. The part's headers say of the item what those of a request with one
// item say, encoded in the same way.
func EncodeBatchMultipart(items []BatchItem) (contentType string, body []byte) {
	var buf bytes.Buffer
	w := multipart.NewWriter(&buf)
	for i := range items {
		it := &items[i]
		h := textproto.MIMEHeader{}
		if CheckHeaders(it.Headers) == nil { // else a line break in one would begin another
			for name, value := range it.Headers {
				h.Set(name, value)
			}
		}
		set := func(name, value string) {
			if value != "" {
				h.Set(name, encodeValue(value))
			}
		}
		h.Set("Content-Type", mediaType(orElse(it.Encoding, "application/octet-stream")))
		set(HeaderID, it.ID)
		set("Posthaste-Kind", it.Kind)
		set("Posthaste-Reference", it.Reference)
		set("Posthaste-Attempt", strconv.Itoa(int(it.Attempt)))
		if it.MaxAttempts > 0 {
			set("Posthaste-Max-Attempts", strconv.Itoa(int(it.MaxAttempts)))
		}
		set("Posthaste-Enqueued-At", it.EnqueuedAt.UTC().Format(time.RFC3339Nano))
		set("Traceparent", it.Traceparent)
		part, err := w.CreatePart(h)
		if err == nil {
			_, err = part.Write(it.Payload)
		}
		if err != nil {
			panic(fmt.Sprintf("batch: %v", err)) // a buffer takes everything
		}
	}
	w.Close() // a buffer takes this, too
	return batchMultipart + "; boundary=" + w.Boundary(), buf.Bytes()
}

// DecodeBatch reads the body of a request that brings several items, in either encoding.
// Verify the request first: what is read here comes from whoever sent it.
func DecodeBatch(contentType string, body []byte) ([]BatchItem, error) {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, fmt.Errorf("batch: content type: %w", err)
	}
	switch kind {
	case batchJSON:
		return decodeObjects(body)
	case batchMultipart:
		return decodeParts(multipart.NewReader(bytes.NewReader(body), params["boundary"]))
	default:
		return nil, fmt.Errorf("batch: content type %.50q is neither %s nor %s", kind, batchJSON, batchMultipart)
	}
}

func decodeObjects(body []byte) ([]BatchItem, error) {
	var objects []batchObject
	if err := json.Unmarshal(body, &objects); err != nil {
		return nil, fmt.Errorf("batch: %w", err)
	}
	items := make([]BatchItem, len(objects))
	for i, o := range objects {
		items[i] = BatchItem{
			ID: o.ID, Kind: o.Kind, Encoding: o.Encoding, Reference: o.Reference,
			Attempt: o.Attempt, MaxAttempts: o.MaxAttempts, EnqueuedAt: o.EnqueuedAt,
			Headers: o.Headers, Traceparent: o.Traceparent, Payload: o.Bytes,
		}
		if o.UTF8 != nil {
			items[i].Payload = []byte(*o.UTF8)
		}
		if err := checkID(o.ID); err != nil {
			return nil, fmt.Errorf("batch: item %d: %w", i, err)
		}
	}
	return items, nil
}

// ownPartHeaders are those of a part that are not the item's.
var ownPartHeaders = []string{
	"Content-Type", HeaderID, "Posthaste-Kind", "Posthaste-Reference", "Posthaste-Attempt",
	"Posthaste-Max-Attempts", "Posthaste-Enqueued-At", "Traceparent",
}

func decodeParts(r *multipart.Reader) ([]BatchItem, error) {
	var items []BatchItem
	for {
		part, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return items, nil
		}
		if err != nil {
			return nil, fmt.Errorf("batch: part %d: %w", len(items), err)
		}
		it, err := decodePart(part)
		if err != nil {
			return nil, fmt.Errorf("batch: part %d: %w", len(items), err)
		}
		items = append(items, it)
	}
}

func decodePart(part *multipart.Part) (BatchItem, error) {
	h := http.Header(part.Header)
	text := func(name string) string {
		value := h.Get(name)
		if plain, err := url.PathUnescape(value); err == nil {
			return plain
		}
		return value
	}
	count := func(name string) (int32, error) {
		if h.Get(name) == "" {
			return 0, nil
		}
		n, err := strconv.ParseInt(h.Get(name), 10, 32)
		if err != nil {
			return 0, fmt.Errorf("%s: not a count", name)
		}
		return int32(n), nil
	}
	it := BatchItem{
		ID: h.Get(HeaderID), Kind: text("Posthaste-Kind"), Encoding: text("Content-Type"),
		Reference: text("Posthaste-Reference"), Traceparent: h.Get("Traceparent"),
	}
	var errs [4]error
	errs[0] = checkID(it.ID)
	it.Attempt, errs[1] = count("Posthaste-Attempt")
	it.MaxAttempts, errs[2] = count("Posthaste-Max-Attempts")
	if at := h.Get("Posthaste-Enqueued-At"); at != "" {
		it.EnqueuedAt, errs[3] = time.Parse(time.RFC3339Nano, at)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return BatchItem{}, err
	}
	for _, name := range ownPartHeaders {
		h.Del(name)
	}
	for name := range h {
		if it.Headers == nil {
			it.Headers = map[string]string{}
		}
		it.Headers[name] = h.Get(name)
	}
	payload, err := io.ReadAll(part)
	it.Payload = payload
	return it, err
}

// FailedItem names an item of a batch that did not go well. RetryAfter, if it is over 0,
// is how long it waits at least until it is sent again; it counts in whole milliseconds.
// Never says that it is not to be sent again: it goes to the dead-letter queue.
type FailedItem struct {
	ID         string
	RetryAfter time.Duration
	Never      bool
}

// failedAnswer is the body that an answer to a batch may have.
type failedAnswer struct {
	Failed []failedObject `json:"failed"`
}

type failedObject struct {
	ID         string          `json:"id"`
	RetryAfter json.RawMessage `json:"retry_after,omitempty"`
	Never      bool            `json:"never,omitempty"`
}

// EncodeFailed makes the body of the answer to a batch in which some items did not go well;
// it goes with a status of 2xx and Content-Type application/json. All that it does not
// name are done. An answer with any other body says that all are.
func EncodeFailed(failed ...FailedItem) []byte {
	answer := failedAnswer{Failed: make([]failedObject, len(failed))}
	for i, f := range failed {
		answer.Failed[i].ID, answer.Failed[i].Never = f.ID, f.Never
		if wait := f.RetryAfter.Round(time.Millisecond); wait > 0 {
			answer.Failed[i].RetryAfter = json.RawMessage(strconv.Quote(wait.String()))
		}
	}
	body, err := json.Marshal(answer)
	if err != nil {
		panic(fmt.Sprintf("batch: %v", err)) // texts: they can be written
	}
	return body
}

// DecodeFailed reads the answer to a batch: which items failed, by their ids, and how long
// each has to wait at least, 0 if it does not say so sensibly and 24 h at most. A body that
// does not begin as a JSON object names none. One that does and is none, or that was cut
// before that could be seen or after, is an error: what cannot be read might name any of
// them.
func DecodeFailed(body []byte, cut bool) (map[string]FailedItem, error) {
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff"))) // some write it before JSON
	switch {
	case cut && (len(body) == 0 || body[0] == '{'):
		return nil, errors.New("the answer that may name failed items is over 64 KiB or broke off")
	case !bytes.HasPrefix(body, []byte("{")):
		return nil, nil
	}
	var answer failedAnswer
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, errors.New("the answer begins as a JSON object and is none that names failed items")
	}
	failed := make(map[string]FailedItem, len(answer.Failed))
	for _, f := range answer.Failed {
		before := failed[f.ID]
		failed[f.ID] = FailedItem{
			ID: f.ID, RetryAfter: max(before.RetryAfter, parseWait(f.RetryAfter)), Never: before.Never || f.Never,
		}
	}
	return failed, nil
}

// parseWait reads seconds, as a number or in digits, or a duration such as 1m30s.
func parseWait(raw json.RawMessage) time.Duration {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || seconds != seconds {
			return 0
		}
		d = time.Duration(max(0, min(seconds, maxRetryAfter.Seconds())) * float64(time.Second))
	}
	return max(0, min(d, maxRetryAfter))
}
