package api

import (
	"net/http"
	"slices"
	"strings"

	v1 "github.com/posthaste-io/posthaste/api/v1"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
)

// mask stands in answers for what may be a key: custom headers carry tokens, and so
// do the queries of URLs. An update that sends it back keeps what it stands for.
const mask = "[redacted]"

// plainHeaders are shown as they are, by their canonical names.
var plainHeaders = []string{"Accept", "Content-Type", "User-Agent"}

func maskedHeaders(headers map[string]string) map[string]string {
	if headers == nil {
		return nil
	}
	masked := make(map[string]string, len(headers))
	for name, value := range headers {
		if !slices.Contains(plainHeaders, http.CanonicalHeaderKey(name)) {
			value = mask
		}
		masked[name] = value
	}
	return masked
}

// maskedURL hides the values of the query, and fields of it without a value: what
// stands there alone may be the key itself. URLs with a user are not taken at all.
func maskedURL(url string) string {
	rest, query, asked := strings.Cut(url, "?")
	if !asked {
		return url
	}
	fields := strings.Split(query, "&")
	for i, field := range fields {
		if name, _, valued := strings.Cut(field, "="); valued {
			fields[i] = name + "=" + mask
		} else if field != "" {
			fields[i] = mask
		}
	}
	return rest + "?" + strings.Join(fields, "&")
}

// maskedSecret hides a value, but not that there is one.
func maskedSecret(s subscriptions.Secret) string {
	if s == "" {
		return ""
	}
	return mask
}

// maskedAuth shows who we are to an endpoint, and not by what it is proved.
func maskedAuth(a *subscriptions.Auth) *v1.Auth {
	if *a == (subscriptions.Auth{}) {
		return nil
	}
	m := &v1.Auth{
		Bearer:            maskedSecret(a.Bearer),
		ClientCertificate: a.ClientCertificate, ClientKey: maskedSecret(a.ClientKey),
		RootCas: a.RootCAs,
	}
	if a.Basic != nil {
		m.Basic = &v1.BasicAuth{Username: a.Basic.Username, Password: maskedSecret(a.Basic.Password)}
	}
	if o := a.OAuth2; o != nil {
		m.Oauth2 = &v1.OAuth2{
			TokenUrl: maskedURL(o.TokenURL), ClientId: o.ClientID, ClientSecret: maskedSecret(o.ClientSecret),
			Scopes: o.Scopes, Audience: o.Audience,
		}
	}
	return m
}

// isMasked says whether a change has a mask where a value should be.
func isMasked(c *subscriptions.Change) bool {
	if c.URL != nil && strings.Contains(*c.URL, mask) {
		return true
	}
	return hasMask(c.Headers) || c.Auth != nil && isMaskedAuth(c.Auth)
}

func hasMask(headers map[string]string) bool {
	for _, value := range headers {
		if value == mask {
			return true
		}
	}
	return false
}

func isMaskedAuth(a *subscriptions.Auth) bool {
	return a.Bearer == mask || a.ClientKey == mask ||
		a.Basic != nil && a.Basic.Password == mask ||
		a.OAuth2 != nil && (a.OAuth2.ClientSecret == mask || strings.Contains(a.OAuth2.TokenURL, mask))
}

// unmask puts what is kept where a change has masks. A mask that stands for nothing
// is refused, lest it be sent to the endpoint.
func unmask(change *subscriptions.Change, kept *subscriptions.Subscription) error {
	if change.URL != nil && strings.Contains(*change.URL, mask) {
		if err := unmaskURL("url", change.URL, kept.URL); err != nil {
			return err
		}
		change.URL = nil
	}
	var err error
	if change.Headers, err = unmaskHeaders("headers", change.Headers, kept.Headers); err != nil {
		return err
	}
	if change.Auth == nil {
		return nil
	}
	keeps := change.Auth.Bearer == mask || change.Auth.Basic != nil && change.Auth.Basic.Password == mask
	if keeps && change.URL != nil && !subscriptions.SameHost(kept.URL, *change.URL) {
		return queue.Invalid("auth", "has %s, and the new url has another host than that for which the kept value was given; give the value", mask)
	}
	return unmaskAuth(change.Auth, &kept.Auth)
}

// unmaskURL puts a whole URL in the place of its masked form: no part of the kept one
// goes to another place than it was given for.
func unmaskURL(field string, url *string, kept string) error {
	if *url != maskedURL(kept) {
		return queue.Invalid(field, "has %s and is not the URL that is kept; give all of the new one, or leave it out", mask)
	}
	*url = kept
	return nil
}

// unmaskHeaders returns headers with what is kept in the place of masks.
func unmaskHeaders(field string, masked, kept map[string]string) (map[string]string, error) {
	if masked == nil {
		return nil, nil
	}
	known := make(map[string]string, len(kept))
	for name, value := range kept {
		known[http.CanonicalHeaderKey(name)] = value
	}
	headers := make(map[string]string, len(masked))
	for name, value := range masked {
		if value == mask {
			var ok bool
			if value, ok = known[http.CanonicalHeaderKey(name)]; !ok {
				return nil, queue.Invalid(field, "%s of %s stands for no value that is kept; give the value", mask, clip(name))
			}
		}
		headers[name] = value
	}
	return headers, nil
}

func unmaskAuth(a, kept *subscriptions.Auth) error {
	if err := unmaskSecret("auth.bearer", &a.Bearer, kept.Bearer); err != nil {
		return err
	}
	if err := unmaskSecret("auth.client_key", &a.ClientKey, kept.ClientKey); err != nil {
		return err
	}
	if a.Basic != nil {
		var password subscriptions.Secret
		if kept.Basic != nil {
			password = kept.Basic.Password
		}
		if err := unmaskSecret("auth.basic.password", &a.Basic.Password, password); err != nil {
			return err
		}
	}
	if a.OAuth2 == nil {
		return nil
	}
	return unmaskOAuth2(a.OAuth2, kept.OAuth2)
}

func unmaskSecret(field string, s *subscriptions.Secret, kept subscriptions.Secret) error {
	if *s != mask {
		return nil
	}
	if kept == "" {
		return queue.Invalid(field, "%s stands for no value that is kept; give the value", mask)
	}
	*s = kept
	return nil
}

func unmaskOAuth2(o, kept *subscriptions.OAuth2) error {
	if kept == nil {
		kept = new(subscriptions.OAuth2)
	}
	if strings.Contains(o.TokenURL, mask) {
		if err := unmaskURL("auth.oauth2.token_url", &o.TokenURL, kept.TokenURL); err != nil {
			return err
		}
	}
	if o.ClientSecret == mask && kept.ClientSecret != "" && o.TokenURL != kept.TokenURL {
		return queue.Invalid("auth.oauth2.client_secret", "is kept for the token_url that is kept; give the value for another one")
	}
	return unmaskSecret("auth.oauth2.client_secret", &o.ClientSecret, kept.ClientSecret)
}
