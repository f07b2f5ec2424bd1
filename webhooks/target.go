package webhooks

import (
	"net"
	"net/url"
	"strconv"
)

// target is where a request goes, as a URL says, and as whom.
type target struct {
	url *url.URL
	// address is host and port, origin both with the scheme.
	address, origin string
	// host and uri are what a request says.
	host, uri string
	// identity is who we are over TLS, and whom we believe; nil is nobody, and the sender's roots.
	identity *identity
	// http2 says that HTTP/2 is offered over TLS.
	http2 bool
}

func newTarget(raw string) (*target, error) {
	u, err := ParseURL(raw)
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort(u.Hostname(), strconv.Itoa(int(portOf(u))))
	return &target{url: u, address: address, origin: u.Scheme + "://" + address, host: u.Host, uri: u.RequestURI()}, nil
}

// over returns the target with what TLS is to do, which only means something to https. Most
// requests ask for nothing, and share one target.
func (t *target) over(id *identity, http2 bool) *target {
	if t.url.Scheme != "https" || id == nil && !http2 {
		return t
	}
	c := *t
	c.identity, c.http2 = id, http2
	return &c
}

// poolKey is what connections must have in common to carry each other's requests. One that
// was opened for a tenant, or with a client certificate, must never serve another.
type poolKey struct {
	origin, tenant string
	// identity is the digest of the target's.
	identity string
	http2    bool
}

func (t *target) key(tenant string) poolKey {
	k := poolKey{origin: t.origin, tenant: tenant, http2: t.http2}
	if t.identity != nil {
		k.identity = t.identity.digest
	}
	return k
}
