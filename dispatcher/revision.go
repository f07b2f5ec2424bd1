package dispatcher

import (
	"maps"
	"net/http"
	"reflect"
	"time"

	"github.com/posthaste-io/posthaste/subscriptions"
	"github.com/posthaste-io/posthaste/webhooks"
)

// revision is a subscription as it was between two changes, with what is the same in
// all its requests. It never changes.
type revision struct {
	*subscriptions.Subscription
	// headers have canonical names.
	headers map[string]string
	// newest is the secret that signs when no old one does any more, which is mostly.
	newest []string
	// credentials are nil for an endpoint that asks for none. faulty says why they cannot
	// be used.
	credentials *webhooks.Credentials
	faulty      error
}

// newRevision makes the next revision of a subscription. Credentials that did not change
// are kept, and with them the tokens and connections that they have.
func (d *Dispatcher) newRevision(sub *subscriptions.Subscription, before *revision) *revision {
	r := &revision{Subscription: sub, headers: layOver(nil, sub.Headers)}
	if len(sub.Secrets) > 0 {
		r.newest = []string{sub.Secrets[0].Secret.Reveal()}
	}
	switch {
	case reflect.DeepEqual(sub.Auth, subscriptions.Auth{}):
	case before != nil && reflect.DeepEqual(sub.Auth, before.Auth):
		r.credentials, r.faulty = before.credentials, before.faulty
	default:
		r.credentials, r.faulty = d.credentials(sub.Auth)
	}
	return r
}

// signers are the secrets that sign now, newest first.
func (r *revision) signers(now time.Time) []string {
	if len(r.Secrets) < 2 {
		return r.newest
	}
	live := r.SigningSecrets(now)
	texts := make([]string, len(live))
	for i, secret := range live {
		texts[i] = secret.Reveal()
	}
	return texts
}

// logs says whether an attempt with this verdict is kept in the journal.
func (r *revision) logs(v webhooks.Verdict) bool {
	switch r.Log {
	case subscriptions.LogOff:
		return false
	case subscriptions.LogFailures:
		return v != webhooks.Delivered && v != webhooks.Deferred
	default:
		return true
	}
}

// layOver lays headers over others that have canonical names. Neither is changed; what
// is returned may be the latter.
func layOver(under, over map[string]string) map[string]string {
	if len(over) == 0 {
		return under
	}
	merged := maps.Clone(under)
	if merged == nil {
		merged = make(map[string]string, len(over))
	}
	for name, value := range over {
		merged[http.CanonicalHeaderKey(name)] = value
	}
	return merged
}
