package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/posthaste-io/posthaste/queue"
	"github.com/posthaste-io/posthaste/subscriptions"
	"github.com/posthaste-io/posthaste/webhooks"
)

// markAfter is how long nothing but failures must have come before that is written down:
// an endpoint that fails now and then costs no writes.
const markAfter = time.Minute

// judged takes note of whether the endpoint of the subscription works at all. l.mu is held.
func (l *lane) judged(p *push, res *webhooks.Result, now time.Time) {
	if p.own() || p.sub.URL != l.sub.URL {
		return // one host among many, or one that was replaced
	}
	switch {
	case res.Verdict == webhooks.Delivered, res.Verdict == webhooks.Deferred:
		l.failing = time.Time{}
		if !l.sub.FailingSince.IsZero() && !l.clearing {
			l.clearing = true
			l.d.background(l.clearFailing)
		}
	case healthOf(res) == silent && res.Verdict != webhooks.Throttled:
		// Ours to lose. An endpoint that asks for less and takes nothing, though, takes
		// nothing.
	default:
		if l.failedAt = now; l.failing.IsZero() {
			l.failing = now
		}
	}
}

// clearFailing writes down that the endpoint works again.
func (l *lane) clearFailing(ctx context.Context) {
	sub, err := l.d.subs.MarkWell(ctx, l.key.Namespace, l.key.Name)
	l.took(&sub, err, "that it works again")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clearing = false // if it was not written, the next success tries again
}

// review writes down what lasts: that the endpoint fails, and when it did for so long that
// nobody may want it any more, that it is out of service. It takes a failure after that
// time: an endpoint that nobody asked meanwhile may be well.
func (l *lane) review(ctx context.Context) {
	l.mu.Lock()
	sub, failing, failedAt := l.sub, l.failing, l.failedAt
	l.mu.Unlock()
	now := time.Now()
	if failing.IsZero() || sub.State() != subscriptions.Active {
		return
	}
	limit := sub.Retry.DisableAfter
	switch since := sub.FailingSince; {
	case since.IsZero() && now.Sub(failing) >= markAfter:
		marked, err := l.d.subs.MarkFailing(ctx, sub.Namespace, sub.Name, sub.URL, failing)
		l.took(&marked, err, "that it fails")
	case !since.IsZero() && limit > 0 && failedAt.Sub(since) >= limit:
		reason := fmt.Sprintf("nothing but failures for %s; the last: %s", limit, l.lastFailure())
		disabled, err := l.d.subs.Disable(ctx, sub.Namespace, sub.Name, sub.URL, reason)
		l.took(&disabled, err, "that it is disabled")
	}
}

func (l *lane) lastFailure() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.main.lastError
}

// took takes a subscription over as it was written, or says that it was not.
func (l *lane) took(sub *subscriptions.Subscription, err error, what string) {
	switch {
	case err == nil:
		l.update(sub)
	case !errors.Is(err, queue.ErrNotFound) && !errors.Is(err, context.Canceled):
		l.logger().Warn("not written of the subscription: "+what, "error", err)
	}
}
