package webhooks

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"strings"
)

// A secret is 24 to 64 random bytes, as the standard asks.
const (
	secretPrefix  = "whsec_"
	newSecretSize = 32
	minSecretSize = 24
	maxSecretSize = 64
)

// NewSecret makes a signing secret: whsec_ and 32 random bytes in base64.
func NewSecret() string {
	key := make([]byte, newSecretSize)
	rand.Read(key) // never returns an error
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}

// ParseSecret returns the key bytes of a secret: padded base64 of 24 to 64 bytes,
// whsec_ before it or not. The error holds nothing of the secret.
func ParseSecret(secret string) ([]byte, error) {
	text := strings.TrimPrefix(secret, secretPrefix)
	// Strict, so that no two texts are the same secret; and Go's decoder skips line
	// breaks, which a secret pasted from a file may have at its end.
	if strings.ContainsAny(text, "\r\n") {
		return nil, errors.New("secret: has a line break")
	}
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, errors.New("secret: is not whsec_ and padded standard base64")
	}
	if len(key) < minSecretSize || len(key) > maxSecretSize {
		return nil, errors.New("secret: is not 24 to 64 bytes long")
	}
	return key, nil
}
