// Command batch-go is an endpoint that is sent several items in one request. It answers
// which of them failed; all others are done.
//
//	WEBHOOK_SECRET=whsec_… go run ./examples/batch-go
//
// The subscription needs a batch, such as {"max_items": 100, "max_wait": "1s"}.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/posthaste-io/posthaste/webhooks"
)

// maxBody is more than a batch of max_bytes 1048576 can become as JSON.
const maxBody = 8 << 20

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	e := &endpoint{handled: webhooks.NewMemoryHistory(0)}
	receiver, err := webhooks.NewReceiver(e, webhooks.ReceiverOptions{
		Secrets: strings.Fields(os.Getenv("WEBHOOK_SECRET")), MaxBody: maxBody,
		// No history here: it would know requests, whose ids are new each time.
	})
	if err != nil {
		return fmt.Errorf("WEBHOOK_SECRET: %w", err)
	}
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDRESS"), "127.0.0.1:8080"))
	if err != nil {
		return err
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	server := &http.Server{Handler: receiver, ReadTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	// Requests that run are answered, so that their items need not come again.
	last, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return server.Shutdown(last)
}

// endpoint works on batches. Items are known by their own ids, which are the same each
// time that they are sent.
type endpoint struct{ handled webhooks.History }

// ServeHTTP works on a request that was signed by the server.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	items, err := webhooks.DecodeBatch(r.Header.Get("Content-Type"), body)
	if err != nil {
		log.Printf("not a batch: %v; has the subscription one?", err)
		w.WriteHeader(http.StatusUnprocessableEntity) // for all items
		return
	}
	fmt.Printf("%d items\n", len(items))
	var failed []webhooks.FailedItem
	for i := range items {
		if err := e.once(r.Context(), &items[i]); err != nil {
			log.Printf("item %s: %v", items[i].ID, err)
			failed = append(failed, webhooks.FailedItem{ID: items[i].ID, RetryAfter: waitFor(err)})
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(webhooks.EncodeFailed(failed...)); err != nil {
		log.Printf("not answered: %v", err) // all come again, and are known
	}
}

// once works on an item unless it was handled.
func (e *endpoint) once(ctx context.Context, it *webhooks.BatchItem) error {
	switch seen, err := e.handled.Seen(ctx, it.ID); {
	case err != nil:
		return err
	case seen:
		return nil
	}
	if err := work(it); err != nil {
		return err
	}
	return e.handled.Remember(ctx, it.ID, time.Now().Add(webhooks.DefaultRemember))
}

// errBusy is what the warehouse says when it is asked too often.
var errBusy = errors.New("the warehouse is busy")

// waitFor is how long an item waits at least that failed so; 0 leaves it to the back-off.
func waitFor(err error) time.Duration {
	if errors.Is(err, errBusy) {
		return 2 * time.Second
	}
	return 0
}

func work(it *webhooks.BatchItem) error {
	var order struct {
		Order int
		Busy  bool
	}
	if err := json.Unmarshal(it.Payload, &order); err != nil {
		return err
	}
	if order.Busy && it.Attempt == 1 {
		return errBusy
	}
	fmt.Printf("order %d: %s, attempt %d\n", order.Order, it.Kind, it.Attempt)
	return nil
}
