package main

import (
	"errors"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
	"github.com/posthaste-io/posthaste/webhooks"
)

// checkAuth judges credentials by whether requests can be sent with them. Errors hold
// nothing of a secret, and name the field as the interface does.
func checkAuth(guard *webhooks.Guard) func(subscriptions.Auth) error {
	return func(a subscriptions.Auth) error {
		if a.Basic != nil && *a.Basic == (subscriptions.BasicAuth{}) {
			return queue.Invalid("auth.basic", "is empty; want a username, a password or both")
		}
		err := webhooks.CheckCredentials(credentialsOf(a), guard)
		if wrong, ok := errors.AsType[*webhooks.CredentialsError](err); ok {
			return queue.Invalid(authField(wrong.Field), "%s", wrong.Reason)
		}
		return err
	}
}

// authField is the path of a field that [webhooks.CredentialsError] names.
func authField(name string) string {
	if name == "username" || name == "password" {
		name = "basic." + name
	}
	return "auth." + name
}

// credentialsOf says the same in the words of the package that sends.
func credentialsOf(a subscriptions.Auth) webhooks.CredentialsConfig {
	c := webhooks.CredentialsConfig{
		Bearer: a.Bearer.Reveal(), ClientCertificate: a.ClientCertificate, ClientKey: a.ClientKey.Reveal(), RootCAs: a.RootCAs,
	}
	if b := a.Basic; b != nil {
		c.Username, c.Password = b.Username, b.Password.Reveal()
	}
	if o := a.OAuth2; o != nil {
		c.OAuth2 = &webhooks.OAuth2Config{
			TokenURL: o.TokenURL, ClientID: o.ClientID, ClientSecret: o.ClientSecret.Reveal(), Scopes: o.Scopes, Audience: o.Audience,
		}
	}
	return c
}

// newCredentials makes them fit for the sender.
func newCredentials(a subscriptions.Auth) (*webhooks.Credentials, error) {
	return webhooks.NewCredentials(credentialsOf(a))
}
