package api

import (
	"mime"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/posthaste-io/posthaste/api/wirejson"
)

// codec is one encoding of messages on the wire.
type codec interface {
	// mediaType is the Content-Type of answers.
	mediaType() string
	// decode reads data into m, strictly, and keeps nothing of data.
	decode(data []byte, m proto.Message) error
	// append writes m behind dst.
	append(dst []byte, m proto.Message) []byte
}

// jsonCodec is the codec of everybody who does not ask for another one.
type jsonCodec struct{ decoder *wirejson.Decoder }

func (jsonCodec) mediaType() string { return "application/json" }

func (c jsonCodec) decode(data []byte, m proto.Message) error { return c.decoder.Decode(data, m) }

// append ends the message with a line feed, for those who read it in a terminal.
func (jsonCodec) append(dst []byte, m proto.Message) []byte {
	return append(wirejson.Append(dst, m), '\n')
}

var messageJSON codec = jsonCodec{wirejson.NewDecoder(laterFields)}

const protobufType = "application/protobuf"

// requestCodec chooses by Content-Type.
func requestCodec(contentType string) (codec, error) {
	// The usual spellings first: parsing costs more than the rest of the choice.
	switch contentType {
	case "", "*/*", "application/json":
		return messageJSON, nil
	}
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, &mediaTypeError{"Content-Type " + clip(contentType) + " is not one; send application/json"}
	}
	switch charset := params["charset"]; {
	case media == protobufType:
		return nil, &mediaTypeError{protobufType + " is not read by this release; send application/json"}
	case media == "application/x-www-form-urlencoded":
		return nil, &mediaTypeError{"this is the type that curl -d sends by itself; add -H 'Content-Type: application/json', or use curl --json"}
	case media != "application/json" && media != "*/*":
		return nil, &mediaTypeError{"Content-Type " + clip(media) + " is not read here; send application/json. To produce a body of any type as it is: POST /v1/produce/{queue}"}
	case charset != "" && !strings.EqualFold(charset, "utf-8"):
		return nil, &mediaTypeError{"charset " + clip(charset) + " is not read; JSON is UTF-8"}
	}
	return messageJSON, nil
}

// replyCodec chooses by Accept, or takes the request's own. Whoever asks for what
// there is not gets JSON, but for protobuf: its readers could make nothing of it.
func replyCodec(accept string, own codec) (codec, error) {
	if strings.Contains(accept, protobufType) && !strings.Contains(accept, "json") && !strings.Contains(accept, "*") {
		return nil, &mediaTypeError{"Accept: " + protobufType + " is not written by this release; accept application/json"}
	}
	return own, nil
}
