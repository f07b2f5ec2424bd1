package client

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// Defaults of [Options].
const (
	DefaultTries   = 5
	DefaultMinWait = 100 * time.Millisecond
	DefaultMaxWait = 10 * time.Second
)

// tries is what happened to a call so far.
type tries struct {
	n int
	// uncertain says that one of them may have been done without our knowing.
	uncertain bool
	// answer is that of the last try, or nil; broken is why it could not be read.
	answer *answer
	broken error
	// refused is the last refusal that was worth another try.
	refused *answer

	// asked and connected are about the current try: a transport that tells asked for a
	// connection, and got one.
	asked, connected atomic.Bool
}

type triesKey struct{}

func withTries(ctx context.Context) (context.Context, *tries) {
	t := new(tries)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { t.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { t.connected.Store(true) },
	})
	return context.WithValue(ctx, triesKey{}, t), t
}

// notSent says that an error came before the request went out.
func (t *tries) notSent(err error) bool {
	if t.connected.Load() {
		return false
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return true
	}
	_, unresolved := errors.AsType[*net.DNSError](err)
	return unresolved || t.asked.Load()
}

// newRetrying returns a client that repeats what did not reach the server, or was
// refused for the moment. Every call may be repeated: what makes items carries a key,
// receipts settle once, and reading changes nothing.
func newRetrying(o *Options) *retryablehttp.Client {
	minWait, maxWait := cmp.Or(o.MinWait, DefaultMinWait), cmp.Or(o.MaxWait, DefaultMaxWait)
	rc := &retryablehttp.Client{
		HTTPClient:   o.HTTP,
		RetryMax:     max(cmp.Or(o.Tries, DefaultTries), 1) - 1,
		RetryWaitMin: minWait, RetryWaitMax: max(minWait, maxWait),
		CheckRetry:   checkRetry(max(minWait, maxWait)),
		Backoff:      backoff,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	if rc.HTTPClient == nil {
		rc.HTTPClient = &http.Client{Transport: newTransport()}
	}
	if rc.HTTPClient.CheckRedirect == nil {
		// A redirect would take the payload to anybody, and the key to any port of this host.
		own := *rc.HTTPClient
		own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		rc.HTTPClient = &own
	}
	if o.Logger != nil {
		rc.Logger = leveled{o.Logger}
	}
	return rc
}

// checkRetry returns what reads a try's answer, keeps what the try leaves unknown, and
// says whether to try again. The answer is read here, because one that breaks off is worth
// another try as well.
func checkRetry(maxWait time.Duration) retryablehttp.CheckRetry {
	return func(ctx context.Context, resp *http.Response, err error) (bool, error) {
		t := ctx.Value(triesKey{}).(*tries)
		t.n++
		defer t.connected.Store(false)
		t.answer, t.broken = nil, nil
		if err != nil {
			t.uncertain = t.uncertain || !t.notSent(err)
			again, _ := retryablehttp.DefaultRetryPolicy(ctx, nil, err) // its error is err, or the context's
			return again, nil
		}
		t.answer, t.broken = receive(resp)
		resp.Body = http.NoBody
		if t.broken != nil {
			t.uncertain = true
			return ctx.Err() == nil && !errors.Is(t.broken, errTooLong), nil
		}
		return t.isPassing() && hasTime(ctx, t.answer, maxWait), nil
	}
}

// isPassing says whether the answer is a refusal for the moment, and keeps it.
func (t *tries) isPassing() bool {
	switch t.answer.status {
	case http.StatusTooManyRequests:
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		// Ours say whether anything was done. Another's may come after it was done.
		word := refusal("", t.answer, new(tries)).CodeText
		t.uncertain = t.uncertain || word == "" || word == CodeUnknownOutcome
	default:
		return false
	}
	t.refused = t.answer
	return true
}

// hasTime says whether the caller's time reaches to the next try. If not, the answer at
// hand says more than that the time was up.
func hasTime(ctx context.Context, a *answer, maxWait time.Duration) bool {
	deadline, bounded := ctx.Deadline()
	return ctx.Err() == nil && (!bounded || time.Until(deadline) > min(retryAfter(a.header), maxWait))
}

// backoff doubles from the least to the longest wait and takes a random part of it, so
// that clients that were refused together do not come back together. What the server
// asks for counts where it is longer, up to the longest.
func backoff(least, longest time.Duration, try int, resp *http.Response) time.Duration {
	wait := least << min(try, 20)
	if wait <= 0 || wait > longest {
		wait = longest
	}
	wait = wait/2 + rand.N(wait/2+1)
	if resp != nil {
		wait = max(wait, min(retryAfter(resp.Header), longest))
	}
	return wait
}

// leveled tells a logger what the library tells, all of it for people who look for it.
type leveled struct{ log *slog.Logger }

// Error implements [retryablehttp.LeveledLogger].
func (l leveled) Error(message string, args ...any) { l.log.Debug(message, args...) }

// Info implements [retryablehttp.LeveledLogger].
func (l leveled) Info(message string, args ...any) { l.log.Debug(message, args...) }

// Debug implements [retryablehttp.LeveledLogger].
func (l leveled) Debug(message string, args ...any) { l.log.Debug(message, args...) }

// Warn implements [retryablehttp.LeveledLogger].
func (l leveled) Warn(message string, args ...any) { l.log.Debug(message, args...) }

var _ retryablehttp.LeveledLogger = leveled{}
