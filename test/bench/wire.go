package main

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// payloadSize is what the items of all rows hold, in bytes.
const payloadSize = 200

// stampSize is the head of a payload: the time of its produce in nanoseconds, in
// decimal.
const stampSize = 21

// client builds calls and reads answers on one connection, in protobuf and without
// allocating: the load shares its machine with the server, and peers are measured over
// protobuf as well.
type client struct {
	*conn
	request  []byte
	payload  []byte
	receipts [][]byte
	stamps   []int64
}

func newClient(host string) (*client, error) {
	c, err := dial(host)
	if err != nil {
		return nil, err
	}
	return &client{conn: c, payload: bytes.Repeat([]byte{'p'}, payloadSize)}, nil
}

// The fields that calls have; see api/v1/queue.proto.
const (
	queueField       = protowire.Number(1)
	itemsField       = protowire.Number(3)
	payloadField     = protowire.Number(5)
	batchField       = protowire.Number(2)
	clientField      = protowire.Number(3)
	waitField        = protowire.Number(4)
	ttlField         = protowire.Number(20)
	leasedField      = protowire.Number(3)
	leasedPayload    = protowire.Number(7)
	leasedReceipt    = protowire.Number(21)
	completeReceipts = protowire.Number(20)
)

func appendText(b []byte, field protowire.Number, text string) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendString(b, text)
}

func appendBytes(b []byte, field protowire.Number, value []byte) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendBytes(b, value)
}

// produce puts n stamped items on a queue.
func (c *client) produce(queueName string, n int) error {
	stamp := c.payload[:stampSize]
	digits := strconv.AppendInt(nil, time.Now().UnixNano(), 10)
	for i := range stamp {
		stamp[i] = '0'
	}
	copy(stamp[stampSize-len(digits):], digits)

	item := protowire.SizeTag(payloadField) + protowire.SizeBytes(payloadSize)
	b := appendText(c.request[:0], queueField, queueName)
	for range n {
		b = protowire.AppendTag(b, itemsField, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(item))
		b = appendBytes(b, payloadField, c.payload)
	}
	c.request = b
	return c.patiently(func() error {
		_, err := c.post("/v1/queue.produce", protobufType, c.request)
		return err
	})
}

// lease asks for up to n items, waiting at most the given milliseconds. The
// receipts and stamps are good until the next call.
func (c *client) lease(queueName, clientID string, n, waitMS int, ttl string) error {
	b := appendText(c.request[:0], queueField, queueName)
	b = protowire.AppendTag(b, batchField, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(n))
	b = appendText(b, clientField, clientID)
	b = appendText(b, waitField, strconv.Itoa(waitMS)+"ms")
	c.request = appendText(b, ttlField, ttl)
	c.receipts, c.stamps = c.receipts[:0], c.stamps[:0]
	return c.patiently(func() error {
		body, err := c.post("/v1/queue.lease", protobufType, c.request)
		if err != nil {
			return err
		}
		return c.scan(body)
	})
}

// scan finds the receipts and the stamps in a lease's answer.
func (c *client) scan(body []byte) error {
	err := eachBytes(body, func(field protowire.Number, item []byte) error {
		if field != leasedField {
			return nil
		}
		return eachBytes(item, func(field protowire.Number, value []byte) error {
			switch field {
			case leasedReceipt:
				c.receipts = append(c.receipts, value)
			case leasedPayload:
				if len(value) < stampSize {
					return fmt.Errorf("payload of %d bytes", len(value))
				}
				at, err := strconv.ParseInt(string(value[:stampSize]), 10, 64)
				if err != nil {
					return fmt.Errorf("payload: %w", err)
				}
				c.stamps = append(c.stamps, at)
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	if len(c.stamps) != len(c.receipts) {
		return fmt.Errorf("lease: %d receipts with %d payloads", len(c.receipts), len(c.stamps))
	}
	return nil
}

// eachBytes calls f for every field of a message that holds bytes, text or a message.
func eachBytes(message []byte, f func(protowire.Number, []byte) error) error {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(field, kind, message); n < 0 {
				return protowire.ParseError(n)
			}
			message = message[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := f(field, value); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}

// complete settles everything that the last lease answered.
func (c *client) complete(queueName string) error {
	b := appendText(c.request[:0], queueField, queueName)
	for _, receipt := range c.receipts {
		b = appendBytes(b, completeReceipts, receipt)
	}
	c.request = b
	return c.patiently(func() error {
		_, err := c.post("/v1/queue.complete", protobufType, c.request)
		return err
	})
}

// call makes any other call, in JSON.
func (c *client) call(method, request string) error {
	_, err := c.post("/v1/"+method, jsonType, []byte(request))
	return err
}

// patiently repeats what the server was too busy for.
func (c *client) patiently(call func() error) error {
	err := call()
	for try := 0; err == errBusy && try < 5000; try++ {
		time.Sleep(time.Millisecond)
		err = call()
	}
	return err
}
