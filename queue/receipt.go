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
}

// receiptFormat is the first byte of a receipt; another layout gets another one.
const receiptFormat = 1

// Layout, big-endian: format 1, queue 8, home 8, partition 4, id 16, counter 8,
// random 8. 53 bytes are 71 characters of base64url.
const receiptSize = 1 + 8 + 8 + 4 + 16 + 8 + 8

// MaxReceiptLength bounds the text of a receipt of any version, in bytes.
const MaxReceiptLength = 120

// String returns the receipt as consumers see it, in unpadded base64url.
func (r Receipt) String() string {
	b := make([]byte, 0, receiptSize)
	b = append(b, receiptFormat)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Key.Queue))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Key.Home))
	b = binary.BigEndian.AppendUint32(b, uint32(r.Partition))
	b = append(b, r.Key.ID[:]...)
	b = binary.BigEndian.AppendUint64(b, r.Token.Counter)
	b = binary.BigEndian.AppendUint64(b, r.Token.Random)
	return base64.RawURLEncoding.EncodeToString(b)
}

// namesItemOf says whether the receipt can be of an item of a namespace. A queue has
// one partition, 0: with another one it would be a second text for the same lease.
func (r Receipt) namesItemOf(ns Namespace) bool {
	return r.Key.Queue.Namespace() == ns && r.Partition == 0
}

// ParseReceipt reads what [Receipt.String] wrote. It refuses any other spelling
// of the same bytes, so that two texts never name one lease.
func ParseReceipt(s string) (Receipt, error) {
	if len(s) > MaxReceiptLength {
		return Receipt{}, fmt.Errorf("not a receipt: %d characters, at most %d", len(s), MaxReceiptLength)
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	// The decoder skips line breaks.
	if err != nil || strings.ContainsAny(s, "\r\n") {
		return Receipt{}, fmt.Errorf("not a receipt: not base64url without padding")
	}
	if len(b) == 0 || b[0] != receiptFormat {
		return Receipt{}, fmt.Errorf("not a receipt of a version that this server knows")
	}
	if len(b) != receiptSize {
		return Receipt{}, fmt.Errorf("not a receipt: %d bytes, want %d", len(b), receiptSize)
	}
	var r Receipt
	b = b[1:]
	r.Key.Queue = Number(binary.BigEndian.Uint64(b))
	r.Key.Home = Number(binary.BigEndian.Uint64(b[8:]))
	r.Partition = int32(binary.BigEndian.Uint32(b[16:]))
	copy(r.Key.ID[:], b[20:])
	r.Token.Counter = binary.BigEndian.Uint64(b[36:])
	r.Token.Random = binary.BigEndian.Uint64(b[44:])
	return r, nil
}
