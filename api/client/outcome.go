package client

import (
	"errors"
	"fmt"
	"math/rand/v2"
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
	// Released: the worker stopped, and the item goes back uncounted.
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
// error's text as its reason.
func Bury(err error) error { return &buryError{err} }

// Error implements error.
func (e *buryError) Error() string {
	if e.err == nil {
		return "buried"
	}
	return e.err.Error()
}

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

// DefaultBackoff waits a second after the first failure and doubles up to an hour, with
// a tenth more or less, so that what failed together does not come back together.
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
	text := err.Error()
	if len(text) <= maxReason {
		return text
	}
	return text[:maxReason]
}

// conclude says what becomes of an item whose handler has returned, and has it sent.
// s.mu is held.
func (s *shift) conclude(x *work, err error) {
	if err == nil && len(x.it.result) > maxResult {
		err = fmt.Errorf("result of %d bytes; want %d at most", len(x.it.result), maxResult)
	}
	late, isLate := errors.AsType[*retryAfterError](err)
	_, isBuried := errors.AsType[*buryError](err)
	switch {
	case x.lost:
		x.outcome = Lost
		return // the server knows
	case err == nil:
		x.outcome = Completed
	case x.stopped:
		x.outcome = Released // it was told to stop, so its error says nothing of the item
	case isBuried:
		x.outcome, x.reason = Buried, reasonOf(err)
	case isLate:
		x.outcome, x.delay, x.reason = Retried, late.after, reasonOf(err)
	default:
		x.outcome, x.delay, x.reason = Retried, max(s.w.opts.Backoff(&x.it, err), 0), reasonOf(err)
	}
	if x.outcome == Retried || x.outcome == Buried {
		s.w.log.Info("handler refused an item", "item_id", x.it.ItemID, "kind", x.it.Kind, "outcome", x.outcome.String(), "delay", x.delay.String(), "error", err)
	}
	s.outcomes = append(s.outcomes, x)
	notify(s.toSend)
}
