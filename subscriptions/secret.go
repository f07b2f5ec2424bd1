package subscriptions

import (
	"fmt"
	"log/slog"
)

const redacted = "[redacted]"

// Secret is a signing secret (whsec_…), a password, a token or a private key that never
// shows itself: not in logs, not in errors, not in JSON.
type Secret string

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
