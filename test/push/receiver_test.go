package push_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// arrival is one request that came.
type arrival struct {
	at     time.Time
	method string
	path   string
	header http.Header
	body   []byte
}

func (a arrival) id() string { return a.header.Get("webhook-id") }

// receiver is an endpoint that answers as its script says.
type receiver struct {
	*httptest.Server
	t *testing.T
	// arrivals holds what came and was not looked at yet: more than any test sends.
	arrivals chan arrival
}

// newReceiver answers with a function; nil answers 200. Requests that hang in it end with
// the test.
func newReceiver(t *testing.T, script func(w http.ResponseWriter, a arrival)) *receiver {
	r := &receiver{t: t, arrivals: make(chan arrival, 1000)}
	r.Server = httptest.NewServer(r.handler(script))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) handler(script func(w http.ResponseWriter, a arrival)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		a := arrival{at: time.Now(), method: req.Method, path: req.URL.Path, header: req.Header}
		var err error
		if a.body, err = io.ReadAll(req.Body); err != nil {
			return // the server was stopped while it sent
		}
		r.arrivals <- a
		if script != nil {
			script(w, a)
		}
	})
}

// answers returns a script that answers the first request with the first status and so on,
// and all after the last with the last.
func answers(statuses ...int) func(w http.ResponseWriter, a arrival) {
	left := make(chan []int, 1)
	left <- statuses
	return func(w http.ResponseWriter, _ arrival) {
		now := <-left
		status := now[0]
		if len(now) > 1 {
			now = now[1:]
		}
		left <- now
		w.WriteHeader(status)
	}
}

// next waits for a request.
func (r *receiver) next() arrival {
	r.t.Helper()
	select {
	case a := <-r.arrivals:
		return a
	case <-time.After(patience):
		r.t.Fatalf("no push came in %s", patience)
		return arrival{}
	}
}

// noneBefore says that nothing has come that was not looked at: an item that another
// queue now pushes to the receiver is the next that does.
func (r *receiver) noneBefore(c *client, queue string) {
	r.t.Helper()
	c.subscribe(queue, r.URL+"/marker", nil)
	id := c.produce(queue, object{"utf8": "marker"})[0]
	for {
		a := r.next()
		if a.id() == id {
			return
		}
		r.t.Errorf("a push came that should not have: %v %q", a.header, a.body)
	}
}

// verifies says whether the reference library takes the request with a secret.
func (a arrival) verifies(t *testing.T, secret string) bool {
	t.Helper()
	wh, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatalf("secret: %v", err)
	}
	return wh.Verify(a.body, a.header) == nil
}

// expect checks headers.
func (a arrival) expect(t *testing.T, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got := a.header.Get(name); got != value {
			t.Errorf("header %s: got %q, want %q", name, got, value)
		}
	}
}
