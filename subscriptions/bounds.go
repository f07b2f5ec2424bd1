package subscriptions

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-io/posthaste/queue"
)

// Bounds of the settings.
const (
	minTimeout     = time.Second
	maxTimeout     = 30 * time.Minute
	maxMaxInFlight = 1000
	maxRate        = 1_000_000
	minRatePeriod  = 100 * time.Millisecond
	maxRatePeriod  = 24 * time.Hour
	// minDefer is what a lane's own lease lasts: an endpoint gets no less than what is left.
	minDefer        = 30 * time.Second
	maxDefer        = 7 * 24 * time.Hour
	maxMaxDeferred  = 100_000
	maxBatchItems   = 1000
	minBatchBytes   = 1 << 10
	maxBatchBytes   = 4 << 20
	maxBatchWait    = 10 * time.Second
	maxWait         = 30 * 24 * time.Hour
	maxGiveUp       = 366 * 24 * time.Hour
	minDisableAfter = time.Hour
	maxDisableAfter = 90 * 24 * time.Hour
	maxMultiplier   = 100
	maxSteps        = 100
	maxBuryOn       = 100
)

// methods carry a body and have no meaning for caches.
var methods = []string{"POST", "PUT", "PATCH"}

// checks are the rules that other parts of the program own.
type checks struct {
	url     func(string) error
	headers func(map[string]string) error
	secret  func(string) error
	auth    func(Auth) error
}

// settings judges all but the retry policy.
func (c checks) settings(s *Subscription) error {
	if err := c.endpoint(s); err != nil {
		return err
	}
	if err := between("timeout", s.Timeout, minTimeout, maxTimeout); err != nil {
		return err
	}
	if err := between("max_in_flight", s.MaxInFlight, 1, maxMaxInFlight); err != nil {
		return err
	}
	if err := s.Rate.check(); err != nil {
		return err
	}
	if err := oneOf("format", s.Format, wordPlain, FormatPlain, FormatCloudEvents); err != nil {
		return err
	}
	if err := oneOf("log", s.Log, wordAll, LogAll, LogFailures, LogOff); err != nil {
		return err
	}
	if err := s.Defer.check(); err != nil {
		return err
	}
	if err := s.Batch.check(); err != nil {
		return err
	}
	return s.checkTogether()
}

// endpoint judges where requests go, and what goes with each of them.
func (c checks) endpoint(s *Subscription) error {
	if s.URL != "" {
		if err := c.url(s.URL); err != nil {
			return asInvalid("url", err)
		}
	} else if !s.AllowTarget && s.Topic == "" {
		return queue.Invalid("url", "is missing; want the endpoint, such as https://example.com/hook, or allow_target: true "+
			"where each item brings its own")
	}
	if !slices.Contains(methods, s.Method) {
		return queue.Invalid("method", "%.20q is not one of %s", s.Method, strings.Join(methods, ", "))
	}
	if err := c.headers(s.Headers); err != nil {
		return asInvalid("headers", err)
	}
	if s.Auth == (Auth{}) {
		return nil
	}
	if err := c.auth(s.Auth); err != nil {
		return asInvalid("auth", err)
	}
	return nil
}

// asInvalid keeps an error that already names a field, and names one otherwise.
func asInvalid(field string, err error) error {
	if _, ok := errors.AsType[*queue.InvalidError](err); ok {
		return err
	}
	return queue.Invalid(field, "%v", err)
}

func (r Rate) check() error {
	if r == (Rate{}) {
		return nil
	}
	if err := between("rate.count", r.Count, 1, maxRate); err != nil {
		return err
	}
	return between("rate.period", r.Period, minRatePeriod, maxRatePeriod)
}

// check judges what finishing later needs, whether it is allowed or not: it may be
// allowed by the next update.
func (d Defer) check() error {
	if err := between("defer_timeout", d.Timeout, minDefer, maxDefer); err != nil {
		return err
	}
	return between("max_deferred", d.Max, 1, maxMaxDeferred)
}

func (b Batch) check() error {
	if b == (Batch{}) {
		return nil
	}
	if err := between("batch.max_items", b.MaxItems, 2, maxBatchItems); err != nil {
		return err
	}
	if err := between("batch.max_bytes", b.MaxBytes, minBatchBytes, maxBatchBytes); err != nil {
		return err
	}
	if err := between("batch.max_wait", b.MaxWait, 0, maxBatchWait); err != nil {
		return err
	}
	return oneOf("batch.encoding", b.Encoding, wordJSON, BatchJSON, BatchMultipart)
}

func hasHeader(headers map[string]string, name string) bool {
	for each := range headers {
		if strings.EqualFold(each, name) {
			return true
		}
	}
	return false
}

// checkTogether refuses settings that contradict each other.
func (s *Subscription) checkTogether() error {
	switch {
	case s.Batch.On() && s.Defer.Allowed:
		return queue.Invalid("batch", "goes without defer, since the answer to a batch settles each of its items; "+
			"give defer: false, or batch: {} to send items one by one")
	case s.Batch.On() && s.AllowTarget:
		return queue.Invalid("batch", "goes without allow_target, since the items of a batch share one endpoint; "+
			"give allow_target: false, or batch: {} to send items one by one")
	case s.Batch.On() && s.Format == FormatCloudEvents:
		return queue.Invalid("batch", "goes without format cloudevents, whose headers tell of one item; "+
			"give format: plain, or batch: {} to send items one by one")
	case s.Format == FormatCloudEvents && hasHeader(s.Headers, "Content-Type"):
		return queue.Invalid("headers", "has Content-Type, which with format cloudevents says what an event's data is, and is each item's own encoding; "+
			"leave it out, or give format: plain")
	case s.OnDone == "":
		return nil
	case s.OnDone == s.Queue:
		return queue.Invalid("on_done", "is the queue itself, where each outcome would be an item with an outcome; name another queue")
	case s.OnDone == s.Topic:
		return queue.Invalid("on_done", "is the topic that the subscription is on, where each outcome would be an item with an outcome; name another topic or queue")
	}
	return queue.CheckReference("on_done", s.OnDone)
}

func (p *Policy) check() error {
	if p.MaxAttempts < 1 && p.MaxAttempts != -1 {
		return queue.Invalid("retry.max_attempts", "is %d; want 1 or more, or -1 for no limit", p.MaxAttempts)
	}
	if len(p.Schedule) > maxSteps {
		return queue.Invalid("retry.schedule", "has %d entries; want at most %d, the last repeats", len(p.Schedule), maxSteps)
	}
	for i, wait := range p.Schedule {
		if err := between(fmt.Sprintf("retry.schedule[%d]", i), wait, 0, maxWait); err != nil {
			return err
		}
	}
	if err := between("retry.min_backoff", p.MinBackoff, time.Millisecond, maxWait); err != nil {
		return err
	}
	if err := between("retry.max_backoff", p.MaxBackoff, p.MinBackoff, maxWait); err != nil {
		return err
	}
	if err := between("retry.multiplier", p.Multiplier, 1, maxMultiplier); err != nil {
		return err
	}
	if p.GiveUpAfter != 0 {
		if err := between("retry.give_up_after", p.GiveUpAfter, time.Second, maxGiveUp); err != nil {
			return err
		}
	}
	if p.DisableAfter != 0 && (p.DisableAfter < minDisableAfter || p.DisableAfter > maxDisableAfter) {
		return queue.Invalid("retry.disable_after", "is %v; want %v to %v, or 0s for never", p.DisableAfter, minDisableAfter, maxDisableAfter)
	}
	if len(p.BuryOn) > maxBuryOn {
		return queue.Invalid("retry.bury_on", "has %d entries; want at most %d", len(p.BuryOn), maxBuryOn)
	}
	for i, status := range p.BuryOn {
		if err := between(fmt.Sprintf("retry.bury_on[%d]", i), status, 300, 599); err != nil {
			return err
		}
	}
	return nil
}

// between is written so that NaN is refused as well.
func between[T int | int32 | float64 | time.Duration](field string, v, low, high T) error {
	if v >= low && v <= high {
		return nil
	}
	return queue.Invalid(field, "is %v; want %v to %v", v, low, high)
}

// oneOf judges a word; the first that is taken is the default, which has a name.
func oneOf[T ~string](field string, v T, name string, taken ...T) error {
	if slices.Contains(taken, v) {
		return nil
	}
	words := []string{name}
	for _, each := range taken[1:] {
		words = append(words, string(each))
	}
	return queue.Invalid(field, "%.20q is not one of %s", string(v), strings.Join(words, ", "))
}
