package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
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
}

type triesKey struct{}

func withTries(ctx context.Context) (context.Context, *tries) {
	t := new(tries)
	return context.WithValue(ctx, triesKey{}, t), t
}

// newRetrying returns a client that repeats what did not reach the server, or was
// refused for the moment. Every call may be repeated: produce carries a key, receipts
// settle once, and reading changes nothing.
func newRetrying(o *Options) *retryablehttp.Client {
	minWait, maxWait := cmp.Or(o.MinWait, DefaultMinWait), cmp.Or(o.MaxWait, DefaultMaxWait)
	rc := &retryablehttp.Client{
		HTTPClient:   o.HTTP,
		RetryMax:     max(cmp.Or(o.Tries, DefaultTries), 1) - 1,
		RetryWaitMin: minWait, RetryWaitMax: max(minWait, maxWait),
		CheckRetry:   checkRetry,
		Backoff:      backoff,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	if rc.HTTPClient == nil {
		rc.HTTPClient = &http.Client{Transport: newTransport()}
	}
	if o.Logger != nil {
		rc.Logger = leveled{o.Logger}
	}
	return rc
}

// checkRetry says whether to try again, and keeps what this try leaves unknown.
func checkRetry(ctx context.Context, resp *http.Response, err error) (bool, error) {
	t := ctx.Value(triesKey{}).(*tries)
	t.n++
	if ctx.Err() != nil {
		t.uncertain = t.uncertain || err != nil
		return false, nil // the caller's time is up, and says more than what it interrupted
	}
	if err != nil {
		t.uncertain = t.uncertain || !notSent(err)
		again, _ := retryablehttp.DefaultRetryPolicy(ctx, nil, err) // its error is err
		return again, nil
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		return hasTime(ctx, resp), nil
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		word, err := peekWord(resp)
		// Ours say whether anything was done. Another's may come after it was done.
		t.uncertain = t.uncertain || err != nil || word == "" || word == CodeUnknownOutcome
		return hasTime(ctx, resp), nil
	default:
		return false, nil
	}
}

// hasTime says whether the caller's time reaches to the next try. If not, the answer at
// hand says more than that the time was up.
func hasTime(ctx context.Context, resp *http.Response) bool {
	deadline, bounded := ctx.Deadline()
	return !bounded || time.Until(deadline) > min(retryAfter(resp.Header), DefaultMaxWait)
}

// notSent says that an error came before the request went out.
func notSent(err error) bool {
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return true
	}
	_, unresolved := errors.AsType[*net.DNSError](err)
	return unresolved
}

// peekWord reads the word of an answer and leaves the answer as it was.
func peekWord(resp *http.Response) (string, error) {
	const most = 64 << 10
	head, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return "", err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), resp.Body), resp.Body}
	return refusal("", resp, head, new(tries)).CodeText, nil
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
