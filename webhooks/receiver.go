package webhooks

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// Defaults of [ReceiverOptions].
const (
	// DefaultMaxBody is as much as one item may hold, in bytes.
	DefaultMaxBody = 1_000_000
	// DefaultRemember is longer than any wait between two attempts.
	DefaultRemember = 25 * time.Hour
)

// minRemember is how long a request can be replayed whose time is as far ahead as it may
// be, and the second that its timestamp is rounded to.
const minRemember = 2*Tolerance + time.Second

// ReceiverOptions configure a [Receiver].
type ReceiverOptions struct {
	// Secrets are the endpoint's: one, or, while it is being changed, the new and the old.
	Secrets []string
	// MaxBody bounds a body, in bytes: [DefaultMaxBody].
	MaxBody int64
	// History, if there is one, keeps the handler from seeing again what it has handled.
	History History
	// Remember is how long the history is asked to keep an id: [DefaultRemember]. It is
	// never less than twice [Tolerance], since a request can be replayed for so long.
	Remember time.Duration
	// Logger is told what was refused, and why; nil is [slog.Default].
	Logger *slog.Logger
}

// Receiver is a handler that passes on what was signed with one of its secrets, and
// nothing else. Make it with [NewReceiver]. Safe for concurrent use.
//
// The handler behind it finds the body as it was sent, whole and verified, and what the
// headers say by [DeliveryFrom]. Its answer is the verdict: 2xx says that the work is
// done, anything else has the item sent again.
//
// Who is refused learns nothing from it: 401 for whatever is wrong with a signature, 413
// for a body that is too large, 400 for one that broke off, without a word. The log has
// the reason.
//
// With a [History] a request for what was handled already is answered 200 at once, and
// of requests for one item that come together, since a sender lost patience, each waits
// for the one before.
type Receiver struct {
	verifier *Verifier
	next     http.Handler
	maxBody  int64
	history  History
	remember time.Duration
	log      *slog.Logger

	mu sync.Mutex
	// busy has a channel for each id that the handler is working on, which is closed when
	// it has ended.
	busy map[string]chan struct{}
}

var _ http.Handler = (*Receiver)(nil)

// NewReceiver puts a receiver before a handler.
func NewReceiver(next http.Handler, o ReceiverOptions) (*Receiver, error) {
	v, err := NewVerifier(o.Secrets...)
	if err != nil {
		return nil, err
	}
	rc := &Receiver{
		verifier: v, next: next, maxBody: cmp.Or(o.MaxBody, DefaultMaxBody),
		history: o.History, remember: max(cmp.Or(o.Remember, DefaultRemember), minRemember),
		log: o.Logger, busy: map[string]chan struct{}{},
	}
	if rc.log == nil {
		rc.log = slog.Default()
	}
	return rc, nil
}

// ServeHTTP implements [http.Handler].
func (rc *Receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := rc.verifier.Read(r, rc.maxBody, time.Now())
	if err != nil {
		rc.refuse(w, r, err)
		return
	}
	d := ReadDelivery(r.Header)
	r = r.WithContext(context.WithValue(r.Context(), deliveryKey{}, d))
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if rc.history == nil {
		rc.next.ServeHTTP(w, r)
		return
	}
	rc.serveOnce(w, r, d)
}

// refuse answers what is not passed on.
func (rc *Receiver) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusBadRequest
	switch {
	case errors.Is(err, ErrBodyTooLarge):
		status = http.StatusRequestEntityTooLarge
	case isUnverified(err):
		status = http.StatusUnauthorized
	}
	rc.log.Warn("webhook refused", "status", status, "error", err, "remote", r.RemoteAddr, "claimed_id", clip(r.Header.Get(HeaderID), maxID))
	w.WriteHeader(status)
}

func isUnverified(err error) bool {
	return errors.Is(err, ErrSignature) || errors.Is(err, ErrHeaders) || errors.Is(err, ErrTooOld) || errors.Is(err, ErrTooNew)
}

// serveOnce passes a request on unless it was handled already.
func (rc *Receiver) serveOnce(w http.ResponseWriter, r *http.Request, d Delivery) {
	ctx := r.Context()
	leave, err := rc.enter(ctx, d.ID)
	if err != nil {
		// Most often the sender does not wait any more. Where something before this handler
		// ended the context, as a server that stops, it does: no answer would be a 200.
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer leave()
	seen, err := rc.history.Seen(ctx, d.ID)
	switch {
	case err != nil:
		rc.log.Error("webhook not handled: its history cannot be read", "item_id", d.ID, "error", err)
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case seen:
		rc.log.Debug("webhook was handled before", "item_id", d.ID, "attempt", d.Attempt)
		w.WriteHeader(http.StatusOK)
		return
	}
	a := &watched{ResponseWriter: w, mayDefer: d.Receipt != ""}
	rc.next.ServeHTTP(a, r)
	if a.verdict == 0 && ctx.Err() != nil {
		// It gave up with the context, and did not say that the work is done.
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if !a.isDone() {
		return
	}
	// Also for a sender that has gone: just that one will send it again.
	if err := rc.history.Remember(context.WithoutCancel(ctx), d.ID, time.Now().Add(rc.remember)); err != nil {
		// The work is done; any other answer would have it done again for sure.
		rc.log.Error("webhook handled, but not remembered", "item_id", d.ID, "error", err)
	}
}

// enter waits until nobody works on an id, and takes it until leave is called.
func (rc *Receiver) enter(ctx context.Context, id string) (leave func(), err error) {
	for {
		rc.mu.Lock()
		ended, taken := rc.busy[id]
		if !taken {
			ended = make(chan struct{})
			rc.busy[id] = ended
			rc.mu.Unlock()
			return func() {
				rc.mu.Lock()
				defer rc.mu.Unlock()
				delete(rc.busy, id)
				close(ended)
			}, nil
		}
		rc.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// watched sees what a handler answers.
type watched struct {
	http.ResponseWriter
	// mayDefer says that the handler was given a receipt.
	mayDefer bool
	// verdict is what the sender makes of the answer; 0 before there is one.
	verdict Verdict
}

// WriteHeader implements [http.ResponseWriter].
func (a *watched) WriteHeader(status int) {
	if a.verdict == 0 && status >= http.StatusOK {
		a.verdict = Classify(status, a.Header(), a.mayDefer, time.Now()).Verdict
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (a *watched) Write(p []byte) (int, error) {
	if a.verdict == 0 {
		a.verdict = Delivered
	}
	return a.ResponseWriter.Write(p)
}

// Unwrap is for [http.ResponseController], which flushes and sets deadlines.
func (a *watched) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// isDone says that the handler answered that the work is done: also by nothing, which
// net/http makes a 200 of, unless the context ended before. One that keeps the lease has yet to do it, and is sent the
// item again if it does not.
func (a *watched) isDone() bool { return a.verdict == 0 || a.verdict == Delivered }
