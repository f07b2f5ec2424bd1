package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/posthaste-io/posthaste/api/wirejson"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/webhooks"
)

// eventMode is how a raw body tells of events, after the HTTP binding of CloudEvents 1.0.
type eventMode int

const (
	// noEvent is a body that is no event, but the item as it is.
	noEvent eventMode = iota + 1
	// binaryEvent has the attributes in ce- headers, and the body is the data.
	binaryEvent
	// structuredEvent is an event in JSON.
	structuredEvent
	// eventBatch is a list of such.
	eventBatch
)

// headerEvents is how the headers of binary mode begin, in canonical spelling.
const headerEvents = "Ce-"

const (
	structuredType = webhooks.EventMediaType + "+json"
	batchType      = webhooks.EventMediaType + "-batch+json"
)

// eventModeOf tells by the headers. Errors: [mediaTypeError], [queue.InvalidError].
func eventModeOf(h http.Header) (eventMode, error) {
	media, parameters, _ := strings.Cut(h.Get("Content-Type"), ";")
	media = strings.ToLower(strings.TrimSpace(media))
	mode := noEvent
	rest, inBody := strings.CutPrefix(media, webhooks.EventMediaType)
	switch {
	case media == structuredType:
		mode = structuredEvent
	case media == batchType:
		mode = eventBatch
	case inBody && (rest == "" || rest[0] == '+' || rest[0] == '-'):
		return 0, &mediaTypeError{"Content-Type " + clip(media) + " is not read; send an event as " + structuredType + ", several as " + batchType +
			", or one in binary mode: its attributes in ce- headers, its data as the body"}
	case len(h["Ce-Specversion"]) > 0:
		return binaryEvent, onlyContentType(h)
	default:
		// One that has the others was meant to be an event.
		for _, name := range []string{"Ce-Id", "Ce-Source", "Ce-Type"} {
			if len(h[name]) > 0 {
				return 0, queue.Invalid("ce-specversion", "is missing beside %s; want 1.0", strings.ToLower(name))
			}
		}
		return noEvent, nil
	}
	if charset := charsetOf(parameters); charset != "" && !strings.EqualFold(charset, "utf-8") {
		return 0, &mediaTypeError{"charset " + clip(charset) + " is not read; JSON is UTF-8"}
	}
	return mode, onlyContentType(h)
}

func onlyContentType(h http.Header) error {
	if len(h["Content-Type"]) > 1 {
		return queue.Invalid("Content-Type", "is given twice")
	}
	return nil
}

// charsetOf finds the charset among parameters, however they are spelled.
func charsetOf(parameters string) string {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(parameter, "=")
		if strings.EqualFold(strings.TrimSpace(name), "charset") {
			return strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return ""
}

// bodyLimit is how long a body may be. JSON is longer than the data in it, which the
// broker judges.
func (m eventMode) bodyLimit(limits *Limits) int64 {
	if m == structuredEvent || m == eventBatch {
		return limits.ItemCall
	}
	return limits.Payload
}

// event is a CloudEvent: its attributes by name, as plain texts, and its data.
type event struct {
	attributes map[string]string
	data       []byte
}

// readBinary takes an event from headers; its data is still to come.
func readBinary(h http.Header) (event, error) {
	attributes, err := readEventHeaders(h)
	if err != nil {
		return event{}, err
	}
	e := event{attributes: attributes}
	for _, other := range [...]struct{ name, place string }{{"data", "the body"}, {"datacontenttype", "Content-Type"}} {
		if _, given := e.attributes[other.name]; given {
			return e, queue.Invalid("ce-"+other.name, "is what %s is for in binary mode; send that instead", other.place)
		}
	}
	if encoding := h.Get("Content-Type"); encoding != "" {
		e.attributes["datacontenttype"] = encoding
	}
	return e, binaryEvent.within(0, webhooks.CheckAttributes(e.attributes))
}

// eventHeaders are the names of the ce- headers, in order.
func eventHeaders(h http.Header) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(h)), func(name string) bool { return !strings.HasPrefix(name, headerEvents) })
}

// readEventHeaders takes the attributes from ce- headers, by their names.
func readEventHeaders(h http.Header) (map[string]string, error) {
	attributes := make(map[string]string)
	for _, name := range eventHeaders(h) {
		text, err := readEventHeader(name, h[name])
		if err != nil {
			return nil, err
		}
		attributes[strings.ToLower(name[len(headerEvents):])] = text
	}
	return attributes, nil
}

func readEventHeader(name string, values []string) (string, error) {
	name = clip(strings.ToLower(name))
	if len(values) > 1 {
		return "", queue.Invalid(name, "is given twice")
	}
	text, err := webhooks.ParseCloudEventHeader(values[0])
	if err != nil {
		reason := strings.TrimPrefix(err.Error(), "cloud event header: ")
		return "", queue.Invalid(name, "%s; percent-encode UTF-8, as %%20 for a space", reason)
	}
	return text, nil
}

// place is where a producer wrote an attribute of one of the events.
func (m eventMode) place(i int, attribute string) string {
	switch m {
	case binaryEvent:
		switch attribute {
		case "datacontenttype":
			return "Content-Type"
		case "data":
			return "body"
		case "":
			return "ce-*"
		}
		return "ce-" + attribute
	case eventBatch:
		return strings.TrimSuffix("["+strconv.Itoa(i)+"]."+attribute, ".")
	default:
		if attribute == "" {
			return "body"
		}
		return attribute
	}
}

// within gives an error about an attribute of one of the events, or about its JSON, the
// path that its producer knows.
func (m eventMode) within(i int, err error) error {
	if e, ok := errors.AsType[*webhooks.AttributeError](err); ok {
		return queue.Invalid(m.place(i, clip(e.Attribute)), "%s", e.Reason)
	}
	if e, ok := errors.AsType[*queue.InvalidError](err); ok {
		return &queue.InvalidError{Field: m.place(i, e.Field), Reason: e.Reason}
	}
	return err
}

// readEvents takes all events of a request. h was judged by eventModeOf.
func (s *Server) readEvents(m eventMode, h http.Header, body []byte) ([]event, error) {
	switch m {
	case binaryEvent:
		e, err := readBinary(h)
		e.data = body
		return []event{e}, err
	case structuredEvent:
		e, err := readStructured(body)
		if err == nil {
			err = checkBeside(h, &e)
		}
		return []event{e}, m.within(0, err)
	}
	if names := eventHeaders(h); len(names) > 0 {
		return nil, queue.Invalid(clip(strings.ToLower(names[0])), "goes without a batch, whose events have their own attributes")
	}
	list, err := wirejson.List(body)
	if e, ok := errors.AsType[*queue.InvalidError](err); ok && e.Field == "" {
		e.Field = "body"
	}
	if err != nil {
		return nil, err
	}
	if err := s.checkCount("body", "events", len(list)); err != nil {
		return nil, err
	}
	events := make([]event, len(list))
	for i, value := range list {
		if events[i], err = readStructured(value); err != nil {
			return nil, m.within(i, err)
		}
	}
	return events, nil
}

// checkBeside judges the headers that may go with an event in the body: what stands on
// the way may have looked at them alone.
func checkBeside(h http.Header, e *event) error {
	beside, err := readEventHeaders(h)
	if err != nil {
		return err
	}
	for _, attribute := range slices.Sorted(maps.Keys(beside)) {
		if value, given := e.attributes[attribute]; !given || value != beside[attribute] {
			return queue.Invalid(clip("ce-"+attribute), "says something else than the event in the body; leave it out")
		}
	}
	return nil
}

// eventCall makes events into the call that produces them. The item has what the headers of
// ours say of all of them.
func eventCall(m eventMode, item queue.ProduceItem, events []event) (call queue.ProduceCall, err error) {
	for name := range item.Headers {
		if strings.EqualFold(name, "Content-Type") {
			return call, queue.Invalid(headerForward+name, "would stand in the place of the event's datacontenttype; leave it out")
		}
	}
	own := item.IdempotencyKey == ""
	if m == eventBatch {
		call.Key, item.IdempotencyKey = item.IdempotencyKey, ""
	}
	call.Items = make([]queue.ProduceItem, len(events))
	for i := range events {
		a, it := events[i].attributes, &call.Items[i]
		*it = item
		if item.Kind != "" && item.Kind != a["type"] {
			return call, queue.Invalid(headerKind, "is another one than %s, which is the item's kind; leave it out", m.place(i, "type"))
		}
		it.Kind, it.Encoding, it.Payload = a["type"], a["datacontenttype"], events[i].data
		it.Headers = webhooks.AttributeHeaders(a)
		maps.Copy(it.Headers, item.Headers)
		if own {
			// The standard has producers give each event a source and id of its own. A repeat
			// may have passed other hops, which changed time and extensions.
			it.IdempotencyKey = "cloudevent." + digestOf(a["source"], a["id"])
			it.Fingerprint = "cloudevent " + digestOf(a["type"], a["subject"], a["dataschema"], a["datacontenttype"], string(events[i].data))
		}
	}
	return call, nil
}

// digestOf makes texts into 43 visible ASCII characters.
func digestOf(texts ...string) string {
	h := sha256.New()
	var size [8]byte
	for _, text := range texts {
		binary.BigEndian.PutUint64(size[:], uint64(len(text)))
		h.Write(size[:])
		h.Write([]byte(text))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// path gives what the broker says of an event the path that its producer knows; keyed says
// that it gave a key of its own. What is not the event's is left to [rawPath].
func (m eventMode) path(err error, keyed bool) error {
	if m == noEvent {
		return err
	}
	if e, ok := errors.AsType[*queue.InvalidError](err); ok {
		if i, attribute, ok := eventEntry(e.Field); ok {
			return &queue.InvalidError{Field: m.place(i, attribute), Reason: e.Reason}
		}
	}
	if e, ok := errors.AsType[*queue.TooLargeError](err); ok {
		place := "body"
		if i, attribute, ok := eventEntry(e.Field); ok {
			place = m.place(i, attribute)
		}
		return &queue.TooLargeError{Field: place, Limit: e.Limit, Unit: e.Unit}
	}
	if e, ok := errors.AsType[*queue.MismatchError](err); ok && !keyed {
		return &placedError{err, m.place(e.Index, "id")}
	}
	return err
}

// itemAttributes are what the broker judges as fields of an item.
var itemAttributes = map[string]string{"kind": "type", "encoding": "datacontenttype", "bytes": "data", "headers": ""}

// eventEntry finds the event and its attribute in a path of the broker's.
func eventEntry(path string) (i int, attribute string, ok bool) {
	index, field, _ := strings.Cut(strings.TrimPrefix(path, "items["), "].")
	i, err := strconv.Atoi(index)
	attribute, known := itemAttributes[field]
	return i, attribute, known && err == nil
}
