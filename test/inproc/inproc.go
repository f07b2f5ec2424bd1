// Package inproc puts a server together in the process of a test: over a memory store,
// without keys, and without what pushes.
package inproc

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/scheduler"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/memory"
	"github.com/posthaste-io/posthaste/subscriptions"
)

// Options change what a server is; the zero value has no keys, and the usual limits.
type Options struct {
	Access api.Access
	Limits api.Limits
	// Front, if set, makes what stands before the server.
	Front func(server http.Handler) http.Handler
}

// Start returns the URL of a server, which ends with the test.
func Start(tb testing.TB, o Options) string {
	tb.Helper()
	b := Open(o)
	handler := b.Handler
	if o.Front != nil {
		handler = o.Front(handler)
	}
	server := httptest.NewServer(handler)
	tb.Cleanup(func() {
		b.Drain()
		server.Close()
		if err := b.Close(); err != nil {
			tb.Error(err)
		}
	})
	return server.URL
}

// Backend is a server without a listener.
type Backend struct {
	Handler http.Handler
	// Drain ends waits, so that the listener can be closed; Close ends the rest.
	Drain func()
	Close func() error
}

// Open starts a backend, for those who have no test to end it with.
func Open(o Options) Backend {
	store := memory.New(memory.Options{})
	broker := queue.New(store, queue.Options{
		MaxPayload: int(o.Limits.Payload),

		Queues:   storage.NewCollection[queue.Settings](store, "queue"),
		Counters: storage.NewCollection[queue.Counter](store, "counter"),
		Numbers:  storage.NewCollection[queue.NumberEntry](store, "number"),
		Records: func(ctx context.Context, ns queue.Namespace, id queue.ID, limit int) ([]queue.Record, error) {
			page, err := store.Records(ctx, storage.RecordQuery{Namespace: ns, Item: id, Backward: true, Limit: limit})
			return page.Records, err
		},
	})
	// It hears of due times from the broker's first verb on.
	times := scheduler.New(scheduler.Options{Broker: broker})
	subs := subscriptions.New(subscriptions.Options{
		Docs:         storage.NewCollection[subscriptions.Document](store, "subscription"),
		Claims:       storage.NewCollection[subscriptions.Claim](store, "claim"),
		Queues:       broker,
		CheckURL:     func(string) error { return nil },
		CheckHeaders: func(map[string]string) error { return nil },
		CheckSecret:  func(string) error { return nil },
		NewSecret:    func() string { return "whsec_c2VjcmV0LW9mLWEtdGVzdC10aGF0LWlzLWxvbmc=" },
	})
	ctx, cancel := context.WithCancel(context.Background())
	var loops sync.WaitGroup
	loops.Go(func() { _ = broker.Run(ctx) }) // it ends with ctx, and only then
	loops.Go(func() { _ = times.Run(ctx) })
	return Backend{
		Handler: api.New(api.Options{
			Broker: broker, Subscriptions: subs, Access: o.Access, Limits: o.Limits, Version: "1.2.3",
		}),
		Drain: broker.Drain,
		Close: func() error {
			cancel()
			loops.Wait()
			return store.Close()
		},
	}
}
