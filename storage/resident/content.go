package resident

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// Layout of a content: format, CRC32C of what follows, the length of the
// attributes, attributes, payload. An attribute is a tag, a length and a value;
// what is empty is left out, and a tag that a reader does not know it passes over.
const (
	tagKind = iota + 1
	tagEncoding
	tagReference
	tagOrderingKey
	tagSourceID
	tagHeader // name, then value, each with its length
	tagTrace
	tagHop
	tagTarget // URL and method with their lengths, then the timeout
	tagOnDone
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const contentHead = 1 + 4

func encodeContent(c *queue.Content) []byte {
	var scratch [512]byte
	attributes := appendAttributes(scratch[:0], c)
	b := make([]byte, contentHead, contentHead+binary.MaxVarintLen32+len(attributes)+len(c.Payload))
	b = appendBytes(b, attributes)
	b = append(b, c.Payload...)
	b[0] = contentFormat
	be.PutUint32(b[1:], crc32.Checksum(b[contentHead:], castagnoli))
	return b
}

func appendAttributes(b []byte, c *queue.Content) []byte {
	for _, a := range [...]struct {
		tag   byte
		value string
	}{
		{tagKind, c.Kind},
		{tagEncoding, c.Encoding},
		{tagReference, c.Reference},
		{tagOrderingKey, c.OrderingKey},
		{tagSourceID, c.SourceID},
		{tagTrace, c.Trace},
		{tagOnDone, c.OnDone},
	} {
		if a.value != "" {
			b = appendString(append(b, a.tag), a.value)
		}
	}
	var scratch [512]byte
	for name, value := range c.Headers {
		b = appendBytes(append(b, tagHeader), appendString(appendString(scratch[:0], name), value))
	}
	if c.Hop != 0 {
		b = appendBytes(append(b, tagHop), binary.AppendVarint(scratch[:0], int64(c.Hop)))
	}
	if t := c.Target; t != nil {
		v := appendString(appendString(scratch[:0], t.URL), t.Method)
		b = appendBytes(append(b, tagTarget), binary.AppendVarint(v, int64(t.Timeout)))
	}
	return b
}

// decodeContent reads a content; its payload is a part of b.
func decodeContent(b []byte) (c queue.Content, err error) {
	if len(b) < contentHead || b[0] != contentFormat ||
		be.Uint32(b[1:]) != crc32.Checksum(b[contentHead:], castagnoli) {
		return c, errCorrupt
	}
	r := reader{b: b[contentHead:]}
	attributes := reader{b: r.bytes()}
	if r.bad {
		return c, errCorrupt
	}
	c.Payload = r.b
	for len(attributes.b) > 0 {
		tag := attributes.byte()
		value := reader{b: attributes.bytes()}
		switch tag {
		case tagKind:
			c.Kind = string(value.b)
		case tagEncoding:
			c.Encoding = string(value.b)
		case tagReference:
			c.Reference = string(value.b)
		case tagOrderingKey:
			c.OrderingKey = string(value.b)
		case tagSourceID:
			c.SourceID = string(value.b)
		case tagTrace:
			c.Trace = string(value.b)
		case tagOnDone:
			c.OnDone = string(value.b)
		case tagHeader:
			if c.Headers == nil {
				c.Headers = map[string]string{}
			}
			name := value.string()
			c.Headers[name] = value.string()
		case tagHop:
			c.Hop = int32(value.varint())
		case tagTarget:
			c.Target = &queue.Target{URL: value.string(), Method: value.string(), Timeout: time.Duration(value.varint())}
		}
		if value.bad {
			return c, errCorrupt
		}
	}
	return c, attributes.end()
}
