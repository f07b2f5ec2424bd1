// Command worker works on the items that the producer beside it makes.
//
//	go run ./examples/worker
//
// It finds the server by POSTHASTE_URL and its key by POSTHASTE_KEY. The first SIGTERM
// or Ctrl-C lets running work end and gives the rest back.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
)

// What producer and worker agree on.
const (
	queue       = "shop"
	kindResize  = "image.resize"
	kindWelcome = "mail.welcome"
)

type (
	resize  struct{ Width, Height int }
	welcome struct{ To string }
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stdout, nil))
	if err := run(ctx, log); err != nil {
		log.Error("worker ended", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, log *slog.Logger) error {
	c, err := client.New(client.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	err = c.CreateQueue(ctx, client.Queue{Name: queue, KeepEnded: time.Hour})
	if err != nil && !client.Is(err, client.CodeAlreadyExists) {
		return err
	}
	w, err := client.NewWorker(c, client.WorkerOptions{
		Queue: queue,
		Handlers: map[string]client.Handler{
			kindResize:  resizePicture,
			kindWelcome: sendWelcome,
		},
		Middleware:  []client.Middleware{timed(log)},
		Concurrency: 4,
		Logger:      log,
	})
	if err != nil {
		return err
	}
	log.Info("working", "queue", queue)
	return w.Run(ctx)
}

// resizePicture says what came of it: who waits for the item reads it there.
func resizePicture(_ context.Context, it *client.Leased) error {
	var r resize
	if err := it.JSON(&r); err != nil {
		return client.Bury(err) // it will not read better the next time
	}
	if r.Width <= 0 || r.Height <= 0 {
		return client.Bury(fmt.Errorf("%d by %d is no picture", r.Width, r.Height))
	}
	it.SetResult(fmt.Appendf(nil, "%d by %d", r.Width/10, r.Height/10))
	return nil
}

// errBusy is what the mail service says when it is asked too often.
var errBusy = errors.New("mail service is busy")

func sendWelcome(ctx context.Context, it *client.Leased) error {
	var w welcome
	if err := it.JSON(&w); err != nil {
		return client.Bury(err)
	}
	err := send(ctx, w.To, it.Deliveries)
	if errors.Is(err, errBusy) {
		return fmt.Errorf("%w: %w", err, client.RetryAfter(time.Second))
	}
	return err // any other is tried again after the worker's own back-off
}

// send stands for a mail service that is busy at first. Its real client would pass the
// item's id on, so that a repeat sends nothing twice.
func send(_ context.Context, to string, try int) error {
	if try == 1 {
		return errBusy
	}
	if !strings.Contains(to, "@") {
		return client.Bury(fmt.Errorf("%q is no address", to))
	}
	return nil
}

// timed logs each item.
func timed(log *slog.Logger) client.Middleware {
	return func(next client.Handler) client.Handler {
		return func(ctx context.Context, it *client.Leased) error {
			began := time.Now()
			err := next(ctx, it)
			log.Info("worked", "item_id", it.ItemID, "kind", it.Kind, "delivery", it.Deliveries, "took", time.Since(began).String(), "error", err)
			return err
		}
	}
}
