package webhooks

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// Bounds of what credentials may hold, in bytes.
const (
	maxUser     = 1 << 10
	maxBearer   = 4 << 10
	maxScopes   = 100
	maxPEM      = 64 << 10
	maxRootsPEM = 256 << 10
)

// CredentialsConfig says what an endpoint wants to see beside the signature. All of it is
// optional; of user name and password, bearer token and OAuth2 there can be one kind. It
// holds secrets: no way of printing it shows them, but encoding it as JSON does.
type CredentialsConfig struct {
	// Username and Password are sent as basic authentication; one of them may be empty.
	Username, Password string
	// Bearer is a token that does not change.
	Bearer string
	// OAuth2 has a token fetched, by client credentials.
	OAuth2 *OAuth2Config
	// ClientCertificate is a certificate and those that lead to its authority, ClientKey
	// its private key: PEM, without a passphrase. They identify us towards the endpoint
	// and the token endpoint.
	ClientCertificate, ClientKey string
	// RootCAs are certificates of authorities, PEM. They replace those of the system for
	// the endpoint and the token endpoint. Verification cannot be off.
	RootCAs string
}

// OAuth2Config is the client credentials grant of RFC 6749.
type OAuth2Config struct {
	// TokenURL must pass [ParseURL]. It is reached through the guard, as endpoints are.
	TokenURL               string
	ClientID, ClientSecret string
	Scopes                 []string
	// Audience is sent if it is not empty. The standard does not know it; some servers ask
	// for it.
	Audience string
}

// CredentialsError is what is wrong with one field of credentials. It holds no secret.
type CredentialsError struct {
	// Field is one of username, password, bearer, oauth2, oauth2.token_url,
	// oauth2.client_id, oauth2.client_secret, oauth2.scopes, oauth2.audience,
	// client_certificate, client_key and root_cas.
	Field  string
	Reason string
}

// Error implements error.
func (e *CredentialsError) Error() string { return e.Field + ": " + e.Reason }

// Credentials are made ready to send by [NewCredentials], once for as many requests as can be,
// since they keep the token that was fetched. Safe for concurrent use.
type Credentials struct {
	// authorization is the header's value, empty if there is none or oauth2 fetches it.
	authorization string
	oauth2        *oauth2
	identity      *identity
}

// CheckCredentials judges credentials when they are configured. Beyond [NewCredentials] it
// refuses what could not work now: certificates out of their time, and a token endpoint that
// the guard would block; nil denies all that is not public. Every error is a
// [CredentialsError].
func CheckCredentials(c CredentialsConfig, guard *Guard) error {
	made, err := NewCredentials(c)
	if err != nil {
		return err
	}
	if guard == nil {
		guard = NewGuard(GuardOptions{})
	}
	if c.OAuth2 != nil {
		if err := guard.CheckURL(c.OAuth2.TokenURL); err != nil {
			return &CredentialsError{"oauth2.token_url", err.Error()}
		}
	}
	return made.identity.checkTimes()
}

// NewCredentials makes credentials ready to send. Every error is a [CredentialsError].
func NewCredentials(c CredentialsConfig) (*Credentials, error) {
	id, err := newIdentity(c.ClientCertificate, c.ClientKey, c.RootCAs)
	if err != nil {
		return nil, err
	}
	made := &Credentials{identity: id}
	basic := c.Username != "" || c.Password != ""
	switch {
	case basic && c.Bearer != "":
		return nil, &CredentialsError{"bearer", "cannot go with username and password"}
	case c.OAuth2 != nil && (basic || c.Bearer != ""):
		return nil, &CredentialsError{"oauth2", "cannot go with username and password, nor with bearer"}
	case basic:
		made.authorization, err = basicAuthorization(c.Username, c.Password)
	case c.Bearer != "":
		made.authorization, err = bearerAuthorization(c.Bearer)
	case c.OAuth2 != nil:
		made.oauth2, err = newOAuth2(c.OAuth2, id)
	}
	if err != nil {
		return nil, err
	}
	return made, nil
}

func basicAuthorization(username, password string) (string, error) {
	if err := checkText(username, maxUser); err != nil {
		return "", &CredentialsError{"username", err.Error()}
	}
	if strings.Contains(username, ":") {
		return "", &CredentialsError{"username", "has a colon, which would end it"}
	}
	if err := checkText(password, maxUser); err != nil {
		return "", &CredentialsError{"password", err.Error()}
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password)), nil
}

func bearerAuthorization(token string) (string, error) {
	if len(token) > maxBearer {
		return "", &CredentialsError{"bearer", fmt.Sprintf("is longer than %d bytes", maxBearer)}
	}
	if !isToken(token) {
		return "", &CredentialsError{"bearer", "has a space, or a character that is not visible ASCII"}
	}
	return "Bearer " + token, nil
}

// isToken says that a text can stand in a header by itself.
func isToken(text string) bool {
	for i := 0; i < len(text); i++ {
		if c := text[i]; c <= ' ' || c > '~' {
			return false
		}
	}
	return text != ""
}

func checkText(text string, most int) error {
	if len(text) > most {
		return fmt.Errorf("is longer than %d bytes", most)
	}
	for _, r := range text {
		if r < ' ' || r == 0x7f {
			return errors.New("has a control character")
		}
	}
	return nil
}

// tls returns what they mean for connections, nil if nothing.
func (c *Credentials) tls() *identity {
	if c == nil {
		return nil
	}
	return c.identity
}

// hidden is how anything that holds a secret is printed.
const hidden = "[hidden]"

// Format implements [fmt.Formatter]: whatever the verb, it shows nothing.
func (CredentialsConfig) Format(f fmt.State, _ rune) { fmt.Fprint(f, hidden) }

// LogValue implements [slog.LogValuer].
func (CredentialsConfig) LogValue() slog.Value { return slog.StringValue(hidden) }

// Format implements [fmt.Formatter]: whatever the verb, it shows nothing.
func (OAuth2Config) Format(f fmt.State, _ rune) { fmt.Fprint(f, hidden) }

// LogValue implements [slog.LogValuer].
func (OAuth2Config) LogValue() slog.Value { return slog.StringValue(hidden) }

// Format implements [fmt.Formatter]: whatever the verb, it shows nothing.
func (*Credentials) Format(f fmt.State, _ rune) { fmt.Fprint(f, hidden) }

// LogValue implements [slog.LogValuer].
func (*Credentials) LogValue() slog.Value { return slog.StringValue(hidden) }
