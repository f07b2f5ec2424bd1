package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/posthaste-io/posthaste/webhooks"
)

// maxListenBody bounds a request to the development endpoint; the server sends no
// item that is larger.
const maxListenBody = 8 << 20

// listenCommand is an endpoint for development.
type listenCommand struct {
	Addr       string        `default:"127.0.0.1:8080" env:"POSTHASTE_LISTEN_ADDR" help:"Address to listen on."`
	Secret     []string      `env:"POSTHASTE_LISTEN_SECRET" placeholder:"whsec_…" help:"Verify signatures with this secret, or, while it is being changed, with several; what is unsigned or signed otherwise is refused with 401."`
	Fail       float64       `default:"0" env:"POSTHASTE_LISTEN_FAIL" help:"Refuse this share of requests, from 0 to 1."`
	Status     int           `default:"503" env:"POSTHASTE_LISTEN_STATUS" help:"What refused requests are answered with."`
	RetryAfter time.Duration `env:"POSTHASTE_LISTEN_RETRY_AFTER" help:"Send Retry-After with refusals, in whole seconds."`
	Slow       time.Duration `env:"POSTHASTE_LISTEN_SLOW" help:"Wait so long before each answer."`
}

// Run implements command. It ends when the context does, or nobody reads what it prints.
func (c *listenCommand) Run(ctx context.Context, s streams) error {
	term, ctx := newTerminal(ctx, s.stdout)
	e, err := c.endpoint(term)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	e.term.printf("listening on http://%s (any path, any method); end with Ctrl-C\n", listener.Addr())

	server := &http.Server{Handler: e, ReadHeaderTimeout: 10 * time.Second}
	// Requests that wait in --slow are broken off: nobody wants to wait for them.
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("listen: %w", err)
	}
	e.term.printf("%d requests, %d of them accepted\n", e.seen.Load(), e.accepted.Load())
	return nil
}

// endpoint judges the flags.
func (c *listenCommand) endpoint(term *terminal) (*endpoint, error) {
	switch {
	case c.Fail < 0 || c.Fail > 1:
		return nil, usagef("--fail %v: want a share from 0 to 1, such as 0.3", c.Fail)
	case c.Status < 200 || c.Status > 599:
		return nil, usagef("--status %d: want a status from 200 to 599", c.Status)
	case c.Slow < 0 || c.RetryAfter < 0:
		return nil, usagef("--slow and --retry-after: want a duration that is not negative")
	}
	e := &endpoint{flags: *c, term: term}
	if len(c.Secret) > 0 {
		v, err := webhooks.NewVerifier(c.Secret...)
		if err != nil {
			return nil, usagef("--secret: %w", err)
		}
		e.verifier = v
	}
	return e, nil
}

// endpoint answers requests and prints them.
type endpoint struct {
	flags    listenCommand
	verifier *webhooks.Verifier
	term     *terminal

	seen, accepted atomic.Int64
}

// ServeHTTP implements http.Handler.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.seen.Add(1)
	at := time.Now()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxListenBody))
	if err != nil {
		http.Error(w, "the body did not come whole", http.StatusRequestEntityTooLarge)
		e.print(r, at, http.StatusRequestEntityTooLarge, "body: "+err.Error(), nil)
		return
	}
	signature, ok := e.judge(r, body, at)
	if !wait(r.Context(), e.flags.Slow) {
		e.print(r, at, 0, signature, body)
		return
	}
	status := http.StatusOK
	switch {
	case !ok:
		status = http.StatusUnauthorized
	case rand.Float64() < e.flags.Fail:
		status = e.flags.Status
		if e.flags.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(e.flags.RetryAfter.Round(time.Second)/time.Second)))
		}
	default:
		e.accepted.Add(1)
	}
	w.WriteHeader(status)
	if !ok {
		// Who sent it sees it as the push's error. That they may be gone does not matter.
		_, _ = fmt.Fprintln(w, signature)
	}
	e.print(r, at, status, signature, body)
}

// judge says in words whether a request is signed well, and whether it may pass.
func (e *endpoint) judge(r *http.Request, body []byte, now time.Time) (signature string, ok bool) {
	signed := r.Header.Get(webhooks.HeaderSignature) != ""
	switch {
	case e.verifier == nil && signed:
		return "signed, not verified (no --secret)", true
	case e.verifier == nil:
		return "unsigned", true
	case !signed:
		return "UNSIGNED", false
	}
	if err := e.verifier.Verify(r.Header, body, now); err != nil {
		return "INVALID: " + err.Error(), false
	}
	return "signature ok", true
}

// print writes what came as a small block.
func (e *endpoint) print(r *http.Request, at time.Time, status int, signature string, body []byte) {
	answer, c := strconv.Itoa(status), green
	switch {
	case status == 0:
		answer, c = "gone before the answer", red
	case status >= 300:
		c = red
	}
	e.term.printf("%s  %s %s  → %s  %s\n%s", at.Format("15:04:05.000"), r.Method, excerpt([]byte(r.URL.RequestURI()), 200),
		e.term.paint(c, answer), signature, e.details(r, body))
}

func (e *endpoint) details(r *http.Request, body []byte) string {
	h := r.Header
	attempt := h.Get("posthaste-attempt")
	if most := h.Get("posthaste-max-attempts"); attempt != "" && most != "" {
		attempt += " of " + most
	}
	var b strings.Builder
	for _, line := range [][2]string{
		{"id", h.Get(webhooks.HeaderID)},
		{"queue", h.Get("posthaste-queue")},
		{"kind", h.Get("posthaste-kind")},
		{"reference", h.Get("posthaste-reference")},
		{"attempt", attempt},
		{"before", strings.TrimSpace(h.Get("posthaste-retry-reason") + " " + h.Get("posthaste-previous-status"))},
		{"type", h.Get("Content-Type")},
	} {
		if line[1] != "" {
			fmt.Fprintf(&b, "    %s %s\n", e.term.paint(dim, fmt.Sprintf("%-9s", line[0])), excerpt([]byte(line[1]), 200))
		}
	}
	fmt.Fprintf(&b, "    %s %s\n\n", e.term.paint(dim, fmt.Sprintf("%-9s", fmt.Sprintf("%d bytes", len(body)))), excerpt(body, 400))
	return b.String()
}

// wait waits, and says whether it did so to the end.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
