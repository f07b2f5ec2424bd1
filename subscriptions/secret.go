package subscriptions

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
)

// SecretPrefix starts a symmetric signing secret of Standard Webhooks; base64 of
// the key follows.
const SecretPrefix = "whsec_"

// Keys have as many bytes as Standard Webhooks allows.
const (
	minSecretBytes = 24
	maxSecretBytes = 64
)

const redacted = "[redacted]"

// Secret is a signing secret (whsec_…) that never shows itself: not in logs, not
// in errors, not in JSON.
type Secret string

// NewSecret makes one of 32 random bytes.
func NewSecret() Secret {
	var key [32]byte
	rand.Read(key[:]) // never returns an error; the process ends if there is no randomness
	return Secret(SecretPrefix + base64.StdEncoding.EncodeToString(key[:]))
}

// Reveal returns the secret itself, for the signer and for the one answer that
// shows it.
func (s Secret) Reveal() string { return string(s) }

// Format implements fmt.Formatter, which wins for every verb. A String method alone
// would not do: %d prints the raw text beside its complaint about the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// String implements fmt.Stringer, for callers that do not go through fmt.
func (Secret) String() string { return redacted }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText implements encoding.TextMarshaler, by which JSON goes as well.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

var (
	_ fmt.Formatter  = Secret("")
	_ slog.LogValuer = Secret("")
)

// check returns what is wrong with the secret without repeating any of it, or "".
func (s Secret) check() string {
	encoded, ok := strings.CutPrefix(string(s), SecretPrefix)
	if !ok {
		return "must start with " + SecretPrefix
	}
	// Go's decoder skips line breaks, which a secret pasted from a file may have.
	if strings.ContainsAny(encoded, "\r\n") {
		return "has a line break"
	}
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return "must be base64 after " + SecretPrefix
	}
	if len(key) < minSecretBytes || len(key) > maxSecretBytes {
		return fmt.Sprintf("must hold %d to %d bytes", minSecretBytes, maxSecretBytes)
	}
	return ""
}
