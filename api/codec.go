package api

import (
	"mime"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/posthaste-io/posthaste/api/wirejson"
	"github.com/posthaste-io/posthaste/api/wireproto"
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

func (jsonCodec) mediaType() string { return jsonType }

func (c jsonCodec) decode(data []byte, m proto.Message) error { return c.decoder.Decode(data, m) }

// append ends the message with a line feed, for those who read it in a terminal.
func (jsonCodec) append(dst []byte, m proto.Message) []byte {
	return append(wirejson.Append(dst, m), '\n')
}

// protoCodec is protobuf under one of its names: whoever sends or accepts one of them
// may not know the others.
type protoCodec struct{ media string }

func (c protoCodec) mediaType() string { return c.media }

func (protoCodec) decode(data []byte, m proto.Message) error { return wireproto.Decode(data, m) }

func (protoCodec) append(dst []byte, m proto.Message) []byte { return wireproto.Append(dst, m) }

const jsonType = "application/json"

var (
	messageJSON  codec = jsonCodec{wirejson.NewDecoder(laterFields)}
	messageProto codec = protoCodec{"application/protobuf"}
)

// codecs are searched from the top.
var codecs = []codec{
	messageJSON, messageProto, protoCodec{"application/x-protobuf"}, protoCodec{"application/vnd.google.protobuf"},
}

// codecOf returns the codec of a media type in lower case, or nil.
func codecOf(media string) codec {
	i := slices.IndexFunc(codecs, func(c codec) bool { return c.mediaType() == media })
	if i < 0 {
		return nil
	}
	return codecs[i]
}

// requestCodec chooses by Content-Type.
func requestCodec(contentType string) (codec, error) {
	// The usual spellings first: parsing costs more than the rest of the choice.
	switch contentType {
	case "", "*/*", jsonType:
		return messageJSON, nil
	case messageProto.mediaType():
		return messageProto, nil
	}
	const send = "; send " + jsonType + " or application/protobuf"
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, &mediaTypeError{"Content-Type " + clip(contentType) + " is not one" + send}
	}
	if media == "*/*" {
		media = jsonType
	}
	c := codecOf(media)
	switch charset, encoding := params["charset"], params["encoding"]; {
	case media == "application/x-www-form-urlencoded":
		return nil, &mediaTypeError{"this is the type that curl -d sends by itself; add -H 'Content-Type: application/json', or use curl --json"}
	case c == nil:
		return nil, &mediaTypeError{"Content-Type " + clip(media) + " is not read here" + send + ". To produce a body of any type as it is: POST /v1/produce/{queue}"}
	case c == messageJSON && charset != "" && !strings.EqualFold(charset, "utf-8"):
		return nil, &mediaTypeError{"charset " + clip(charset) + " is not read; JSON is UTF-8"}
	case c != messageJSON && encoding != "" && encoding != "binary":
		// The type's registration has protobuf's own JSON under this name.
		return nil, &mediaTypeError{"protobuf in encoding " + clip(encoding) + " is not read" + send}
	}
	return c, nil
}

// replyCodec chooses by the values of Accept, or takes the request's own if it is as
// good as another one. Whoever accepts nothing that there is gets JSON, which anybody
// can read: an answer without its reason would help nobody.
func replyCodec(accept []string, own codec) codec {
	// The usual ones first: parsing costs more than the rest of the choice.
	if len(accept) == 0 || len(accept) == 1 && (accept[0] == "*/*" || accept[0] == own.mediaType()) {
		return own
	}
	ranges := mediaRanges(accept)
	if len(ranges) == 0 {
		return own
	}
	best, most := own, quality(ranges, own.mediaType())
	for _, c := range codecs {
		if q := quality(ranges, c.mediaType()); q > most {
			best, most = c, q
		}
	}
	if most == 0 {
		return messageJSON
	}
	return best
}
