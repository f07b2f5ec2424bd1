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
	// Topic, instead of a queue, has every item of a topic copied into a queue of the
	// subscription's own, which answers name in Queue.
	Topic string
	// URL may be empty with AllowTarget; and with Topic, where consumers lease from Queue.
	URL string
	// Method is POST, PUT or PATCH: POST.
	Method string
	// Headers go with each push.
	Headers map[string]string
	// Timeout bounds one attempt, 1 s to 30 min: 30 s.
	Timeout time.Duration
	// MaxInFlight is how many requests run at one time: 32.
	MaxInFlight int
	// Rate is how many requests may start in a period; zero is no limit.
	Rate  Rate
	Retry RetryPolicy
	// Filter says which items of its Topic it gets: all.
	Filter Filter
	// AllowTarget lets items bring their own [Target]. MaxInFlight and Rate then count
	// for each host.
	AllowTarget bool
	// HTTP2 asks an https endpoint in HTTP/2.
	HTTP2 bool
	// Format is plain, or cloudevents, which adds ce- headers: plain.
	Format string
	// Defer lets the endpoint answer 202 with posthaste-lease: keep and settle an item
	// later, with the receipt that came along: see [ReceiptFrom].
	Defer bool
	// DeferTimeout is how long it may keep an item, unless it extends, 1 s to 168 h:
	// 15 min.
	DeferTimeout time.Duration
	// MaxDeferred is how many items it may keep at one time: 1,000.
	MaxDeferred int
	// Batch, if it is not nil, sends several items in one request.
	Batch *Batch
	// Log says which attempts are kept: all, failures or off. Empty is all.
	Log string
	// OnDone is the queue or topic that is told how items end, by a [Done] each, unless they name
	// one themselves; empty is none.
	OnDone string
	// Auth is how requests authenticate beside their signatures, or nil.
	Auth *Auth
	// Paused makes it wait for ResumeSubscription.
	Paused bool
	// Secret signs pushes. It is made if it is empty, and answered by CreateSubscription
	// and RotateSecret alone.
	Secret string

	// What follows is the server's to set.

	// State is active, paused or disabled, Reason why it is disabled.
	State      string
	Reason     string
	CreatedAt  time.Time
	UpdatedAt  time.Time
	DisabledAt time.Time
	// FailingSince is since when nothing but failures came.
	FailingSince time.Time
	// OldSecretsUntil is until when secrets from before a rotation sign, newest first.
	OldSecretsUntil []time.Time
	// Revision names the version, for [SubscriptionUpdate].
	Revision string
	// Lane is what pushes do now, answered by GetSubscription alone, and by a node that
	// pushes; else nil.
	Lane *Lane
}

// Rate is how many may start in a period, evenly spread.
type Rate struct {
	// Count is 1 to 1,000,000.
	Count int
	// Period is 100 ms to 24 h; 0 is 1 s.
	Period time.Duration
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
	// DisableAfter disables the subscription when nothing but failures came for so long,
	// 1 h to 90 days: 120 h; pointing to 0 is never.
	DisableAfter *time.Duration
}

// Batch sends several items in one request.
type Batch struct {
	// MaxItems is 2 to 1,000.
	MaxItems int
	// MaxBytes bounds the payloads of a request, 1,024 to 4,194,304: 1,048,576. One item
	// is sent whatever its size.
	MaxBytes int
	// MaxWait is how long the first item waits for others, up to 60 s: not at all.
	MaxWait time.Duration
	// Encoding is json, an array of objects, or multipart, a part for each item: json.
	Encoding string
}

// Redacted is what answers show in place of a secret. An update that sends it keeps the
// value that there is.
const Redacted = "[redacted]"

// Auth is how requests authenticate to an endpoint: at most one of Basic, Bearer and
// OAuth2, and what TLS needs. Answers show secrets as [Redacted].
type Auth struct {
	Basic *BasicAuth
	// Bearer is sent as Authorization: Bearer.
	Bearer string
	OAuth2 *OAuth2
	// ClientCertificate and ClientKey are PEM, for mutual TLS.
	ClientCertificate string
	ClientKey         string
	// RootCAs, in PEM, are trusted instead of the system's.
	RootCAs string
}

// BasicAuth is a user's name and password.
type BasicAuth struct {
	Username string
	Password string
}

// OAuth2 gets a token by client credentials.
type OAuth2 struct {
	TokenURL     string
	ClientID     string
	ClientSecret string
	Scopes       []string
	// Audience is sent to the token endpoint if it is not empty.
	Audience string
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
	// RateUntil is when the rate lets the next request start.
	RateUntil time.Time
	// Deferred is how many items the endpoint keeps, to settle them later.
	Deferred int
	// Lag is how long the oldest item has waited that could be pushed.
	Lag         time.Duration
	LastError   string
	LastErrorAt time.Time
	// Hosts are, where items bring their own targets, the hosts that have requests or
	// trouble, at most 50.
	Hosts []HostLane
}

// HostLane is what the push loop does for one host.
type HostLane struct {
	// Host is its name and port.
	Host         string
	Window       int
	InFlight     int
	Breaker      string
	BreakerUntil time.Time
	PausedUntil  time.Time
	RateUntil    time.Time
	LastError    string
	LastErrorAt  time.Time
}

// CreateSubscription begins to push a queue's items to an endpoint. The answer has the
// secret, which is not shown again.
func (c *Client) CreateSubscription(ctx context.Context, s Subscription) (Subscription, error) {
	return c.subscription(ctx, "subscriptions.create", s.wire())
}

// SubscriptionUpdate changes what is set and nothing else; maps, lists, Batch and Auth
// are replaced whole.
type SubscriptionUpdate struct {
	// Revision, if set, must be the subscription's.
	Revision    string
	URL         string
	Method      string
	Headers     map[string]string
	Timeout     time.Duration
	MaxInFlight int
	// Rate, if it points to a zero one, takes the limit away.
	Rate  *Rate
	Retry *RetryPolicy
	// Filter is replaced whole; one that points to the zero value takes everything.
	Filter      *Filter
	AllowTarget *bool
	HTTP2       *bool
	// Format and Log are turned back by plain and all.
	Format       string
	Defer        *bool
	DeferTimeout time.Duration
	MaxDeferred  int
	// Batch, if it points to a zero one, ends batches.
	Batch *Batch
	Log   string
	// OnDone, if it points to "", is taken away.
	OnDone *string
	// Auth, if it points to a zero one, is taken away. What is [Redacted] there keeps its
	// value.
	Auth *Auth
}

// UpdateSubscription changes a subscription and returns it.
func (c *Client) UpdateSubscription(ctx context.Context, name string, u SubscriptionUpdate) (Subscription, error) {
	return c.subscription(ctx, "subscriptions.update", u.wire(name))
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

// RotateParams say how a subscription gets a new secret.
type RotateParams struct {
	// Secret is whsec_ or whsk_ and base64; it is made if it is empty.
	Secret string
	// Overlap is how long the one before signs as well, up to 168 h: nil is 24 h, and
	// pointing to 0 not at all.
	Overlap *time.Duration
	// Revision, if set, must be the subscription's.
	Revision string
}

// RotateSecret gives a subscription a new secret, which the answer shows and no other
// does. For the time of the overlap pushes are signed with the one before as well, so that
// receivers can change theirs in peace; at most two old ones sign.
//
// A call rotates once, however often the client repeats it. If an [Error] is Uncertain, it
// may have done so: then rotate again, since nobody knows the secret.
func (c *Client) RotateSecret(ctx context.Context, name string, params RotateParams) (Subscription, error) {
	if params.Revision == "" {
		// With one a repeat is refused. Else each would push a secret out that receivers have.
		s, err := c.GetSubscription(ctx, name)
		if err != nil {
			return Subscription{}, err
		}
		params.Revision = s.Revision
	}
	return c.subscription(ctx, "subscriptions.rotate_secret", &v1.RotateSecretRequest{
		Name: name, Secret: params.Secret, Overlap: presentText(params.Overlap), Revision: params.Revision,
	})
}

// TestSubscription sends an item to the endpoint, or a sample if it is nil, and returns
// what came of it. Nothing is queued, counted or kept; when an item is due, its keys and
// its limits do not matter.
func (c *Client) TestSubscription(ctx context.Context, name string, item *Item) (Attempt, error) {
	q := &v1.SubscriptionTestRequest{Name: name, RequestTimeout: text(waitWithin(ctx, 0))}
	if item != nil {
		q.Item = item.wire()
	}
	p := new(v1.SubscriptionTestReply)
	if err := c.call(ctx, "subscriptions.test", q, p); err != nil {
		return Attempt{}, err
	}
	return attemptOf(p.GetAttempt()), nil
}

func (c *Client) subscription(ctx context.Context, method string, q proto.Message) (Subscription, error) {
	p := new(v1.Subscription)
	if err := c.call(ctx, method, q, p); err != nil {
		return Subscription{}, err
	}
	return subscriptionOf(p), nil
}

// Filter says which items of a topic a subscription gets: those that Kinds and CEL both take.
type Filter struct {
	// Kinds, one of which has to match: exact ones, and globs such as order.*, whose * stands
	// for any run of characters. None takes all.
	Kinds []string
	// CEL is an expression of the Common Expression Language over kind, reference, encoding,
	// headers and payload, such as payload.total > 100.
	CEL string
	// OnError says what becomes of an item for which CEL has no value: deliver or skip. Empty
	// is deliver.
	OnError string
}

func (f *Filter) isZero() bool { return len(f.Kinds) == 0 && f.CEL == "" && f.OnError == "" }

func (f *Filter) wire() *v1.Filter {
	if f == nil {
		return nil
	}
	return &v1.Filter{Kinds: f.Kinds, Cel: f.CEL, OnError: f.OnError}
}

func filterOf(f *v1.Filter) Filter {
	return Filter{Kinds: f.GetKinds(), CEL: f.GetCel(), OnError: f.GetOnError()}
}
