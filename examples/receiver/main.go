// Command receiver is the smallest endpoint that does it right: it verifies before it
// believes, works once for each id, and answers 2xx only when the work is done.
//
//	SECRET=whsec_… go run ./examples/receiver
package main

import (
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/posthaste-io/posthaste/webhooks"
)

// maxBody is as much as one item may hold.
const maxBody = 1_000_000

func main() {
	h, err := newHandler(os.Getenv("SECRET"), func(body []byte) error {
		fmt.Printf("%q\n", body)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", h))
}

// handler receives items.
type handler struct {
	verifier *webhooks.Verifier
	work     func(body []byte) error

	mu sync.Mutex
	// done has the ids of items that were worked on. A real receiver keeps them where
	// its work's result is, in the same transaction.
	done map[string]bool
}

func newHandler(secret string, work func(body []byte) error) (*handler, error) {
	verifier, err := webhooks.NewVerifier(secret)
	if err != nil {
		return nil, err
	}
	return &handler{verifier: verifier, work: work, done: map[string]bool{}}, nil
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := h.verifier.Read(r, maxBody, time.Now())
	if errors.Is(err, webhooks.ErrBodyTooLarge) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	id := r.Header.Get(webhooks.HeaderID)
	if h.done[id] {
		return // our answer was lost the last time; 200 says that it is done
	}
	if err := h.work(body); err != nil {
		w.WriteHeader(http.StatusServiceUnavailable) // it comes again
		return
	}
	h.done[id] = true
}
