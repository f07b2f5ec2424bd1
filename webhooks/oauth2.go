package webhooks

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"
)

const (
	// maxTokenLife bounds how long a token is kept that is said to live longer, and
	// defaultTokenLife is for one of which nothing is said.
	maxTokenLife     = 24 * time.Hour
	defaultTokenLife = 5 * time.Minute
	// A token is not used in the last part of its life: a tenth, at most tokenMargin.
	tokenMargin = 30 * time.Second
	tokenTenth  = 10
)

// oauth2 fetches a token when it is asked for, and keeps it while it lives. Of attempts that
// want one at a time, one fetches it and the others wait.
type oauth2 struct {
	config OAuth2Config
	target *target

	mu sync.Mutex
	// authorization is the header's value, good until a time; empty if there is none.
	authorization string
	until         time.Time
	// fetching is not nil while an attempt fetches.
	fetching *fetch
	// inForm is how the token endpoint took the client's secret the last time: in the form,
	// and not in a header.
	inForm bool
}

// fetch is one that runs. The rest may be read when done is closed.
type fetch struct {
	done          chan struct{}
	authorization string
	err           error
	// own says that it failed for its attempt's own reasons, which others do not share.
	own bool
}

func newOAuth2(c *OAuth2Config, id *identity) (*oauth2, error) {
	t, err := newTarget(c.TokenURL)
	if err != nil {
		return nil, &CredentialsError{"oauth2.token_url", err.Error()}
	}
	for _, field := range []struct {
		name, text string
		optional   bool
	}{
		{"oauth2.client_id", c.ClientID, false},
		{"oauth2.client_secret", c.ClientSecret, false},
		{"oauth2.audience", c.Audience, true},
	} {
		if field.text == "" && !field.optional {
			return nil, &CredentialsError{field.name, "is missing"}
		}
		if err := checkText(field.text, maxUser); err != nil {
			return nil, &CredentialsError{field.name, err.Error()}
		}
	}
	if len(c.Scopes) > maxScopes {
		return nil, &CredentialsError{"oauth2.scopes", "are more than 100"}
	}
	for _, scope := range c.Scopes {
		if !isToken(scope) || len(scope) > maxUser || strings.ContainsAny(scope, `"\`) {
			return nil, &CredentialsError{"oauth2.scopes", "has one that is empty, too long, or has a space, a quote or a backslash"}
		}
	}
	return &oauth2{config: *c, target: t.over(id, false)}, nil
}

// get returns the Authorization that a token makes, from get's own fetch or another's.
func (o *oauth2) get(ctx context.Context, fetchOne func(inForm bool) (token, error)) (string, error) {
	for {
		o.mu.Lock()
		if o.authorization != "" && time.Now().Before(o.until) {
			defer o.mu.Unlock()
			return o.authorization, nil
		}
		other := o.fetching
		if other == nil {
			own := &fetch{done: make(chan struct{})}
			o.fetching = own
			inForm := o.inForm
			o.mu.Unlock()
			return o.run(ctx, own, func() (token, error) { return fetchOne(inForm) })
		}
		o.mu.Unlock()
		select {
		case <-other.done:
			if !other.own {
				return other.authorization, other.err
			}
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

func (o *oauth2) run(ctx context.Context, f *fetch, fetchOne func() (token, error)) (string, error) {
	t, err := fetchOne()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fetching = nil
	defer close(f.done)
	if err != nil {
		f.err, f.own = err, ctx.Err() != nil
		return "", err
	}
	f.authorization = "Bearer " + t.access
	o.authorization, o.inForm = f.authorization, t.inForm
	life := min(t.life, maxTokenLife)
	o.until = time.Now().Add(life - min(life/tokenTenth, tokenMargin))
	return f.authorization, nil
}

// drop forgets a token that the endpoint did not take, unless there is a newer one.
func (o *oauth2) drop(authorization string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.authorization == authorization {
		o.authorization = ""
	}
}

// refused is told that the endpoint answered 401.
func (c *Credentials) refused(authorization string) {
	if c.oauth2 != nil {
		c.oauth2.drop(authorization)
	}
}

// authorize returns the value of the Authorization header, empty if the credentials say
// nothing of it. It may fetch a token: see explainToken for its errors.
func (s *Sender) authorize(ctx context.Context, a *attempt, r *Request) (string, error) {
	c := r.Credentials
	if c == nil {
		return "", nil
	}
	if c.oauth2 == nil {
		return c.authorization, nil
	}
	deadline := earlier(a.deadline, time.Now().Add(tokenTimeout))
	ctx, cancel := context.WithDeadlineCause(ctx, deadline, errTokenTimeout)
	defer cancel()
	return c.oauth2.get(ctx, func(inForm bool) (token, error) {
		return s.fetchToken(ctx, c.oauth2, r.Tenant, deadline, inForm)
	})
}

// explainToken turns an error of authorize into what the attempt tells. ctx is the attempt's.
func explainToken(ctx context.Context, err error) (Verdict, string, string) {
	switch {
	case ctx.Err() != nil:
		return Aborted, ClassCanceled, context.Cause(ctx).Error()
	case errors.Is(err, errBlocked):
		return Blocked, ClassBlocked, "token endpoint: " + errBlocked.Error()
	default:
		return Retryable, ClassAuth, "token endpoint: " + err.Error()
	}
}
