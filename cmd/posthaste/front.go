package main

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"

	"github.com/posthaste-io/posthaste/api"
)

const (
	// silentTime is how long a new connection may take to send its first byte once
	// draining began: a request may be on its way.
	silentTime = 200 * time.Millisecond
	// brokenTime is how long handlers may take to end once their connections are closed:
	// leases that were not read are given back in it.
	brokenTime = 250 * time.Millisecond
)

// front is an HTTP server on one listener, which stops by a deadline whatever its
// clients do.
type front struct {
	server *http.Server
	log    *slog.Logger
	ended  chan struct{}
	// requests counts handlers that run.
	requests atomic.Int64
	// open counts connections.
	open *atomic.Int64

	mu sync.Mutex
	// silent are connections that have not sent a byte. The HTTP server would wait five
	// seconds for each of them at the stop.
	silent map[net.Conn]struct{}
	// closing says that silent ones are no longer waited for.
	closing bool
}

// frontOptions are what a front is made of; all but tls must be set.
type frontOptions struct {
	listener net.Listener
	handler  http.Handler
	// connections are answered at a time; what is beyond waits to be accepted.
	connections int
	// tls, if not nil, has the certificate.
	tls *tls.Config
	// open is where connections are counted.
	open *atomic.Int64
	log  *slog.Logger
	// failed is told of an end that drain did not bring.
	failed func(error)
}

// newFront begins to answer.
func newFront(o frontOptions) *front {
	f := &front{log: o.log, open: o.open, ended: make(chan struct{}), silent: make(map[net.Conn]struct{})}
	f.server = api.NewHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.requests.Add(1)
		defer f.requests.Add(-1)
		o.handler.ServeHTTP(w, r)
	}), o.log)
	f.server.TLSConfig = o.tls
	f.server.ConnState = f.note
	f.server.RegisterOnShutdown(func() { time.AfterFunc(silentTime, f.closeSilent) })
	go func() {
		defer close(f.ended)
		if err := f.serve(netutil.LimitListener(o.listener, o.connections)); !errors.Is(err, http.ErrServerClosed) {
			o.failed(err)
		}
	}()
	return f
}

func (f *front) serve(l net.Listener) error {
	if f.server.TLSConfig == nil {
		return f.server.Serve(l)
	}
	return f.server.ServeTLS(l, "", "") // the files are the configuration's business
}

// note keeps silent up to date.
func (f *front) note(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		f.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		f.open.Add(-1)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(f.silent, c)
	case f.closing:
		c.Close() // it has sent nothing, so there is nothing to lose
	default:
		f.silent[c] = struct{}{}
	}
}

func (f *front) closeSilent() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closing = true
	for c := range f.silent {
		c.Close() // as in note
	}
}

// drain takes no more connections and waits for the answers that are under way. When
// ctx ends, what is left is broken off: those clients repeat their calls elsewhere.
func (f *front) drain(ctx context.Context) error {
	err := f.server.Shutdown(ctx)
	if err != nil && ctx.Err() != nil {
		f.log.Info("requests are broken off that did not end in time", "requests", f.requests.Load())
		err = f.server.Close()
		f.await(brokenTime)
	}
	<-f.ended
	return err
}

// await waits until no handler runs, for a time.
func (f *front) await(limit time.Duration) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); f.requests.Load() > 0 && time.Now().Before(end); {
		<-tick.C
	}
}
