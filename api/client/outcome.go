package client

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Outcome is what a [Worker] did with an item.
type Outcome int

// The outcomes.
const (
	// Completed: the handler returned nil.
	Completed Outcome = iota + 1
	// Retried: it returned an error or panicked, and the item comes again later.
	Retried
	// Buried: it returned [Bury]'s error.
	Buried
	// Released: the worker stopped, or was too slow for all that it held. The item goes
	// back uncounted.
	Released
	// Lost: the lease was over before the handler was. Somebody else may have the item.
	Lost
)

// String returns the word.
func (o Outcome) String() string {
	switch o {
	case Completed:
		return "completed"
	case Retried:
		return "retried"
	case Buried:
		return "buried"
	case Released:
		return "released"
	case Lost:
		return "lost"
	default:
		return "invalid"
	}
}

// ErrLeaseLost is why the context of a handler ends whose item is not its own any more:
// stop, and change nothing more on its behalf.
var ErrLeaseLost = errors.New("posthaste: the lease is lost")

// ErrStopping is why the context of a handler ends that was still at work when the
// worker's StopTimeout was over.
var ErrStopping = errors.New("posthaste: the worker stops")

// buryError sends an item to the dead-letter queue.
type buryError struct{ err error }

// Bury makes a handler's error final: the item goes to the dead-letter queue, with the
// error's text as its reason. In a dead-letter queue it is tried again. Nil stays nil.
func Bury(err error) error {
	if err == nil {
		return nil
	}
	return &buryError{err}
}

// Error implements error.
func (e *buryError) Error() string { return e.err.Error() }

// Unwrap returns the handler's own error.
func (e *buryError) Unwrap() error { return e.err }

// retryAfterError says when to try again.
type retryAfterError struct{ after time.Duration }

// RetryAfter is an error that has a handler's item tried again after d instead of the
// worker's back-off. Wrap it to say why: fmt.Errorf("rate limited: %w", client.RetryAfter(d)).
func RetryAfter(d time.Duration) error { return &retryAfterError{max(d, 0)} }

// Error implements error.
func (e *retryAfterError) Error() string { return fmt.Sprintf("retry after %s", e.after) }

// Bounds of [DefaultBackoff].
const (
	firstBackoff   = time.Second
	longestBackoff = time.Hour
)

// DefaultBackoff waits a second after the first delivery and doubles with each one more,
// also one that was released or lapsed, up to an hour. A tenth more or less keeps what
// failed together from coming back together.
func DefaultBackoff(it *Leased, _ error) time.Duration {
	wait := firstBackoff << min(max(it.Deliveries-1, 0), 20)
	wait = min(wait, longestBackoff)
	return wait - wait/10 + rand.N(wait/5)
}

// maxResult bounds what [Leased.SetResult] takes, in bytes.
const maxResult = 4096

// maxReason bounds what is kept of an error's text, in bytes.
const maxReason = 500

// reasonOf is an error's text as the server takes it.
func reasonOf(err error) string {
	text := strings.ToValidUTF8(strings.ReplaceAll(err.Error(), "\x00", "\ufffd"), "\ufffd")
	if len(text) <= maxReason {
		return text
	}
	return strings.ToValidUTF8(text[:maxReason], "") // the cut may be in a character
}

// maxDelay is the longest that the server takes: 10 years.
const maxDelay = 10 * 365 * 24 * time.Hour

// verdict is when a failed item is tried again, and why. It asks the error and the
// back-off, which are the user's: they may be slow, so s.mu is not held, and may panic.
func (s *shift) verdict(x *work, err error) (delay time.Duration, reason string) {
	if err == nil {
		return 0, ""
	}
	defer func() {
		if p := recover(); p != nil {
			delay, reason = DefaultBackoff(&x.it, err), fmt.Sprintf("%T, and its text or the back-off panicked", err)
		}
	}()
	if late, ok := errors.AsType[*retryAfterError](err); ok {
		return min(late.after, maxDelay), reasonOf(err)
	}
	return min(max(s.w.opts.Backoff(&x.it, err), 0), maxDelay), reasonOf(err)
}

// conclude says what becomes of an item whose handler has ended, and has it sent. s.mu is
// held.
func (s *shift) conclude(x *work, err error, delay time.Duration, reason string) {
	_, isBuried := errors.AsType[*buryError](err)
	_, isLate := errors.AsType[*retryAfterError](err)
	x.delay, x.reason = delay, reason
	switch {
	case x.lost:
		x.outcome = Lost
		return // the server knows
	case err == nil:
		x.outcome = Completed
	case isBuried:
		x.outcome = Buried
	case x.stopped && !isLate:
		x.outcome = Released // it was told to stop, so its error says nothing of the item
	default:
		x.outcome = Retried
	}
	if x.outcome == Retried || x.outcome == Buried {
		s.w.log.Info("handler refused an item", "item_id", x.it.ItemID, "kind", x.it.Kind, "outcome", x.outcome.String(), "error", reason)
	}
	s.outcomes = append(s.outcomes, x)
	notify(s.toSend)
}
