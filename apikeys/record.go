package apikeys

import (
	"crypto/subtle"
	"encoding/hex"
	"errors"
)

// Record is what a server keeps of a key. Its names are a format: it is stored as JSON.
type Record struct {
	ID   string `json:"id"`
	Hash Hash   `json:"hash"`
}

// Hash is the SHA-256 of a secret.
type Hash [32]byte

// MarshalText implements encoding.TextMarshaler, in hexadecimal.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Hash) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(h) {
		return errors.New("the hash of a key is not 64 hexadecimal digits")
	}
	copy(h[:], b)
	return nil
}

// Ring is a set of keys that are good. It does not change, so it may be used
// concurrently.
type Ring struct {
	hashes map[string]Hash
}

// NewRing returns the ring of these keys. Of two with one id the last counts.
func NewRing(records ...Record) *Ring {
	r := &Ring{hashes: make(map[string]Hash, len(records))}
	for _, record := range records {
		r.hashes[record.ID] = record.Hash
	}
	return r
}

// Holds says whether the key is one of the ring. A known id with another secret costs
// the same work as an unknown id, so that the time of an answer tells nobody which ids
// there are.
func (r *Ring) Holds(k Key) bool {
	given := k.Record()
	hash, known := r.hashes[given.ID]
	same := subtle.ConstantTimeCompare(hash[:], given.Hash[:]) == 1
	return known && same
}
