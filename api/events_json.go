package api

import (
	"encoding/base64"
	"math"
	"mime"
	"strconv"
	"strings"

	"github.com/posthaste-io/posthaste/api/wirejson"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/webhooks"
)

// readStructured reads an event in the JSON format of CloudEvents 1.0. It is of use to
// nobody if it answers an error: a [queue.InvalidError] with the name as field, a
// [webhooks.AttributeError] or a [queue.TooLargeError].
func readStructured(body []byte) (event, error) {
	members, err := wirejson.Object(body)
	if err != nil {
		return event{}, err
	}
	e := event{attributes: make(map[string]string, len(members))}
	var data, binary wirejson.Value
	for _, m := range members {
		switch {
		case m.Name == "data":
			data = m.Value
		case m.Value.IsNull(): // as if it were not there
		case m.Name == "data_base64":
			binary = m.Value
		default:
			if e.attributes[m.Name], err = readAttribute(m.Name, m.Value); err != nil {
				return e, err
			}
		}
	}
	if data != nil && binary != nil {
		return e, queue.Invalid("data_base64", "goes without data; give one of them")
	}
	if err := webhooks.CheckAttributes(e.attributes); err != nil {
		return e, err
	}
	switch {
	case binary != nil:
		e.data, err = readBase64(binary)
	case data != nil:
		e.data, err = readData(data, e.attributes)
	}
	return e, err
}

// readAttribute makes a value into the text that stands for it in binary mode.
func readAttribute(name string, value wirejson.Value) (string, error) {
	if text, ok := value.Text(); ok {
		return text, nil
	}
	if !standardAttributes[name] {
		if text := string(value); text == "true" || text == "false" {
			return text, nil
		}
		if n, err := strconv.ParseInt(string(value), 10, 64); err == nil && n >= math.MinInt32 && n <= math.MaxInt32 {
			return strconv.FormatInt(n, 10), nil
		}
		return "", queue.Invalid(clip(name), "wants a string, a bool or a whole number of 32 bits, got %s", value.Kind())
	}
	return "", queue.Invalid(name, "wants a string, got %s", value.Kind())
}

// standardAttributes are texts; those that others add may be numbers and bools as well.
var standardAttributes = map[string]bool{
	"specversion": true, "id": true, "source": true, "type": true, "subject": true, "time": true,
	"datacontenttype": true, "dataschema": true,
}

func readBase64(value wirejson.Value) ([]byte, error) {
	text, ok := value.Text()
	if !ok {
		return nil, queue.Invalid("data_base64", "wants a string, got %s", value.Kind())
	}
	data, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return nil, queue.Invalid("data_base64", "is not base64 with the alphabet of RFC 4648 section 4 and its padding")
	}
	return data, nil
}

// readData keeps data that is JSON as it is written, and text as it reads.
func readData(value wirejson.Value, attributes map[string]string) ([]byte, error) {
	kind, given := attributes["datacontenttype"]
	if !given {
		// What the standard has it mean, said outright to those who get the data alone.
		attributes["datacontenttype"] = jsonType
		return value, nil
	}
	if isJSONType(kind) {
		return value, nil
	}
	text, ok := value.Text()
	if !ok {
		return nil, queue.Invalid("data", "wants a string, since datacontenttype is not JSON, got %s; other data goes into data_base64", value.Kind())
	}
	return []byte(text), nil
}

// isJSONType says whether data of a media type is JSON.
func isJSONType(kind string) bool {
	media, _, _ := mime.ParseMediaType(kind) // it was checked, and bad parameters do not matter
	_, sub, _ := strings.Cut(media, "/")
	return sub == "json" || strings.HasSuffix(sub, "+json")
}
