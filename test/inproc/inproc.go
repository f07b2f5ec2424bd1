// Package inproc puts a server together in the process of a test: over a memory store,
// and, unless it is asked for, without keys and without what pushes.
package inproc

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/dispatcher"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/scheduler"
	"github.com/posthaste-io/posthaste/schedules"
	"github.com/posthaste-io/posthaste/seal"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/storage/memory"
	"github.com/posthaste-io/posthaste/subscriptions"
	"github.com/posthaste-io/posthaste/webhooks"
)

// Options change what a server is; the zero value has no keys, and the usual limits.
type Options struct {
	Access api.Access
	Limits api.Limits
	// Pushes has it push, to this machine too.
	Pushes bool
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
	known := &pushed{}
	broker := queue.New(store, queue.Options{
		MaxPayload: int(o.Limits.Payload),

		Queues:        storage.NewCollection[queue.Settings](store, "queue"),
		Counters:      storage.NewCollection[queue.Counter](store, "counter"),
		Numbers:       storage.NewCollection[queue.NumberEntry](store, "number"),
		Subscribers:   known,
		AllowsTarget:  known.allowsTarget,
		CheckTarget:   func(*queue.Target) error { return nil },
		OnDone:        known.onDone,
		CompileFilter: subscriptions.CompileTopicFilter,
		PushedBy:      known.pushedBy,
		Change:        store.Change,
		Alone:         true,
		Records: func(ctx context.Context, ns queue.Namespace, id queue.ID, limit int) ([]queue.Record, error) {
			page, err := store.Records(ctx, storage.RecordQuery{Namespace: ns, Item: id, Backward: true, Limit: limit})
			return page.Records, err
		},
		Journal: func(ctx context.Context, q queue.JournalQuery) (queue.JournalPage, error) {
			page, err := store.Records(ctx, storage.RecordQuery(q))
			return queue.JournalPage(page), err
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
		CheckAuth:    func(subscriptions.Auth) error { return nil },
		Sealer:       seal.Random(),
		NewSecret:    webhooks.NewSecret,
	})
	known.Service = subs
	crons := schedules.New(schedules.Options{
		Docs: storage.NewCollection[schedules.Document](store, "schedule"), Broker: broker, Changed: times.Changed,
	})
	times.Fires(crons)
	own := api.Options{Broker: broker, Subscriptions: subs, Schedules: crons, Access: o.Access, Limits: o.Limits, Version: "1.2.3"}
	ctx, cancel := context.WithCancel(context.Background())
	var loops sync.WaitGroup
	loops.Go(func() { _ = broker.Run(ctx) }) // it ends with ctx, and only then
	loops.Go(func() { _ = times.Run(ctx) })
	closeSender := func() {}
	if o.Pushes {
		var dispatch *dispatcher.Dispatcher
		dispatch, closeSender = pusher(broker, subs)
		own.Lane = func(ns queue.Namespace, name string) (api.LaneState, bool) {
			state, ok := dispatch.LaneState(ns, name)
			return laneState(state), ok
		}
		own.Test = dispatch.Test
		loops.Go(func() { _ = dispatch.Run(ctx) })
	}
	return Backend{
		Handler: api.New(own),
		Drain:   broker.Drain,
		Close: func() error {
			cancel()
			loops.Wait()
			closeSender()
			return store.Close()
		},
	}
}

// pusher makes what pushes.
func pusher(broker *queue.Broker, subs *subscriptions.Service) (_ *dispatcher.Dispatcher, closeSender func()) {
	loopback := webhooks.AllowRule{Prefix: netip.MustParsePrefix("127.0.0.0/8")}
	sender := webhooks.NewSender(webhooks.SenderOptions{Guard: webhooks.NewGuard(webhooks.GuardOptions{Allow: []webhooks.AllowRule{loopback}})})
	return dispatcher.New(dispatcher.Options{Broker: broker, Subscriptions: subs, Sender: sender, Node: "inproc", Grace: -1}), sender.Close
}

// laneState has the fields of what the dispatcher tells.
func laneState(s dispatcher.LaneState) api.LaneState {
	out := api.LaneState{
		Window: s.Window, InFlight: s.InFlight, Breaker: s.Breaker, BreakerUntil: s.BreakerUntil, PausedUntil: s.PausedUntil,
		RateUntil: s.RateUntil, Deferred: s.Deferred, MaxDeferred: s.MaxDeferred, LastError: s.LastError, LastErrorAt: s.LastErrorAt,
	}
	for _, h := range s.Hosts {
		out.Hosts = append(out.Hosts, api.HostState(h))
	}
	return out
}

// pushed tells the broker of the subscriptions, which are made after it.
type pushed struct{ *subscriptions.Service }

func (p *pushed) allowsTarget(ctx context.Context, ns queue.Namespace, name string) (bool, error) {
	return p.AllowsTarget(ctx, ns, name)
}

func (p *pushed) pushedBy(ctx context.Context, ns queue.Namespace, name string) (string, bool, error) {
	return p.PushedBy(ctx, ns, name)
}

func (p *pushed) onDone(ctx context.Context, ns queue.Namespace, name string) (string, error) {
	return p.OnDone(ctx, ns, name)
}
