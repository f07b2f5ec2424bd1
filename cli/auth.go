package cli

import (
	"context"

	"github.com/posthaste-io/posthaste/api/client"
)

// authFlags are how requests authenticate. None of them takes a secret itself: command
// lines are shown to every user of a machine.
type authFlags struct {
	AuthBasicUser    string   `placeholder:"NAME" help:"Send this name and a password; goes with --auth-password-file."`
	AuthPasswordFile string   `placeholder:"FILE" help:"File with the password; - is standard input."`
	AuthBearerFile   string   `placeholder:"FILE" help:"File with a token that is sent as Authorization: Bearer; - is standard input."`
	OAuth2TokenURL   string   `name:"oauth2-token-url" placeholder:"URL" help:"Get a token there by client credentials; goes with --oauth2-client-id and --oauth2-secret-file."`
	OAuth2ClientID   string   `name:"oauth2-client-id" placeholder:"ID" help:"The client's id."`
	OAuth2SecretFile string   `name:"oauth2-secret-file" placeholder:"FILE" help:"File with the client's secret; - is standard input."`
	OAuth2Scope      []string `name:"oauth2-scope" placeholder:"SCOPE" help:"Ask for this scope. May be repeated."`
	OAuth2Audience   string   `name:"oauth2-audience" placeholder:"TEXT" help:"Ask for a token for this audience."`
	ClientCert       string   `placeholder:"FILE" help:"File with the certificate, in PEM, that the endpoint is shown; goes with --client-key."`
	ClientKey        string   `placeholder:"FILE" help:"File with the certificate's key, in PEM; - is standard input."`
	RootCAs          string   `name:"root-cas" placeholder:"FILE" help:"File with the certificates, in PEM, that are trusted instead of the system's."`
}

func (f *authFlags) givesBasic() bool { return f.AuthBasicUser != "" || f.AuthPasswordFile != "" }

func (f *authFlags) givesOAuth2() bool {
	return f.OAuth2TokenURL != "" || f.OAuth2ClientID != "" || f.OAuth2SecretFile != "" || len(f.OAuth2Scope) > 0 || f.OAuth2Audience != ""
}

func (f *authFlags) givesAuth() bool {
	return f.givesBasic() || f.AuthBearerFile != "" || f.givesOAuth2() || f.ClientCert != "" || f.ClientKey != "" || f.RootCAs != ""
}

// checkAuth refuses flags that contradict each other.
func (f *authFlags) checkAuth() error {
	kinds := 0
	for _, given := range []bool{f.givesBasic(), f.AuthBearerFile != "", f.givesOAuth2()} {
		if given {
			kinds++
		}
	}
	if kinds > 1 {
		return usagef("--auth-basic-user, --auth-bearer-file and --oauth2-token-url: want one of them")
	}
	return nil
}

// changeAuth sets what was given, and keeps the rest, but for a credential that the one
// given comes in place of.
func (f *authFlags) changeAuth(ctx context.Context, c *console, a *client.Auth) error {
	var err error
	read := func(to *string, flag, file string) {
		if file != "" && err == nil {
			*to, err = c.secret(ctx, flag, file)
		}
	}
	switch {
	case f.givesBasic():
		basic := client.BasicAuth{}
		if a.Basic != nil {
			basic = *a.Basic
		}
		give(&basic.Username, f.AuthBasicUser)
		read(&basic.Password, "--auth-password-file", f.AuthPasswordFile)
		if err == nil && (basic.Username == "" || basic.Password == "") {
			err = usagef("--auth-basic-user and --auth-password-file: want both")
		}
		a.Basic, a.Bearer, a.OAuth2 = &basic, "", nil
	case f.AuthBearerFile != "":
		read(&a.Bearer, "--auth-bearer-file", f.AuthBearerFile)
		a.Basic, a.OAuth2 = nil, nil
	case f.givesOAuth2():
		oauth := client.OAuth2{}
		if a.OAuth2 != nil {
			oauth = *a.OAuth2
		}
		give(&oauth.TokenURL, f.OAuth2TokenURL)
		give(&oauth.ClientID, f.OAuth2ClientID)
		give(&oauth.Audience, f.OAuth2Audience)
		if len(f.OAuth2Scope) > 0 {
			oauth.Scopes = f.OAuth2Scope
		}
		read(&oauth.ClientSecret, "--oauth2-secret-file", f.OAuth2SecretFile)
		if err == nil && (oauth.TokenURL == "" || oauth.ClientID == "" || oauth.ClientSecret == "") {
			err = usagef("--oauth2-token-url, --oauth2-client-id and --oauth2-secret-file: want all three")
		}
		a.Basic, a.Bearer, a.OAuth2 = nil, "", &oauth
	}
	read(&a.ClientCertificate, "--client-cert", f.ClientCert)
	read(&a.ClientKey, "--client-key", f.ClientKey)
	read(&a.RootCAs, "--root-cas", f.RootCAs)
	if err == nil && (a.ClientCertificate == "") != (a.ClientKey == "") {
		err = usagef("--client-cert and --client-key: want both")
	}
	return err
}

// give sets what was given.
func give[T comparable](to *T, v T) {
	var zero T
	if v != zero {
		*to = v
	}
}
