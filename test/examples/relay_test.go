package examples_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// relay stands between the server and a receiver, where whoever can read and write
// what goes by would.
type relay struct {
	*httptest.Server
	target string
	client *http.Client

	mu sync.Mutex
	// tamper changes the body of the next request; nil lets it pass.
	tamper func(body []byte) []byte
	passed []exchange
}

// exchange is a request that was passed on, and how it was answered.
type exchange struct {
	header http.Header
	body   []byte
	status int
}

func newRelay(t *testing.T, target string) *relay {
	r := &relay{target: target, client: &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 8}}}
	r.Server = httptest.NewServer(http.HandlerFunc(r.pass))
	t.Cleanup(func() {
		r.Close()
		r.client.CloseIdleConnections()
	})
	return r
}

func (r *relay) pass(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the server was stopped while it sent
	}
	r.mu.Lock()
	if r.tamper != nil {
		body = r.tamper(body)
		r.tamper = nil
	}
	r.mu.Unlock()
	x := exchange{header: req.Header, body: body}
	answer, err := r.send(x)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	x.status = answer.status
	r.mu.Lock()
	r.passed = append(r.passed, x)
	r.mu.Unlock()
	for name, values := range answer.header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.status)
	_, _ = w.Write(answer.body) // the server may have lost its patience
}

// answer is what a receiver said.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// send sends a request to the receiver.
func (r *relay) send(x exchange) (answer, error) {
	req, err := http.NewRequest(http.MethodPost, r.target, bytes.NewReader(x.body))
	if err != nil {
		return answer{}, err
	}
	req.Header = x.header.Clone()
	resp, err := r.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, body}, err
}

// tamperNext changes the body of the next request.
func (r *relay) tamperNext(change func([]byte) []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tamper = change
}

// of returns what was passed on for an item, in order.
func (r *relay) of(itemID string) []exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []exchange
	for _, x := range r.passed {
		if x.header.Get("webhook-id") == itemID {
			found = append(found, x)
		}
	}
	return found
}
