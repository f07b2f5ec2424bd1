package seal

import (
	"bufio"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

const (
	keySize = 32
	maxID   = 64
)

// ErrNoKey: the keyring is empty.
var ErrNoKey = errors.New("there is no encryption key")

// UnknownKeyError says that a secret was sealed under a key that the keyring has not.
type UnknownKeyError struct {
	// ID names the key, and is no secret.
	ID string
}

// Error implements error.
func (e *UnknownKeyError) Error() string {
	return fmt.Sprintf("the encryption key %q is missing", e.ID)
}

// Keyring is a current key, under which secrets are sealed, and older ones, under which
// some still are. It shows nothing of them in logs and errors. It does not change, and
// may be used concurrently.
type Keyring struct {
	// current is empty if there is no key.
	current string
	keys    map[string]cipher.AEAD
}

// NewKey returns a new random key, as [Parse] reads it: "id:base64".
func NewKey() string {
	key := make([]byte, keySize)
	rand.Read(key) // never returns an error
	return idOf(key) + ":" + base64.StdEncoding.EncodeToString(key)
}

// Random returns a keyring with one new key, which ends with the process.
func Random() *Keyring {
	k, err := Parse(NewKey())
	if err != nil {
		panic(err) // NewKey does not keep to what Parse takes
	}
	return k
}

// Parse reads keys, one a line: an id of 1 to 64 characters of A-Z a-z 0-9 . _ -, a
// colon, and 32 bytes in padded standard base64. The first is the current one. Without
// id and colon the id is made from a hash of the key. Empty lines and those that begin
// with # are left out. Text without a key is a keyring without one.
//
// Errors name the line, and hold nothing of it.
func Parse(text string) (*Keyring, error) {
	k := &Keyring{keys: map[string]cipher.AEAD{}}
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, key, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if _, twice := k.keys[id]; twice {
			return nil, fmt.Errorf("line %d: has the id of a key above it", n)
		}
		if k.keys[id], err = newAEAD(key); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if k.current == "" {
			k.current = id
		}
	}
	if lines.Err() != nil {
		return nil, errors.New("has a line that is far too long for a key")
	}
	return k, nil
}

func parseLine(line string) (id string, key []byte, err error) {
	id, encoded, named := strings.Cut(line, ":")
	if !named {
		id, encoded = "", line
	}
	key, err = base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || len(key) != keySize {
		return "", nil, errors.New("want an id, a colon and 32 bytes in padded standard base64")
	}
	if !named {
		return idOf(key), key, nil
	}
	if !isID(id) {
		return "", nil, fmt.Errorf("its id, before the colon: want 1 to %d characters of A-Z a-z 0-9 . _ -", maxID)
	}
	return id, key, nil
}

// idOf names a key by 48 bits of a hash of it, which tell nothing of 256 random bits.
func idOf(key []byte) string {
	sum := sha256.Sum256(append([]byte("posthaste encryption key\x00"), key...))
	return "k" + hex.EncodeToString(sum[:6])
}

func isID(id string) bool {
	if id == "" || len(id) > maxID {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// With returns a keyring that has the keys of older as well; the current key is that of
// k, if it has one. Of two keys with one id that of k counts.
func (k *Keyring) With(older *Keyring) *Keyring {
	both := &Keyring{current: k.current, keys: map[string]cipher.AEAD{}}
	if both.current == "" {
		both.current = older.current
	}
	for _, from := range []*Keyring{older, k} {
		for id, key := range from.keys {
			both.keys[id] = key
		}
	}
	return both
}

// Current returns the id of the current key, or nothing if there is no key.
func (k *Keyring) Current() string { return k.current }

// Has says whether there is a key of that id.
func (k *Keyring) Has(id string) bool {
	_, ok := k.keys[id]
	return ok
}

// String names the current key.
func (k *Keyring) String() string { return "encryption keys, current " + k.current }

// Format implements fmt.Formatter, which wins for every verb.
func (k *Keyring) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(k.String())) }

// LogValue implements slog.LogValuer.
func (k *Keyring) LogValue() slog.Value { return slog.StringValue(k.String()) }

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
