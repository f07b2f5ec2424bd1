package dispatcher

import (
	"maps"
	"net/http"

	"github.com/posthaste-io/posthaste/subscriptions"
)

// revision is a subscription as it was between two changes, with what is the same in
// all its requests. It never changes.
type revision struct {
	*subscriptions.Subscription
	// headers have canonical names.
	headers map[string]string
	secrets []string
}

func newRevision(sub *subscriptions.Subscription) *revision {
	r := &revision{Subscription: sub, headers: layOver(nil, sub.Headers)}
	for _, secret := range sub.Secrets {
		r.secrets = append(r.secrets, secret.Reveal())
	}
	return r
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
