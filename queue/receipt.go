package queue

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
)

// Receipt proves a lease and names its item completely. It is good until the
// lease is settled or the item is leased again, not only to its deadline.
type Receipt struct {
	Key       Key
	Partition int32
	Token     Token
	// Notify says that somebody is told of the item's end, so that whoever settles has to
	// look for it.
	Notify bool
	// Pushed says that an endpoint was given the receipt, to settle by itself: the limits and
	// the log policy of its subscription are in force.
	//
	// Neither is a part of the proof: with and without them the lease is the same. Whoever
	// takes receipts from strangers sets both, lest somebody takes them off.
	Pushed bool
}

// The first byte of a receipt says how it is laid out, and what is to be known before
// the item is looked at: it is the first of these and, beyond that, what is added.
const (
	receiptFormat = 1
	receiptNotify = 1
	receiptPushed = 2
)

// Layout, big-endian: format 1, queue 8, home 8, partition 4, id 16, counter 8,
// random 8. 53 bytes are 71 characters of base64url.
const receiptSize = 1 + 8 + 8 + 4 + 16 + 8 + 8

// MaxReceiptLength bounds the text of a receipt of any version, in bytes.
const MaxReceiptLength = 120

// String returns the receipt as consumers see it, in unpadded base64url.
func (r Receipt) String() string {
	b := make([]byte, 0, receiptSize)
	format := byte(receiptFormat)
	if r.Notify {
		format += receiptNotify
	}
	if r.Pushed {
		format += receiptPushed
	}
	b = append(b, format)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Key.Queue))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Key.Home))
	b = binary.BigEndian.AppendUint32(b, uint32(r.Partition))
	b = append(b, r.Key.ID[:]...)
	b = binary.BigEndian.AppendUint64(b, r.Token.Counter)
	b = binary.BigEndian.AppendUint64(b, r.Token.Random)
	return base64.RawURLEncoding.EncodeToString(b)
}

// namesItemOf says whether the receipt can be of an item of a namespace.
func (r Receipt) namesItemOf(ns Namespace) bool {
	return r.Key.Queue.Namespace() == ns && r.Partition >= 0 && r.Partition < MaxPartitions
}

// lease is the receipt without what is no part of the proof: two of one lease are equal.
func (r Receipt) lease() Receipt {
	r.Notify, r.Pushed, r.Partition = false, false, 0
	return r
}

// ParseReceipt reads what [Receipt.String] wrote. It refuses any other spelling of the
// same bytes, so that no two texts name one lease, but for what is no part
// of the proof.
func ParseReceipt(s string) (Receipt, error) {
	if len(s) > MaxReceiptLength {
		return Receipt{}, fmt.Errorf("not a receipt: %d characters, at most %d", len(s), MaxReceiptLength)
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	// The decoder skips line breaks.
	if err != nil || strings.ContainsAny(s, "\r\n") {
		return Receipt{}, fmt.Errorf("not a receipt: not base64url without padding")
	}
	if len(b) == 0 || b[0] < receiptFormat || b[0] > receiptFormat+receiptNotify+receiptPushed {
		return Receipt{}, fmt.Errorf("not a receipt of a version that this server knows")
	}
	if len(b) != receiptSize {
		return Receipt{}, fmt.Errorf("not a receipt: %d bytes, want %d", len(b), receiptSize)
	}
	said := b[0] - receiptFormat
	r := Receipt{Notify: said&receiptNotify != 0, Pushed: said&receiptPushed != 0}
	b = b[1:]
	r.Key.Queue = Number(binary.BigEndian.Uint64(b))
	r.Key.Home = Number(binary.BigEndian.Uint64(b[8:]))
	r.Partition = int32(binary.BigEndian.Uint32(b[16:]))
	copy(r.Key.ID[:], b[20:])
	r.Token.Counter = binary.BigEndian.Uint64(b[36:])
	r.Token.Random = binary.BigEndian.Uint64(b[44:])
	return r, nil
}
