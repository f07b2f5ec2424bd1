package webhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash"
	"strconv"
	"sync"
	"time"
)

// The headers that carry a signature. Their names are written in lower case, as
// the standard does; use [net/http.Header.Get] to read them.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

const (
	signatureVersion = "v1,"
	maxID            = 255
)

// Sign returns the value of webhook-signature for a body that is sent at a time
// under an id: one signature for each secret, in the order given, separated by
// spaces. The time counts in whole seconds.
func Sign(id string, at time.Time, body []byte, secrets ...string) (string, error) {
	keys := make([]*key, len(secrets))
	for i, secret := range secrets {
		k, err := newKey(secret)
		if err != nil {
			return "", err
		}
		keys[i] = k
	}
	return sign(id, strconv.FormatInt(at.Unix(), 10), body, keys)
}

func sign(id, timestamp string, body []byte, keys []*key) (string, error) {
	if err := checkID(id); err != nil {
		return "", err
	}
	var sum [sha256.Size]byte
	text := make([]byte, 0, len(keys)*(len(signatureVersion)+1+base64.StdEncoding.EncodedLen(len(sum))))
	for i, k := range keys {
		if i > 0 {
			text = append(text, ' ')
		}
		text = append(text, signatureVersion...)
		sum = k.mac(id, timestamp, body)
		text = base64.StdEncoding.AppendEncode(text, sum[:])
	}
	return string(text), nil
}

// key is a secret made ready to sign with. Safe for concurrent use.
type key struct {
	// hashes have the key taken in already, which is as much work as a short body.
	hashes sync.Pool // of *keyedHash
}

type keyedHash struct {
	hash.Hash
	buf []byte
}

func newKey(secret string) (*key, error) {
	raw, err := ParseSecret(secret)
	if err != nil {
		return nil, err
	}
	k := &key{}
	k.hashes.New = func() any { return &keyedHash{Hash: hmac.New(sha256.New, raw)} }
	return k, nil
}

func (k *key) mac(id, timestamp string, body []byte) (sum [sha256.Size]byte) {
	h := k.hashes.Get().(*keyedHash)
	defer k.hashes.Put(h)
	h.Reset()
	h.buf = append(h.buf[:0], id...)
	h.buf = append(h.buf, '.')
	h.buf = append(h.buf, timestamp...)
	h.buf = append(h.buf, '.')
	h.Write(h.buf)
	h.Write(body)
	h.buf = h.Sum(h.buf[:0])
	copy(sum[:], h.buf)
	return sum
}

// checkID keeps dots out: with a dot in the id, one signature would fit two
// readings of id and timestamp.
func checkID(id string) error {
	if id == "" || len(id) > maxID {
		return errors.New("id: is not 1 to 255 characters long")
	}
	for i := 0; i < len(id); i++ {
		if c := id[i]; !isAlnum(c) && c != '_' && c != '-' {
			return errors.New("id: has a character that is not one of A-Z a-z 0-9 _ -")
		}
	}
	return nil
}

func isAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || isDigit(c)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
