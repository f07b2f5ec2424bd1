// Command receiver-go is an endpoint for items that posthaste pushes. It believes only
// what is signed, works once for each item, and answers 2xx only when the work is done.
//
//	WEBHOOK_SECRET=whsec_… go run ./examples/receiver-go
package main

import (
	"cmp"
	"context"
	"encoding/json"
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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	receiver, err := webhooks.NewReceiver(http.HandlerFunc(receive), webhooks.ReceiverOptions{
		// What subscriptions.create answered; while it is changed, both, with a space between.
		Secrets: strings.Fields(os.Getenv("WEBHOOK_SECRET")),
		// Better is a table in the database that holds what the work results in: with the
		// id written in the same transaction, no crash has the work done twice.
		History: webhooks.NewMemoryHistory(0),
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

// receive works on one item. Its body is whole, and was signed by the server.
func receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	var order struct{ Order int }
	if err := json.Unmarshal(body, &order); err != nil {
		// No repeat will make sense of it, so none is asked for: the item is buried.
		w.Header().Set(webhooks.HeaderRetry, "never")
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	d := webhooks.DeliveryFrom(r.Context())
	fmt.Printf("order %d: %s, attempt %d\n", order.Order, d.Kind, d.Attempt) // the work
	w.WriteHeader(http.StatusNoContent)
}
