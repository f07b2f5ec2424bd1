package e2e_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// push is one request that came.
type push struct {
	at     time.Time
	method string
	header http.Header
	body   []byte
}

// receiver is an endpoint that answers as its script says.
type receiver struct {
	*httptest.Server
	t *testing.T
	// pushes holds what came and was not looked at yet: more than any test sends.
	pushes chan push
}

// newReceiver answers the nth request with the nth status, and all after the last with
// the last; without any, 200.
func newReceiver(t *testing.T, statuses ...int) *receiver {
	answered := 0 // one subscription with one request in flight at a time, or one status
	turn := make(chan struct{}, 1)
	return scriptedReceiver(t, func(w http.ResponseWriter, _ push) {
		turn <- struct{}{}
		status := http.StatusOK
		if len(statuses) > 0 {
			status = statuses[min(answered, len(statuses)-1)]
		}
		answered++
		<-turn
		w.WriteHeader(status)
	})
}

// scriptedReceiver answers with a function.
func scriptedReceiver(t *testing.T, script func(w http.ResponseWriter, p push)) *receiver {
	r := &receiver{t: t, pushes: make(chan push, 1000)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		p := push{at: time.Now(), method: req.Method, header: req.Header}
		var err error
		if p.body, err = io.ReadAll(req.Body); err != nil {
			return // the server was stopped while it sent
		}
		r.pushes <- p
		script(w, p)
	}))
	t.Cleanup(r.Close)
	return r
}

// next waits for a request.
func (r *receiver) next() push {
	r.t.Helper()
	select {
	case p := <-r.pushes:
		return p
	case <-time.After(patience):
		r.t.Fatalf("no push came in %s", patience)
		return push{}
	}
}

// onlyNext sends a marker and fails unless it is the next that comes: that nothing else
// came by then is seen, not assumed.
func (r *receiver) onlyNext(mark func() (id string)) {
	r.t.Helper()
	id := mark()
	for {
		p := r.next()
		if p.header.Get("webhook-id") == id {
			return
		}
		r.t.Errorf("a push came that should not have: %v %q", p.header, p.body)
	}
}

// noneBefore says that nothing has come that was not looked at: an item that another
// queue now pushes to the receiver is the next that does.
func (r *receiver) noneBefore(c *client, queue string) {
	r.t.Helper()
	r.onlyNext(func() (id string) {
		c.subscribe(queue, r.URL, nil)
		return c.produce(queue, object{"utf8": "marker"})[0]
	})
}

// verify checks a signature with the reference library.
func (p push) verify(t *testing.T, secret string) {
	t.Helper()
	wh, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatalf("secret: %v", err)
	}
	if err := wh.Verify(p.body, p.header); err != nil {
		t.Errorf("signature: %v in %v", err, p.header)
	}
}

// expect checks headers.
func (p push) expect(t *testing.T, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got := p.header.Get(name); got != value {
			t.Errorf("header %s: got %q, want %q", name, got, value)
		}
	}
}
