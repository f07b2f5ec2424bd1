package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"
	"time"
)

// payloadSize is what the items of all rows hold, in bytes.
const payloadSize = 200

// stampSize is the head of a payload: the time of its produce in nanoseconds, in
// decimal. 21 bytes are 28 characters of base64, so the head is encoded alone.
const stampSize = 21

// client builds calls and reads answers on one connection, without allocating.
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
	raw := bytes.Repeat([]byte{'p'}, payloadSize)
	return &client{conn: c, payload: base64.StdEncoding.AppendEncode(nil, raw)}, nil
}

// produce puts n stamped items on a queue.
func (c *client) produce(queueName string, n int) error {
	var stamp [stampSize]byte
	digits := strconv.AppendInt(nil, time.Now().UnixNano(), 10)
	for i := range stamp {
		stamp[i] = '0'
	}
	copy(stamp[stampSize-len(digits):], digits)
	base64.StdEncoding.Encode(c.payload, stamp[:])

	b := append(c.request[:0], `{"queue_name":"`...)
	b = append(b, queueName...)
	b = append(b, `","items":[`...)
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"bytes":"`...)
		b = append(b, c.payload...)
		b = append(b, `"}`...)
	}
	c.request = append(b, "]}"...)
	return c.patiently(func() error {
		_, err := c.post("/v1/queue.produce", c.request)
		return err
	})
}

// lease asks for up to n items, waiting at most the given milliseconds. The
// receipts and stamps are good until the next call.
func (c *client) lease(queueName, clientID string, n, waitMS int, ttl string) error {
	b := append(c.request[:0], `{"queue_name":"`...)
	b = append(b, queueName...)
	b = append(b, `","client_id":"`...)
	b = append(b, clientID...)
	b = append(b, `","batch_size":`...)
	b = strconv.AppendInt(b, int64(n), 10)
	b = append(b, `,"request_timeout":"`...)
	b = strconv.AppendInt(b, int64(waitMS), 10)
	b = append(b, `ms","lease_timeout":"`...)
	b = append(b, ttl...)
	c.request = append(b, `"}`...)
	c.receipts, c.stamps = c.receipts[:0], c.stamps[:0]
	return c.patiently(func() error {
		body, err := c.post("/v1/queue.lease", c.request)
		if err != nil {
			return err
		}
		return c.scan(body)
	})
}

var (
	receiptField = []byte(`"receipt":"`)
	bytesField   = []byte(`"bytes":"`)
)

// scan finds the receipts and the stamps in a lease's answer. Neither contains
// an escape.
func (c *client) scan(body []byte) error {
	for rest := body; ; {
		_, after, found := bytes.Cut(rest, receiptField)
		if !found {
			break
		}
		end := bytes.IndexByte(after, '"')
		if end < 0 {
			return fmt.Errorf("lease: an answer that is cut off: %.100q", after)
		}
		c.receipts = append(c.receipts, after[:end])
		rest = after[end:]
	}
	for rest := body; ; {
		_, after, found := bytes.Cut(rest, bytesField)
		if !found {
			break
		}
		var stamp [stampSize]byte
		const encoded = stampSize / 3 * 4
		if len(after) < encoded {
			return fmt.Errorf("lease: an answer that is cut off: %.100q", after)
		}
		if _, err := base64.StdEncoding.Decode(stamp[:], after[:encoded]); err != nil {
			return fmt.Errorf("lease: payload: %w", err)
		}
		at, err := strconv.ParseInt(string(stamp[:]), 10, 64)
		if err != nil {
			return fmt.Errorf("lease: payload: %w", err)
		}
		c.stamps = append(c.stamps, at)
		rest = after[encoded:]
	}
	if len(c.stamps) != len(c.receipts) {
		return fmt.Errorf("lease: %d receipts with %d payloads", len(c.receipts), len(c.stamps))
	}
	return nil
}

// complete settles everything that the last lease answered.
func (c *client) complete(queueName string) error {
	b := append(c.request[:0], `{"queue_name":"`...)
	b = append(b, queueName...)
	b = append(b, `","receipts":[`...)
	for i, receipt := range c.receipts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(b, receipt...)
		b = append(b, '"')
	}
	c.request = append(b, "]}"...)
	return c.patiently(func() error {
		_, err := c.post("/v1/queue.complete", c.request)
		return err
	})
}

// call makes any other call.
func (c *client) call(method, request string) error {
	_, err := c.post("/v1/"+method, []byte(request))
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
