package queue

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"maps"
	"slices"
)

// hashOf digests what makes two produces with one idempotency key the same: the
// content, where it goes, and when it is due as the producer said it. Every part has its length
// before it, so that no two contents run into the same bytes.
//
// Stores keep it for [KeyTTL]: whoever changes what goes into it, makes repeats
// from before the change look like other items.
func hashOf(it *ProduceItem) [32]byte {
	if it.Fingerprint != "" {
		return sha256.Sum256([]byte("fingerprint " + it.Fingerprint))
	}
	d := digest{h: sha256.New()}
	d.bytes(it.Payload)
	d.text(it.Kind)
	d.text(it.Encoding)
	d.text(it.Reference)
	d.text(it.OrderingKey)
	d.number(uint64(len(it.Headers)))
	for _, name := range slices.Sorted(maps.Keys(it.Headers)) {
		d.text(name)
		d.text(it.Headers[name])
	}
	switch {
	case !it.DueAt.IsZero():
		d.text("at")
		d.number(uint64(it.DueAt.UnixMicro()))
	case it.Delay != 0:
		d.text("after")
		d.number(uint64(it.Delay))
	}
	// Only where they are set, as above: items without them have the hash that they had
	// before there were any.
	if t := it.Target; t != nil {
		d.text("target")
		d.text(t.URL)
		d.text(t.Method)
		d.number(uint64(t.Timeout))
	}
	if it.OnDone != "" {
		d.text("on_done")
		d.text(it.OnDone)
	}
	var sum [32]byte
	d.h.Sum(sum[:0])
	return sum
}

// hashOfCall digests all items of a call, in order, with the keys that they have: under
// the key of the call they are one, and a call that lost an item is another call.
func hashOfCall(call *ProduceCall) (sum [32]byte) {
	d := digest{h: sha256.New()}
	for i := range call.Items {
		one := hashOf(&call.Items[i])
		d.bytes(one[:])
		d.text(call.Items[i].IdempotencyKey)
	}
	d.h.Sum(sum[:0])
	return sum
}

type digest struct {
	h    hash.Hash
	size [8]byte
}

func (d *digest) number(n uint64) {
	binary.BigEndian.PutUint64(d.size[:], n)
	d.h.Write(d.size[:])
}

func (d *digest) bytes(b []byte) {
	d.number(uint64(len(b)))
	d.h.Write(b)
}

func (d *digest) text(s string) { d.bytes([]byte(s)) }
