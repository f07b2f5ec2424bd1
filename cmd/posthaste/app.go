package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-io/posthaste/api"
	"github.com/posthaste-io/posthaste/dispatcher"
	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/scheduler"
	"github.com/posthaste-io/posthaste/schedules"
	"github.com/posthaste-io/posthaste/storage"
	"github.com/posthaste-io/posthaste/subscriptions"
	"github.com/posthaste-io/posthaste/telemetry"
	"github.com/posthaste-io/posthaste/webhooks"
)

// The stop ends so long after the grace of pushes, whatever clients do; closing the
// store comes on top.
const drainTime = 1500 * time.Millisecond

// maxAdminConnections is enough for operators and their probes.
const maxAdminConnections = 100

// app is a whole server. [openApp] or [newApp] take what it needs, start sets it
// going, wait or stop end it. It reads no flags, knows no signals and keeps nothing
// in globals, so several can run in one process.
type app struct {
	log      *slog.Logger
	store    storage.Backend
	api      *net.TCPListener
	admin    *net.TCPListener
	server   *api.Server
	broker   *queue.Broker
	schedule *scheduler.Scheduler
	dispatch *dispatcher.Dispatcher
	sender   *webhooks.Sender
	// certificate is nil where the API speaks plain HTTP.
	certificate *certificate
	// connections bounds those to the API, grace is the time of pushes at the stop.
	connections int
	grace       time.Duration

	// open counts the connections to the API.
	open atomic.Int64

	cleanups cleanups
	// broken holds the first error of a part that ended before it was told to.
	broken chan error
}

// openApp makes an app on the store that is configured.
func openApp(c config, log *slog.Logger) (*app, error) {
	b := readBuild()
	log.Info("starting", "version", b.version, "commit", b.commit, "store", c.store.String())
	return newApp(openStore, c, log)
}

// newApp takes the addresses, opens the store and joins the parts. If it fails it gives
// back all that it took.
func newApp(open storeOpener, c config, log *slog.Logger) (_ *app, err error) {
	a := &app{log: log, connections: c.limits.connections(), grace: c.grace, broken: make(chan error, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.stop())
		}
	}()
	// First, so that a wrong address or certificate leaves no store behind.
	if a.api, err = a.bind("--listen", c.listen, c.access.remote, c.access.why()); err != nil {
		return nil, err
	}
	if a.admin, err = a.bind("--admin-listen", c.adminListen, false, whyAdmin); err != nil {
		return nil, err
	}
	if c.access.certFile != "" {
		if a.certificate, err = openCertificate(c.access.certFile, c.access.keyFile, log); err != nil {
			return nil, usagef("--tls-cert, --tls-key: %w", err)
		}
	}
	if a.store, err = open(c, log); err != nil {
		return nil, fmt.Errorf("open %s: %w", c.store, err)
	}
	a.cleanups.push("close the store", func(context.Context) error { return a.store.Close() })
	version := readBuild().version
	measured, err := telemetry.New(context.Background(), telemetry.Options{
		Version: version, Instance: hostname() + " " + a.api.Addr().String(), Export: c.export, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	a.cleanups.push("send what was measured", measured.Shutdown)
	// Whoever stores goes through it. What a store can do beside, and its end, are asked of
	// the store itself.
	store := measured.Store(a.store)
	rules, err := c.access.rules(store, c.stdout)
	if err != nil {
		return nil, err
	}
	guard := webhooks.NewGuard(webhooks.GuardOptions{
		Allow: c.allow, HTTPSOnly: c.httpsOnly,
		Own: []netip.AddrPort{addrPort(a.api), addrPort(a.admin)},
	})
	known := &pushed{}
	nodes, several := a.store.(shared)
	a.broker = queue.New(store, c.limits.broker(queue.Options{
		Queues:      storage.NewCollection[queue.Settings](store, "queue"),
		Counters:    storage.NewCollection[queue.Counter](store, "counter"),
		Numbers:     storage.NewCollection[queue.NumberEntry](store, "number"),
		Subscribers: known,
		Limit:       known.limit,
		// Asked of the service that there is by then, as all of them.
		AllowsTarget:  known.allowsTarget,
		OnDone:        known.onDone,
		PushedBy:      known.pushedBy,
		CheckTarget:   checkTarget(guard),
		CompileFilter: subscriptions.CompileTopicFilter,
		FilterFailed:  measured.FilterFailed,
		Records:       recordsOf(store),
		Journal:       journalOf(store),
		Change:        store.Change,
		Alone:         !several,
		Logger:        log,
	}))
	var peers dispatcher.PeerDocs // nil for a store that has one node
	if several {
		nodes.OnHint(a.broker.Wake)
		peers = storage.NewCollection[dispatcher.Peer](store, "peer")
	}
	// Made before the broker's verbs are called, which tell it of due times.
	a.schedule = scheduler.New(scheduler.Options{Broker: a.broker, Logger: log})
	secrets, err := sealerOf(&c, store, log)
	if err != nil {
		return nil, err
	}
	subs := subscriptions.New(subscriptions.Options{
		Docs:         storage.NewCollection[subscriptions.Document](store, subscriptionKind),
		Claims:       storage.NewCollection[subscriptions.Claim](store, "claim"),
		Queues:       a.broker,
		Sealer:       secrets,
		Announce:     a.event,
		CheckURL:     guard.CheckURL,
		CheckHeaders: webhooks.CheckHeaders,
		CheckSecret:  checkSecret,
		CheckAuth:    checkAuth(guard),
		NewSecret:    webhooks.NewSecret,
		Logger:       log,
	})
	if err := sealSecrets(&c, subs, log); err != nil {
		return nil, err
	}
	known.Service = subs
	a.sender = webhooks.NewSender(webhooks.SenderOptions{
		UserAgent: "posthaste/" + version, Guard: guard, MaxIdlePerHost: c.limits.MaxPushes,
	})
	a.dispatch = dispatcher.New(dispatcher.Options{
		Broker: a.broker, Subscriptions: subs, Sender: a.sender, Logger: log,
		Node: hostname(), MaxPushes: c.limits.MaxPushes, Grace: graceOf(c.grace), Peers: peers,
		Credentials: newCredentials, Observe: measured.Pushed, Tracer: measured.Tracer(),
	})
	crons := schedules.New(schedules.Options{
		Docs: storage.NewCollection[schedules.Document](store, "schedule"), Broker: a.broker,
		Changed: a.schedule.Changed, Observe: measured.Fired, Logger: log,
	})
	a.schedule.Fires(crons)
	a.server = api.New(api.Options{
		Broker: a.broker, Subscriptions: subs, Schedules: crons, Lane: a.lane, Test: a.dispatch.Test, Access: rules,
		Durable: a.store.Durable(), Dev: c.dev, Version: version, Ready: a.checks, Logger: log,
		Limits: c.limits.api(), Observer: measured.Requests(), Tracer: measured.Tracer(), Metrics: measured.Handler(),
	})
	measured.Watch(telemetry.Watched{
		Broker: a.broker, Lanes: a.dispatch, Schedules: crons, Connections: func() int { return int(a.open.Load()) },
	})
	return a, nil
}

// start sets everything going. What it starts is stopped in the opposite order:
// nothing new, then pushes, then requests, then batches, then the store.
func (a *app) start() {
	a.run("run batches dry", a.broker.Run)
	if a.certificate != nil {
		a.run("watch the certificate no more", a.certificate.Run)
	}
	a.serve()
	a.cleanups.push("close idle connections to endpoints", func(context.Context) error {
		a.sender.Close()
		return nil
	})
	a.run("end pushes", a.dispatch.Run)
	a.run("end the scheduler", a.schedule.Run)
	a.cleanups.push("say not ready, give no more leases", func(context.Context) error {
		a.server.Drain()
		return nil
	})
}

// wait returns when the context has ended or the app cannot go on, with everything
// stopped.
func (a *app) wait(ctx context.Context) error {
	var err error
	select {
	case <-ctx.Done():
		a.log.Info("told to stop", "cause", context.Cause(ctx))
	case <-a.store.Failed():
		err = storeError{fmt.Errorf("store: %w", a.store.Err())}
	case err = <-a.broken:
	}
	if err != nil {
		// Returned as well, but the steps of stopping may take their time.
		a.log.Info("cannot go on", "cause", err)
	}
	return errors.Join(err, a.stop())
}

// stop undoes what newApp and start did, the last first, under one deadline for all
// steps. A second call does nothing.
func (a *app) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), a.grace+drainTime)
	defer cancel()
	return a.cleanups.run(ctx, a.log)
}

// url is where the API listens.
func (a *app) url() string {
	if a.certificate != nil {
		return "https://" + a.api.Addr().String()
	}
	return "http://" + a.api.Addr().String()
}

// run starts a part that works until its context ends, and waits for it at the stop.
func (a *app) run(step string, part func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		err := part(ctx)
		if ctx.Err() == nil {
			a.fail(errors.Join(fmt.Errorf("%s: ended by itself", step), err))
		}
		ended <- err
	}()
	a.cleanups.push(step, func(context.Context) error {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
}

// serve answers on both listeners. They are drained once the pushes have ended: until
// then consumers may settle, and /readyz says that this server is stopping.
func (a *app) serve() {
	failed := func(err error) { a.fail(fmt.Errorf("serve: %w", err)) }
	public := frontOptions{listener: a.api, connections: a.connections, handler: a.server, open: &a.open, log: a.log, failed: failed}
	if a.certificate != nil {
		public.tls = a.certificate.config()
	}
	fronts := []*front{newFront(public), newFront(frontOptions{
		listener: a.admin, connections: maxAdminConnections, handler: a.server.Admin(), open: new(atomic.Int64), log: a.log, failed: failed,
	})}
	a.cleanups.push("drain the API and admin listeners", func(ctx context.Context) error {
		errs := make([]error, len(fronts))
		var drained sync.WaitGroup
		for i, f := range fronts {
			drained.Go(func() { errs[i] = f.drain(ctx) })
		}
		drained.Wait()
		return errors.Join(errs...)
	})
}

// fail notes the first part that ended too early; the others follow from it.
func (a *app) fail(err error) {
	select {
	case a.broken <- err:
	default:
	}
}

// bind takes an address, and gives it back at the stop. What a name stands for is known
// only then.
func (a *app) bind(flag, address string, remote bool, why string) (*net.TCPListener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	a.cleanups.push("leave "+address, func(context.Context) error {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil // the server on it has closed it
	})
	bound := l.(*net.TCPListener)
	if !remote && !addrPort(bound).Addr().IsLoopback() {
		return nil, usagef("%s %q: refused, it leads to %s, which is not a loopback address, and %s", flag, address, l.Addr(), why)
	}
	return bound, nil
}

// checks are what must be well for the server to take work, and what should be.
func (a *app) checks() []api.Check {
	err := a.store.Err()
	if nodes, ok := a.store.(shared); ok && err == nil {
		err = nodes.Reachable()
	}
	checks := []api.Check{{Name: "store", Err: err}}
	if files, ok := a.store.(interface{ Damage() error }); ok {
		checks = append(checks, api.Check{Name: "files", Err: files.Damage(), Minor: true})
	}
	if disk, ok := a.store.(interface{ Space() error }); ok {
		checks = append(checks, api.Check{Name: "disk", Err: disk.Space(), Minor: true})
	}
	if a.certificate != nil {
		checks = append(checks, api.Check{Name: "certificate", Err: a.certificate.Err(), Minor: true})
	}
	return checks
}

// lane shows what the dispatcher does for a subscription. The types are said twice, with
// the same fields: api and dispatcher know nothing of each other.
func (a *app) lane(ns queue.Namespace, name string) (api.LaneState, bool) {
	s, ok := a.dispatch.LaneState(ns, name)
	state := api.LaneState{
		Window: s.Window, InFlight: s.InFlight,
		Breaker: s.Breaker, BreakerUntil: s.BreakerUntil,
		PausedUntil: s.PausedUntil, RateUntil: s.RateUntil,
		Deferred: s.Deferred, MaxDeferred: s.MaxDeferred,
		LastError: s.LastError, LastErrorAt: s.LastErrorAt,
	}
	for _, host := range s.Hosts {
		state.Hosts = append(state.Hosts, api.HostState(host)) // does not compile once they differ
	}
	return state, ok
}

// checkSecret judges a secret by whether a push can be signed with it.
func checkSecret(secret string) error {
	if _, err := webhooks.ParseSecret(secret); err != nil {
		return errors.New("want whsec_ and 24 to 64 bytes, or whsk_ and the 64 of an ed25519 key pair, in padded standard base64, without a line break")
	}
	return nil
}

// recordsOf reads what the journal has of an item, newest first.
func recordsOf(j storage.Journal) func(context.Context, queue.Namespace, queue.ID, int) ([]queue.Record, error) {
	return func(ctx context.Context, ns queue.Namespace, id queue.ID, limit int) ([]queue.Record, error) {
		page, err := j.Records(ctx, storage.RecordQuery{Namespace: ns, Item: id, Backward: true, Limit: limit})
		return page.Records, err
	}
}

// journalOf reads the journal in pages.
func journalOf(j storage.Journal) func(context.Context, queue.JournalQuery) (queue.JournalPage, error) {
	return func(ctx context.Context, q queue.JournalQuery) (queue.JournalPage, error) {
		page, err := j.Records(ctx, storage.RecordQuery(q))
		return queue.JournalPage(page), err
	}
}

// graceOf turns no grace into what the dispatcher takes for it.
func graceOf(grace time.Duration) time.Duration {
	if grace == 0 {
		return -1
	}
	return grace
}

func addrPort(l *net.TCPListener) netip.AddrPort {
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// hostname labels leases for people; without a name the label is left out.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
