package webhooks

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash"
	"strconv"
	"strings"
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

// What a signature begins with: that of HMAC-SHA256, and that of ed25519.
const (
	versionHMAC    = "v1,"
	versionEd25519 = "v1a,"
)

const maxID = 255

// Sign returns the value of webhook-signature for a body that is sent at a time
// under an id: one signature for each secret, in the order given, separated by
// spaces, v1 for whsec_ and v1a for whsk_. The time counts in whole seconds.
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
	text := make([]byte, 0, len(keys)*(len(versionHMAC)+1+base64.StdEncoding.EncodedLen(len(sum))))
	for i, k := range keys {
		if i > 0 {
			text = append(text, ' ')
		}
		if k.private != nil {
			text = append(text, versionEd25519...)
			text = base64.StdEncoding.AppendEncode(text, ed25519.Sign(k.private, signedText(id, timestamp, body)))
			continue
		}
		text = append(text, versionHMAC...)
		sum = k.mac(id, timestamp, body)
		text = base64.StdEncoding.AppendEncode(text, sum[:])
	}
	return string(text), nil
}

// signedText is what ed25519 signs, which has to see all of it twice.
func signedText(id, timestamp string, body []byte) []byte {
	text := make([]byte, 0, len(id)+len(timestamp)+2+len(body))
	text = append(text, id...)
	text = append(text, '.')
	text = append(text, timestamp...)
	text = append(text, '.')
	return append(text, body...)
}

// key is a secret made ready to sign with. Safe for concurrent use.
type key struct {
	// private is set if it signs by ed25519, and nothing else is.
	private ed25519.PrivateKey
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
	if strings.HasPrefix(secret, privatePrefix) {
		return &key{private: raw}, nil
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
