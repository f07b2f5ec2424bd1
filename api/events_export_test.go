package api

import (
	"net/http"
	"net/url"
)

// ReadStructured takes an event out of its JSON.
func ReadStructured(body []byte) (attributes map[string]string, data []byte, err error) {
	e, err := readStructured(body)
	if err != nil {
		err = structuredEvent.within(0, err)
	}
	return e.attributes, e.data, err
}

// ReadBinary takes an event's attributes out of headers.
func ReadBinary(h http.Header) (map[string]string, error) {
	e, err := readBinary(h)
	return e.attributes, err
}

// BinaryHeaders writes attributes as headers.
func BinaryHeaders(attributes map[string]string) http.Header {
	h := http.Header{}
	for name, value := range attributes {
		if name == "datacontenttype" {
			h.Set("Content-Type", value)
		} else {
			h.Set(headerEvents+name, url.PathEscape(value))
		}
	}
	return h
}
