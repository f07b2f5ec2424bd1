package apikeys

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"math/big"
	"strings"
)

const (
	prefix = "pdk_"
	// Lengths of the parts, in characters.
	idLength       = 12
	secretLength   = 43
	checksumLength = 6
	maxEnvironment = 16
	// What follows the environment, and what follows the underscore after the id.
	secretTail = secretLength + 1 + checksumLength
	tailLength = 1 + idLength + 1 + secretTail
	maxLength  = len(prefix) + maxEnvironment + tailLength

	// Random bytes in them, so many as the characters can hold.
	idBytes     = 8
	secretBytes = 32

	// digits are those of base62, in the order of their values.
	digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// Errors of [Parse]. They hold nothing of the text.
var (
	// ErrFormat: the text has not the form of a key.
	ErrFormat = errors.New("this is no key of posthaste: want pdk_<environment>_<id>_<secret>_<checksum>, whole and alone")
	// ErrChecksum: it has the form, and some character is wrong.
	ErrChecksum = errors.New("the key has a typing error: its checksum does not fit")
)

// Key is a key with its secret. The zero value is none.
type Key struct {
	// text is whole and well-formed. But for the environment its parts have fixed lengths.
	text string
}

// New makes a key from 256 random bits. The environment is a word that tells people
// what the key is for, such as live: 1 to 16 characters of a-z and 0-9.
func New(environment string) (Key, error) {
	if !isEnvironment(environment) {
		return Key{}, fmt.Errorf("environment %q: want 1 to %d characters of a-z and 0-9", environment, maxEnvironment)
	}
	head := prefix + environment + "_" + random(idBytes, idLength) + "_" + random(secretBytes, secretLength)
	sum := checksum(head)
	return Key{head + "_" + string(sum[:])}, nil
}

// Parse reads a key. Its errors are [ErrFormat] and [ErrChecksum].
func Parse(text string) (Key, error) {
	environment, ok := strings.CutPrefix(text, prefix)
	if environment = environment[:max(0, len(environment)-tailLength)]; !ok || !isEnvironment(environment) {
		return Key{}, ErrFormat
	}
	k := Key{text}
	given := text[len(text)-checksumLength:]
	if !isBase62(k.ID()) || !isBase62(k.secret()) || !isBase62(given) ||
		text[len(text)-tailLength] != '_' || text[len(text)-secretTail-1] != '_' || text[len(text)-checksumLength-1] != '_' {
		return Key{}, ErrFormat
	}
	if sum := checksum(text[:len(text)-checksumLength-1]); string(sum[:]) != given {
		return Key{}, ErrChecksum
	}
	return k, nil
}

// ID returns the id, which is no secret.
func (k Key) ID() string {
	if k.text == "" {
		return ""
	}
	at := len(k.text) - tailLength + 1
	return k.text[at : at+idLength]
}

// Record returns what a server keeps of the key.
func (k Key) Record() Record {
	var secret [secretLength]byte // on the stack, for it is made for every call
	copy(secret[:], k.secret())
	return Record{ID: k.ID(), Hash: sha256.Sum256(secret[:])}
}

// Reveal returns the text of the key, for the one who gets it.
func (k Key) Reveal() string { return k.text }

// Format implements fmt.Formatter, which wins for every verb: what is printed by
// mistake names the key and does not hold it.
func (k Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(k.String())) }

// String implements fmt.Stringer, for callers that do not go through fmt.
func (k Key) String() string {
	if k.text == "" {
		return "no key"
	}
	return k.text[:len(k.text)-secretTail] + "[redacted]"
}

// LogValue implements slog.LogValuer.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText implements encoding.TextMarshaler, by which JSON goes as well.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

var (
	_ fmt.Formatter  = Key{}
	_ slog.LogValuer = Key{}
)

func (k Key) secret() string {
	if k.text == "" {
		return ""
	}
	at := len(k.text) - secretTail
	return k.text[at : at+secretLength]
}

// checksum is of the text of a key before its last underscore.
func checksum(head string) (sum [checksumLength]byte) {
	var text [maxLength]byte // as in Record
	n := crc32.ChecksumIEEE(text[:copy(text[:], head)])
	for i := range sum {
		sum[checksumLength-1-i] = digits[n%uint32(len(digits))]
		n /= uint32(len(digits))
	}
	return sum
}

// random returns so many random bytes as text of a length that holds them all.
func random(bytes, length int) string {
	b := make([]byte, bytes)
	rand.Read(b) // never returns an error
	n, base, digit := new(big.Int).SetBytes(b), big.NewInt(int64(len(digits))), new(big.Int)
	text := make([]byte, length)
	for i := range text {
		n.DivMod(n, base, digit)
		text[length-1-i] = digits[digit.Int64()]
	}
	return string(text)
}

func isBase62(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

func isEnvironment(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return s != "" && len(s) <= maxEnvironment
}
