package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// tokenTimeout bounds how much of an attempt's time goes into its token.
	tokenTimeout = 10 * time.Second
	// maxTokenAnswer bounds the answer of a token endpoint, maxToken a token, in bytes.
	maxTokenAnswer = 64 << 10
	maxToken       = 16 << 10
)

var errTokenTimeout = fmt.Errorf("%s: no token in time", ClassTimeout)

// token is what a token endpoint gives.
type token struct {
	access string
	life   time.Duration
	// inForm is how the client was authenticated.
	inForm bool
}

// fetchToken asks the token endpoint as any endpoint is asked. The standard wants servers to
// take the client's secret in a header; those that only look into the form are asked again.
// Errors hold nothing of the request, nor of the answer but codes that the standard knows.
func (s *Sender) fetchToken(ctx context.Context, o *oauth2, tenant string, deadline time.Time, inForm bool) (token, error) {
	t, refused, err := s.askForToken(ctx, o, tenant, deadline, inForm)
	if refused {
		t, _, err = s.askForToken(ctx, o, tenant, deadline, !inForm)
	}
	return t, err
}

// askForToken makes one request. refused says that the client was not recognised.
func (s *Sender) askForToken(ctx context.Context, o *oauth2, tenant string, deadline time.Time, inForm bool) (t token, refused bool, err error) {
	if err := s.guard.checkScheme(o.target.url); err != nil {
		return token{}, false, fmt.Errorf("its URL %w", err)
	}
	a := &attempt{timeout: time.Until(deadline).Round(time.Millisecond), deadline: deadline}
	head, body := o.request(s.userAgent, inForm)
	resp, handBack, err := s.roundTrip(ctx, a, o.target, tenant, head, body)
	switch {
	case errors.Is(err, errBlocked):
		return token{}, false, err
	case err != nil:
		class, text := a.classify(err)
		return token{}, false, fmt.Errorf("%s: %s", class, text)
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxTokenAnswer+1))
	handBack(err == nil && len(answer) <= maxTokenAnswer && !resp.Close)
	switch {
	case resp.StatusCode != http.StatusOK:
		return token{}, isClientRefused(resp.StatusCode, answer), errors.New(refusal(resp.StatusCode, answer))
	case err != nil:
		return token{}, false, errors.New("its answer broke off")
	case len(answer) > maxTokenAnswer:
		return token{}, false, fmt.Errorf("its answer is longer than %d bytes", maxTokenAnswer)
	}
	t, err = readToken(resp.Header, answer)
	t.inForm = inForm
	return t, false, err
}

// request returns the head and the body of a request for a token.
func (o *oauth2) request(userAgent string, inForm bool) (head, body []byte) {
	form := url.Values{"grant_type": {"client_credentials"}}
	if len(o.config.Scopes) > 0 {
		form.Set("scope", strings.Join(o.config.Scopes, " "))
	}
	if o.config.Audience != "" {
		form.Set("audience", o.config.Audience)
	}
	if inForm {
		form.Set("client_id", o.config.ClientID)
		form.Set("client_secret", o.config.ClientSecret)
	}
	body = []byte(form.Encode())
	h := header("POST " + o.target.uri + " HTTP/1.1\r\n")
	h.set("Host", o.target.host)
	h.set("User-Agent", userAgent)
	h.set("Accept", "application/json")
	h.set("Accept-Encoding", "identity")
	h.set("Content-Type", "application/x-www-form-urlencoded")
	h.number("Content-Length", int64(len(body)))
	if !inForm {
		// Encoded as in a form first: the standard says so, and it takes colons out of the id.
		basic := &http.Request{Header: http.Header{}}
		basic.SetBasicAuth(url.QueryEscape(o.config.ClientID), url.QueryEscape(o.config.ClientSecret))
		h.set("Authorization", basic.Header.Get("Authorization"))
	}
	return append(h, "\r\n"...), body
}

func readToken(h http.Header, answer []byte) (token, error) {
	if kind, _, err := mime.ParseMediaType(h.Get("Content-Type")); err != nil || !strings.HasSuffix(kind, "json") {
		return token{}, errors.New("its answer is not JSON")
	}
	var a struct {
		AccessToken string          `json:"access_token"`
		TokenType   string          `json:"token_type"`
		ExpiresIn   json.RawMessage `json:"expires_in"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return token{}, errors.New("its answer cannot be read")
	}
	switch {
	case a.AccessToken == "":
		return token{}, errors.New("its answer has no access_token")
	case !isToken(a.AccessToken), len(a.AccessToken) > maxToken:
		return token{}, errors.New("its access_token does not fit into a header")
	case a.TokenType != "" && !strings.EqualFold(a.TokenType, "bearer"):
		return token{}, errors.New("its token_type is not bearer")
	}
	return token{access: a.AccessToken, life: readLife(a.ExpiresIn)}, nil
}

// readLife reads expires_in, which some write as a text.
func readLife(raw json.RawMessage) time.Duration {
	var seconds float64
	if json.Unmarshal([]byte(strings.Trim(string(raw), `"`)), &seconds) != nil || seconds <= 0 {
		return defaultTokenLife
	}
	return time.Duration(min(seconds, maxTokenLife.Seconds()) * float64(time.Second))
}

// oauthErrors are the codes of the standard. Any other text might be anything.
var oauthErrors = map[string]bool{
	"invalid_request": true, "invalid_client": true, "invalid_grant": true,
	"unauthorized_client": true, "unsupported_grant_type": true, "invalid_scope": true,
}

func refusal(status int, answer []byte) string {
	text := fmt.Sprintf("status %d", status)
	if code := errorCode(answer); oauthErrors[code] {
		text += ", " + code
	}
	return text
}

func isClientRefused(status int, answer []byte) bool {
	return status == http.StatusUnauthorized ||
		status == http.StatusBadRequest && errorCode(answer) == "invalid_client"
}

func errorCode(answer []byte) string {
	var a struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(answer, &a) != nil {
		return ""
	}
	return a.Error
}
