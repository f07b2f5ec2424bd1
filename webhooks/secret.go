package webhooks

import (
	"bytes"
	"crypto/ed25519"
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

// Prefixes of ed25519 keys. The standard leaves open what is behind whsk_: here it is, as with
// Svix, whose authors wrote the standard, the 32 bytes of the private key and then those of
// the public one.
const (
	privatePrefix = "whsk_"
	publicPrefix  = "whpk_"
)

// NewAsymmetricSecret makes a signing secret of ed25519: whsk_ and the 64 bytes of a key pair
// in base64. Receivers verify with its [PublicKey], and so cannot sign themselves.
func NewAsymmetricSecret() string {
	_, private, _ := ed25519.GenerateKey(nil) // fails only if its source of randomness does
	return privatePrefix + base64.StdEncoding.EncodeToString(private)
}

// PublicKey returns what a receiver of requests that are signed with a whsk_ secret needs:
// whpk_ and 32 bytes in base64. The error holds nothing of the secret.
func PublicKey(secret string) (string, error) {
	if !strings.HasPrefix(secret, privatePrefix) {
		return "", errors.New("secret: is not of the kind whsk_, and has no public key")
	}
	private, err := ParseSecret(secret)
	if err != nil {
		return "", err
	}
	public := private[ed25519.PrivateKeySize-ed25519.PublicKeySize:]
	return publicPrefix + base64.StdEncoding.EncodeToString(public), nil
}

// ParseSecret returns the key bytes of a secret to sign with: padded base64 of 24 to 64
// bytes, whsec_ before it or not, or whsk_ and the 64 of an [ed25519.PrivateKey]. The
// error holds nothing of the secret.
func ParseSecret(secret string) ([]byte, error) {
	if text, ok := strings.CutPrefix(secret, privatePrefix); ok {
		return parsePrivate(text)
	}
	if strings.HasPrefix(secret, publicPrefix) {
		return nil, errors.New("secret: is a public key (whpk_), which cannot sign")
	}
	key, err := decodeKey(strings.TrimPrefix(secret, secretPrefix))
	if err != nil {
		return nil, err
	}
	if len(key) < minSecretSize || len(key) > maxSecretSize {
		return nil, errors.New("secret: is not 24 to 64 bytes long")
	}
	return key, nil
}

func parsePrivate(text string) ([]byte, error) {
	key, err := decodeKey(text)
	if err != nil {
		return nil, err
	}
	if len(key) != ed25519.PrivateKeySize {
		return nil, errors.New("secret: is not the 64 bytes of a private and a public key (whsk_)")
	}
	// Two signatures with one private key and different public ones give the private one away.
	if !bytes.Equal(key, ed25519.NewKeyFromSeed(key[:ed25519.SeedSize])) {
		return nil, errors.New("secret: has a public key that does not belong to its private one (whsk_)")
	}
	return key, nil
}

func parsePublic(text string) (ed25519.PublicKey, error) {
	key, err := decodeKey(text)
	if err != nil {
		return nil, err
	}
	if len(key) != ed25519.PublicKeySize {
		return nil, errors.New("secret: is not the 32 bytes of a public key (whpk_)")
	}
	return key, nil
}

func decodeKey(text string) ([]byte, error) {
	// Strict, so that no two texts are the same secret; and Go's decoder skips line
	// breaks, which a secret pasted from a file may have at its end.
	if strings.ContainsAny(text, "\r\n") {
		return nil, errors.New("secret: has a line break")
	}
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, errors.New("secret: is not whsec_, whsk_ or whpk_ and padded standard base64")
	}
	return key, nil
}
