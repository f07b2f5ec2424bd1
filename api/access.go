package api

import (
	"net/http"

	"github.com/posthaste-io/posthaste/queue"
)

// Principal is who sent a request, and for which namespace it speaks.
type Principal struct {
	Namespace queue.Namespace
	// Key is the id of the key that the request has, empty where nobody has keys.
	Key string
}

// Access decides what a request may do. Safe for concurrent use. Errors are
// answered by the table in errors.go: [ErrForbidden] for a principal that may not.
// [KeyAccess] is one.
type Access interface {
	// Identify says who sent the request, before its body is read.
	Identify(r *http.Request) (Principal, error)
	// Allow says whether the principal may call the method (queue.produce) on the
	// queue, subscription or schedule of that name in its namespace, once for each name of
	// the call. The name is empty where the call may be about any of them: a list, an item
	// that is named without its queue, a redrive to wherever items came from; and where
	// receipts name what it is about, which are credentials themselves.
	Allow(p Principal, method, name string) error
}

// OpenAccess lets everybody do everything in the default namespace. It is for
// servers that only their own machine can reach.
type OpenAccess struct{}

// Identify implements [Access].
func (OpenAccess) Identify(*http.Request) (Principal, error) {
	return Principal{Namespace: queue.DefaultNamespace}, nil
}

// Allow implements [Access].
func (OpenAccess) Allow(Principal, string, string) error { return nil }

var _ Access = OpenAccess{}
