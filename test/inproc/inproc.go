// Package inproc puts a server together in the process of a test: over a memory store,
// without keys, and without what pushes.
package inproc

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/memory"
	"github.com/posthaste-io/posthaste/subscriptions"
)

// Options change what a server is; the zero value has no keys, and the usual limits.
type Options struct {
	Access api.Access
	Limits api.Limits
}

// Start returns the URL of a server, which ends with the test.
func Start(tb testing.TB, o Options) string {
	tb.Helper()
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
	subs := subscriptions.New(subscriptions.Options{
		Docs:         storage.NewCollection[subscriptions.Document](store, "subscription"),
		Claims:       storage.NewCollection[subscriptions.Claim](store, "claim"),
		Queues:       broker,
		CheckURL:     func(string) error { return nil },
		CheckHeaders: func(map[string]string) error { return nil },
		CheckSecret:  func(string) error { return nil },
		NewSecret:    func() string { return "whsec_c2VjcmV0LW9mLWEtdGVzdC10aGF0LWlzLWxvbmc=" },
	})
	server := httptest.NewServer(api.New(api.Options{
		Broker: broker, Subscriptions: subs, Access: o.Access, Limits: o.Limits, Version: "1.2.3",
	}))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- broker.Run(ctx) }()
	tb.Cleanup(func() {
		broker.Drain()
		server.Close()
		cancel()
		if err := <-ended; err != nil {
			tb.Errorf("broker: %v", err)
		}
		if err := store.Close(); err != nil {
			tb.Errorf("store: %v", err)
		}
	})
	return server.URL
}
