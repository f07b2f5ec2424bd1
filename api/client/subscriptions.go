package client

import (
	"context"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"

	v1 "github.com/posthaste-io/posthaste/api/v1"
)

// Subscription is an endpoint that a queue's items are pushed to. What a creation
// leaves out takes its default.
type Subscription struct {
	Name string
	// Queue is made if it is not there. A queue has one subscription.
	Queue string
	URL   string
	// Method is POST, PUT or PATCH: POST.
	Method string
	// Headers go with each push.
	Headers map[string]string
	// Timeout bounds one attempt, 1 s to 30 min: 30 s.
	Timeout time.Duration
	// MaxInFlight is how many requests run at one time: 32.
	MaxInFlight int
	Retry       RetryPolicy
	// Paused makes it wait for ResumeSubscription.
	Paused bool
	// Secret signs pushes. It is made if it is empty, and answered by CreateSubscription
	// alone.
	Secret string

	// What follows is the server's to set.

	// State is active, paused or disabled, Reason why it is disabled.
	State      string
	Reason     string
	CreatedAt  time.Time
	UpdatedAt  time.Time
	DisabledAt time.Time
	// Revision names the version, for [SubscriptionUpdate].
	Revision string
	// Lane is what pushes do now, answered by GetSubscription alone, and by a node that
	// pushes; else nil.
	Lane *Lane
}

// RetryPolicy says how often and how long an item is tried: by Schedule, or with a wait
// that grows from MinBackoff to MaxBackoff.
type RetryPolicy struct {
	// MaxAttempts is 12; -1 is no limit.
	MaxAttempts int
	// Schedule is the wait before each retry; the last one repeats.
	Schedule []time.Duration
	// MinBackoff, MaxBackoff and Multiplier are 5 s, 12 h and 3.
	MinBackoff time.Duration
	MaxBackoff time.Duration
	Multiplier float64
	// GiveUpAfter buries an item that fails when it is older: 168 h; pointing to 0 is
	// never.
	GiveUpAfter *time.Duration
	// BuryOn are HTTP statuses that bury at once.
	BuryOn []int
}

// Lane is what the push loop of a subscription does now.
type Lane struct {
	// Window is how many requests may run, InFlight how many do.
	Window   int
	InFlight int
	// Breaker is closed, open or half-open.
	Breaker      string
	BreakerUntil time.Time
	// PausedUntil is how long the endpoint asked to wait.
	PausedUntil time.Time
	// Lag is how long the oldest item has waited that could be pushed.
	Lag         time.Duration
	LastError   string
	LastErrorAt time.Time
}

// CreateSubscription begins to push a queue's items to an endpoint. The answer has the
// secret, which is not shown again.
func (c *Client) CreateSubscription(ctx context.Context, s Subscription) (Subscription, error) {
	w := &v1.Subscription{
		Name: s.Name, QueueName: s.Queue, Url: s.URL, Method: s.Method, Headers: s.Headers, Timeout: text(s.Timeout),
		MaxInFlight: count(s.MaxInFlight), Retry: s.Retry.wire(), Paused: s.Paused, Secret: s.Secret,
	}
	return c.subscription(ctx, "subscriptions.create", w)
}

// SubscriptionUpdate changes what is set and nothing else; maps and lists are replaced
// whole.
type SubscriptionUpdate struct {
	// Revision, if set, must be the subscription's.
	Revision    string
	URL         string
	Method      string
	Headers     map[string]string
	Timeout     time.Duration
	MaxInFlight int
	Retry       *RetryPolicy
}

// UpdateSubscription changes a subscription and returns it.
func (c *Client) UpdateSubscription(ctx context.Context, name string, u SubscriptionUpdate) (Subscription, error) {
	w := &v1.Subscription{
		Name: name, Revision: u.Revision, Url: u.URL, Method: u.Method, Headers: u.Headers, Timeout: text(u.Timeout),
		MaxInFlight: count(u.MaxInFlight),
	}
	if u.Retry != nil {
		w.Retry = u.Retry.wire()
	}
	return c.subscription(ctx, "subscriptions.update", w)
}

// GetSubscription returns a subscription, with its lane.
func (c *Client) GetSubscription(ctx context.Context, name string) (Subscription, error) {
	return c.subscription(ctx, "subscriptions.info", &v1.SubscriptionRequest{Name: name})
}

// Subscriptions lists subscriptions by name.
func (c *Client) Subscriptions(ctx context.Context) iter.Seq2[Subscription, error] {
	return pages(func(cursor string) ([]Subscription, string, error) {
		p := new(v1.SubscriptionsListReply)
		if err := c.call(ctx, "subscriptions.list", &v1.SubscriptionsListRequest{Cursor: cursor}, p); err != nil {
			return nil, "", err
		}
		page := make([]Subscription, len(p.GetItems()))
		for i, s := range p.GetItems() {
			page[i] = subscriptionOf(s)
		}
		return page, p.GetCursor(), nil
	})
}

// DeleteSubscription ends pushes. The queue stays, and its items can be leased.
func (c *Client) DeleteSubscription(ctx context.Context, name string) error {
	return c.call(ctx, "subscriptions.delete", &v1.SubscriptionRequest{Name: name}, nil)
}

// PauseSubscription stops pushes until ResumeSubscription; those that run go on.
func (c *Client) PauseSubscription(ctx context.Context, name string) (Subscription, error) {
	return c.subscription(ctx, "subscriptions.pause", &v1.SubscriptionRequest{Name: name})
}

// ResumeSubscription ends a pause.
func (c *Client) ResumeSubscription(ctx context.Context, name string) (Subscription, error) {
	return c.subscription(ctx, "subscriptions.resume", &v1.SubscriptionRequest{Name: name})
}

// EnableSubscription pushes again to an endpoint that was disabled, as by a 410.
func (c *Client) EnableSubscription(ctx context.Context, name string) (Subscription, error) {
	return c.subscription(ctx, "subscriptions.enable", &v1.SubscriptionRequest{Name: name})
}

func (c *Client) subscription(ctx context.Context, method string, q proto.Message) (Subscription, error) {
	p := new(v1.Subscription)
	if err := c.call(ctx, method, q, p); err != nil {
		return Subscription{}, err
	}
	return subscriptionOf(p), nil
}

func (r *RetryPolicy) wire() *v1.RetryPolicy {
	w := &v1.RetryPolicy{
		MaxAttempts: count(r.MaxAttempts), MinBackoff: text(r.MinBackoff), MaxBackoff: text(r.MaxBackoff),
		Multiplier: r.Multiplier, GiveUpAfter: presentText(r.GiveUpAfter),
	}
	for _, wait := range r.Schedule {
		w.Schedule = append(w.Schedule, wait.String())
	}
	for _, status := range r.BuryOn {
		w.BuryOn = append(w.BuryOn, count(status))
	}
	return w
}

func subscriptionOf(s *v1.Subscription) Subscription {
	out := Subscription{
		Name: s.GetName(), Queue: s.GetQueueName(), URL: s.GetUrl(), Method: s.GetMethod(), Headers: s.GetHeaders(),
		Timeout: span(s.GetTimeout()), MaxInFlight: int(s.GetMaxInFlight()), Retry: retryPolicyOf(s.GetRetry()),
		Paused: s.GetPaused(), Secret: s.GetSecret(), State: s.GetState(), Reason: s.GetReason(),
		CreatedAt: instant(s.GetCreatedAt()), UpdatedAt: instant(s.GetUpdatedAt()), DisabledAt: instant(s.GetDisabledAt()),
		Revision: s.GetRevision(),
	}
	if l := s.GetLane(); l != nil {
		out.Lane = &Lane{
			Window: int(l.GetWindow()), InFlight: int(l.GetInFlight()), Breaker: l.GetBreaker(), BreakerUntil: instant(l.GetBreakerUntil()),
			PausedUntil: instant(l.GetPausedUntil()), Lag: span(l.GetLag()), LastError: l.GetLastError(), LastErrorAt: instant(l.GetLastErrorAt()),
		}
	}
	return out
}

func retryPolicyOf(r *v1.RetryPolicy) RetryPolicy {
	out := RetryPolicy{
		MaxAttempts: int(r.GetMaxAttempts()), MinBackoff: span(r.GetMinBackoff()), MaxBackoff: span(r.GetMaxBackoff()), Multiplier: r.GetMultiplier(),
	}
	for _, wait := range r.GetSchedule() {
		out.Schedule = append(out.Schedule, span(wait))
	}
	for _, status := range r.GetBuryOn() {
		out.BuryOn = append(out.BuryOn, int(status))
	}
	if giveUp := r.GetGiveUpAfter(); giveUp != "" {
		out.GiveUpAfter = new(span(giveUp))
	}
	return out
}
