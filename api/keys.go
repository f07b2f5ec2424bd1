package api

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/apikeys"
	"github.com/posthaste-io/posthaste/queue"
)

// KeyAccess asks every call for a key, as Authorization: Bearer <key>. Whoever has one
// of its keys may do everything in the default namespace. Calls that settle or extend
// leases come without one as well: their receipts are credentials.
//
// Wrong keys are bounded by the address that they come from, and right ones are not: many
// callers may share an address, and none of them can lock the others out.
type KeyAccess struct {
	ring    *apikeys.Ring
	guesses guesses
}

// NewKeyAccess returns the access of these keys.
func NewKeyAccess(keys ...apikeys.Record) *KeyAccess {
	return &KeyAccess{ring: apikeys.NewRing(keys...), guesses: newGuesses()}
}

// Identify implements [Access]. Its errors hold nothing of what was sent: a header that
// is not understood may be a key all the same.
func (a *KeyAccess) Identify(r *http.Request) (Principal, error) {
	key, err := bearer(r.Header["Authorization"])
	if err != nil {
		return Principal{}, err
	}
	if a.ring.Holds(key) {
		return Principal{Namespace: queue.DefaultNamespace, Key: key.ID()}, nil
	}
	// Keys that are kept elsewhere than in memory would be looked up from here on.
	if wait := a.guesses.take(remoteAddr(r), 1); wait > 0 {
		return Principal{}, &guessError{what: "wrong keys", wait: wait}
	}
	return Principal{}, &keyError{reason: "this server does not know the key, or not any more; " +
		"see whether it is the key of this server", invalid: true}
}

// Allow implements [Access].
func (*KeyAccess) Allow(p Principal, _, _ string) error {
	if p.Key == "" {
		return ErrForbidden
	}
	return nil
}

var _ Access = (*KeyAccess)(nil)

// bearer reads the key of a request.
func bearer(headers []string) (apikeys.Key, error) {
	switch len(headers) {
	case 0:
		return apikeys.Key{}, &keyError{reason: "the call has no key; send it in the header Authorization: Bearer <key>"}
	case 1:
	default:
		return apikeys.Key{}, &keyError{reason: "the header Authorization is given twice", invalid: true}
	}
	scheme, text, _ := strings.Cut(headers[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return apikeys.Key{}, &keyError{reason: "the header Authorization has another form than Bearer <key>", invalid: true}
	}
	key, err := apikeys.Parse(strings.TrimSpace(text))
	if err != nil {
		return apikeys.Key{}, &keyError{reason: "header Authorization: " + err.Error(), invalid: true}
	}
	return key, nil
}

// remoteAddr is who is at the other end of the connection: a proxy, if there is one.
func remoteAddr(r *http.Request) netip.Addr {
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{} // no TCP; whoever has no address shares one
	}
	return remote.Addr().Unmap()
}

// keyError is a call without a key that is good.
type keyError struct {
	reason string
	// invalid says that there was one.
	invalid bool
}

func (e *keyError) Error() string { return e.reason }

// challenge is WWW-Authenticate, as RFC 6750 has it.
func (e *keyError) challenge() string {
	if e.invalid {
		return `Bearer realm="posthaste", error="invalid_token"`
	}
	return `Bearer realm="posthaste"`
}

// guessError is a wrong key too many, or a receipt.
type guessError struct {
	what string
	wait time.Duration
}

func (e *guessError) Error() string {
	return fmt.Sprintf("more than %d %s came from this address within %s; correct what is sent, and come back later",
		guessBurst, e.what, guessBurst*guessInterval)
}
