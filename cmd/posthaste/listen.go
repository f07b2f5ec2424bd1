package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/posthaste-io/posthaste/api/client"
	"github.com/posthaste-io/posthaste/webhooks"
)

// listenCommand is an endpoint for development.
type listenCommand struct {
	Addr       string        `default:"127.0.0.1:8080" env:"POSTHASTE_LISTEN_ADDR" help:"Address to listen on."`
	Secret     []string      `env:"POSTHASTE_LISTEN_SECRET" placeholder:"whsec_…" help:"Verify signatures with this secret, or, while it is being changed, with several; what is unsigned or signed otherwise is refused with 401."`
	Fail       share         `default:"0" env:"POSTHASTE_LISTEN_FAIL" help:"Refuse this share of requests, such as 30% or 0.3; of a batch, this share of its items."`
	Status     int           `default:"503" env:"POSTHASTE_LISTEN_STATUS" help:"What refused requests are answered with."`
	RetryAfter time.Duration `env:"POSTHASTE_LISTEN_RETRY_AFTER" help:"Send Retry-After with refusals, in whole seconds."`
	Slow       time.Duration `env:"POSTHASTE_LISTEN_SLOW" help:"Wait so long before each answer."`
	Defer      time.Duration `env:"POSTHASTE_LISTEN_DEFER" help:"Keep each item that comes with a receipt, by 202 and posthaste-lease: keep, and complete it after so long with that receipt. The subscription needs --defer."`
	URL        string        `name:"url" default:"http://127.0.0.1:2319" env:"POSTHASTE_URL" help:"The server at which --defer completes items. No key is needed."`
	Log        string        `env:"POSTHASTE_LISTEN_LOG" placeholder:"FILE" help:"Append a line of JSON for each request to this file, before it is answered: at, webhook_id, attempt, status and more."`
}

// share is a part of a whole, 0 to 1.
type share float64

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *share) UnmarshalText(text []byte) error {
	number, percent := strings.CutSuffix(string(text), "%")
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return fmt.Errorf("%q is no share; want 30%% or 0.3", text)
	}
	if percent {
		f /= 100
	}
	*s = share(f)
	return nil
}

// Run implements command. It ends when the context does, or nobody reads what it prints.
func (c *listenCommand) Run(ctx context.Context, s streams) error {
	term, ctx := newTerminal(ctx, s.stdout)
	e, err := c.endpoint(term)
	if err != nil {
		return err
	}
	defer e.close()
	listener, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	e.term.printf("listening on http://%s (any path, any method); end with Ctrl-C\n", listener.Addr())

	ctx, stop := context.WithCancelCause(ctx)
	e.stop = stop
	var background sync.WaitGroup
	defer background.Wait()
	defer stop(nil)
	if e.later != nil {
		background.Go(func() { e.later.run(ctx) })
	}
	server := &http.Server{Handler: e, ReadHeaderTimeout: 10 * time.Second}
	// Requests that wait in --slow are broken off: nobody wants to wait for them.
	closing := context.AfterFunc(ctx, func() { server.Close() })
	defer closing()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("listen: %w", err)
	}
	background.Wait() // ctx has ended: nothing else closes the server
	e.term.printf("%d requests, %d of them accepted\n", e.seen.Load(), e.accepted.Load())
	if e.later != nil && e.later.kept.Load() > 0 {
		e.term.printf("%d kept items are not completed; they are sent again when their time is over\n", e.later.kept.Load())
	}
	if err := context.Cause(ctx); errors.Is(err, errLog) {
		return err
	}
	return nil
}

// endpoint judges the flags and opens what they name.
func (c *listenCommand) endpoint(term *terminal) (*endpoint, error) {
	switch {
	case !(c.Fail >= 0 && c.Fail <= 1): // so that NaN is refused as well
		return nil, usagef("--fail %v: want a share from 0 to 1, such as 0.3, or from 0%% to 100%%", float64(c.Fail))
	case c.Status < 200 || c.Status > 599:
		return nil, usagef("--status %d: want a status from 200 to 599", c.Status)
	case c.Slow < 0 || c.RetryAfter < 0 || c.Defer < 0:
		return nil, usagef("--slow, --retry-after and --defer: want a duration that is not negative")
	}
	e := &endpoint{flags: *c, term: term, stop: func(error) {}}
	if len(c.Secret) > 0 {
		v, err := webhooks.NewVerifier(c.Secret...)
		if err != nil {
			return nil, usagef("--secret: %w", err)
		}
		e.verifier = v
	}
	if c.Defer > 0 {
		cl, err := client.New(client.Options{URL: c.URL, UserAgent: "posthaste-listen"})
		if err != nil {
			return nil, usagef("--url: %s", strings.TrimPrefix(err.Error(), "posthaste: "))
		}
		e.later = newLater(cl, term)
	}
	if c.Log != "" {
		f, err := os.OpenFile(c.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, usagef("--log: %w", err)
		}
		e.log = f
	}
	return e, nil
}
